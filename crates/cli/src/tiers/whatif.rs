//! `forebay tiers whatif`

use clap::Args;
use forebay_analysis::stats::BootstrapPlan;
use forebay_analysis::tiers::whatif::{Answer, Axis, Measured, Question, text};
use forebay_analysis::tiers::{Setup, Study};
use serde_json::json;

use super::input::Input;
use crate::Failure;

/// Say what faster classes of I/O would give, and which gains reach a goal.
#[derive(Args)]
#[command(
    after_help = "A gain of N % divides the time of its class by 1 + N/100 in every process; the \
                  slowest process is found after that. docs/TIERS.md describes the method."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Only the setup of this name [default: each]
    #[arg(long)]
    setup: Option<String>,
    /// Only this epoch [default: the mean over all]
    #[arg(long)]
    epoch: Option<u32>,
    /// Only this cache rate, in percent
    #[arg(long)]
    rate: Option<f64>,
    /// Gain in throughput of a class, in percent, as in `GFS-META=50`; may be repeated
    #[arg(long, value_name = "CLASS=PERCENT", value_parser = gain)]
    gain: Vec<(String, f64)>,
    /// Seconds that the I/O of an epoch may take
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    goal: Option<f64>,
    /// Find the least gain in this class that meets the goal; may be repeated [default: each class]
    #[arg(long, value_name = "CLASS")]
    least: Vec<String>,
    /// Find the gains of two or more classes that meet the goal together
    #[arg(long, value_name = "CLASS,CLASS", value_delimiter = ',')]
    frontier: Vec<String>,
    /// Distance of the gains that the frontier tries, in percent
    #[arg(long, default_value_t = Axis::default().step)]
    step: f64,
    /// The greatest gain that the frontier tries, in percent
    #[arg(long, default_value_t = Axis::default().to)]
    to: f64,
    /// How often processes and epochs are drawn anew
    #[arg(long, default_value_t = BootstrapPlan::default().resamples)]
    resamples: usize,
    /// Seed of the draws
    #[arg(long, default_value_t = BootstrapPlan::default().seed)]
    seed: u64,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn gain(text: &str) -> Result<(String, f64), String> {
    let (class, percent) = text.split_once('=').ok_or("write it as CLASS=PERCENT")?;
    let percent = percent.trim_end_matches('%').trim();
    let percent = percent
        .parse()
        .map_err(|_| format!("`{percent}` is no number"))?;
    Ok((class.trim().to_owned(), percent))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let study = arguments.input.read()?.study;
    let question = question(arguments);
    let mut answers = Vec::new();
    for setup in chosen(&study, arguments)? {
        let answer = ask(setup, arguments, &question).map_err(|failure| named(setup, failure))?;
        answers.push((setup.name.as_str(), answer));
    }
    if arguments.json {
        let setups: Vec<_> = answers
            .iter()
            .map(|(setup, answer)| json!({"setup": setup, "answer": answer}))
            .collect();
        let all = json!({"epoch": arguments.epoch, "setups": setups});
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for (place, (setup, answer)) in answers.iter().enumerate() {
        print!(
            "{}{}",
            if place > 0 { "\n" } else { "" },
            headed(setup, answer)
        );
    }
    Ok(())
}

fn question(arguments: &Arguments) -> Question {
    Question {
        gains: arguments.gain.clone(),
        goal_seconds: arguments.goal,
        least: arguments.least.clone(),
        frontier: arguments.frontier.clone(),
        axis: Axis {
            step: arguments.step,
            to: arguments.to,
        },
        plan: BootstrapPlan {
            resamples: arguments.resamples,
            seed: arguments.seed,
            ..BootstrapPlan::default()
        },
    }
}

fn chosen<'a>(study: &'a Study, arguments: &Arguments) -> Result<Vec<&'a Setup>, Failure> {
    let Some(name) = &arguments.setup else {
        return Ok(study.setups.iter().collect());
    };
    let found: Vec<&Setup> = study
        .setups
        .iter()
        .filter(|setup| setup.name == *name)
        .collect();
    if found.is_empty() {
        let names: Vec<String> = study
            .setups
            .iter()
            .map(|setup| format!("`{}`", setup.name))
            .collect();
        let message = format!("no setup `{name}` in the records");
        return Err(Failure::usage(message).hint(format!("it has {}", names.join(", "))));
    }
    Ok(found)
}

fn ask(setup: &Setup, arguments: &Arguments, question: &Question) -> Result<Answer, Failure> {
    let mut measured = Measured::of_setup(setup)?;
    if let Some(rate) = arguments.rate {
        measured = measured.at_rate(rate)?;
    }
    if let Some(epoch) = arguments.epoch {
        measured = measured.at_epoch(epoch)?;
    }
    Ok(measured.ask(question)?)
}

fn named(setup: &Setup, failure: Failure) -> Failure {
    if setup.name.is_empty() {
        failure
    } else {
        failure.of(&format!("setup `{}`", setup.name))
    }
}

fn headed(setup: &str, answer: &Answer) -> String {
    let name = if setup.is_empty() {
        String::new()
    } else {
        format!("setup `{setup}`\n")
    };
    name + &text::answer(answer)
}
