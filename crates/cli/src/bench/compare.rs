//! `forebay bench compare`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_analysis::stats::BootstrapPlan;
use forebay_analysis::suite::{CompareError, CompareOptions, Comparison, Metric, Verdict, compare};
use forebay_analysis::table;

use super::runs;
use crate::Failure;

/// Say for each operation whether it became slower.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 no regression, 1 regression, 2 it could not be judged, 3 \
                  inconclusive (with --fail-inconclusive). docs/VERDICTS.md describes the statistics."
)]
pub(crate) struct Arguments {
    /// What was before: the folder of a run, or one that holds runs
    base: PathBuf,
    /// What is now, likewise
    candidate: PathBuf,
    /// What an iteration is reduced to: max_rank, mean, p50, p90, p99 or max
    #[arg(long, default_value_t)]
    metric: Metric,
    /// The least change that matters, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    least_effect: f64,
    /// Chance of a false alarm over all operations together
    #[arg(long, default_value_t = CompareOptions::default().alpha)]
    alpha: f64,
    /// Runs, or iterations of one run, that each side must have
    #[arg(long, value_name = "N", default_value_t = CompareOptions::default().least_n)]
    least_n: usize,
    /// Only these operations; may be repeated
    #[arg(long, value_name = "NAME")]
    op: Vec<String>,
    /// How often both sides are drawn anew for the interval
    #[arg(long, default_value_t = CompareOptions::default().plan.resamples)]
    resamples: usize,
    /// Seed of the draws
    #[arg(long, default_value_t = CompareOptions::default().plan.seed)]
    seed: u64,
    /// Compare what is not alike, and leave failed runs out
    #[arg(long)]
    force: bool,
    /// Exit with 3 where more runs are needed to tell
    #[arg(long)]
    fail_inconclusive: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // A script must tell "slower" from "cannot say": every failure here is a 2.
    let found = judged(arguments).map_err(Failure::into_usage)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&found)?);
    } else {
        print!("{}", table::comparison(&found));
    }
    Ok(match found.verdict {
        Verdict::Regression => ExitCode::from(1),
        Verdict::Inconclusive if arguments.fail_inconclusive => ExitCode::from(3),
        _ => ExitCode::SUCCESS,
    })
}

fn judged(arguments: &Arguments) -> Result<Comparison, Failure> {
    let options = CompareOptions {
        metric: arguments.metric,
        alpha: arguments.alpha,
        least_effect: arguments.least_effect / 100.0,
        least_n: arguments.least_n,
        plan: BootstrapPlan {
            resamples: arguments.resamples,
            seed: arguments.seed,
            ..CompareOptions::default().plan
        },
        ops: arguments.op.clone(),
        force: arguments.force,
    };
    let base = runs::many(&arguments.base, Some(arguments.metric))?;
    let candidate = runs::many(&arguments.candidate, Some(arguments.metric))?;
    compare(&base, &candidate, &options).map_err(hinted)
}

/// The failure, with a way out where there is one.
fn hinted(error: CompareError) -> Failure {
    let hint = match &error {
        CompareError::Unlike { .. } => Some("compare them all the same with --force"),
        CompareError::Failed { .. } => Some("leave failed runs out with --force"),
        CompareError::TooFew { .. } => {
            Some("run the benchmark more often; --iterations counts where there is one run a side")
        }
        _ => None,
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
