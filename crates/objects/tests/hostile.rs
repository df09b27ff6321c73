//! Servers that hang, drop, refuse and lie: each fault has its kind, none gives a wrong byte, and
//! every call ends.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Reply, Request, Server, answer, head, object};
use forebay_dataset::{ErrorKind, Fingerprint, SegmentIndex};
use forebay_origin::{Objects, OriginError, SegmentRef, StoreFault};

const LEN: usize = 10_000;
/// Long enough for a loaded machine; nothing waits for it but what must.
const PATIENT: u64 = 60_000;
/// For stores that never do as they should.
const SHORT: u64 = 900;

fn bytes() -> Vec<u8> {
    (0..LEN).map(|at| (at * 7 % 251) as u8).collect()
}

fn indexed() -> Fingerprint {
    Fingerprint::of_object(LEN as u64, Some("\"v1\""), None).unwrap()
}

fn good(request: &Request) -> Reply {
    Reply::Raw(object(request, &bytes(), "\"v1\""))
}

fn read(objects: &dyn Objects) -> Result<Vec<u8>, OriginError> {
    let mut out = vec![0xAA; 5000];
    objects.read_at("x y/a%.bin", indexed(), 100, &mut out)?;
    Ok(out)
}

/// Without a traffic class and with one: each has a client of its own.
const CLASSES: [Option<u8>; 2] = [Some(10), None];

/// The fault of a read that a server answers like this every time, the same by both clients.
fn fault_of(call_ms: u64, reply: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> StoreFault {
    let server = Server::start(move |request, _| reply(request));
    let [in_class, usual] = CLASSES.map(|dscp| match read(&*server.web_in_class(dscp, call_ms)) {
        Err(OriginError::Store { source, url, act }) => {
            assert!(url.ends_with("/x%20y/a%25.bin"), "{url}");
            assert_eq!(act, "read bytes [100, 5100) of");
            source
        }
        other => panic!("no fault of a store: {other:?}"),
    });
    // A fault that is asked about again ends as what it is or by the deadline, whichever is first.
    let ends_late = |fault: &StoreFault| {
        matches!(
            fault,
            StoreFault::Unreachable { .. } | StoreFault::Deadline { .. }
        )
    };
    let alike = std::mem::discriminant(&in_class) == std::mem::discriminant(&usual);
    assert!(
        alike || (ends_late(&in_class) && ends_late(&usual)),
        "{in_class}, {usual}"
    );
    usual
}

/// A read that a server answers like this at first, and well from then on.
fn read_after(first: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
    let first = Arc::new(first);
    for dscp in CLASSES {
        let first = first.clone();
        let server = Server::start(move |request, nth| match nth {
            0 => first(request),
            _ => good(request),
        });
        let objects = server.web_in_class(dscp, PATIENT);
        assert_eq!(read(&*objects).unwrap(), bytes()[100..5100]);
        assert_eq!(server.asked(), 2);
    }
}

#[test]
fn a_decent_server_is_an_origin_like_any_other() {
    let server = Server::start(|request, _| {
        assert_eq!(request.target, "/x%20y/a%25.bin");
        good(request)
    });
    let objects = server.web(PATIENT);
    assert_eq!(objects.stat("x y/a%.bin").unwrap(), indexed());
    #[derive(Debug)]
    struct Opened(Arc<dyn Objects>);
    impl forebay_origin::Stores for Opened {
        fn open(&self, _: &forebay_origin::StoreUrl) -> Result<Arc<dyn Objects>, OriginError> {
            Ok(self.0.clone())
        }
    }
    let root = format!("http://{}/x%20y", server.address());
    let origin = forebay_origin::open_origin(root.as_ref(), Some(&Opened(objects))).unwrap();
    let segment = SegmentRef {
        index: SegmentIndex(0),
        path: "a%.bin",
        fingerprint: indexed(),
    };
    forebay_origin::testing::conformance::reads_are_exact(&*origin, segment, &bytes());
}

#[test]
fn a_changed_object_is_stale_and_none_of_its_bytes_come() {
    let longer = [bytes(), vec![1]].concat();
    let versions: [(Vec<u8>, &str); 4] = [
        (bytes(), "\"v2\""),
        (longer, "\"v1\""),
        (bytes()[..4000].to_vec(), "\"v2\""),
        // So short that the range lies outside: status 416.
        (vec![0; 50], "\"v2\""),
    ];
    for (now, etag) in versions {
        let server = Server::start(move |request, _| Reply::Raw(object(request, &now, etag)));
        let mut out = vec![0xAA; 5000];
        let objects = server.web(PATIENT);
        let error = objects.read_at("a", indexed(), 100, &mut out).unwrap_err();
        assert!(
            matches!(error, OriginError::StaleObject { .. }),
            "{etag}: {error}"
        );
        assert_eq!(error.kind(), ErrorKind::Stale);
        assert_eq!(out, [0xAA; 5000]);
    }
}

#[test]
fn without_a_tag_time_and_size_tell_versions_apart() {
    let now = Arc::new(AtomicBool::new(false));
    let later = now.clone();
    let server = Server::start(move |request, _| {
        let second = if later.load(Ordering::SeqCst) { 21 } else { 20 };
        let stamp = format!("Tue, 14 Nov 2023 22:13:{second} GMT");
        let (first, end) = request.range().unwrap_or((0, LEN));
        let range = format!("bytes {first}-{}/{LEN}", end - 1);
        let headers = [("last-modified", stamp.as_str()), ("content-range", &range)];
        Reply::Raw(match request.method.as_str() {
            "HEAD" => head("200 OK", &headers[..1], LEN),
            _ => answer("206 Partial Content", &headers, &bytes()[first..end]),
        })
    });
    let objects = server.web(PATIENT);
    let indexed = objects.stat("a").unwrap();
    let mut out = [0; 10];
    objects.read_at("a", indexed, 5, &mut out).unwrap();
    assert_eq!(out, bytes()[5..15]);
    now.store(true, Ordering::SeqCst);
    let error = objects.read_at("a", indexed, 5, &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
}

#[test]
fn an_object_without_a_version_is_refused() {
    let fault = fault_of(PATIENT, |_| {
        let range = ("content-range", "bytes 100-5099/10000");
        Reply::Raw(answer("206 Partial Content", &[range], &bytes()[100..5100]))
    });
    assert!(matches!(fault, StoreFault::NoVersion), "{fault}");
    assert_eq!(fault.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_body_that_goes_on_as_another_version_is_no_mixture() {
    let server = Server::start(|request, nth| {
        if nth > 0 {
            let other: Vec<u8> = bytes().iter().map(|byte| !byte).collect();
            return Reply::Raw(object(request, &other, "\"v2\""));
        }
        let whole = object(request, &bytes(), "\"v1\"");
        Reply::Raw(whole[..whole.len() - 2000].to_vec())
    });
    let error = read(&*server.web(PATIENT)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Stale),
        "{error}"
    );
}

#[test]
fn a_server_that_does_not_answer_meets_the_deadline() {
    for part in [0, 30, 200, 3000] {
        let fault = fault_of(SHORT, move |request| {
            let whole = object(request, &bytes(), "\"v1\"");
            Reply::Hang(whole[..part.min(whole.len() - 1)].to_vec())
        });
        assert!(
            matches!(fault, StoreFault::Deadline { .. }),
            "after {part} bytes: {fault}"
        );
        assert_eq!(fault.kind(), ErrorKind::Deadline);
    }
}

#[test]
fn a_server_that_drops_connections_is_unreachable() {
    for part in [0, 30, 3000] {
        let fault = fault_of(SHORT, move |request| {
            let whole = object(request, &bytes(), "\"v1\"");
            Reply::Raw(whole[..part.min(whole.len() - 1)].to_vec())
        });
        let known = matches!(
            fault,
            StoreFault::Unreachable { .. } | StoreFault::Deadline { .. }
        );
        assert!(known, "after {part} bytes: {fault}");
    }
}

#[test]
fn a_server_that_is_not_there_is_unreachable_and_not_late() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    // Pauses between attempts vary: some of these end while they pause, others by themselves.
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let error = read(&*common::open(&url, SHORT, &[])).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            });
        }
    });
}

#[test]
fn refusals_have_their_kind_and_the_stores_words() {
    let refused = |status: &'static str| {
        fault_of(SHORT, move |request| match request.method.as_str() {
            // The object is what it was: the status is the store's whim.
            "HEAD" => good(request),
            _ => Reply::Raw(answer(status, &[], b"<Code>Word</Code>")),
        })
    };
    for (status, kind) in [
        ("401 Unauthorized", ErrorKind::Unavailable),
        ("403 Forbidden", ErrorKind::Unavailable),
        ("404 Not Found", ErrorKind::NotFound),
        ("400 Bad Request", ErrorKind::Unavailable),
        ("412 Precondition Failed", ErrorKind::Unavailable),
        ("416 Range Not Satisfiable", ErrorKind::Unavailable),
        ("429 Too Many Requests", ErrorKind::Unavailable),
        ("500 Internal Server Error", ErrorKind::Unavailable),
        ("503 Slow Down", ErrorKind::Unavailable),
    ] {
        let fault = refused(status);
        assert_eq!(fault.kind(), kind, "{status}: {fault}");
        assert!(fault.to_string().contains("Word"), "{status}: {fault}");
        let number: u16 = status[..3].parse().unwrap();
        let as_typed = match fault {
            StoreFault::Denied { .. } => number == 401 || number == 403,
            StoreFault::NotFound { .. } => number == 404,
            StoreFault::Busy { status, .. } => number == status && number >= 429,
            StoreFault::Status { status, .. } => number == status && number < 429,
            _ => false,
        };
        assert!(as_typed, "{status}");
    }
}

#[test]
fn faults_that_pass_are_asked_again() {
    for status in ["429 Too Many Requests", "500 Oops", "503 Slow Down"] {
        read_after(move |_| Reply::Raw(answer(status, &[], b"")));
    }
    read_after(|_| Reply::Raw(Vec::new()));
    // What was read of a body stays read: only the rest is asked for again.
    read_after(|request| {
        let whole = object(request, &bytes(), "\"v1\"");
        Reply::Raw(whole[..whole.len() - 2000].to_vec())
    });
}

#[test]
fn a_server_that_ignores_ranges_is_refused() {
    let fault = fault_of(PATIENT, |_| {
        Reply::Raw(answer("200 OK", &[("etag", "\"v1\"")], &bytes()))
    });
    assert!(matches!(fault, StoreFault::NoRanges), "{fault}");
    assert_eq!(fault.kind(), ErrorKind::Unsupported);
}

#[test]
fn answers_that_do_not_fit_are_malformed() {
    let lies: [(Option<&str>, usize); 8] = [
        (Some("bytes 0-4999/10000"), 5000),
        (Some("bytes 100-5100/10000"), 5000),
        (Some("bytes 100-18446744073709551615/10000"), 5000),
        (Some("bytes 100-5099/*"), 5000),
        (Some("potatoes"), 5000),
        (None, 5000),
        // The range is right, its body is not.
        (Some("bytes 100-5099/10000"), 5001),
        (Some("bytes 100-5099/10000"), 4999),
    ];
    for (range, len) in lies {
        let fault = fault_of(SHORT, move |_| {
            let mut headers = vec![("etag", "\"v1\"")];
            headers.extend(range.map(|range| ("content-range", range)));
            Reply::Raw(answer("206 Partial Content", &headers, &vec![7; len]))
        });
        assert!(
            matches!(fault, StoreFault::Malformed { .. }),
            "{range:?}: {fault}"
        );
    }
    let fault = fault_of(SHORT, |_| Reply::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()));
    assert_eq!(fault.kind(), ErrorKind::Unavailable, "{fault}");
}

#[test]
fn what_a_server_sends_without_end_is_not_kept() {
    let fault = fault_of(PATIENT, |_| Reply::Endless {
        head: head("403 Forbidden", &[], 1 << 40),
        again: vec![b'x'; 1 << 16],
    });
    assert!(matches!(fault, StoreFault::Denied { .. }), "{fault}");
    let fault = fault_of(PATIENT, |_| Reply::Endless {
        head: head(
            "206 Partial Content",
            &[
                ("etag", "\"v1\""),
                ("content-range", "bytes 100-5099/10000"),
            ],
            1 << 40,
        ),
        again: vec![b'x'; 1 << 16],
    });
    assert!(matches!(fault, StoreFault::Malformed { .. }), "{fault}");
}
