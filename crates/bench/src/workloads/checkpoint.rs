//! Checkpoints without PyTorch: the same files, sizes, order and barriers, and no serialisation.
//! The engine `torch` does the same benchmarks in Python.

mod ddp;
mod fsdp;
mod load;
mod model;

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::measure::nanoseconds;
use crate::spec::{Engine, Fsync};
use crate::workload::{Registration, Stage};
use crate::{BenchError, Kind, Param, Params, Result, Verify, content, files};
use model::Model;

const ENGINES: &[Engine] = &[Engine::Torch, Engine::Native];

macro_rules! params {
    ($($more:expr),* $(,)?) => {
        &[
            Param::new("layers", Kind::Count, "4", "linear layers of the synthetic model"),
            Param::new("input_dim", Kind::Count, "1024", "its inputs and outputs"),
            Param::new("hidden_dim", Kind::Count, "1024", "width of its hidden layers"),
            Param::new("optimizer", Kind::Choice(&["adam", "none"]), "adam", "whose state is saved too"),
            Param::new("dtype", Kind::Choice(&["float32", "bfloat16", "float16"]), "float32", "of the parameters"),
            Param::new("model_name", Kind::Text, "", "engine torch only: a model of Hugging Face in place of the synthetic one"),
            Param::new("cache_dir", Kind::Path, "", "engine torch only: where its files are kept"),
            Param::new("batch_per_rank", Kind::Count, "8", "engine torch only: samples of the training iteration"),
            Param::new("chunk_size", Kind::Size, "8MiB", "engine native only: bytes of one write or read"),
            Param::new("train_ms", Kind::Number, "0", "engine native only: length of the training iteration"),
            $($more),*
        ]
    };
}

const CHECKPOINT: Param = Param::new(
    "checkpoint",
    Kind::Path,
    "",
    "checkpoint to load, kept by a save benchmark with --keep-data [default: one that is made]",
);
const THREADS: Param = Param::new(
    "thread_count",
    Kind::Count,
    "1",
    "threads of each rank that write, with single_file_per_rank=false",
);
const SINGLE: Param = Param::new(
    "single_file_per_rank",
    Kind::Flag,
    "true",
    "one file of each rank; else one for each tensor",
);
const SYNC: Param = Param::new(
    "sync_files",
    Kind::Flag,
    "true",
    "write files through before the save is over",
);
const OFFLOAD: Param = Param::new(
    "cpu_offload",
    Kind::Flag,
    "false",
    "engine torch only: the full model goes to the host's memory",
);

const fn registration(name: &'static str, help: &'static str) -> Registration {
    Registration {
        category: "Checkpointing",
        help,
        fsync: Fsync::File,
        engines: ENGINES,
        ..Registration::new(name, |_| {
            Err(BenchError::Content(
                "this benchmark has no native engine".to_owned(),
            ))
        })
    }
}

pub(super) const DDP_SAVE: Registration = Registration {
    params: params![],
    build: |params| Ok(Box::new(ddp::Save::new(params)?)),
    ..registration("ddp_save", "One rank writes the model's state to one file")
};

pub(super) const DDP_LOAD: Registration = Registration {
    interfaces: super::ALSO_MOUNT,
    reads: &["checkpoint"],
    params: params![CHECKPOINT],
    build: |params| Ok(Box::new(ddp::Load::new(params)?)),
    ..registration("ddp_load", "All ranks read the same file")
};

pub(super) const FSDP_SAVE: Registration = Registration {
    params: params![THREADS, SINGLE, SYNC],
    build: |params| Ok(Box::new(fsdp::Save::new(params)?)),
    ..registration("fsdp_save", "All ranks write their shards")
};

pub(super) const FSDP_LOAD: Registration = Registration {
    interfaces: super::ALSO_MOUNT,
    reads: &["checkpoint"],
    params: params![
        CHECKPOINT,
        SINGLE,
        Param::new(
            "full_state_dict",
            Kind::Flag,
            "false",
            "every rank reads the whole state"
        ),
        Param::new(
            "reshard_to",
            Kind::Count,
            "0",
            "ranks that the state is loaded for; 0: as many as there are"
        ),
        Param::new(
            "reader_shift",
            Kind::Count,
            "0",
            "each rank reads the shard of the rank so many places on, which another node's cache has"
        ),
    ],
    build: |params| Ok(Box::new(load::Load::new(params, load::How::Shards)?)),
    ..registration("fsdp_load", "All ranks read their shards")
};

pub(super) const RL_LOAD: Registration = Registration {
    interfaces: super::ALSO_MOUNT,
    reads: &["checkpoint"],
    params: params![
        CHECKPOINT,
        SINGLE,
        Param::new(
            "consolidate",
            Kind::Choice(&["allgather", "read_all"]),
            "allgather",
            "the full model by exchange between ranks, or by reading all shards"
        ),
        OFFLOAD,
    ],
    build: |params| {
        let all = params.text("consolidate")? == "read_all";
        let how = if all {
            load::How::ReadAll
        } else {
            load::How::Gather
        };
        Ok(Box::new(load::Load::new(params, how)?))
    },
    ..registration(
        "rl_load",
        "All ranks read shards and put the full model together",
    )
};

/// What all checkpoint benchmarks share.
struct Common {
    model: Model,
    chunk: usize,
    train: Duration,
}

impl Common {
    fn new(params: &Params) -> Result<Self> {
        let chunk = params.positive("chunk_size")?;
        let train = params.number("train_ms")?;
        if !params.text("model_name")?.is_empty() {
            return Err(BenchError::Usage(
                "`model_name` needs the engine torch: the native engine has the synthetic model only".into(),
            ));
        }
        if chunk > 1 << 30 || !(0.0..=3.6e6).contains(&train) {
            return Err(BenchError::Usage(format!(
                "`chunk_size` must be at most 1 GiB and `train_ms` from 0 to an hour: {chunk} and {train}"
            )));
        }
        Ok(Self {
            model: Model::new(params)?,
            chunk: chunk as usize,
            train: Duration::from_secs_f64(train / 1e3),
        })
    }

    /// The place of a training iteration.
    fn train(&self, at: &mut Stage<'_>) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < self.train {
            at.go_on()?;
            let left = self.train.saturating_sub(began.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        let train = at.op("train_iter");
        at.recorder.add(train, nanoseconds(began.elapsed()));
        Ok(())
    }
}

/// What a checkpoint's folder says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Described {
    format: String,
    model: Model,
    world_size: u32,
    single_file_per_rank: bool,
    seed: u64,
}

/// The file of a folder with shards.
const METADATA: &str = ".metadata";
/// The file beside a checkpoint of one file.
const SIDECAR: &str = "ckpt.json";
/// The checkpoint of one file.
const CKPT: &str = "ckpt.pt";

impl Described {
    fn new(at: &Stage<'_>, model: Model, single_file_per_rank: bool) -> Self {
        Self {
            format: "forebay-native-1".to_owned(),
            model,
            world_size: at.place.world_size,
            single_file_per_rank,
            seed: at.spec.seed,
        }
    }

    fn json(&self) -> Vec<u8> {
        // It has only keys that are text, and whole numbers.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn read(file: &Path) -> Result<Self> {
        let bytes = files::read_bounded(file, 1 << 20)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            BenchError::Usage(format!(
                "`{}` does not describe a checkpoint of the native engine: {error}",
                file.display()
            ))
        })
    }

    /// Refuses a checkpoint that is not of this model.
    fn must_be(&self, model: Model, file: &Path) -> Result<()> {
        if self.model == model && self.format == "forebay-native-1" && self.world_size > 0 {
            return Ok(());
        }
        Err(BenchError::Usage(format!(
            "`{}` is a checkpoint of another model: {:?}",
            file.display(),
            self.model
        )))
    }
}

/// Memory for a state, as a model has it; refused where it would not fit.
fn memory(at: &Stage<'_>, bytes: u64) -> Result<Vec<u8>> {
    let table = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = table.lines().find_map(|line| {
        let kib = line
            .strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix("kB")?;
        kib.trim().parse::<u64>().ok()
    });
    let available = available.unwrap_or(u64::MAX / 1024).saturating_mul(1024);
    if bytes > available / 10 * 9 {
        return Err(BenchError::Usage(format!(
            "rank {} needs {bytes} bytes for its part of the model, and this machine has {available} bytes free: take a smaller model or fewer ranks",
            at.place.rank
        )));
    }
    Ok(vec![0; bytes as usize])
}

/// Compares bytes of a tensor with what they should be.
fn check(seed: u64, tensor: u64, offset: u64, found: &[u8]) -> Verify {
    let mut wanted = vec![0; found.len().min(1 << 20)];
    let mut bad = 0;
    for (number, part) in found.chunks(wanted.len().max(1)).enumerate() {
        let wanted = &mut wanted[..part.len()];
        let start = offset + number as u64 * (1 << 20);
        content::seeded_at(tensor_seed(seed, tensor), start, wanted);
        bad |= u64::from(*wanted != *part);
    }
    Verify { checked: 1, bad }
}

fn tensor_seed(seed: u64, tensor: u64) -> u64 {
    (seed ^ tensor.rotate_left(40)).wrapping_mul(0xD134_2543_DE82_EF95)
}
