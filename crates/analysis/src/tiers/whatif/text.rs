//! An answer as plain text, ready to print.

use super::{Answer, Estimate, Frontier, LeastGain, Sensitivity};
use crate::table::table;
use crate::text;

/// Rows of a frontier that are shown; the others are in the JSON.
const MAX_POINTS_SHOWN: usize = 40;

/// The answer as tables and sentences.
#[must_use]
pub fn answer(answer: &Answer) -> String {
    let mut out = rates(answer);
    out.push_str(&best("measured", &answer.best_measured));
    if !answer.gains.is_empty() {
        let gains: Vec<String> = answer
            .gains
            .iter()
            .map(|(class, gain)| format!("{class} +{gain} %"))
            .collect();
        out.push_str(&best(
            &format!("with {}", gains.join(", ")),
            &answer.best_improved,
        ));
        out.push_str(&format!(
            "change of the best time: {:.1} %\n",
            answer.change_percent
        ));
    }
    out.push_str(&sensitivity(&answer.sensitivity));
    for one in &answer.least {
        out.push_str(&format!("{}: {}\n", one.class, least(&one.gain)));
    }
    if let Some(found) = &answer.frontier {
        out.push_str(&frontier(found));
    }
    out
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or("-".into(), |rate| format!("{rate} %"))
}

fn rates(answer: &Answer) -> String {
    let improved = !answer.gains.is_empty();
    let mut heads = vec!["cache rate", "I/O time"];
    let shown = if improved {
        &answer.improved
    } else {
        &answer.measured
    };
    if improved {
        heads.push("with gains");
    }
    heads.push("slowest process");
    let classes: Vec<String> = answer.classes.iter().map(ToString::to_string).collect();
    heads.extend(classes.iter().map(String::as_str));
    let row = |(before, after): (&Estimate, &Estimate)| {
        let mut cells = vec![rate(before.cache_rate), text::duration(before.seconds)];
        if improved {
            cells.push(text::duration(after.seconds));
        }
        // The epoch that took longest speaks for the case.
        let epoch = after
            .slowest
            .iter()
            .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        if let Some(epoch) = epoch {
            cells.push(text::clip(&text::printable(&epoch.process), 40));
            cells.extend(epoch.stack.iter().map(|seconds| text::duration(*seconds)));
        }
        cells
    };
    let rows: Vec<Vec<String>> = answer.measured.iter().zip(shown).map(row).collect();
    table(&heads, &rows)
}

fn best(what: &str, best: &Estimate) -> String {
    let time = text::duration(best.seconds);
    match best.cache_rate {
        Some(rate) => format!("{what}: best cache rate {rate} %, {time}\n"),
        None => format!("{what}: {time}\n"),
    }
}

fn sensitivity(found: &Sensitivity) -> String {
    let n = format!(
        "{} processes, {} epochs",
        text::count(found.processes),
        found.epochs
    );
    let mut out = format!(
        "drawn anew {} times ({n}): best time {} to {} in {} % of them",
        text::count(found.resamples),
        text::duration(found.low_seconds),
        text::duration(found.high_seconds),
        found.confidence * 100.0
    );
    if found.best_rates.iter().any(|one| one.cache_rate.is_some()) {
        let rates: Vec<String> = found
            .best_rates
            .iter()
            .take(4)
            .map(|one| format!("{} in {:.0} %", rate(one.cache_rate), one.share * 100.0))
            .collect();
        out.push_str(&format!("; best rate {}", rates.join(", ")));
    }
    if let Some(share) = found.goal_share {
        out.push_str(&format!("; goal met in {:.0} %", share * 100.0));
    }
    out + "\n"
}

fn least(gain: &LeastGain) -> String {
    let at = |found: &Option<f64>| match found {
        Some(rate) => format!(" at cache rate {rate} %"),
        None => String::new(),
    };
    match gain {
        LeastGain::Met {
            cache_rate,
            seconds,
        } => {
            format!(
                "the goal is met without a gain{}: {}",
                at(cache_rate),
                text::duration(*seconds)
            )
        }
        LeastGain::Gain {
            percent,
            cache_rate,
        } => {
            format!(
                "+{} % meets the goal{}",
                text::three_digits(*percent),
                at(cache_rate)
            )
        }
        LeastGain::Unreachable {
            limit_seconds,
            cache_rate,
        } => format!(
            "unreachable: even without any time in it {} would remain{}",
            text::duration(*limit_seconds),
            at(cache_rate)
        ),
    }
}

fn frontier(found: &Frontier) -> String {
    let goal = text::duration(found.goal_seconds);
    if found.points.is_empty() {
        return format!(
            "{}: unreachable with gains up to {} %: endless ones would leave {}, the goal is {goal}\n",
            found.classes.join(", "),
            found.axis.to,
            text::duration(found.limit_seconds)
        );
    }
    let mut heads: Vec<&str> = found.classes.iter().map(String::as_str).collect();
    heads.push("least cache rate");
    let row = |point: &super::FrontierPoint| {
        let mut cells: Vec<String> = point
            .gains
            .iter()
            .map(|gain| format!("+{} %", text::three_digits(*gain)))
            .collect();
        cells.push(rate(point.cache_rate));
        cells
    };
    let rows: Vec<Vec<String>> = found
        .points
        .iter()
        .take(MAX_POINTS_SHOWN)
        .map(row)
        .collect();
    let left = found.points.len() - rows.len();
    let mut out = format!("least gains together for {goal}:\n{}", table(&heads, &rows));
    if left > 0 {
        out.push_str(&format!("and {} more: see --json\n", text::count(left)));
    }
    out
}
