//! The only unsafe code in the crate: a slot whose value belongs to one process.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A pointer to a value that is made at most once and replaced only by a child of `fork`, which
/// leaves the parent's value where it is.
#[derive(Debug)]
pub(crate) struct Slot<T>(AtomicPtr<T>);

impl<T> Slot<T> {
    pub(crate) const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The present value.
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: a non-null pointer came from `Box::into_raw` in `replace`, and what it points to
        // is freed only in `clear`, which takes `&mut self`; a replaced value is never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Puts `value` in place of `seen`, unless another thread was first, and returns what is there
    /// now. `seen` is leaked: its locks may be held by threads that exist only in the parent.
    pub(crate) fn replace(&self, seen: Option<&T>, value: T) -> &T {
        let seen = seen.map_or(ptr::null_mut(), |seen| ptr::from_ref(seen).cast_mut());
        let fresh = Box::into_raw(Box::new(value));
        match self
            .0
            .compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: just made by `Box::into_raw`, and freed only in `clear`.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: nobody else has seen `fresh`.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: `winner` is what another thread put there by the same means.
                unsafe { &*winner }
            }
        }
    }

    /// Drops the present value.
    pub(crate) fn clear(&mut self) {
        let value = std::mem::replace(self.0.get_mut(), ptr::null_mut());
        if !value.is_null() {
            // SAFETY: made by `Box::into_raw`, and `&mut self` shows that no borrow is left.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}
