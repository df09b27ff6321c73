//! `forebay tiers sweep`

mod gather;
mod launch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use forebay_service::parse_bytes;
use forebay_sweep::rank::{self, Parts, Tiers};
use forebay_sweep::settings::{Compute, parse_set};
use forebay_sweep::{Format, Shuffle, SweepSettings, dlio, meet::Meeting, place};

use crate::Failure;

/// Read data sets on two tiers at every cache rate, and record the I/O of each process by class.
#[derive(Args)]
#[command(
    after_help = "Makes its own data sets below the two folders, going on where an earlier run \
                  ended, and deletes nothing but those, and only with --remove. Alone it starts \
                  its processes itself; under Slurm or MPI each task is one. docs/TIERS.md says more."
)]
pub(crate) struct Arguments {
    /// Folder on the global file system
    #[arg(long, value_name = "DIR")]
    gfs: PathBuf,
    /// Folder on the local file system, on every node
    #[arg(long, value_name = "DIR")]
    lfs: PathBuf,
    /// A data set as `NAME:FILES:BYTES[:SAMPLES[:BATCH]]`, bytes and count of the samples in a file;
    /// may be repeated [default: small:2048:128KiB:1:12 and large:24:12MiB:1:2]
    #[arg(long = "set", value_name = "SET", conflicts_with = "config")]
    sets: Vec<String>,
    /// Format of the files [default: tfrecord]
    #[arg(long, value_enum, conflicts_with = "config")]
    format: Option<FormatName>,
    /// Take data set and training from the YAML of a DLIO workload
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Cache rates in percent [default: 0 to 100 in steps of 5]
    #[arg(long, value_delimiter = ',', value_name = "PERCENT")]
    rates: Vec<f64>,
    /// Distance of the cache rates, in percent, in place of --rates
    #[arg(long, conflicts_with = "rates", value_parser = clap::value_parser!(u32).range(1..=100))]
    step: Option<u32>,
    #[command(flatten)]
    training: Training,
    /// What the tiers are, in a word; a part of each setup's name
    #[arg(long, default_value = "")]
    state: String,
    /// Processes to start; under Slurm or MPI the launcher's count
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,
    /// Write records here
    #[arg(short, long, default_value = "sweep.jsonl")]
    output: PathBuf,
    /// Only make the data sets, or only read what was made
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// Delete at the end the files that this benchmark made
    #[arg(long)]
    remove: bool,
    /// Leave files in the page cache
    #[arg(long)]
    keep_page_cache: bool,
    /// A new folder that all processes see, where they meet [default: below the global folder]
    #[arg(long, value_name = "DIR")]
    meet: Option<PathBuf>,
    /// Seconds for which a process waits for the others
    #[arg(long, default_value_t = 3600)]
    patience: u64,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Training")]
struct Training {
    /// Epochs at each rate [default: 3]
    #[arg(long)]
    epochs: Option<u32>,
    /// Samples of a batch, for sets that name none [default: 12]
    #[arg(long)]
    batch: Option<u32>,
    /// Batches loaded ahead of the one computed; 0: none [default: 2]
    #[arg(long)]
    prefetch: Option<u32>,
    /// Threads of each process that read [default: 1]
    #[arg(long)]
    threads: Option<u32>,
    /// Order of an epoch [default: global]
    #[arg(long, value_enum)]
    shuffle: Option<ShuffleName>,
    /// Milliseconds that a step computes [default: 0]
    #[arg(long, value_name = "MS")]
    compute_ms: Option<f64>,
    /// Bytes asked for by one read [default: 1 MiB]
    #[arg(long, value_name = "SIZE")]
    transfer: Option<String>,
    /// Seed of files and orders [default: 1]
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatName {
    Raw,
    Tfrecord,
    Npz,
    Hdf5,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShuffleName {
    /// All files are shuffled and shared out in each epoch
    Global,
    /// Each process shuffles files of its own
    Local,
    /// Each process reads files of its own in order
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    Make,
    Run,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Raw => Self::Raw,
            FormatName::Tfrecord => Self::Tfrecord,
            FormatName::Npz => Self::Npz,
            FormatName::Hdf5 => Self::Hdf5,
        }
    }
}

/// What is to be run, and the accelerator utilisation that it must have.
struct Asked {
    settings: SweepSettings,
    goal: Option<f64>,
    ignored: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let asked = asked(arguments)?;
    let place = place::of_environment(|name| std::env::var(name).ok())?;
    let size = place.map_or(arguments.processes, |place| place.size);
    let sweep = asked.settings.resolve(size)?;
    if place.is_none_or(|place| place.rank == 0) && !launch::is_started() {
        for option in &asked.ignored {
            eprintln!("note: option `{option}` of the configuration is not used");
        }
    }
    for folder in [&arguments.gfs, &arguments.lfs] {
        if !folder.is_dir() {
            let message = format!("there is no folder `{}`", folder.display());
            return Err(Failure::usage(message).hint("make it, or name another tier"));
        }
    }
    if arguments.gfs.canonicalize().ok() == arguments.lfs.canonicalize().ok() {
        return Err(Failure::usage(
            "`--gfs` and `--lfs` are one folder: a sweep compares two tiers",
        ));
    }
    let Some(place) = place else {
        let meeting = launch::all(arguments.processes)?;
        return gather::finish(arguments, &sweep, meeting.path(), size, asked.goal);
    };
    let folder = launch::meeting_folder(arguments.meet.as_deref(), &arguments.gfs)?;
    let patience = Duration::from_secs(arguments.patience);
    let mut meeting = Meeting::new(&folder, place, patience)?;
    let own = gather::file_of(&folder, place.rank);
    let mut result = |epoch: &rank::EpochResult| gather::add(&own, epoch);
    let mut say = |text: &str| eprintln!("{text}");
    let (tiers, parts) = (tiers(arguments), parts(arguments));
    rank::run(&sweep, &tiers, parts, &mut meeting, &mut say, &mut result)?;
    meeting.barrier()?;
    if launch::is_started() || place.rank != 0 {
        return Ok(());
    }
    gather::finish(arguments, &sweep, &folder, size, asked.goal)
}

fn tiers(arguments: &Arguments) -> Tiers {
    Tiers {
        gfs: arguments.gfs.clone(),
        lfs: arguments.lfs.clone(),
    }
}

fn parts(arguments: &Arguments) -> Parts {
    Parts {
        make: arguments.only != Some(Only::Run),
        run: arguments.only != Some(Only::Make),
        remove: arguments.remove,
    }
}

fn asked(arguments: &Arguments) -> Result<Asked, Failure> {
    let (mut settings, mut goal, mut ignored) = (SweepSettings::default(), None, Vec::new());
    if let Some(path) = &arguments.config {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read `{shown}`: {error}")))?;
        let config = dlio::read(&text)
            .map_err(|error| Failure::from(error).of(&format!("cannot use `{shown}`")))?;
        (settings, goal, ignored) = (config.settings, config.goal, config.ignored);
    } else {
        let usual = ["small:2048:128KiB:1:12", "large:24:12MiB:1:2"].map(str::to_owned);
        let named = if arguments.sets.is_empty() {
            &usual[..]
        } else {
            &arguments.sets
        };
        let format = arguments.format.map_or(Format::default(), Format::from);
        for text in named {
            let set = parse_set(text, format, parse_bytes);
            let set =
                set.map_err(|why| Failure::usage(format!("cannot use `--set {text}`: {why}")))?;
            settings.data_sets.push(set);
        }
    }
    if !arguments.rates.is_empty() {
        settings.rates = arguments.rates.clone();
    }
    if let Some(step) = arguments.step {
        settings.rates = (0..=100 / step)
            .map(|place| f64::from(place * step))
            .collect();
    }
    settings.state.clone_from(&arguments.state);
    settings.keep_page_cache = arguments.keep_page_cache;
    arguments.training.apply(&mut settings)?;
    Ok(Asked {
        settings,
        goal,
        ignored,
    })
}

impl Training {
    /// What the command line says counts before a configuration.
    fn apply(&self, settings: &mut SweepSettings) -> Result<(), Failure> {
        settings.epochs = self.epochs.unwrap_or(settings.epochs);
        settings.batch = self.batch.unwrap_or(settings.batch);
        settings.prefetch = self.prefetch.unwrap_or(settings.prefetch);
        settings.threads = self.threads.unwrap_or(settings.threads);
        settings.seed = self.seed.unwrap_or(settings.seed);
        settings.shuffle = match self.shuffle {
            None => settings.shuffle,
            Some(ShuffleName::Global) => Shuffle::Global,
            Some(ShuffleName::Local) => Shuffle::Local,
            Some(ShuffleName::None) => Shuffle::None,
        };
        if let Some(ms) = self.compute_ms {
            settings.compute = Compute {
                mean_s: ms / 1e3,
                deviation_s: 0.0,
            };
        }
        if let Some(text) = &self.transfer {
            let bytes = parse_bytes(text);
            let wrong = || {
                Failure::usage(format!(
                    "`--transfer` must be a size such as `1 MiB`: `{text}`"
                ))
            };
            settings.transfer_bytes = bytes.ok_or_else(wrong)?;
        }
        Ok(())
    }
}
