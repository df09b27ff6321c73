//! `forebay tiers report`

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use forebay_analysis::report::tiers::{TierReportOptions, render};
use forebay_analysis::tiers::Summary;
use forebay_analysis::tiers::whatif::Axis;

use super::input::Input;
use crate::Failure;
use crate::ls::written;
use crate::output;

/// Draw the figures of a study of tiers on one self-contained HTML page
#[derive(Args)]
#[command(
    after_help = "Figures: execution and I/O time against cache rate, the slowest process by \
                  class, what gains would give, which gains meet a goal. docs/TIERS.md says more."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Write the page here
    #[arg(short, long)]
    output: PathBuf,
    /// Title of the page
    #[arg(long, default_value = "Storage tiers")]
    title: String,
    /// Epoch of the figures about one epoch [default: 2, or the first there is]
    #[arg(long)]
    epoch: Option<u32>,
    /// Gain in throughput of a class, in percent, as in `GFS-META=50`; may be repeated [default:
    /// 50 in each of the two classes with the most time]
    #[arg(long, value_name = "CLASS=PERCENT", value_parser = super::whatif::gain)]
    gain: Vec<(String, f64)>,
    /// Seconds that the I/O of an epoch may take [default: three quarters of the best measured]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    goal: Option<f64>,
    /// The two classes of the frontier [default: those with the most time]
    #[arg(long, value_name = "CLASS,CLASS", value_delimiter = ',', num_args = 1)]
    frontier: Vec<String>,
    /// Distance of the gains that the frontier tries, in percent
    #[arg(long, default_value_t = Axis::default().step)]
    step: f64,
    /// The greatest gain that the frontier tries, in percent
    #[arg(long, default_value_t = Axis::default().to)]
    to: f64,
    /// Print the slowest process of each epoch as JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the slowest process of each epoch as CSV, a line for each class
    #[arg(long)]
    csv: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if !matches!(arguments.frontier.len(), 0 | 2) {
        return Err(Failure::usage("a frontier is drawn for two classes")
            .hint("`forebay tiers whatif --frontier` searches more"));
    }
    output::must_not_replace(&arguments.output, &arguments.input.files)?;
    let found = arguments.input.read()?;
    let options = TierReportOptions {
        title: arguments.title.clone(),
        epoch: arguments.epoch,
        gains: arguments.gain.clone(),
        goal: arguments.goal,
        frontier: arguments.frontier.clone(),
        axis: Axis {
            step: arguments.step,
            to: arguments.to,
        },
        not_shown: Vec::new(),
    };
    let page = render(&found.study, &options)?;
    output::write_whole(&arguments.output, page.as_bytes())?;
    eprintln!("wrote `{}`", arguments.output.display());
    let summary = Summary::new(&found.study);
    let text = if arguments.json {
        serde_json::to_string_pretty(&summary)? + "\n"
    } else if arguments.csv {
        summary.csv()
    } else {
        return Ok(());
    };
    written(io::stdout().lock().write_all(text.as_bytes()))
}
