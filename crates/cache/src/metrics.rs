//! What the cache counts. One table: the status command and `docs/METRICS.md` are held to it.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Stable name; bytes and blocks say so.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
}

/// A counter and its value.
#[derive(Clone, Copy, Debug)]
pub struct MetricValue {
    /// Which.
    pub metric: Metric,
    /// Since the daemon started.
    pub value: u64,
}

macro_rules! metrics {
    ($($field:ident: $help:literal,)*) => {
        /// The counters of one cache.
        #[derive(Debug, Default)]
        pub struct Metrics { $(
            #[doc = $help]
            pub $field: Counter,
        )* }

        /// Every counter, once.
        pub const METRICS: &[Metric] = &[$(Metric { name: stringify!($field), help: $help },)*];

        impl Metrics {
            /// The present values, in the order of [`METRICS`].
            pub fn values(&self) -> Vec<MetricValue> {
                let values = [$(self.$field.get(),)*];
                METRICS.iter().zip(values).map(|(metric, value)| MetricValue { metric: *metric, value }).collect()
            }
        }
    };
}

metrics! {
    origin_reads: "reads of the origin by the daemon",
    origin_bytes: "bytes read from the origin by the daemon",
    filled_blocks: "blocks read from the origin and made resident",
    recovered_blocks: "blocks of an unclean stop that matched their checksum",
    corrupt_blocks: "blocks on the device that failed their checksum and were dropped",
    evicted_blocks: "blocks evicted to make room",
    evicted_datasets: "unused data sets removed to make room",
    hedged_reads: "reads of the origin begun once more because the first took too long",
    refused_blocks: "blocks left to read through because there was no room",
    peer_blocks: "blocks that another node sent and that were made resident",
    peer_corrupt_blocks: "blocks that another node sent with other bytes than those of their checksum, and that were dropped",
    lent_blocks: "resident blocks sent to other nodes",
    followed_fills: "waits for a fill that another request had begun",
    device_errors: "failed writes or reads of the cache device",
    origin_errors: "failed reads of the origin",
}

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Reads.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
