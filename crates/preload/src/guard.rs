//! One level of interception, and an `errno` that nobody sees change.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    // Without a destructor and not made lazily, so that neither a signal handler nor a thread that is
    // ending meets anything else than a flag.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// This thread's place inside the library, given back on drop.
struct Inside;

impl Inside {
    fn enter() -> Option<Self> {
        (!INSIDE.replace(true)).then_some(Self)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Decides one call. `None` says that it is to pass through: so does a call that was made inside of
/// another decision, by this library itself or by a signal handler, and so does a panic.
pub(crate) fn intercept<T>(decide: impl FnOnce() -> Option<T>) -> Option<T> {
    let _inside = Inside::enter()?;
    let before = errno();
    let decided = catch_unwind(AssertUnwindSafe(decide)).unwrap_or(None);
    set_errno(before);
    decided
}

/// This thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: libc gives each thread a valid place for its own.
    unsafe { *libc::__errno_location() }
}

/// Sets this thread's `errno`.
pub(crate) fn set_errno(value: i32) {
    // SAFETY: as for `errno`.
    unsafe { *libc::__errno_location() = value };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_inside_of_another_passes_through() {
        let decided = intercept(|| Some(intercept(|| Some(1))));
        assert_eq!(decided, Some(None));
        assert_eq!(intercept(|| Some(2)), Some(2), "the place was given back");
    }

    #[test]
    fn a_panic_passes_through_and_errno_is_kept() {
        set_errno(libc::EXDEV);
        let decided: Option<()> = intercept(|| {
            set_errno(libc::EIO);
            panic!("as a fault of ours would");
        });
        assert_eq!((decided, errno()), (None, libc::EXDEV));
        assert_eq!(intercept(|| Some(3)), Some(3));
    }
}
