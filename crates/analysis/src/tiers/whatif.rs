//! What-if: how long the I/O of an epoch would take if classes of it were faster.
//!
//! # Contract
//! - A gain of N percent in the throughput of a class multiplies its time by 100/(100+N), in every
//!   process. The slowest process is found *after* that: the bottleneck may move.
//! - The time of an epoch is the total of its slowest process; the time of a case is the mean over
//!   its epochs.
//! - Gains never raise a time, so every search here is over a monotone function.
//!
//! A [`Measured`] is what was measured: one [`Case`] for each cache rate.

mod answer;
mod goal;
mod measured;
mod sensitivity;
#[cfg(test)]
mod tests;
pub mod text;

use serde::Serialize;

pub use answer::{Answer, AskError, Least, Question};
pub use goal::{Axis, Frontier, FrontierPoint, LeastGain, MAX_COMBINATIONS, Mark};
pub use measured::{Case, EpochTimes, Measured, ProcessTimes};
pub use sensitivity::{RateShare, Sensitivity};

/// The greatest gain that is accepted, in percent: ten thousand times the throughput.
pub const MAX_GAIN_PERCENT: f64 = 1e6;

/// Why a question about a study has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WhatIfError {
    /// There is nothing to ask about.
    #[error("{0} holds no process with I/O: measure one, or name another file or prefix")]
    Empty(String),
    /// A time that no clock gives.
    #[error(
        "`{process}` spent {seconds} s in `{class}`: a time must be a number of seconds from 0"
    )]
    Time {
        /// The process.
        process: String,
        /// The class.
        class: String,
        /// Its time.
        seconds: f64,
    },
    /// A process has another number of classes than the study.
    #[error("`{process}` has {found} times and the study has {wanted} classes")]
    Classes {
        /// The process.
        process: String,
        /// Times it has.
        found: usize,
        /// Classes of the study.
        wanted: usize,
    },
    /// A cache rate is no percentage.
    #[error("cache rate {0} is not from 0 to 100 percent")]
    Rate(f64),
    /// Two cases have one cache rate, or several have none.
    #[error("cache rate {0} is there twice: name its measurements once")]
    RateTwice(String),
    /// A class that the study does not have.
    #[error("class `{class}` is not in the measurements, which have: {known}")]
    UnknownClass {
        /// The class asked for.
        class: String,
        /// Those there are.
        known: String,
    },
    /// A gain that is negative, not finite or absurd.
    #[error("gain {gain} for `{class}` is not from 0 to {MAX_GAIN_PERCENT} percent")]
    Gain {
        /// The class.
        class: String,
        /// The gain, in percent.
        gain: f64,
    },
    /// A class is named more than once.
    #[error("class `{0}` is named twice: name it once")]
    ClassTwice(String),
    /// A goal that no run can meet or miss.
    #[error("goal {0} is not a number of seconds above 0")]
    Goal(f64),
    /// The steps of a search.
    #[error(
        "gains in steps of {step} up to {to} percent: both must be above 0, and the last at most {MAX_GAIN_PERCENT}"
    )]
    Axis {
        /// Distance of two gains, in percent.
        step: f64,
        /// The greatest gain, in percent.
        to: f64,
    },
    /// A search over too many combinations.
    #[error(
        "{combinations} combinations of gains are too many, at most {MAX_COMBINATIONS}: take longer steps or fewer classes"
    )]
    TooMany {
        /// Those asked for.
        combinations: f64,
    },
    /// No case was measured at this rate or epoch.
    #[error("{0} was not measured")]
    NotMeasured(String),
}

/// Gains in throughput, one for each class of a study, in percent.
#[derive(Clone, Debug, PartialEq)]
pub struct Gains(Vec<f64>);

impl Gains {
    /// No gain anywhere.
    #[must_use]
    pub fn none(measured: &Measured) -> Self {
        Self(vec![0.0; measured.classes().len()])
    }

    /// Gains of the named classes, in percent; the others have none.
    ///
    /// # Errors
    /// [`WhatIfError`] for an unknown class, one named twice, and a gain that is not a number from
    /// 0 to [`MAX_GAIN_PERCENT`].
    pub fn of(measured: &Measured, named: &[(String, f64)]) -> Result<Self, WhatIfError> {
        let mut gains = Self::none(measured);
        for (place, (class, gain)) in named.iter().enumerate() {
            if named[..place].iter().any(|(earlier, _)| earlier == class) {
                return Err(WhatIfError::ClassTwice(class.clone()));
            }
            if !(0.0..=MAX_GAIN_PERCENT).contains(gain) {
                let class = class.clone();
                return Err(WhatIfError::Gain { class, gain: *gain });
            }
            gains.0[measured.class(class)?] = *gain;
        }
        Ok(gains)
    }

    fn with(&self, class: usize, gain: f64) -> Self {
        let mut gains = self.clone();
        gains.0[class] = gain;
        gains
    }

    fn total(&self, seconds: &[f64]) -> f64 {
        let improved = seconds.iter().zip(&self.0);
        improved.map(|(time, gain)| faster(*time, *gain)).sum()
    }
}

/// A time after a gain in throughput of so many percent; an endless gain leaves nothing of it.
fn faster(seconds: f64, gain: f64) -> f64 {
    if gain.is_infinite() {
        0.0
    } else {
        seconds * 100.0 / (100.0 + gain)
    }
}

/// The process that an epoch waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slowest {
    /// The epoch; `null` where the measurement could not tell epochs apart.
    pub epoch: Option<u32>,
    /// The process.
    pub process: String,
    /// Its I/O time with the gains, in seconds.
    pub seconds: f64,
    /// Its parts, one for each class, in seconds.
    pub stack: Vec<f64>,
    /// The process after it and its time in seconds, where there is one.
    pub next: Option<(String, f64)>,
}

/// What a case would take with some gains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The cache rate of the case, in percent.
    pub cache_rate: Option<f64>,
    /// Mean over the epochs of the slowest process's time, in seconds.
    pub seconds: f64,
    /// The slowest process of each epoch.
    pub slowest: Vec<Slowest>,
}

impl EpochTimes {
    /// The slowest process after the gains; of two that are equal, the one that was named first.
    #[must_use]
    pub fn slowest(&self, gains: &Gains) -> Slowest {
        let totals = self.processes.iter().map(|one| gains.total(&one.seconds));
        let mut first: Option<(usize, f64)> = None;
        let mut next: Option<(usize, f64)> = None;
        for (place, total) in totals.enumerate() {
            if first.is_none_or(|(_, most)| total > most) {
                next = first.replace((place, total));
            } else if next.is_none_or(|(_, most)| total > most) {
                next = Some((place, total));
            }
        }
        // A study has no epoch without a process.
        let (place, seconds) = first.unwrap_or_default();
        let process = &self.processes[place];
        let stack = process.seconds.iter().zip(&gains.0);
        Slowest {
            epoch: self.epoch,
            process: process.process.clone(),
            seconds,
            stack: stack.map(|(time, gain)| faster(*time, *gain)).collect(),
            next: next.map(|(place, total)| (self.processes[place].process.clone(), total)),
        }
    }

    fn seconds(&self, gains: &Gains) -> f64 {
        let totals = self.processes.iter().map(|one| gains.total(&one.seconds));
        totals.fold(0.0, f64::max)
    }
}

impl Case {
    /// What this case would take with the gains.
    #[must_use]
    pub fn estimate(&self, gains: &Gains) -> Estimate {
        Estimate {
            cache_rate: self.cache_rate,
            seconds: self.seconds(gains),
            slowest: self
                .epochs
                .iter()
                .map(|epoch| epoch.slowest(gains))
                .collect(),
        }
    }

    fn seconds(&self, gains: &Gains) -> f64 {
        let epochs = self.epochs.iter().map(|epoch| epoch.seconds(gains));
        epochs.sum::<f64>() / self.epochs.len() as f64
    }
}

impl Measured {
    /// Every case with the gains, by rising cache rate.
    #[must_use]
    pub fn estimates(&self, gains: &Gains) -> Vec<Estimate> {
        self.cases()
            .iter()
            .map(|case| case.estimate(gains))
            .collect()
    }

    /// The case that is fastest with the gains; of two that are equal, the one that caches less.
    #[must_use]
    pub fn best(&self, gains: &Gains) -> Estimate {
        self.best_place(gains).0.estimate(gains)
    }

    fn best_place(&self, gains: &Gains) -> (&Case, f64) {
        let mut best = (&self.cases()[0], f64::INFINITY);
        for case in self.cases() {
            let seconds = case.seconds(gains);
            if seconds < best.1 {
                best = (case, seconds);
            }
        }
        best
    }
}
