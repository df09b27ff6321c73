//! What this process does on a signal, kept as it is.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals that providers have been seen to take, and others that end a process.
const SIGNALS: [c_int; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGTERM,
];

/// What was done on each signal; on drop it is done again.
pub(super) struct Dispositions(Vec<(c_int, libc::sigaction)>);

impl Dispositions {
    pub(super) fn keep() -> Self {
        let kept = SIGNALS.into_iter().filter_map(|signal| {
            let mut kept = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: nothing is changed; what stands goes to a place of its type.
            let code = unsafe { libc::sigaction(signal, ptr::null(), kept.as_mut_ptr()) };
            // SAFETY: written where the call succeeded.
            (code == 0).then(|| (signal, unsafe { kept.assume_init() }))
        });
        Self(kept.collect())
    }
}

impl Drop for Dispositions {
    fn drop(&mut self) {
        for (signal, kept) in &self.0 {
            // SAFETY: an action that stood for this signal in this process, whose handler, if it has
            // one, is still there: libraries that set one are not unloaded.
            unsafe { libc::sigaction(*signal, kept, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_signal_does_is_kept() {
        let of = || {
            let mut stands = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: nothing is changed; what stands goes to a place of its type.
            unsafe {
                libc::sigaction(libc::SIGHUP, ptr::null(), stands.as_mut_ptr());
                stands.assume_init().sa_sigaction
            }
        };
        let before = of();
        let kept = Dispositions::keep();
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        assert_ne!(of(), before);
        drop(kept);
        assert_eq!(of(), before);
    }
}
