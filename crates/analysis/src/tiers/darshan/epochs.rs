//! Which epoch the I/O of a record belongs to. Darshan's counters are sums over the whole run.

use super::OptionsError;
use crate::record::MAX_SECONDS;

/// The time of one epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its begin, in seconds.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Whether both count from 1970-01-01 UTC; otherwise from the start of the first log of the
    /// job.
    pub is_unix: bool,
}

impl Window {
    fn overlap(&self, start: f64, end: f64) -> f64 {
        (self.end_s.min(end) - self.start_s.max(start)).max(0.0)
    }

    fn holds(&self, start: f64, end: f64) -> bool {
        self.start_s <= start && end <= self.end_s
    }

    fn meets(&self, start: f64, end: f64) -> bool {
        start < self.end_s && self.start_s < end || self.holds(start, end)
    }
}

/// Refuses windows that are empty, absurd or out of order.
pub(super) fn check(windows: &[Window]) -> Result<(), OptionsError> {
    for window in windows {
        let finite = window.start_s.is_finite() && window.end_s.is_finite();
        let length = window.end_s - window.start_s;
        if !finite || window.start_s < 0.0 || length <= 0.0 || length > MAX_SECONDS {
            return Err(OptionsError::Window(window.start_s, window.end_s));
        }
    }
    for pair in windows.windows(2) {
        if pair[0].is_unix != pair[1].is_unix || pair[1].start_s < pair[0].end_s {
            return Err(OptionsError::WindowOrder);
        }
    }
    Ok(())
}

/// When a file was used, in seconds on the clock of the windows.
pub(super) struct Use<'a> {
    /// From the first open to the last close, where the log says so.
    pub(super) span: Option<(f64, f64)>,
    /// Every read, where it was traced.
    pub(super) reads: &'a [(f64, f64)],
}

/// How the I/O of one record is shared among epochs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    /// Places of windows, with the shares of reads and of metadata operations.
    pub(super) parts: Vec<(usize, f64, f64)>,
    /// Whether the shares are a guess.
    pub(super) is_ambiguous: bool,
}

/// Shares a record among the windows; `None` where it lies outside of all of them.
pub(super) fn split(windows: &[Window], used: &Use<'_>) -> Option<Split> {
    let met: Vec<usize> = match used.span {
        Some((start, end)) => {
            let meets = |place: &usize| windows[*place].meets(start, end);
            (0..windows.len()).filter(meets).collect()
        }
        None => (0..windows.len()).collect(),
    };
    match met.as_slice() {
        [] => None,
        [only]
            if used
                .span
                .is_some_and(|(start, end)| windows[*only].holds(start, end)) =>
        {
            Some(Split {
                parts: vec![(*only, 1.0, 1.0)],
                is_ambiguous: false,
            })
        }
        _ => Some(by_reads(windows, used.reads).unwrap_or_else(|| evenly(&met))),
    }
}

/// By the time that traced reads took in each window. Each epoch that reads a file opens and
/// closes it once, so metadata time is shared evenly among those.
fn by_reads(windows: &[Window], reads: &[(f64, f64)]) -> Option<Split> {
    let took = |window: &Window| -> f64 {
        let of_read = |(start, end): &(f64, f64)| window.overlap(*start, *end);
        reads.iter().map(of_read).sum()
    };
    let took: Vec<f64> = windows.iter().map(took).collect();
    let total: f64 = took.iter().sum();
    let users = took.iter().filter(|took| **took > 0.0).count();
    // Not above 0, or not a number.
    if users == 0 || !total.is_finite() {
        return None;
    }
    let part = |(place, took): (usize, &f64)| {
        (*took > 0.0).then(|| (place, took / total, 1.0 / users as f64))
    };
    Some(Split {
        parts: took.iter().enumerate().filter_map(part).collect(),
        is_ambiguous: false,
    })
}

fn evenly(met: &[usize]) -> Split {
    let share = 1.0 / met.len() as f64;
    Split {
        parts: met.iter().map(|place| (*place, share, share)).collect(),
        is_ambiguous: true,
    }
}
