//! Moments of a simulation, in order.

/// Seconds from 0 on, ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(u64);

impl Time {
    /// A moment that is finite and not before 0: the bits of such numbers are ordered as they are.
    pub(super) fn of(seconds: f64) -> Self {
        debug_assert!(
            seconds.is_finite() && seconds >= 0.0,
            "no moment: {seconds}"
        );
        Self(seconds.to_bits())
    }

    pub(super) fn seconds(self) -> f64 {
        f64::from_bits(self.0)
    }
}
