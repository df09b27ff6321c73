//! Figures of the study that this one is shaped after: C. Wang et al., arXiv 2609.06506.

/// Worst-case all-reduce interference, table II.
pub(super) const INTERFERENCE: [(&str, f64); 4] = [
    ("shm (tmpfs, no network)", 1.0),
    ("XFS (node-local NVMe)", 1.0),
    ("VAST (NFS flash, own class)", 24.0),
    ("Lustre (parallel FS, shared class)", 145.0),
];

pub(super) const INTERFERENCE_NOTE: &str = "<p class=\"fine\">Shaded: arXiv 2609.06506, table II, the worst case over 100 iterations on 4 nodes with 16 GPUs of a Slingshot-11 system. Fabric, size and clock differ from this run: compare which tiers interfere and which do not, not the factors.</p>\n";

/// Median, 95th percentile and maximum in seconds of each stage on VAST, table I.
pub(super) const STAGES: [(&str, [f64; 3]); 4] = [
    ("DataLoader wait", [0.015, 1.781, 7.134]),
    ("H2D copy", [0.010, 0.027, 0.070]),
    ("forward", [0.018, 0.021, 0.359]),
    ("backward + all-reduce", [0.116, 0.166, 3.315]),
];

pub(super) const STAGES_NOTE: &str = "<p class=\"fine\">Shaded: arXiv 2609.06506, table I, MILAN on VAST, 5,120 iterations on 16 GPUs. On Lustre the study puts 93 % of the excess on the DataLoader wait and 7 % on the all-reduce.</p>\n";

/// One row of waits and all-reduces over an epoch, table III and section IV; in seconds.
pub(super) struct Epoch {
    pub(super) name: &'static str,
    pub(super) wait_median: Option<f64>,
    pub(super) wait_mean: f64,
    pub(super) wait_p95: Option<f64>,
    pub(super) wait_max: f64,
    pub(super) wait_over_1s: f64,
    pub(super) backward_mean: Option<f64>,
    pub(super) backward_p95: Option<f64>,
    pub(super) backward_over_1s: Option<f64>,
    pub(super) wall: f64,
    pub(super) samples_per_s: Option<f64>,
}

/// Iterations of one epoch of the study.
pub(super) const N: usize = 5_120;

pub(super) const EPOCHS: [Epoch; 4] = [
    Epoch {
        name: "Lustre, direct",
        wait_median: Some(0.003),
        wait_mean: 1.987,
        wait_p95: Some(11.381),
        wait_max: 41.8,
        wait_over_1s: 0.282,
        backward_mean: Some(0.227),
        backward_p95: Some(0.474),
        backward_over_1s: Some(0.0154),
        wall: 11_843.9,
        samples_per_s: Some(443.0),
    },
    Epoch {
        name: "VAST, direct",
        wait_median: Some(0.015),
        wait_mean: 0.324,
        wait_p95: Some(1.782),
        wait_max: 7.1,
        wait_over_1s: 0.115,
        backward_mean: Some(0.127),
        backward_p95: Some(0.166),
        backward_over_1s: Some(0.0061),
        wall: 1_693.9,
        samples_per_s: Some(3_096.0),
    },
    Epoch {
        name: "DYAD, cold epoch",
        wait_median: None,
        wait_mean: 0.0904,
        wait_p95: None,
        wait_max: 5.0,
        wait_over_1s: 0.0293,
        backward_mean: Some(0.1573),
        backward_p95: None,
        backward_over_1s: Some(0.0037),
        wall: 1_595.8,
        samples_per_s: Some(3_286.0),
    },
    Epoch {
        name: "DYAD, second epoch",
        wait_median: None,
        wait_mean: 0.0138,
        wait_p95: None,
        wait_max: 0.901,
        wait_over_1s: 0.0,
        backward_mean: Some(0.1714),
        backward_p95: None,
        backward_over_1s: None,
        wall: 1_293.3,
        samples_per_s: None,
    },
];
