//! A forecast beside the run that it forecasts.

use std::fs::File;
use std::io::BufReader;

use forebay_analysis::stats::Sorted;
use forebay_analysis::tiers::plan::{self, Forecast, Path, Scenario};
use forebay_analysis::{Run, Series};
use serde::Serialize;

use super::origin::Replay;
use crate::Failure;

pub(super) fn read(path: &std::path::Path) -> Result<Run, Failure> {
    let shown = path.display();
    let file = File::open(path)
        .map_err(|error| Failure::new(format!("cannot open records `{shown}`: {error}")))?;
    Run::read(BufReader::new(file))
        .map_err(|error| Failure::from(error).of(&format!("cannot use records `{shown}`")))
}

/// What one path of a run says of its trainer.
pub(super) struct Measured {
    /// Mean compute time of an iteration, for each epoch from the first to the last, in seconds.
    pub(super) windows_s: Vec<f64>,
    /// The usual wait: the least of the epochs' medians, in seconds.
    pub(super) handover_s: f64,
}

impl Measured {
    pub(super) fn of_first_path(run: &Run) -> Option<Self> {
        run.paths().first().and_then(|path| Self::of(run, path))
    }

    fn of(run: &Run, path: &str) -> Option<Self> {
        let (mut windows_s, mut handover_s) = (Vec::new(), f64::INFINITY);
        for series in run.series().iter().filter(|series| series.path() == path) {
            let of = |read: &dyn Fn(&forebay_analysis::record::Timing) -> f64| {
                Sorted::new(series.timings().iter().map(read)).ok()
            };
            let window = of(&|timing| timing.compute_s())?;
            let wait = of(&|timing| timing.wait_s)?;
            windows_s.push(window.mean());
            handover_s = wait.median().min(handover_s);
        }
        (!windows_s.is_empty()).then_some(Self {
            windows_s,
            handover_s,
        })
    }
}

/// Forecasts that a run is compared with.
const TRIALS: usize = 9;

/// One epoch as it was and as it was forecast, or all of a path.
#[derive(Serialize)]
pub(super) struct Compared {
    path: String,
    /// None: all epochs together.
    epoch: Option<u32>,
    iterations: usize,
    measured_wall_s: f64,
    /// Mean of the forecasts.
    forecast_wall_s: f64,
    least_forecast_s: f64,
    most_forecast_s: f64,
    measured_stalled_share: f64,
    forecast_stalled_share: f64,
}

/// Compares the paths `direct` and `forebay` of a run, in the order in which they were measured.
pub(super) fn epochs(
    run: &Run,
    scenario: &Scenario,
    replay: Option<Replay>,
) -> Result<Vec<Compared>, Failure> {
    // Two runs on the same draws differ, too: which slow reads overlap hangs on small times.
    let mut replays = vec![replay; TRIALS];
    let mut compared = Vec::new();
    for name in run.paths() {
        let path = match name.as_str() {
            "direct" => Path::Direct,
            "forebay" => Path::Forebay,
            _ => {
                eprintln!("note: path `{name}` was not compared: only `direct` and `forebay` are");
                continue;
            }
        };
        let Some(measured) = Measured::of(run, name) else {
            continue;
        };
        let mut scenario = scenario.clone();
        scenario.epochs = measured.windows_s.len() as u32;
        scenario.windows_s = measured.windows_s;
        scenario.loader.handover_s = measured.handover_s;
        let mut forecasts = Vec::new();
        for (trial, replay) in replays.iter_mut().enumerate() {
            forecasts.push(forecast(&scenario, path, trial, replay.as_mut())?);
        }
        compared.extend(pairs(run, name, &forecasts)?);
    }
    Ok(compared)
}

/// One of several forecasts: the emulator's draws with workers a little slower or faster, or other
/// draws of the same origin.
fn forecast(
    scenario: &Scenario,
    path: Path,
    trial: usize,
    replay: Option<&mut Replay>,
) -> Result<Forecast, Failure> {
    let mut scenario = scenario.clone();
    Ok(match replay {
        Some(replay) => {
            let factor = 0.6 + 0.8 * trial as f64 / (TRIALS - 1) as f64;
            scenario.direct.cpu_s *= factor;
            scenario.staged.cpu_s *= factor;
            plan::forecast_with(&scenario, path, replay)?
        }
        None => {
            scenario.seed = scenario.seed.wrapping_add(trial as u64);
            plan::forecast(&scenario, path)?
        }
    })
}

fn pairs(run: &Run, name: &str, forecasts: &[Forecast]) -> Result<Vec<Compared>, Failure> {
    let series = run.series().iter().filter(|series| series.path() == name);
    let mut pairs = Vec::new();
    for (place, series) in series.enumerate() {
        let epochs: Vec<_> = forecasts
            .iter()
            .map(|forecast| &forecast.epochs[place])
            .collect();
        pairs.push(pair(series, &epochs)?);
    }
    let sum = |of: &dyn Fn(&Compared) -> f64| pairs.iter().map(of).sum::<f64>();
    let mean = |of: &dyn Fn(&Compared) -> f64| {
        sum(&|one| of(one) * one.iterations as f64) / sum(&|one| one.iterations as f64)
    };
    let whole = Compared {
        path: name.to_owned(),
        epoch: None,
        iterations: pairs.iter().map(|one| one.iterations).sum(),
        measured_wall_s: sum(&|one| one.measured_wall_s),
        forecast_wall_s: sum(&|one| one.forecast_wall_s),
        least_forecast_s: wall(forecasts, f64::min),
        most_forecast_s: wall(forecasts, f64::max),
        measured_stalled_share: mean(&|one| one.measured_stalled_share),
        forecast_stalled_share: mean(&|one| one.forecast_stalled_share),
    };
    pairs.push(whole);
    Ok(pairs)
}

fn wall(forecasts: &[Forecast], pick: fn(f64, f64) -> f64) -> f64 {
    forecasts
        .iter()
        .map(Forecast::wall_s)
        .reduce(pick)
        .unwrap_or(0.0)
}

fn pair(series: &Series, epochs: &[&plan::EpochForecast]) -> Result<Compared, Failure> {
    let first = epochs[0];
    if series.iterations() as u64 != first.iterations {
        let message = format!(
            "the run has {} iterations in epoch {} of `{}`, the plan has {}",
            series.iterations(),
            series.epoch(),
            series.path(),
            first.iterations
        );
        let hint = "state --samples, --batch, --nodes and --gpus as they were in the run";
        return Err(Failure::usage(message).hint(hint));
    }
    let mean = |of: &dyn Fn(&plan::EpochForecast) -> f64| {
        epochs.iter().map(|epoch| of(epoch)).sum::<f64>() / epochs.len() as f64
    };
    let walls = || epochs.iter().map(|epoch| epoch.wall_s);
    // As the forecast counts: the slowest rank, over the mean window.
    let stalled = Sorted::new(slowest(series))?
        .share_over(first.window_s)
        .fraction();
    Ok(Compared {
        path: series.path().to_owned(),
        epoch: Some(series.epoch()),
        iterations: series.iterations(),
        measured_wall_s: series.wall_s(),
        forecast_wall_s: mean(&|epoch| epoch.wall_s),
        least_forecast_s: walls().fold(f64::INFINITY, f64::min),
        most_forecast_s: walls().fold(0.0, f64::max),
        measured_stalled_share: stalled,
        forecast_stalled_share: mean(&|epoch| epoch.stalled_share),
    })
}

/// The longest wait of each iteration over its ranks, in seconds.
pub(super) fn slowest(series: &Series) -> Vec<f64> {
    let same = series.timings().chunk_by(|a, b| a.iteration == b.iteration);
    same.map(|ranks| ranks.iter().map(|timing| timing.wait_s).fold(0.0, f64::max))
        .collect()
}

pub(super) fn text(compared: &[Compared]) -> String {
    let line = |one: &Compared| {
        let epoch = one
            .epoch
            .map_or("all epochs".into(), |epoch| format!("epoch {epoch}"));
        format!(
            "{} {epoch}: measured {:.2} s, forecast {:.2} s ({:+.1} %; {:.2} to {:.2} s in {TRIALS} \
             draws); stalled {:.1} % and {:.1} %\n",
            one.path,
            one.measured_wall_s,
            one.forecast_wall_s,
            100.0 * (one.forecast_wall_s / one.measured_wall_s - 1.0),
            one.least_forecast_s,
            one.most_forecast_s,
            100.0 * one.measured_stalled_share,
            100.0 * one.forecast_stalled_share
        )
    };
    let lines: String = compared.iter().map(line).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("beside the run:\n{lines}")
    }
}
