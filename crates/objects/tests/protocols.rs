//! What is asked of S3, Google Cloud Storage and Azure, against the least of a server that speaks
//! their protocols.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use common::{Reply, Request, Server, answer, object, open};
use forebay_dataset::{ErrorKind, Fingerprint};
use forebay_origin::{Objects, OriginError, StoreFault};

fn of(size: u64, tag: &str) -> Fingerprint {
    Fingerprint::of_object(size, Some(tag), None).unwrap()
}

/// S3's second listing, in pages of one key; Google's store speaks it too.
fn s3_list(request: &Request, keys: &[&str]) -> Vec<u8> {
    let query = request.target.split('?').nth(1).unwrap_or_default();
    let token = query
        .split('&')
        .find_map(|part| part.strip_prefix("continuation-token="));
    let at: usize = token.map_or(0, |token| token.parse().unwrap());
    let mut xml = "<ListBucketResult>".to_owned();
    if let Some(key) = keys.get(at) {
        xml.push_str(&format!(
            "<Contents><Key>{key}</Key><LastModified>2023-11-14T22:13:20.123Z</LastModified>\
             <ETag>&quot;tag-{key}&quot;</ETag><Size>9</Size></Contents>"
        ));
    }
    if at + 1 < keys.len() {
        let next = at + 1;
        xml.push_str(&format!(
            "<NextContinuationToken>{next}</NextContinuationToken>"
        ));
    }
    xml.push_str("</ListBucketResult>");
    answer("200 OK", &[], xml.as_bytes())
}

fn list(objects: &dyn Objects, prefix: &str) -> Vec<(String, Fingerprint)> {
    let mut listed = Vec::new();
    objects
        .list(prefix, &mut |key, fingerprint| {
            listed.push((key.to_owned(), fingerprint))
        })
        .unwrap();
    listed
}

/// Lists and reads by S3's protocol; true for what was signed.
fn lists_and_reads(url: &str, variables: &dyn Fn(&str) -> Vec<(String, String)>, signed: bool) {
    let server = Server::start(move |request, _| {
        assert_eq!(
            request.header("authorization").is_some(),
            signed,
            "{}",
            request.target
        );
        Reply::Raw(if !request.target.contains("list-type=2") {
            object(request, b"it exists", "\"tag-train/a.bin\"")
        } else {
            assert!(
                request.target.contains("prefix=train%2F"),
                "{}",
                request.target
            );
            s3_list(request, &["train/a.bin", "train/b/c.bin"])
        })
    });
    let variables = variables(&format!("http://{}", server.address()));
    let variables: Vec<_> = variables
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    let objects = open(url, 60_000, &variables);
    let wanted = ["train/a.bin", "train/b/c.bin"].map(|key| {
        let tag = format!("tag-{key}");
        (key.to_owned(), of(9, &tag))
    });
    assert_eq!(list(&*objects, "train"), wanted);
    assert_eq!(
        server.asked(),
        2,
        "one request for each page and none for an object"
    );
    let mut out = [0; 6];
    objects
        .read_at("train/a.bin", wanted[0].1, 3, &mut out)
        .unwrap();
    assert_eq!(&out, b"exists");
    // The store's answers have the tag in quotes that listings may have or not.
    assert_eq!(objects.stat("train/a.bin").unwrap(), wanted[0].1);
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn s3_is_listed_and_read_with_and_without_a_signature() {
    let key = [
        ("AWS_ACCESS_KEY_ID", "me"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let signed = |address: &str| owned(&[&[("AWS_ENDPOINT_URL", address)], &key[..]].concat());
    lists_and_reads("s3://bucket/x", &signed, true);
    let public = |address: &str| {
        owned(&[
            ("AWS_ENDPOINT_URL", address),
            ("AWS_SKIP_SIGNATURE", "true"),
        ])
    };
    lists_and_reads("s3://bucket", &public, false);
}

#[test]
fn google_cloud_storage_is_listed_and_read() {
    let public = |address: &str| {
        owned(&[
            ("GOOGLE_BASE_URL", address),
            ("GOOGLE_SKIP_SIGNATURE", "true"),
        ])
    };
    lists_and_reads("gs://bucket", &public, false);
    let token =
        |address: &str| owned(&[("GOOGLE_BASE_URL", address), ("GOOGLE_BEARER_TOKEN", "t")]);
    lists_and_reads("gs://bucket", &token, true);
}

#[test]
fn azure_is_listed_and_read() {
    let server = Server::start(|request, _| {
        Reply::Raw(if request.target.contains("comp=list") {
            let xml = "<EnumerationResults><Blobs><Blob><Name>train/a.bin</Name><Properties>\
                 <Last-Modified>Tue, 14 Nov 2023 22:13:20 GMT</Last-Modified>\
                 <Content-Length>9</Content-Length><Content-Type>x</Content-Type>\
                 <Etag>0x8D1</Etag></Properties></Blob></Blobs><NextMarker/>\
                 </EnumerationResults>";
            answer("200 OK", &[], xml.as_bytes())
        } else {
            object(request, b"it exists", "\"0x8D1\"")
        })
    });
    let address = format!("http://{}", server.address());
    let variables = [
        ("AZURE_STORAGE_ENDPOINT", address.as_str()),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_SKIP_SIGNATURE", "true"),
    ];
    let objects = open("az://container", 60_000, &variables);
    let wanted = of(9, "0x8D1");
    assert_eq!(
        list(&*objects, "train"),
        [("train/a.bin".to_owned(), wanted)]
    );
    assert_eq!(objects.stat("train/a.bin").unwrap(), wanted);
    let mut out = [0; 6];
    objects.read_at("train/a.bin", wanted, 3, &mut out).unwrap();
    assert_eq!(&out, b"exists");
}

fn list_fault(variables: &[(&str, &str)], call_ms: u64) -> StoreFault {
    let objects = open("s3://bucket", call_ms, variables);
    match objects.list("train", &mut |_, _| ()) {
        Err(OriginError::Store { act, url, source }) => {
            assert_eq!((act.as_str(), url.as_str()), ("list", "s3://bucket/train"));
            source
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_listing_without_end_is_refused() {
    let server = Server::start(|_, nth| {
        let xml = format!(
            "<ListBucketResult><Contents><Key>train/{}</Key><LastModified>\
             2023-11-14T22:13:20Z</LastModified><ETag>x</ETag><Size>9</Size></Contents>\
             <NextContinuationToken>again</NextContinuationToken></ListBucketResult>",
            nth % 3
        );
        Reply::Raw(answer("200 OK", &[], xml.as_bytes()))
    });
    let address = format!("http://{}", server.address());
    let variables = [
        ("AWS_ENDPOINT_URL", address.as_str()),
        ("AWS_SKIP_SIGNATURE", "1"),
    ];
    let fault = list_fault(&variables, 60_000);
    assert!(matches!(&fault, StoreFault::Malformed { detail } if detail.contains("repeats")));
}

#[test]
fn faults_of_a_listing_have_their_kind() {
    let fault = |reply: fn() -> Reply| {
        let server = Server::start(move |_, _| reply());
        let address = format!("http://{}", server.address());
        list_fault(
            &[("AWS_ENDPOINT_URL", &address), ("AWS_SKIP_SIGNATURE", "1")],
            900,
        )
    };
    let hang = fault(|| Reply::Hang(Vec::new()));
    assert_eq!(hang.kind(), ErrorKind::Deadline, "{hang}");
    let denied = fault(|| Reply::Raw(answer("403 Forbidden", &[], b"")));
    assert!(matches!(denied, StoreFault::Denied { .. }), "{denied}");
    assert!(
        denied.to_string().contains("AWS_SKIP_SIGNATURE"),
        "{denied}"
    );
    let elsewhere = fault(|| {
        let region = ("x-amz-bucket-region", "eu-west-1");
        Reply::Raw(answer("301 Moved Permanently", &[region], b""))
    });
    assert!(
        elsewhere.to_string().contains("AWS_REGION=eu-west-1"),
        "{elsewhere}"
    );
    let nonsense = fault(|| Reply::Raw(answer("200 OK", &[], b"<html>")));
    assert!(
        matches!(nonsense, StoreFault::Malformed { .. }),
        "{nonsense}"
    );
    let endless = fault(|| Reply::Endless {
        head: common::head("200 OK", &[], 1 << 40),
        again: vec![b'x'; 1 << 20],
    });
    let kinds = [ErrorKind::Unavailable, ErrorKind::Deadline];
    assert!(kinds.contains(&endless.kind()), "{endless}");
}
