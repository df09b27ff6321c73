//! The job that a plan is for.

use super::origin::{Latency, Origin, Tail};

/// The most ranks of one job.
pub const MAX_RANKS: u64 = 65_536;
/// The most epochs of one forecast.
pub const MAX_EPOCHS: u32 = 100;

/// How a loader's workers share the samples of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each worker loads whole batches of its own, as PyTorch's `DataLoader` does.
    WholeBatch,
    /// All workers load parts of one batch, and the next one starts while this one is computed.
    SplitBatch,
}

/// The loader of each rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loader {
    /// Worker processes.
    pub workers: u32,
    /// Batches that each worker may be ahead, where it loads whole ones.
    pub prefetch: u32,
    /// How samples are shared.
    pub sharing: Sharing,
    /// Time from a loaded batch to the trainer that takes it, in seconds; part of every wait.
    pub handover_s: f64,
}

/// How samples are read from the origin without Forebay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Direct {
    /// Reads of a sample, one after the other.
    pub reads_per_sample: f64,
    /// Metadata operations of a sample: 0 where files stay open.
    pub metadata_per_sample: f64,
    /// Time of a worker for a sample beside the reads, in seconds: decoding, copying.
    pub cpu_s: f64,
}

/// A device or network that serves bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Seconds of one read, without its bytes.
    pub latency_s: f64,
    /// Bytes a second of one node.
    pub bytes_per_s: f64,
}

/// How Forebay brings samples near.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staged {
    /// Separate ranges of a sample: each is a read of the origin at first touch.
    pub ranges_per_sample: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
    /// Batches of each rank that are staged ahead of need; 0: on demand only.
    pub look_ahead_batches: u32,
    /// Reads of the origin that one node has in progress, at most.
    pub in_flight: u32,
    /// Late reads that may be begun once more for a batch that waits; 0: none.
    pub hedged_reads: u32,
    /// Share of the data set that stays on the nodes after its first touch, from 0 to 1.
    pub kept: f64,
    /// Time of a worker for a sample beside the reads, in seconds.
    pub cpu_s: f64,
    /// Each node's own device.
    pub local: Device,
    /// The network to other owners.
    pub peer: Device,
}

/// The job.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The origin.
    pub origin: Origin,
    /// Nodes.
    pub nodes: u32,
    /// Ranks (GPUs) of a node.
    pub ranks_per_node: u32,
    /// Samples of the data set.
    pub samples: u64,
    /// Mean bytes of a sample.
    pub sample_bytes: f64,
    /// Samples of a batch of one rank.
    pub batch: u32,
    /// Time that one iteration computes, in seconds, all-reduce included: one for each epoch; the
    /// last one stands for those after it.
    pub windows_s: Vec<f64>,
    /// Epochs.
    pub epochs: u32,
    /// The loader.
    pub loader: Loader,
    /// Without Forebay.
    pub direct: Direct,
    /// With Forebay.
    pub staged: Staged,
    /// Every draw follows from it.
    pub seed: u64,
}

/// Every rule that a scenario breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan's input breaks {} rule(s):{}", .0.len(), .0.iter().map(|rule| format!("\n  {rule}")).collect::<String>())]
pub struct ScenarioError(pub Vec<String>);

impl Scenario {
    /// Ranks of the job.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }

    /// Iterations of an epoch; an incomplete last one is left out.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.samples / (self.ranks() * u64::from(self.batch)).max(1)
    }

    /// Bytes of the data set.
    #[must_use]
    pub fn dataset_bytes(&self) -> f64 {
        self.samples as f64 * self.sample_bytes
    }

    /// The window of an epoch, from 1, in seconds.
    #[must_use]
    pub fn window_s(&self, epoch: u32) -> f64 {
        let place = (epoch.max(1) as usize - 1).min(self.windows_s.len().saturating_sub(1));
        self.windows_s.get(place).copied().unwrap_or(0.0)
    }

    /// Checks every rule.
    ///
    /// # Errors
    /// [`ScenarioError`] with each one that does not hold.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let mut rules = Rules(Vec::new());
        rules.count("nodes", u64::from(self.nodes), MAX_RANKS);
        rules.count("ranks per node", u64::from(self.ranks_per_node), 1_024);
        rules.count("ranks", self.ranks(), MAX_RANKS);
        rules.count("batch", u64::from(self.batch), 1 << 20);
        rules.count("epochs", u64::from(self.epochs), u64::from(MAX_EPOCHS));
        rules.count("workers", u64::from(self.loader.workers), 1_024);
        rules.count("prefetch", u64::from(self.loader.prefetch), 1_024);
        rules.count("reads in flight", u64::from(self.staged.in_flight), 65_536);
        if self.ranks() > 0 && self.batch > 0 && self.iterations() == 0 {
            let one = self.ranks() * u64::from(self.batch);
            rules.broken(format!(
                "`samples` must fill one iteration of all ranks, {one}: {}",
                self.samples
            ));
        }
        rules.above("sample bytes", self.sample_bytes, 1e15);
        if self.windows_s.is_empty() {
            rules.broken("`window` is missing: the seconds that an iteration computes".into());
        }
        self.windows_s
            .iter()
            .for_each(|window| rules.zero_to("window", *window, 1e6));
        rules.zero_to("handover", self.loader.handover_s, 1e3);
        self.check_paths(&mut rules);
        check_origin(&self.origin, &mut rules);
        if rules.0.is_empty() {
            Ok(())
        } else {
            Err(ScenarioError(rules.0))
        }
    }

    fn check_paths(&self, rules: &mut Rules) {
        rules.zero_to("reads per sample", self.direct.reads_per_sample, 1e6);
        rules.zero_to("metadata per sample", self.direct.metadata_per_sample, 1e6);
        rules.zero_to("cpu", self.direct.cpu_s, 1e3);
        rules.zero_to("cpu (staged)", self.staged.cpu_s, 1e3);
        rules.above("ranges per sample", self.staged.ranges_per_sample, 1e6);
        if !(4_096.0..=1e9).contains(&self.staged.block_bytes) {
            rules.broken(format!(
                "`block` must be 4096 B to 1 GB: {}",
                self.staged.block_bytes
            ));
        }
        rules.zero_to("kept share", self.staged.kept, 1.0);
        for (name, device) in [("local", self.staged.local), ("peer", self.staged.peer)] {
            rules.zero_to(&format!("{name} latency"), device.latency_s, 1e3);
            rules.above(&format!("{name} bandwidth"), device.bytes_per_s, 1e15);
        }
    }
}

fn check_origin(origin: &Origin, rules: &mut Rules) {
    rules.zero_to("origin seconds per byte", origin.seconds_per_byte, 1.0);
    if let Some(rate) = origin.bytes_per_s {
        rules.above("origin bandwidth", rate, 1e15);
    }
    if let Some(parallel) = origin.parallel_reads {
        rules.count("origin parallel reads", u64::from(parallel), 1 << 24);
    }
    if let Some(rate) = origin.metadata_per_s {
        rules.above("origin metadata rate", rate, 1e12);
    }
    check_latency("origin read", &origin.read, rules);
    check_latency("origin metadata", &origin.metadata, rules);
}

fn check_latency(name: &str, latency: &Latency, rules: &mut Rules) {
    if let Some(body) = latency.body {
        rules.zero_to(&format!("{name} median"), body.median_s, 1e4);
        rules.zero_to(&format!("{name} sigma"), body.sigma, 10.0);
    }
    if let Some(tail) = latency.tail {
        rules.zero_to(&format!("{name} tail probability"), tail.probability, 1.0);
        rules.above(&format!("{name} tail alpha"), tail.alpha, 100.0);
        let sound = tail.min_s > 0.0 && tail.min_s < tail.max_s && tail.max_s <= 1e5;
        if !sound {
            let Tail { min_s, max_s, .. } = tail;
            rules.broken(format!(
                "`{name} tail` must have 0 < shortest < longest <= 100000 s: {min_s} and {max_s}"
            ));
        }
    }
}

struct Rules(Vec<String>);

impl Rules {
    fn broken(&mut self, rule: String) {
        self.0.push(rule);
    }

    fn count(&mut self, name: &str, value: u64, most: u64) {
        if !(1..=most).contains(&value) {
            self.broken(format!("`{name}` must be 1 to {most}: {value}"));
        }
    }

    fn zero_to(&mut self, name: &str, value: f64, most: f64) {
        if !(0.0..=most).contains(&value) {
            self.broken(format!("`{name}` must be from 0 to {most}: {value}"));
        }
    }

    fn above(&mut self, name: &str, value: f64, most: f64) {
        if !(value > 0.0 && value <= most) {
            self.broken(format!(
                "`{name}` must be above 0 and at most {most}: {value}"
            ));
        }
    }
}
