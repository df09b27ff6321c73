//! A plan as plain text, ready to print.

use super::{Advice, EpochForecast, Forecast, Path, Plan, Scenario};
use crate::table::table;
use crate::text;

/// The plan as a table and sentences.
#[must_use]
pub fn plan(scenario: &Scenario, plan: &Plan) -> String {
    let heads = [
        "path",
        "epoch",
        "time",
        "stalled",
        "stalls",
        "wait mean",
        "median",
        "p95",
        "max",
        "utilisation",
        "samples/s",
        "origin",
    ];
    let mut rows = Vec::new();
    for forecast in [&plan.direct, &plan.forebay] {
        rows.extend(forecast.epochs.iter().map(|epoch| row(forecast, epoch)));
    }
    let ranks = text::count(scenario.ranks() as usize);
    let mut out = format!(
        "{ranks} ranks on {} nodes, {} iterations an epoch, data set {}\n",
        text::count(scenario.nodes as usize),
        text::count(scenario.iterations() as usize),
        text::bytes(scenario.dataset_bytes() as u64)
    );
    out.push_str(&table(&heads, &rows));
    let first = plan
        .direct
        .epochs
        .first()
        .into_iter()
        .chain(plan.forebay.epochs.first());
    if let Some(part) = first.min_by_key(|epoch| epoch.simulated_iterations)
        && part.simulated_iterations < part.iterations
    {
        let (of, all) = (part.simulated_iterations as usize, part.iterations as usize);
        let (of, all) = (text::count(of), text::count(all));
        out.push_str(&format!(
            "{of} of {all} iterations were simulated, times are scaled\n"
        ));
    }
    out + &advice(&plan.advice)
}

fn row(forecast: &Forecast, epoch: &EpochForecast) -> Vec<String> {
    let path = match forecast.path {
        Path::Direct => "direct",
        Path::Forebay => "forebay",
    };
    vec![
        path.into(),
        epoch.epoch.to_string(),
        text::duration(epoch.wall_s),
        format!("{:.1} %", 100.0 * epoch.stalled_share),
        text::count(epoch.stalls.round() as usize),
        text::duration(epoch.wait_mean_s),
        text::duration(epoch.wait_median_s),
        text::duration(epoch.wait_p95_s),
        text::duration(epoch.wait_max_s),
        format!("{:.1} %", 100.0 * epoch.utilisation),
        text::three_digits(epoch.samples_per_s),
        text::bytes(epoch.origin_bytes as u64),
    ]
}

fn advice(advice: &Advice) -> String {
    let bytes = |bytes: f64| text::bytes(bytes as u64);
    let (ahead, capacity) = (&advice.look_ahead, &advice.capacity);
    let look_ahead = match ahead.batches {
        0 => "look-ahead: none needed, reading on demand is as good".to_owned(),
        batches => format!(
            "look-ahead: {} batches of each rank ({}, {} on a node)",
            text::count(batches as usize),
            text::duration(ahead.seconds),
            bytes(ahead.node_bytes)
        ),
    };
    format!(
        "{look_ahead}\nblock: {} (first reads bring {:.2}x of what is asked)\n\
         local capacity: {} on each node hold the whole data set; from {} % of it on ({}) later \
         epochs are as good\n",
        bytes(advice.block_bytes),
        advice.first_reads_over_asked,
        bytes(capacity.whole_node_bytes),
        capacity.least_rate,
        bytes(capacity.least_node_bytes)
    )
}
