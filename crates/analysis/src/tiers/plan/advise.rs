//! What to run with: look-ahead, block size and local capacity, found by forecasting.

use serde::Serialize;

use super::engine::{self, EpochPlan};
use super::staging::{Residency, Touch};
use super::{
    EpochForecast, Forecast, Path, Scenario, ScenarioError, Seeded, Service, forecast_with,
};

/// Two forecasts this near to one another are as good as each other.
const AS_GOOD: f64 = 1.01;
/// Batches of all ranks that one trial simulates at most.
const MAX_TRIAL_BATCHES: u64 = 200_000;
/// Look-aheads that are tried, in batches of a rank; longer ones follow until nothing is gained.
const LOOK_AHEADS: [u32; 10] = [0, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
/// A block may bring so many times what is asked for, at first.
const MOST_WASTE: f64 = 1.5;
/// Block sizes that are tried, in bytes, the one with the least waste first.
const BLOCKS: [f64; 5] = [16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];
/// Steps of the cache rate that are tried, in percent.
const RATE_STEP: u32 = 5;

/// The least look-ahead with which the first epoch is as good as with any.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LookAhead {
    /// Batches of each rank.
    pub batches: u32,
    /// The same in time, in seconds.
    pub seconds: f64,
    /// Bytes of one node that it takes at most.
    pub node_bytes: f64,
}

/// How much of each node's device is needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Bytes of one node with which the whole data set stays.
    pub whole_node_bytes: f64,
    /// The least cache rate, in percent, with which later epochs are as good as with all of it.
    pub least_rate: f64,
    /// Bytes of one node for that rate and the look-ahead.
    pub least_node_bytes: f64,
}

/// What to run with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Look-ahead.
    pub look_ahead: LookAhead,
    /// The largest block with which the first epoch is as good as with any, in bytes.
    pub block_bytes: f64,
    /// Bytes read over bytes asked by the first reads of an epoch, with that block.
    pub first_reads_over_asked: f64,
    /// Local capacity.
    pub capacity: Capacity,
}

/// A plan: both paths, and what to run with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Reading from the origin.
    pub direct: Forecast,
    /// Through Forebay.
    pub forebay: Forecast,
    /// What to run with.
    pub advice: Advice,
}

/// Finds look-ahead, block size and capacity for a scenario, in this order, each with those found
/// before it.
///
/// # Errors
/// [`ScenarioError`] with every rule that the scenario breaks.
pub fn advise(scenario: &Scenario) -> Result<Advice, ScenarioError> {
    scenario.check()?;
    let mut scenario = scenario.clone();
    scenario.staged.look_ahead_batches = look_ahead(&scenario);
    scenario.staged.block_bytes = block(&scenario);
    let batches = scenario.staged.look_ahead_batches;
    let node_batch = f64::from(scenario.ranks_per_node * scenario.batch) * scenario.sample_bytes;
    let ahead_bytes = f64::from(batches) * node_batch;
    let least_rate = rate(&scenario);
    let whole = whole_node_bytes(&scenario);
    Ok(Advice {
        look_ahead: LookAhead {
            batches,
            seconds: f64::from(batches) * scenario.window_s(1),
            node_bytes: ahead_bytes,
        },
        block_bytes: scenario.staged.block_bytes,
        first_reads_over_asked: waste(&scenario, scenario.staged.block_bytes),
        capacity: Capacity {
            whole_node_bytes: whole,
            least_rate,
            least_node_bytes: (whole * least_rate / 100.0 + ahead_bytes).min(whole),
        },
    })
}

/// Forecasts both paths and finds what to run with. Times come from `service`, the direct path
/// first, as two runs one after the other would meet them.
///
/// # Errors
/// [`ScenarioError`] with every rule that the scenario breaks.
pub fn plan<S: Service>(scenario: &Scenario, service: &mut S) -> Result<Plan, ScenarioError> {
    Ok(Plan {
        direct: forecast_with(scenario, Path::Direct, service)?,
        forebay: forecast_with(scenario, Path::Forebay, service)?,
        advice: advise(scenario)?,
    })
}

/// Data set over nodes, with an uneven share of 10 % and the last block of each region.
fn whole_node_bytes(scenario: &Scenario) -> f64 {
    const UNEVEN: f64 = 1.1;
    let share = scenario.dataset_bytes() / f64::from(scenario.nodes);
    let uneven = if scenario.nodes > 1 { UNEVEN } else { 1.0 };
    (share * uneven / scenario.staged.block_bytes).ceil() * scenario.staged.block_bytes
}

/// One epoch through Forebay, or the beginning of it.
fn trial(scenario: &Scenario, epoch: u32, residency: Residency) -> EpochForecast {
    let at_most = (MAX_TRIAL_BATCHES / scenario.ranks()).max(4);
    let plan = EpochPlan {
        path: Path::Forebay,
        epoch,
        residency,
        at_most,
    };
    engine::simulate(
        scenario,
        plan,
        &mut Seeded::new(scenario.origin, scenario.seed),
    )
}

fn look_ahead(scenario: &Scenario) -> u32 {
    let mut scenario = scenario.clone();
    let trials: Vec<(u32, f64)> = LOOK_AHEADS
        .into_iter()
        .map(|batches| {
            scenario.staged.look_ahead_batches = batches;
            (batches, trial(&scenario, 1, Residency::Cold).wall_s)
        })
        .collect();
    least(&trials).unwrap_or(0)
}

fn block(scenario: &Scenario) -> f64 {
    let mut scenario = scenario.clone();
    let mut trials: Vec<(f64, f64)> = BLOCKS
        .into_iter()
        .map(|bytes| {
            scenario.staged.block_bytes = bytes;
            (bytes, trial(&scenario, 1, Residency::Cold).wall_s)
        })
        .collect();
    // Fewer blocks are less to keep track of, so of those that are as good the largest is taken,
    // among those that bring not much more than is asked for.
    trials.reverse();
    let modest: Vec<(f64, f64)> = trials
        .iter()
        .copied()
        .filter(|trial| waste(&scenario, trial.0) <= MOST_WASTE)
        .collect();
    let smallest = trials.last().map(|trial| trial.0);
    least(&modest)
        .or(smallest)
        .unwrap_or(scenario.staged.block_bytes)
}

/// Bytes that the first reads of an epoch bring over those that are asked for.
fn waste(scenario: &Scenario, block_bytes: f64) -> f64 {
    let mut scenario = scenario.clone();
    scenario.staged.block_bytes = block_bytes;
    let touch = Touch::of(&scenario, Residency::Cold, 0.0);
    touch.reads * touch.bytes_each / (f64::from(scenario.batch) * scenario.sample_bytes)
}

fn rate(scenario: &Scenario) -> f64 {
    let wall =
        |percent: u32| trial(scenario, 2, Residency::Kept(f64::from(percent) / 100.0)).wall_s;
    let good = wall(100) * AS_GOOD;
    // More cache never waits longer, but for the scatter of the draws.
    let (mut low, mut high) = (0, 100 / RATE_STEP);
    while low < high {
        let middle = (low + high) / 2;
        if wall(middle * RATE_STEP) <= good {
            high = middle
        } else {
            low = middle + 1
        }
    }
    f64::from(high * RATE_STEP)
}

/// The first of the trials that is as good as the best one.
fn least<T: Copy>(trials: &[(T, f64)]) -> Option<T> {
    let best = trials
        .iter()
        .map(|trial| trial.1)
        .fold(f64::INFINITY, f64::min);
    trials
        .iter()
        .find(|trial| trial.1 <= best * AS_GOOD)
        .map(|trial| trial.0)
}
