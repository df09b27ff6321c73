//! What a store answered last, for whoever has to say why a call failed.

use std::cell::RefCell;

use http::StatusCode;
use http::header::HeaderMap;
use object_store::client::HttpErrorKind;

/// The last answer of a call.
#[derive(Debug, Default)]
pub(crate) enum Answer {
    /// There was none.
    #[default]
    None,
    /// As it should be; true if a part was asked for and the whole came.
    Good { whole: bool },
    /// A status that tells of a fault.
    Bad {
        status: StatusCode,
        /// Where an S3 bucket is, if it is elsewhere.
        region: Option<String>,
        /// The store's own words.
        words: String,
    },
    /// No answer.
    Lost { kind: HttpErrorKind, words: String },
    /// No answer is asked for: the certificate of the server is none that counts here. True if that
    /// is because nobody known has signed it.
    Untrusted { unknown: bool, words: String },
}

tokio::task_local! {
    // One call is one task, whose requests follow each other.
    static LAST: RefCell<Answer>;
}

/// Runs a call; returns its result and the last answer.
pub(crate) async fn noted<T>(call: impl Future<Output = T>) -> (T, Answer) {
    let noted = async {
        let result = call.await;
        (result, LAST.with(RefCell::take))
    };
    LAST.scope(RefCell::default(), noted).await
}

/// Notes an answer of the call that this task is.
pub(crate) fn note(answer: Answer) {
    // Outside of a call nobody asks.
    let _ = LAST.try_with(|last| last.replace(answer));
}

/// Where the bucket is, as S3 says beside a redirect.
pub(crate) fn region(headers: &HeaderMap) -> Option<String> {
    let region = headers.get("x-amz-bucket-region")?.to_str().ok()?;
    Some(region.to_owned())
}

/// The words of an answer on one line: the code and message of XML, else the beginning.
pub(crate) fn words(body: &[u8]) -> String {
    const SHOWN: usize = 300;
    let text = String::from_utf8_lossy(body);
    let part = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(part, _)| part)
    };
    let whole = match (part("Code"), part("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => text.into_owned(),
    };
    let line: String = whole
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(SHOWN)
        .collect();
    match line.trim() {
        "" => "it says no more".to_owned(),
        line => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_short_line() {
        let xml = b"<?xml?>\n<Error><Code>AccessDenied</Code><Message>Go\n away</Message></Error>";
        assert_eq!(words(xml), "AccessDenied: Go  away");
        assert_eq!(words(b"  no\x1b[31m\n"), "no [31m");
        assert_eq!(words(b""), "it says no more");
        assert_eq!(words(&[b'x'; 10_000]).len(), 300);
        assert_eq!(words(b"<Code>unfinished"), "<Code>unfinished");
    }
}
