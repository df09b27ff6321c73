//! Opens stores as the variables say.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use forebay_origin::{Scheme, StoreFault, StoreUrl};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::StoreSettings;
use crate::connector::{Connector, chain};
use crate::credentials;
use crate::fault::way_out;

/// Where machines of the clouds ask for credentials.
const METADATA: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// Opens the store that `url` is in.
pub(crate) fn open(
    url: &StoreUrl,
    settings: &StoreSettings,
) -> Result<Arc<dyn ObjectStore>, StoreFault> {
    let opened: object_store::Result<Arc<dyn ObjectStore>> = match url.scheme() {
        Scheme::S3 => s3(url, settings)?,
        Scheme::Gcs => gcs(url, settings)?,
        Scheme::Azure => azure(url, settings)?,
        Scheme::Http | Scheme::Https => {
            let root = format!("{}://{}", url.scheme().name(), url.authority());
            HttpBuilder::new()
                .with_url(root)
                .with_client_options(options(settings, url.scheme() == Scheme::Http))
                .with_retry(retry(settings))
                .with_http_connector(Connector::new(settings))
                .build()
                .map(|store| Arc::new(store) as _)
        }
    };
    opened.map_err(|error| StoreFault::Settings {
        detail: chain(&error),
    })
}

type Opened = Result<object_store::Result<Arc<dyn ObjectStore>>, StoreFault>;

fn s3(url: &StoreUrl, settings: &StoreSettings) -> Opened {
    need_credentials(Scheme::S3, settings, "AWS_SKIP_SIGNATURE", credentials::S3)?;
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
    let mut builder = AmazonS3Builder::new();
    for (key, value) in configured(settings, "AWS_") {
        builder = builder.with_config(key, value);
    }
    Ok(builder
        .with_bucket_name(url.authority())
        .with_client_options(options(settings, is_plain(settings, &endpoint)))
        .with_retry(retry(settings))
        .with_http_connector(Connector::new(settings))
        .build()
        .map(|store| Arc::new(store) as _))
}

fn gcs(url: &StoreUrl, settings: &StoreSettings) -> Opened {
    let mut builder = GoogleCloudStorageBuilder::new();
    for (key, value) in configured(settings, "GOOGLE_") {
        builder = builder.with_config(key, value);
    }
    // Not a setting of `object_store`, but the one that everybody has.
    if let Some(path) = settings.get("GOOGLE_APPLICATION_CREDENTIALS") {
        builder = builder.with_application_credentials(path);
    }
    need_credentials(
        Scheme::Gcs,
        settings,
        "GOOGLE_SKIP_SIGNATURE",
        credentials::GCS,
    )?;
    Ok(builder
        .with_bucket_name(url.authority())
        .with_client_options(options(settings, is_plain(settings, &["GOOGLE_BASE_URL"])))
        .with_retry(retry(settings))
        .with_http_connector(Connector::new(settings))
        .build()
        .map(|store| Arc::new(store) as _))
}

fn azure(url: &StoreUrl, settings: &StoreSettings) -> Opened {
    need_credentials(
        Scheme::Azure,
        settings,
        "AZURE_SKIP_SIGNATURE",
        credentials::AZURE,
    )?;
    let endpoint = ["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"];
    let emulated = settings.get("AZURE_STORAGE_USE_EMULATOR").is_some();
    let plain = emulated || is_plain(settings, &endpoint);
    let mut builder = MicrosoftAzureBuilder::new();
    for (key, value) in configured(settings, "AZURE_") {
        builder = builder.with_config(key, value);
    }
    Ok(builder
        .with_container_name(url.authority())
        .with_client_options(options(settings, plain))
        .with_retry(retry(settings))
        .with_http_connector(Connector::new(settings))
        .build()
        .map(|store| Arc::new(store) as _))
}

/// The variables that `object_store` knows. Others of the same prefix are nobody's fault.
fn configured<'a, K: std::str::FromStr>(
    settings: &'a StoreSettings,
    prefix: &'a str,
) -> impl Iterator<Item = (K, &'a str)> {
    let known = move |(name, value): &'a (String, String)| {
        let key = name.strip_prefix(prefix).map(|_| name.to_ascii_lowercase());
        let set = key.filter(|_| !value.is_empty())?;
        Some((set.parse().ok()?, value.as_str()))
    };
    settings.variables.iter().filter_map(known)
}

/// Whether the address that is set is one without TLS: whoever wrote it means it.
fn is_plain(settings: &StoreSettings, names: &[&str]) -> bool {
    let set = names.iter().find_map(|name| settings.get(name));
    set.is_some_and(|address| address.starts_with("http://"))
}

/// Without any credentials a machine of the cloud is asked for them. Elsewhere nobody answers, and
/// every call would wait for its whole deadline to say so.
fn need_credentials(
    scheme: Scheme,
    settings: &StoreSettings,
    skip: &str,
    names: &[&str],
) -> Result<(), StoreFault> {
    let answers = || TcpStream::connect_timeout(&METADATA, Duration::from_secs(1)).is_ok();
    credentials_or(answers, scheme, settings, skip, names)
}

fn credentials_or(
    cloud_answers: impl FnOnce() -> bool,
    scheme: Scheme,
    settings: &StoreSettings,
    skip: &str,
    names: &[&str],
) -> Result<(), StoreFault> {
    if settings.get(skip).is_some() || settings.has_any(names) || cloud_answers() {
        return Ok(());
    }
    Err(StoreFault::Settings {
        detail: format!("there are no credentials: {}", way_out(scheme)),
    })
}

fn options(settings: &StoreSettings, plain: bool) -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(plain)
        .with_timeout(settings.attempt())
        .with_connect_timeout(settings.attempt().min(Duration::from_secs(5)))
        .with_pool_idle_timeout(Duration::from_secs(30))
}

fn retry(settings: &StoreSettings) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        // The time decides.
        max_retries: 100,
        retry_timeout: settings.call.saturating_sub(settings.attempt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(variables: &[(&str, &str)], cloud: impl FnOnce() -> bool) -> Result<(), StoreFault> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings = StoreSettings::from_variables(variables.iter().map(owned)).unwrap();
        credentials_or(
            cloud,
            Scheme::S3,
            &settings,
            "AWS_SKIP_SIGNATURE",
            &["AWS_ACCESS_KEY_ID"],
        )
    }

    #[test]
    fn a_cloud_is_asked_only_for_what_the_environment_lacks() {
        for name in ["AWS_SKIP_SIGNATURE", "AWS_ACCESS_KEY_ID"] {
            assert!(asked(&[(name, "x")], || unreachable!("nothing is missing")).is_ok());
        }
        assert!(asked(&[], || true).is_ok());
        let fault = asked(&[("AWS_ACCESS_KEY_ID", "")], || false).unwrap_err();
        assert!(
            fault.to_string().contains("`AWS_SKIP_SIGNATURE=true`"),
            "{fault}"
        );
    }

    #[test]
    fn plain_addresses_are_those_that_say_so() {
        let of = |address: &str| {
            let set = ("AWS_ENDPOINT_URL".to_owned(), address.to_owned());
            let settings = StoreSettings::from_variables([set]).unwrap();
            is_plain(&settings, &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
        };
        assert!(of("http://127.0.0.1:9000"));
        assert!(!of("https://s3.example") && !of(""));
    }
}
