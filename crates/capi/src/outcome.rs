//! From errors to statuses and texts.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_client::ClientError;
use forebay_dataset::{ErrorKind, IndexError};

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// What went wrong in a call.
pub(crate) struct Fault {
    kind: ErrorKind,
    text: String,
}

impl Fault {
    pub(crate) fn input(text: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::InvalidInput,
            text: text.into(),
        }
    }

    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unsupported,
            text: text.into(),
        }
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Self {
            kind: error.kind(),
            text: error.chain(),
        }
    }
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        ClientError::from(error).into()
    }
}

/// Text without the zero bytes that C would take for its end.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// The status of a kind: its position, counted from 1.
pub(crate) fn status(kind: ErrorKind) -> c_int {
    let position = ErrorKind::ALL.iter().position(|each| *each == kind);
    position.map_or(0, |position| position as c_int) + 1
}

/// Runs a call. Keeps the text of what goes wrong for [`text`].
pub(crate) fn run(call: impl FnOnce() -> Result<(), Fault>) -> c_int {
    // A panic must not run through the caller's frames; what the call had in hand is dropped.
    let ended = catch_unwind(AssertUnwindSafe(call));
    let fault = match ended {
        Ok(Ok(())) => return 0,
        Ok(Err(fault)) => fault,
        Err(_) => Fault {
            kind: ErrorKind::Unavailable,
            text: "a fault in Forebay itself; please report what was done".to_owned(),
        },
    };
    TEXT.set(c_text(&fault.text));
    status(fault.kind)
}

/// The text of this thread's last error; it stays until the next one.
pub(crate) fn text() -> *const c_char {
    TEXT.with_borrow(|text| text.as_ptr())
}
