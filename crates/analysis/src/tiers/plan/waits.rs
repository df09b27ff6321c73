//! From waits of a training loop, as they are published or recorded, to an origin's rare times.

use super::origin::Tail;

/// What is known of the waits of iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatedWaits {
    /// A wait, in seconds, that is well above the usual ones.
    pub over_s: f64,
    /// Share of iterations that wait longer than that, from 0 to 1.
    pub share_over: f64,
    /// A second, longer wait and the share of iterations that wait longer than it, where known; or
    /// else `mean_s` decides the steepness.
    pub further: Option<(f64, f64)>,
    /// Mean wait of all iterations, in seconds.
    pub mean_s: Option<f64>,
    /// The longest wait, in seconds.
    pub max_s: f64,
    /// Time that the loader hides, in seconds: a read is so much longer than the wait it causes.
    pub hidden_s: f64,
    /// Reads that an iteration of the whole job waits for.
    pub reads: f64,
}

/// Why stated waits give no distribution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitsError {
    /// A number is out of its range.
    #[error("stated waits: `{name}` must be {wanted}: {found}")]
    Range {
        /// What it is.
        name: &'static str,
        /// What it must be.
        wanted: &'static str,
        /// What it is.
        found: f64,
    },
    /// The numbers contradict each other.
    #[error("stated waits contradict each other: {0}")]
    Contradiction(String),
}

/// Steepness is looked for between these.
const ALPHAS: (f64, f64) = (0.01, 20.0);

impl StatedWaits {
    /// The rare times of reads that cause these waits, if one rare read makes a wait.
    ///
    /// The times are a Pareto distribution between the stated wait and the longest one, both with
    /// the hidden time added; its steepness follows from the second share, or else from the mean.
    ///
    /// # Errors
    /// [`WaitsError`] when a number is out of range or no distribution has them all.
    pub fn tail(&self) -> Result<Tail, WaitsError> {
        self.check()?;
        let (min_s, max_s) = (self.over_s + self.hidden_s, self.max_s + self.hidden_s);
        // The share of iterations that meet at least one rare read, over all their reads.
        let probability = -(-self.share_over).ln_1p() / self.reads;
        let tail = |alpha| Tail {
            probability: probability.min(1.0),
            min_s,
            max_s,
            alpha,
        };
        let wrong = |alpha: f64| match (self.further, self.mean_s) {
            (Some((wait, share)), _) => {
                tail(alpha).share_over(wait + self.hidden_s) - share / self.share_over
            }
            (None, Some(mean)) => mean_over(&tail(alpha)) - self.hidden_s - mean / self.share_over,
            (None, None) => 0.0,
        };
        let (mut low, mut high) = ALPHAS;
        // A steeper tail has less of the long times, so the fault falls along alpha.
        if wrong(low) < 0.0 || wrong(high) > 0.0 {
            let why = "no tail between the shortest and the longest wait has the other figure";
            return Err(WaitsError::Contradiction(why.into()));
        }
        for _ in 0..80 {
            let middle = (low + high) / 2.0;
            if wrong(middle) > 0.0 {
                low = middle
            } else {
                high = middle
            }
        }
        Ok(tail((low + high) / 2.0))
    }

    fn check(&self) -> Result<(), WaitsError> {
        let rule = |name, found: f64, holds: bool, wanted| {
            if holds {
                Ok(())
            } else {
                Err(WaitsError::Range {
                    name,
                    wanted,
                    found,
                })
            }
        };
        let share = self.share_over;
        rule(
            "share_over",
            share,
            share > 0.0 && share < 1.0,
            "between 0 and 1",
        )?;
        rule(
            "over_s",
            self.over_s,
            self.over_s > 0.0 && self.over_s < 1e5,
            "above 0",
        )?;
        let hidden = self.hidden_s;
        rule(
            "hidden_s",
            hidden,
            (0.0..1e5).contains(&hidden),
            "0 or more",
        )?;
        rule(
            "reads",
            self.reads,
            self.reads >= 1.0 && self.reads < 1e12,
            "at least 1",
        )?;
        let longest = self.max_s > self.over_s && self.max_s < 1e5;
        rule("max_s", self.max_s, longest, "above `over_s`")?;
        if let Some((wait, part)) = self.further {
            rule(
                "further wait",
                wait,
                wait > self.over_s && wait < self.max_s,
                "between `over_s` and `max_s`",
            )?;
            rule(
                "further share",
                part,
                part > 0.0 && part < share,
                "below `share_over`",
            )?;
        } else if self.mean_s.is_none() {
            let why = "a second share or the mean wait is needed".to_owned();
            return Err(WaitsError::Contradiction(why));
        }
        Ok(())
    }
}

/// The mean of the tail's times, by a fine sum over its quantiles.
fn mean_over(tail: &Tail) -> f64 {
    const STEPS: usize = 2_000;
    let place = |step: usize| (step as f64 + 0.5) / STEPS as f64;
    (0..STEPS)
        .map(|step| tail.quantile(place(step)))
        .sum::<f64>()
        / STEPS as f64
}
