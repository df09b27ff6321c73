//! How far an answer hangs on which processes and epochs happened to be measured.

use serde::Serialize;

use super::{Case, Gains, Measured};
use crate::random::Random;
use crate::stats::{BootstrapPlan, Sorted, StatsError};

/// How often a cache rate was the best one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateShare {
    /// The cache rate, in percent.
    pub cache_rate: Option<f64>,
    /// Share of the resamples, from 0 to 1.
    pub share: f64,
}

/// The best case again and again, over processes and epochs drawn anew.
///
/// Drawing never finds a process slower than the slowest one measured, so the interval reaches
/// below the estimate and never above it: it tells how much one slow process decides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// Lower end of the interval of the best time, in seconds.
    pub low_seconds: f64,
    /// Upper end, in seconds.
    pub high_seconds: f64,
    /// Share of the resamples in the interval.
    pub confidence: f64,
    /// Resamples drawn.
    pub resamples: usize,
    /// How often each cache rate was the best, the most frequent first; those never best are left out.
    pub best_rates: Vec<RateShare>,
    /// Share of the resamples in which the best time met the goal, where there is one.
    pub goal_share: Option<f64>,
    /// Processes in the smallest epoch.
    pub processes: usize,
    /// Epochs of the case that has the fewest.
    pub epochs: usize,
}

impl Measured {
    /// Draws processes and epochs anew and finds the best case each time.
    ///
    /// # Errors
    /// [`StatsError::Plan`] when the plan asks for no or too many resamples, or for a confidence
    /// that is not between 0 and 1.
    pub fn sensitivity(
        &self,
        gains: &Gains,
        goal: Option<f64>,
        plan: &BootstrapPlan,
    ) -> Result<Sensitivity, StatsError> {
        plan.check()?;
        let totals: Vec<Vec<Sorted>> = self
            .cases()
            .iter()
            .map(|case| totals(case, gains))
            .collect::<Result<_, _>>()?;
        let mut random = Random::new(plan.seed);
        let mut wins = vec![0usize; totals.len()];
        let mut times = Vec::with_capacity(plan.resamples);
        for _ in 0..plan.resamples {
            let drawn = totals.iter().map(|epochs| draw(epochs, &mut random));
            let first = (0, f64::INFINITY);
            let best = drawn
                .enumerate()
                .fold(first, |best, one| if one.1 < best.1 { one } else { best });
            wins[best.0] += 1;
            times.push(best.1);
        }
        let times = Sorted::new(times)?;
        let outside = (1.0 - plan.confidence) / 2.0;
        let every = |place: usize| wins[place] as f64 / plan.resamples as f64;
        let mut best_rates: Vec<RateShare> = (0..wins.len())
            .filter(|place| wins[*place] > 0)
            .map(|place| RateShare {
                cache_rate: self.cases()[place].cache_rate,
                share: every(place),
            })
            .collect();
        best_rates.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(Sensitivity {
            low_seconds: times.quantile(outside),
            high_seconds: times.quantile(1.0 - outside),
            confidence: plan.confidence,
            resamples: plan.resamples,
            best_rates,
            goal_share: goal.map(|goal| 1.0 - times.share_over(goal).fraction()),
            processes: totals.iter().flatten().map(Sorted::n).min().unwrap_or(0),
            epochs: totals.iter().map(Vec::len).min().unwrap_or(0),
        })
    }
}

fn totals(case: &Case, gains: &Gains) -> Result<Vec<Sorted>, StatsError> {
    let epochs = case.epochs.iter();
    epochs
        .map(|epoch| Sorted::new(epoch.processes.iter().map(|one| gains.total(&one.seconds))))
        .collect()
}

/// Mean over epochs, drawn anew, of the slowest of processes, drawn anew.
fn draw(epochs: &[Sorted], random: &mut Random) -> f64 {
    let slowest = |epoch: &Sorted, random: &mut Random| {
        // The greatest of n places drawn from n is at most k with probability ((k+1)/n)^n: one
        // number stands for n draws.
        let n = epoch.n();
        let share = random.unit().powf(1.0 / n as f64);
        epoch.values()[((share * n as f64) as usize).min(n - 1)]
    };
    let drawn = (0..epochs.len()).map(|_| slowest(&epochs[random.below(epochs.len())], random));
    drawn.collect::<Vec<_>>().into_iter().sum::<f64>() / epochs.len() as f64
}
