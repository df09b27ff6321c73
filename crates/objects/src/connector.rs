//! The way to the network: bounds what is kept of an answer, and notes how it went.

use std::error::Error;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use http::header::{CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use rustls::CertificateError;

use crate::StoreSettings;
use crate::answer::{Answer, note, region, words};
use crate::marked::Marked;

/// Bytes of an answer that tells of a fault.
const WORDS: usize = 64 << 10;
/// Bytes of an answer that is not part of an object: a page of a listing.
const PAGE: usize = 64 << 20;

/// Makes clients that are [`Bounded`], and [`Marked`] where a traffic class is set.
#[derive(Debug)]
pub(crate) struct Connector {
    dscp: Option<u8>,
    attempt: Duration,
}

impl Connector {
    pub(crate) fn new(settings: &StoreSettings) -> Self {
        Self {
            dscp: settings.dscp,
            attempt: settings.attempt(),
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = match self.dscp {
            None => ReqwestConnector::default().connect(options)?,
            Some(dscp) => {
                let failed = |error| object_store::Error::Generic {
                    store: "HTTP client",
                    source: Box::new(error),
                };
                HttpClient::new(Marked::new(dscp, self.attempt).map_err(failed)?)
            }
        };
        Ok(HttpClient::new(Bounded(client)))
    }
}

/// A client whose answers are bounded.
#[derive(Debug)]
struct Bounded(HttpClient);

#[async_trait]
impl HttpService for Bounded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let asked = range(request.headers().get(RANGE), "bytes=");
        let part = request.method() == Method::GET && asked.is_some();
        let answer = self.0.execute(request).await;
        let (parts, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => {
                if let Some(fault) = certificate_fault(&error) {
                    let unknown = *fault == CertificateError::UnknownIssuer;
                    let words = chain(&error);
                    note(Answer::Untrusted { unknown, words });
                    // It would be the same if it was asked again.
                    return Err(HttpError::new(HttpErrorKind::Unknown, error));
                }
                note(Answer::Lost {
                    kind: error.kind(),
                    words: chain(&error),
                });
                return Err(error);
            }
        };
        if parts.status.is_success() {
            let whole = part && parts.status != StatusCode::PARTIAL_CONTENT;
            note(Answer::Good { whole });
            if part && !whole && !fits(&asked, &parts.headers) {
                return Err(HttpError::new(HttpErrorKind::Decode, OtherRange));
            }
            // Whoever asked for a part counts its bytes.
            let body = if part {
                body
            } else {
                let refuse = |error| HttpError::new_boxed(HttpErrorKind::Decode, error);
                HttpResponseBody::new(Limited::new(body, PAGE).map_err(refuse))
            };
            return Ok(HttpResponse::from_parts(parts, body));
        }
        let body = beginning(body).await;
        note(Answer::Bad {
            status: parts.status,
            region: region(&parts.headers),
            words: words(&body),
        });
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

/// What is wrong with the server's certificate, if that is why there was no answer.
fn certificate_fault(error: &HttpError) -> Option<&CertificateError> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(rustls::Error::InvalidCertificate(fault)) = error.downcast_ref() {
            return Some(fault);
        }
        // What an I/O error wraps is not among its causes.
        cause = match error.downcast_ref().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// An answer with another part than the one asked for, or one that is not said.
#[derive(Debug)]
struct OtherRange;

impl std::fmt::Display for OtherRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("its `Content-Range` is not the range that was asked for")
    }
}

impl Error for OtherRange {}

/// First and last byte of a range.
fn range(value: Option<&HeaderValue>, unit: &str) -> Option<(u64, u64)> {
    let text = value?.to_str().ok()?.strip_prefix(unit)?;
    let (first, last) = text.split('/').next()?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Whether the part is the one asked for; it may end before, where the object does. Numbers of
/// which `object_store` would make others by overflow go no further.
fn fits(asked: &Option<(u64, u64)>, answered: &HeaderMap) -> bool {
    match (asked, range(answered.get(CONTENT_RANGE), "bytes ")) {
        (Some((first, last)), Some(found)) => {
            found.0 == *first && found.1 >= found.0 && found.1 <= *last
        }
        _ => false,
    }
}

/// The first bytes of a body, as many as come.
async fn beginning(mut body: HttpResponseBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            let room = WORDS - bytes.len();
            bytes.extend_from_slice(&data[..data.len().min(room)]);
        }
        if bytes.len() >= WORDS {
            break;
        }
    }
    bytes
}

/// An error with its causes, each once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
