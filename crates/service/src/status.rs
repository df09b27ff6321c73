//! How things are, as JSON.

use std::time::Instant;

use forebay_cache::{Cache, Usage};
use forebay_dataset::Member;
use serde_json::{Map, Value, json};

use std::sync::atomic::{AtomicU64, Ordering};

use crate::peers::Peers;
use crate::settings::{PeersPlan, ServePlan};
use crate::stager::StagerStatus;

/// Data sets shown one by one; the sums are over all.
const SHOWN: usize = 100;

/// The text of a status reply. `docs/METRICS.md` describes it.
pub(crate) fn status(
    plan: &ServePlan,
    peers: Option<&Peers>,
    cache: &Cache,
    stager: &StagerStatus,
    started: Instant,
    links: usize,
    published: Value,
) -> String {
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
        "stager": stager_json(stager),
        "members": peers.map(Peers::status),
        "fabric": peers.map(Peers::fabric_status),
        "published": published,
        "datasets": shown.collect::<Vec<_>>(),
        "plan": plan_json(plan),
    });
    status.to_string()
}

fn stager_json(stager: &StagerStatus) -> Value {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    json!({
        "plans": get(&stager.plans),
        "ahead_samples": get(&stager.ahead_samples),
        "ahead_bytes": get(&stager.ahead_bytes),
        "ahead_iterations": Some(get(&stager.ahead_iterations)).filter(|ahead| *ahead < u64::MAX),
        "in_flight_reads": get(&stager.in_flight_reads),
        "in_flight_bytes": get(&stager.in_flight_bytes),
        "flight_limit": get(&stager.flight_limit),
        "staged_bytes": get(&stager.staged_bytes),
        "yields": get(&stager.yields) > 0,
    })
}

fn plan_json(plan: &ServePlan) -> Value {
    let peers = plan.peers.as_ref();
    json!({
        "cache": plan.cache.folder,
        "capacity_bytes": plan.cache.capacity_bytes,
        "free_floor_bytes": plan.cache.free_floor_bytes,
        "policy": plan.cache.policy.name(),
        "idle_exit_seconds": plan.idle_exit.map_or(0, |time| time.as_secs()),
        "origin_reads": plan.origin_reads,
        "max_links": plan.max_links,
        "hedged_reads": plan.hedged_reads,
        "look_ahead_bytes": plan.look_ahead_bytes,
        "look_ahead_seconds": plan.look_ahead.as_secs(),
        "look_ahead_rate": plan.look_ahead_rate,
        "members": peers.map(|peers| &peers.members).map(|members| {
            let name = |member: &Member| match member.weight.get() {
                1 => member.name.clone(),
                weight => format!("{}*{weight}", member.name),
            };
            members.iter().map(name).collect::<Vec<_>>().join(",")
        }),
        "listen": peers.map(PeersPlan::name),
        "secret_file": peers.and_then(|peers| peers.secret_file.as_deref()),
        "exports": peers.map(|peers| &peers.exports),
        "dscp": plan.dscp,
        "transport": peers.map(|peers| peers.transport.to_string()),
        "tclass": peers.and_then(|peers| peers.transport.label()),
        "encrypt_links": peers.map(|peers| peers.socket.encrypts),
        "names": peers.and_then(|peers| peers.names.as_deref()),
        "peer_silence_ms": peers.map(|peers| peers.silence.as_millis() as u64),
        "sources": plan.sources,
    })
}
