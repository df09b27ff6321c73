//! Values that a child of `fork` must not share with its parent.

use forebay_residency::fork_generation;

use crate::sys::Slot;

#[derive(Debug)]
struct Made<T> {
    forks: u64,
    value: T,
}

/// One value for each process, made at first use. In a child the parent's is left alone: its
/// sockets, file locks and mutexes are not the child's to touch.
#[derive(Debug)]
pub(crate) struct PerProcess<T>(Slot<Made<T>>);

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(Slot::empty())
    }

    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> &T {
        let forks = fork_generation();
        let seen = self.0.get();
        match seen {
            Some(made) if made.forks == forks => &made.value,
            _ => {
                &self
                    .0
                    .replace(
                        seen,
                        Made {
                            forks,
                            value: make(),
                        },
                    )
                    .value
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self
            .0
            .get()
            .is_some_and(|made| made.forks == fork_generation())
        {
            self.0.clear();
        }
    }
}
