//! What a simulated epoch says.

use serde::Serialize;

use super::Path;
use super::scenario::Scenario;
use crate::stats::Sorted;

/// Waits of an epoch, as they are simulated.
pub(super) struct Waits {
    /// Of each iteration the longest wait over all ranks, in seconds.
    pub(super) slowest_s: Vec<f64>,
    pub(super) wall_s: f64,
    ranks: u64,
    stalled: u64,
}

impl Waits {
    pub(super) fn new(iterations: u32) -> Self {
        let slowest_s = Vec::with_capacity(iterations as usize);
        Self {
            slowest_s,
            wall_s: 0.0,
            ranks: 0,
            stalled: 0,
        }
    }

    /// So many ranks waited so long.
    pub(super) fn add(&mut self, ranks: u64, wait_s: f64, window_s: f64) {
        self.ranks += ranks;
        self.stalled += if wait_s > window_s { ranks } else { 0 };
    }
}

/// One epoch by one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochForecast {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Its time, in seconds.
    pub wall_s: f64,
    /// Iterations of the epoch.
    pub iterations: u64,
    /// Iterations that were simulated; where they are fewer, `wall_s` and what is read from the
    /// origin are theirs, scaled.
    pub simulated_iterations: u64,
    /// Compute window of an iteration, in seconds.
    pub window_s: f64,
    /// Share of iterations in which the slowest rank waited longer than the window.
    pub stalled_share: f64,
    /// Iterations of the epoch that are stalled.
    pub stalls: f64,
    /// The same share over all ranks, each by itself.
    pub rank_stalled_share: f64,
    /// Mean wait of the slowest rank, in seconds.
    pub wait_mean_s: f64,
    /// Median wait of the slowest rank, in seconds.
    pub wait_median_s: f64,
    /// 95 % quantile of the wait of the slowest rank, in seconds.
    pub wait_p95_s: f64,
    /// Longest wait, in seconds.
    pub wait_max_s: f64,
    /// Share of iterations in which the slowest rank waited over 1 s.
    pub over_1s_share: f64,
    /// Accelerator utilisation: the window over the whole time, from 0 to 1.
    pub utilisation: f64,
    /// Samples a second.
    pub samples_per_s: f64,
    /// Reads of the origin.
    pub origin_reads: f64,
    /// Bytes read from the origin.
    pub origin_bytes: f64,
}

impl EpochForecast {
    pub(super) fn of(
        scenario: &Scenario,
        epoch: u32,
        waits: Waits,
        reads: f64,
        bytes: f64,
    ) -> Self {
        let iterations = scenario.iterations();
        let simulated = waits.slowest_s.len() as u64;
        let scale = iterations as f64 / simulated.max(1) as f64;
        let window_s = scenario.window_s(epoch);
        let wall_s = waits.wall_s * scale;
        let samples = (iterations * scenario.ranks() * u64::from(scenario.batch)) as f64;
        // The scenario was checked, so there is at least one iteration and every wait is finite.
        let sorted = Sorted::new(waits.slowest_s).ok();
        let of = |read: &dyn Fn(&Sorted) -> f64| sorted.as_ref().map_or(0.0, read);
        let stalled_share = of(&|all| all.share_over(window_s).fraction());
        Self {
            epoch,
            wall_s,
            iterations,
            simulated_iterations: simulated,
            window_s,
            stalled_share,
            stalls: stalled_share * iterations as f64,
            rank_stalled_share: waits.stalled as f64 / waits.ranks.max(1) as f64,
            wait_mean_s: of(&Sorted::mean),
            wait_median_s: of(&Sorted::median),
            wait_p95_s: of(&|all| all.quantile(0.95)),
            wait_max_s: of(&Sorted::max),
            over_1s_share: of(&|all| all.share_over(1.0).fraction()),
            utilisation: if wall_s > 0.0 {
                window_s * iterations as f64 / wall_s
            } else {
                1.0
            },
            samples_per_s: if wall_s > 0.0 { samples / wall_s } else { 0.0 },
            origin_reads: reads * scale,
            origin_bytes: bytes * scale,
        }
    }
}

/// All epochs by one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The path.
    pub path: Path,
    /// The epochs.
    pub epochs: Vec<EpochForecast>,
}

impl Forecast {
    /// All epochs together, in seconds.
    #[must_use]
    pub fn wall_s(&self) -> f64 {
        self.epochs.iter().map(|epoch| epoch.wall_s).sum()
    }
}
