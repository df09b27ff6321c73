//! Why a call failed, from what the store answered last.

use std::time::Duration;

use forebay_origin::{Scheme, StoreFault};
use http::StatusCode;
use object_store::client::{HttpError, HttpErrorKind};

use crate::answer::Answer;
use crate::connector::chain;

/// What the fault of a call is: `error` is what `object_store` made of `answer`.
pub(crate) fn fault(
    scheme: Scheme,
    call: Duration,
    error: &object_store::Error,
    answer: Answer,
) -> StoreFault {
    let late = StoreFault::Deadline {
        seconds: call.as_secs_f64(),
    };
    match answer {
        Answer::Bad {
            status,
            region,
            words,
        } => bad(scheme, status, region, words),
        Answer::Lost { kind, words } => match kind {
            HttpErrorKind::Timeout => late,
            HttpErrorKind::Decode => StoreFault::Malformed { detail: words },
            _ => StoreFault::Unreachable { detail: words },
        },
        Answer::Good { whole: true } => StoreFault::NoRanges,
        Answer::Untrusted { unknown, words } => StoreFault::Unreachable {
            detail: match unknown {
                true => format!(
                    "{words}: nobody whom this system trusts has signed the server's certificate; \
                     name a file with that of its authority in `SSL_CERT_FILE`"
                ),
                false => words,
            },
        },
        // The head of the answer was good: its body broke off, or does not fit.
        Answer::Good { whole: false } => match network(error) {
            Some(HttpErrorKind::Timeout) => late,
            Some(HttpErrorKind::Decode) | None => StoreFault::Malformed {
                detail: chain(error),
            },
            Some(_) => StoreFault::Unreachable {
                detail: chain(error),
            },
        },
        // No request was made: it failed before, over a credential or an address.
        Answer::None => StoreFault::Settings {
            detail: chain(error),
        },
    }
}

/// The kind of the network's error that is among the causes.
fn network(error: &object_store::Error) -> Option<HttpErrorKind> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if let Some(http) = error.downcast_ref::<HttpError>() {
            return Some(http.kind());
        }
        cause = error.source();
    }
    None
}

fn bad(scheme: Scheme, status: StatusCode, region: Option<String>, detail: String) -> StoreFault {
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => StoreFault::NotFound { detail },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => StoreFault::Denied {
            way_out: way_out(scheme),
            detail,
        },
        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => StoreFault::Busy {
            status: status.as_u16(),
            detail,
        },
        _ if status.is_server_error() => StoreFault::Busy {
            status: status.as_u16(),
            detail,
        },
        _ if scheme == Scheme::S3 && (status.is_redirection() || region.is_some()) => {
            let region = region.unwrap_or_else(|| "the bucket's region".to_owned());
            StoreFault::Settings {
                detail: format!("the bucket is in another region: set `AWS_REGION={region}`"),
            }
        }
        _ => StoreFault::Status {
            status: status.as_u16(),
            detail,
        },
    }
}

/// What to set where access is denied.
pub const fn way_out(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or `AWS_SKIP_SIGNATURE=true` for \
             a public bucket"
        }
        Scheme::Gcs => {
            "set `GOOGLE_APPLICATION_CREDENTIALS`, or `GOOGLE_SKIP_SIGNATURE=true` for a public \
             bucket"
        }
        Scheme::Azure => {
            "set `AZURE_STORAGE_ACCOUNT_NAME` and `AZURE_STORAGE_ACCOUNT_KEY`, or \
             `AZURE_SKIP_SIGNATURE=true` for a public container"
        }
        Scheme::Http | Scheme::Https => "web servers are read without credentials",
    }
}
