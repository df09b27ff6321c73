//! A forecast of training: from what an origin, a loader and a job are to epoch times and stalls.
//!
//! # Contract
//! A discrete-event simulation on a clock of its own: no I/O, no wall clock, and the same scenario
//! gives the same forecast. Workers load batches, ranks take them in lock-step (each iteration ends
//! with the all-reduce, so it lasts as long as its slowest rank), and samples come from the origin
//! directly or through Forebay.
//!
//! # What it does not know
//! Contention beyond a rate and a number of slots that all share; interference of storage with
//! collectives (make the window longer); cores that workers and trainers share (state the worker's
//! time as it is beside a trainer); failures.

mod advise;
mod engine;
mod forecast;
mod origin;
mod queues;
mod scenario;
mod service;
mod staging;
#[cfg(test)]
mod tests;
pub mod text;
mod time;
mod waits;

use serde::Serialize;

pub use advise::{Advice, Capacity, LookAhead, Plan, advise, plan};
pub use forecast::{EpochForecast, Forecast};
pub use origin::{Body, Latency, Origin, Tail};
pub use scenario::{
    Device, Direct, Loader, MAX_EPOCHS, MAX_RANKS, Scenario, ScenarioError, Sharing, Staged,
};
pub use service::{Drawn, Seeded, Service};
pub use waits::{StatedWaits, WaitsError};

use engine::EpochPlan;
use staging::Residency;

/// Batches of all ranks that one epoch simulates at most; of a longer one a part is simulated.
const MAX_BATCHES: u64 = 3_000_000;

/// How samples are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Path {
    /// From the origin.
    Direct,
    /// Through Forebay.
    Forebay,
}

/// Forecasts every epoch by one path, with the origin's own distributions.
///
/// # Errors
/// [`ScenarioError`] with every rule that the scenario breaks.
pub fn forecast(scenario: &Scenario, path: Path) -> Result<Forecast, ScenarioError> {
    forecast_with(
        scenario,
        path,
        &mut Seeded::new(scenario.origin, scenario.seed),
    )
}

/// Forecasts every epoch by one path, with times from `service`.
///
/// # Errors
/// [`ScenarioError`] with every rule that the scenario breaks.
pub fn forecast_with<S: Service>(
    scenario: &Scenario,
    path: Path,
    service: &mut S,
) -> Result<Forecast, ScenarioError> {
    scenario.check()?;
    let at_most = (MAX_BATCHES / scenario.ranks()).max(1);
    let epoch = |epoch: u32| {
        let residency = if epoch == 1 {
            Residency::Cold
        } else {
            Residency::Kept(scenario.staged.kept)
        };
        engine::simulate(
            scenario,
            EpochPlan {
                path,
                epoch,
                residency,
                at_most,
            },
            service,
        )
    };
    Ok(Forecast {
        path,
        epochs: (1..=scenario.epochs).map(epoch).collect(),
    })
}
