//! What one process of the job does: make its share of the data, then read every epoch.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use forebay_analysis::random::Random;
use serde::{Deserialize, Serialize};

use crate::load::{Loaded, Reading};
use crate::make::{self, Made, Wanted};
use crate::meet::Meeting;
use crate::order::{self, CachedSet};
use crate::place::{self, Place};
use crate::settings::Compute;
use crate::{DataSet, Result, Sweep};

/// Where the tiers are.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Folder of the global file system.
    pub gfs: PathBuf,
    /// Folder of the local file system of each node.
    pub lfs: PathBuf,
}

/// Which parts of the work to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Make the data sets.
    pub make: bool,
    /// Read them.
    pub run: bool,
    /// Delete at the end what this benchmark made.
    pub remove: bool,
}

/// One epoch of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochResult {
    /// Data set and state of the tiers.
    pub setup: String,
    /// Cache rate, in percent.
    pub rate_percent: f64,
    /// The epoch, from 1.
    pub epoch: u32,
    /// The process.
    pub rank: u32,
    /// Seconds in reads and in metadata operations of the global tier, then of the local one.
    pub gfs_read_s: f64,
    /// Seconds in open and close on the global tier.
    pub gfs_meta_s: f64,
    /// Seconds in reads of the local tier.
    pub lfs_read_s: f64,
    /// Seconds in open and close on the local tier.
    pub lfs_meta_s: f64,
    /// Files of each tier that were read.
    pub gfs_files: u64,
    /// Files of the local tier that were read.
    pub lfs_files: u64,
    /// Wall time of the epoch, in seconds.
    pub wall_s: f64,
    /// Steps of the epoch.
    pub steps: u64,
    /// Samples of the epoch.
    pub samples: u64,
    /// Compute time, wall time and samples of all steps but the first, which waits for a loader
    /// that has just begun.
    pub steady_compute_s: f64,
    /// Wall time of all steps but the first, in seconds.
    pub steady_wall_s: f64,
    /// Samples of all steps but the first.
    pub steady_samples: u64,
}

impl EpochResult {
    /// I/O time of the process, in seconds.
    #[must_use]
    pub fn io_s(&self) -> f64 {
        self.gfs_read_s + self.gfs_meta_s + self.lfs_read_s + self.lfs_meta_s
    }

    fn add(&mut self, loaded: &Loaded) {
        if loaded.is_local {
            self.lfs_read_s += loaded.read_s;
            self.lfs_meta_s += loaded.meta_s;
            self.lfs_files += 1;
        } else {
            self.gfs_read_s += loaded.read_s;
            self.gfs_meta_s += loaded.meta_s;
            self.gfs_files += 1;
        }
    }
}

/// Does the work of one process. `say` is told of progress, `result` of each epoch.
///
/// # Errors
/// The first thing that went wrong; the other processes then miss this one and say so.
pub fn run(
    sweep: &Sweep,
    tiers: &Tiers,
    parts: Parts,
    meeting: &mut Meeting,
    say: &mut dyn FnMut(&str),
    result: &mut dyn FnMut(&EpochResult) -> Result<()>,
) -> Result<()> {
    let place = meeting.place();
    let hosts = meeting.gather(rustix::system::uname().nodename().to_string_lossy().trim())?;
    let on_host = place::on_host(place, &hosts);
    let sets = data_sets(sweep, tiers);
    if parts.make {
        make_all(sweep, tiers, &sets, place, on_host, meeting, say)?;
    } else {
        for (global, local, _) in &sets {
            global.check_folder()?;
            local.check_folder()?;
        }
    }
    meeting.barrier()?;
    if parts.run {
        for (set, data) in sweep.settings().data_sets.iter().zip(&sets) {
            for rate in &sweep.settings().rates {
                for epoch in 1..=sweep.settings().epochs {
                    let one = Epoch {
                        sweep,
                        set,
                        data,
                        rate: *rate,
                        epoch,
                        place,
                    };
                    meeting.barrier()?;
                    result(&one.read()?)?;
                }
                if place.rank == 0 {
                    say(&format!(
                        "{} at cache rate {rate} %: done",
                        sweep.setup(set)
                    ));
                }
            }
        }
    }
    meeting.barrier()?;
    if parts.remove {
        for (global, local, _) in &sets {
            if place.rank == 0 {
                global.remove()?;
            }
            if on_host.rank == 0 {
                local.remove()?;
            }
        }
    }
    Ok(())
}

/// A data set on both tiers, and which of its files are cached.
type OnTiers = (Made, Made, CachedSet);

fn data_sets(sweep: &Sweep, tiers: &Tiers) -> Vec<OnTiers> {
    let seed = sweep.settings().seed;
    let sets = sweep.settings().data_sets.iter();
    sets.map(|set| {
        let cached = CachedSet::new(set.files, seed);
        (
            Made::at(&tiers.gfs, set, seed),
            Made::at(&tiers.lfs, set, seed),
            cached,
        )
    })
    .collect()
}

fn make_all(
    sweep: &Sweep,
    tiers: &Tiers,
    sets: &[OnTiers],
    place: Place,
    on_host: Place,
    meeting: &mut Meeting,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let most = sweep.most_cached();
    let local = |cached: &CachedSet| Wanted::Cached(cached.clone(), most);
    let missing = |of: &dyn Fn(&OnTiers) -> u64| sets.iter().map(of).sum::<u64>();
    // To look for every file costs time, so one process of each tier does it.
    let global_bytes = match place.rank {
        0 => missing(&|(global, _, _)| global.missing_bytes(&Wanted::All)),
        _ => 0,
    };
    let local_bytes = match on_host.rank {
        0 => missing(&|(_, made, cached)| made.missing_bytes(&local(cached))),
        _ => 0,
    };
    if place.rank == 0 {
        make::check_space(&tiers.gfs, global_bytes)?;
        sets.iter().try_for_each(|(global, _, _)| global.begin())?;
    }
    if on_host.rank == 0 {
        make::check_space(&tiers.lfs, local_bytes)?;
        sets.iter().try_for_each(|(_, local, _)| local.begin())?;
    }
    meeting.barrier()?;
    let total = (global_bytes / u64::from(place.size)) + local_bytes / u64::from(on_host.size);
    let (mut done, mut told) = (0, Instant::now());
    let mut progress = |bytes: u64| {
        done += bytes;
        if place.rank == 0 && told.elapsed() > Duration::from_secs(2) {
            told = Instant::now();
            say(&format!("made {done} of {total} bytes"));
        }
    };
    for (global, made, cached) in sets {
        global.make(&Wanted::All, place, &mut progress)?;
        made.make(&local(cached), on_host, &mut progress)?;
    }
    Ok(())
}

/// One epoch to read.
struct Epoch<'a> {
    sweep: &'a Sweep,
    set: &'a DataSet,
    data: &'a OnTiers,
    rate: f64,
    epoch: u32,
    place: Place,
}

impl Epoch<'_> {
    fn read(&self) -> Result<EpochResult> {
        let settings = self.sweep.settings();
        let Place { rank, size } = self.place;
        let (seed, shuffle) = (settings.seed, settings.shuffle);
        let files = order::files_of(self.set.files, shuffle, seed, self.epoch, rank, size);
        let mut trainer = Trainer::new(self, files.len());
        if settings.prefetch == 0 {
            let mut buffer = Vec::new();
            for file in &files {
                trainer.take(self.load(*file, &mut buffer)?);
            }
            return Ok(trainer.finish());
        }
        let samples = self.set.shape.samples;
        let batch = self.sweep.batch(self.set);
        let ahead = (u64::from(settings.prefetch) * u64::from(batch)).div_ceil(u64::from(samples));
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(ahead.clamp(1, 1 << 16) as usize);
            for _ in 0..settings.threads {
                let (sender, next, files) = (sender.clone(), &next, &files);
                scope.spawn(move || self.load_some(files, next, &sender));
            }
            drop(sender);
            self.train(&mut trainer, receiver)
        })?;
        Ok(trainer.finish())
    }

    /// A loader thread: takes the next file, until none is left or nobody wants it.
    fn load_some(&self, files: &[u32], next: &AtomicUsize, sender: &SyncSender<Result<Loaded>>) {
        let mut buffer = Vec::new();
        // Relaxed: the number alone is shared, the files are read-only.
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            if sender.send(self.load(*file, &mut buffer)).is_err() {
                return;
            }
        }
    }

    /// Takes the receiver along: when it fails, the loaders find nobody and end.
    fn train(&self, trainer: &mut Trainer, loaded: Receiver<Result<Loaded>>) -> Result<()> {
        for one in loaded {
            trainer.take(one?);
        }
        Ok(())
    }

    fn load(&self, file: u32, buffer: &mut Vec<u8>) -> Result<Loaded> {
        let settings = self.sweep.settings();
        let (global, local, cached) = self.data;
        let is_local = cached.holds(file, self.rate);
        let made = if is_local { local } else { global };
        let reading = Reading {
            shape: self.set.shape,
            seed: settings.seed,
            transfer_bytes: settings.transfer_bytes,
            keep_page_cache: settings.keep_page_cache,
        };
        reading.load(&made.file(file), file, is_local, buffer)
    }
}

/// Takes samples, and computes when a batch is full.
struct Trainer {
    result: EpochResult,
    began: Instant,
    first_step: Option<Instant>,
    samples: u64,
    batch: u64,
    waiting: u64,
    left: usize,
    compute: Compute,
    random: Random,
}

impl Trainer {
    fn new(epoch: &Epoch<'_>, files: usize) -> Self {
        let result = EpochResult {
            setup: epoch.sweep.setup(epoch.set),
            rate_percent: epoch.rate,
            epoch: epoch.epoch,
            rank: epoch.place.rank,
            ..EpochResult::default()
        };
        let stream = (u64::from(epoch.place.rank) << 32) | u64::from(epoch.epoch);
        Self {
            result,
            began: Instant::now(),
            first_step: None,
            samples: u64::from(epoch.set.shape.samples),
            batch: u64::from(epoch.sweep.batch(epoch.set)),
            waiting: 0,
            left: files,
            compute: epoch.sweep.settings().compute,
            random: Random::new(epoch.sweep.settings().seed ^ stream),
        }
    }

    fn take(&mut self, loaded: Loaded) {
        self.result.add(&loaded);
        self.waiting += self.samples;
        self.left -= 1;
        // The last batch of an epoch may be short.
        while self.waiting >= self.batch || (self.left == 0 && self.waiting > 0) {
            let samples = self.waiting.min(self.batch);
            self.waiting -= samples;
            self.step(samples);
        }
    }

    fn step(&mut self, samples: u64) {
        let normal = (-2.0 * self.random.unit().ln()).sqrt()
            * (std::f64::consts::TAU * self.random.unit()).cos();
        let seconds = (self.compute.mean_s + self.compute.deviation_s * normal).max(0.0);
        let mut computed_s = 0.0;
        if seconds > 0.0 {
            let began = Instant::now();
            thread::sleep(Duration::from_secs_f64(seconds));
            computed_s = began.elapsed().as_secs_f64();
        }
        self.result.steps += 1;
        self.result.samples += samples;
        if self.first_step.is_none() {
            self.first_step = Some(Instant::now());
        } else {
            self.result.steady_compute_s += computed_s;
            self.result.steady_samples += samples;
        }
    }

    fn finish(mut self) -> EpochResult {
        self.result.wall_s = self.began.elapsed().as_secs_f64();
        self.result.steady_wall_s = self
            .first_step
            .map_or(0.0, |end| end.elapsed().as_secs_f64());
        self.result
    }
}
