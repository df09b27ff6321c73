//! The origin of a plan: a profile of the emulator, or what a run met.

use std::path::PathBuf;

use clap::Args;
use forebay_analysis::stats::Sorted;
use forebay_analysis::tiers::plan::{
    self, Body, Drawn, Latency, Origin, Scenario, Service, Sharing, StatedWaits, Tail,
};
use forebay_emulate::ProfileSettings;
use forebay_emulate::draw::{self, Slowdown, Stream};
use forebay_emulate::profile::{Class, Profile};

use super::compare;
use crate::Failure;

/// Fewest waits over the window that rare times are told from.
const LEAST_STALLS: usize = 20;

#[derive(Args)]
#[command(next_help_heading = "The origin")]
pub(super) struct Source {
    /// lustre, vast, nvme, or a TOML file: distributions, rates and metadata of the origin
    #[arg(
        long,
        value_name = "PROFILE",
        required_unless_present = "origin_records"
    )]
    origin: Option<String>,
    /// Multiply all times of the profile
    #[arg(long, default_value_t = 1.0, requires = "origin")]
    scale: f64,
    /// Draw what `forebay emulate` with this profile and seed draws, read by read
    #[arg(long, requires = "origin")]
    replay: bool,
    /// Fit the origin's rare times to the waits of a run that read directly
    #[arg(long, value_name = "FILE", conflicts_with = "origin")]
    origin_records: Option<PathBuf>,
}

/// An origin, and the emulator's own draws where they are wanted.
pub(super) struct Read {
    pub(super) origin: Origin,
    pub(super) replay: Option<Replay>,
}

pub(super) fn read(source: &Source, scenario: &Scenario, seed: u64) -> Result<Read, Failure> {
    if let Some(path) = &source.origin_records {
        let origin = of_records(path, scenario)?;
        return Ok(Read {
            origin,
            replay: None,
        });
    }
    let name = source.origin.as_deref().unwrap_or_default();
    let mut settings = ProfileSettings::load(name)?.scaled(source.scale);
    settings.seed = seed;
    let profile = settings.resolve()?;
    if profile.slow.is_some() {
        let message = format!("cannot plan with profile `{name}`: it has slow periods");
        return Err(Failure::usage(message).hint("state the mean over them as one distribution"));
    }
    let replay = source.replay.then(|| Replay::of(&profile));
    Ok(Read {
        origin: of_profile(&profile),
        replay,
    })
}

fn of_profile(profile: &Profile) -> Origin {
    let metadata = latency(&profile.metadata);
    let mean = metadata.body.map_or(0.0, |body| body.mean_s());
    let parallel = profile.metadata.max_parallel as f64;
    Origin {
        read: latency(&profile.read),
        seconds_per_byte: profile.read.seconds_per_byte,
        bytes_per_s: profile.read.bytes_per_s,
        parallel_reads: u32::try_from(profile.read.max_parallel).ok(),
        metadata,
        metadata_per_s: (mean > 0.0).then(|| parallel / mean),
    }
}

fn latency(class: &Class) -> Latency {
    Latency {
        body: class.latency.body.map(|body| Body {
            median_s: body.median.as_secs_f64(),
            sigma: body.sigma,
        }),
        tail: class.latency.tail.map(|tail| Tail {
            probability: tail.probability,
            min_s: tail.min.as_secs_f64(),
            max_s: tail.max.as_secs_f64(),
            alpha: tail.alpha,
        }),
    }
}

/// What a run that read directly says of its origin: waits over the window come from rare reads.
fn of_records(path: &std::path::Path, scenario: &Scenario) -> Result<Origin, Failure> {
    let run = compare::read(path)?;
    let direct = run.paths().iter().find(|name| *name == "direct");
    let name = direct.or(run.paths().first()).map_or("", String::as_str);
    let series: Vec<_> = run
        .series()
        .iter()
        .filter(|series| series.path() == name)
        .collect();
    let waits = Sorted::new(series.iter().flat_map(|series| compare::slowest(series)))?;
    let times = series.iter().flat_map(|series| series.timings());
    let window = Sorted::new(times.map(|timing| timing.compute_s()))?;
    let over = waits.share_over(window.median());
    if over.over < LEAST_STALLS {
        let message = format!(
            "cannot tell rare times from `{}`: path `{name}` has {} waits over the window of \
             {:.3} s, {LEAST_STALLS} are needed",
            path.display(),
            over.over,
            window.median()
        );
        return Err(Failure::new(message).hint("state the origin with --origin"));
    }
    let ranks = series
        .iter()
        .map(|series| series.ranks())
        .max()
        .unwrap_or(1) as u32;
    let iterations = waits.n() as u64;
    let job = Scenario {
        nodes: 1,
        ranks_per_node: ranks,
        samples: iterations * u64::from(ranks) * u64::from(scenario.batch),
        windows_s: vec![window.mean()],
        epochs: 1,
        ..scenario.clone()
    };
    let tail = stated(&waits, window.median(), &job).tail()?;
    matched(tail, &waits, job)
}

/// The waits in the terms of a statement.
fn stated(waits: &Sorted, window: f64, job: &Scenario) -> StatedWaits {
    let share = waits.share_over(window).fraction();
    // What a loader has ready when a slow read begins hides so much of it.
    let ahead = match job.loader.sharing {
        Sharing::SplitBatch => 1,
        Sharing::WholeBatch => job.loader.workers * job.loader.prefetch,
    };
    let samples = f64::from(job.batch) * f64::from(job.ranks_per_node);
    StatedWaits {
        over_s: window,
        share_over: share,
        further: Some((waits.quantile(1.0 - share / 2.0), share / 2.0)),
        mean_s: None,
        max_s: waits.max() * (1.0 + 1e-9),
        hidden_s: f64::from(ahead) * window,
        reads: job.direct.reads_per_sample * samples,
    }
}

/// The origin with so many rare reads that the run's job, simulated, waits as long as the run did:
/// slow reads overlap and hide one another, which no formula here knows.
fn matched(mut tail: Tail, waits: &Sorted, mut job: Scenario) -> Result<Origin, Failure> {
    const ROUNDS: u64 = 8;
    const DRAWS: u64 = 5;
    for round in 0..ROUNDS {
        job.origin.read = Latency {
            body: None,
            tail: Some(tail),
        };
        let mut wait = 0.0;
        for draw in 0..DRAWS {
            job.seed = 1 + round * DRAWS + draw;
            let found = plan::forecast(&job, plan::Path::Direct)?;
            wait += found.epochs[0].wait_mean_s / DRAWS as f64;
        }
        let factor = if wait > 0.0 { waits.mean() / wait } else { 2.0 };
        tail.probability = (tail.probability * factor.clamp(0.5, 2.0)).min(1.0);
    }
    Ok(Origin {
        read: Latency {
            body: None,
            tail: Some(tail),
        },
        ..Origin::default()
    })
}

/// The emulator's own draws: the nth read of a mount gets the nth time.
#[derive(Clone, Copy)]
pub(super) struct Replay {
    seed: u64,
    read: draw::Latency,
    metadata: draw::Latency,
    seconds_per_byte: f64,
    reads: u64,
    operations: u64,
}

impl Replay {
    fn of(profile: &Profile) -> Self {
        Self {
            seed: profile.seed,
            read: profile.read.latency,
            metadata: profile.metadata.latency,
            seconds_per_byte: profile.read.seconds_per_byte,
            reads: 0,
            operations: 0,
        }
    }
}

fn draw_each(latency: &draw::Latency, seed: u64, stream: Stream, from: u64, n: u32) -> Drawn {
    let rare = latency
        .tail
        .map_or(f64::INFINITY, |tail| tail.min.as_secs_f64());
    let mut drawn = Drawn::default();
    for counter in from..from + u64::from(n) {
        let time = latency
            .draw(seed, stream, counter, Slowdown::NONE)
            .as_secs_f64();
        if time >= rare {
            drawn.tails_s.push(time);
        } else {
            drawn.body_s += time;
            drawn.longest_s = drawn.longest_s.max(time);
        }
    }
    drawn
}

impl Service for Replay {
    fn reads(&mut self, n: u32, bytes: f64) -> Drawn {
        let mut drawn = draw_each(&self.read, self.seed, Stream::Read, self.reads, n);
        self.reads += u64::from(n);
        let size_s = bytes * self.seconds_per_byte;
        drawn.body_s += f64::from(n) * size_s;
        drawn.longest_s += size_s;
        drawn
    }

    fn metadata(&mut self, n: u32) -> Drawn {
        let drawn = draw_each(
            &self.metadata,
            self.seed,
            Stream::Metadata,
            self.operations,
            n,
        );
        self.operations += u64::from(n);
        drawn
    }
}
