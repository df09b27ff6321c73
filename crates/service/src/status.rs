//! How things are, as JSON.

use std::time::Instant;

use forebay_cache::{Cache, Policy, Usage};
use serde_json::{Map, Value, json};

use crate::settings::ServePlan;

/// Data sets shown one by one; the sums are over all.
const SHOWN: usize = 100;

/// The text of a status reply. `docs/METRICS.md` describes it.
pub(crate) fn status(plan: &ServePlan, cache: &Cache, started: Instant, links: usize) -> String {
    let datasets = cache.datasets();
    let usages: Vec<Usage> = datasets.iter().map(|dataset| dataset.usage()).collect();
    let sum = |part: fn(&Usage) -> u64| usages.iter().map(part).sum::<u64>();
    let metrics: Map<String, Value> = cache
        .metrics()
        .values()
        .into_iter()
        .map(|metric| (metric.metric.name.to_owned(), metric.value.into()))
        .collect();
    let shown = datasets
        .iter()
        .zip(&usages)
        .take(SHOWN)
        .map(|(dataset, usage)| {
            json!({
                "generation": format!("{:032x}", dataset.index().generation()),
                "index": dataset.index().path(),
                "samples": dataset.index().len(),
                "resident_blocks": usage.resident_blocks,
                "block_bytes": dataset.index().block_size().bytes(),
                "asked_bytes": usage.asked_bytes,
                "local_bytes": usage.local_bytes,
                "direct_bytes": usage.direct_bytes,
            })
        });
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_seconds": started.elapsed().as_secs_f64(),
        "links": links,
        "used_bytes": cache.used_bytes(),
        "asked_bytes": sum(|usage| usage.asked_bytes),
        "local_bytes": sum(|usage| usage.local_bytes),
        "direct_bytes": sum(|usage| usage.direct_bytes),
        "origin_bytes": cache.metrics().origin_bytes.get(),
        "metrics": metrics,
        "datasets": shown.collect::<Vec<_>>(),
        "plan": plan_json(plan),
    });
    status.to_string()
}

fn plan_json(plan: &ServePlan) -> Value {
    json!({
        "cache": plan.cache.folder,
        "capacity_bytes": plan.cache.capacity_bytes,
        "free_floor_bytes": plan.cache.free_floor_bytes,
        "policy": match plan.cache.policy { Policy::Pin => "pin", Policy::Lru => "lru" },
        "idle_exit_seconds": plan.idle_exit.map_or(0, |time| time.as_secs()),
        "origin_reads": plan.origin_reads,
        "max_links": plan.max_links,
        "sources": plan.sources,
    })
}
