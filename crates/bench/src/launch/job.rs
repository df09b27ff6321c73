//! Ranks that a launcher started, on one machine or many: this process is one of them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use super::{Event, Outcome, RUN, Run, Watch};
use crate::meet::{Alone, FolderMeeting, Meeting, Server, TcpMeeting};
use crate::place::{Place, master};
use crate::rank::Rank;
use crate::spec::{Engine, RunSpec, unix_ns};
use crate::workload::Registry;
use crate::{BenchError, Result, Stop, program, python};

/// Runs this process's part of a benchmark. The first rank settles the run for all, leaves
/// manifests for those that never came, and removes the work folder.
///
/// # Errors
/// [`BenchError::Io`] where the folder of results cannot be made.
pub fn run_in_job(
    registry: &Registry,
    mut spec: RunSpec,
    output_dir: &Path,
    number: u32,
    stop: &Stop,
    watch: Watch<'_>,
) -> Result<Outcome> {
    let env = |name: &str| std::env::var(name).ok();
    let here = Place::of(spec.launcher, &env)?;
    spec.ranks = here.world_size;
    spec.started_unix_ns = unix_ns();
    let deadline = Instant::now() + spec.timeout();
    let met = meet(&spec, here, number, deadline, stop).and_then(|mut meeting| {
        spec = agree(meeting.as_mut(), &spec, here)?;
        let run_id = spec.run_id.clone();
        watch(Event::Named { run_id });
        Ok(meeting)
    });
    let mut run = Run::begin(&spec, output_dir)?;
    let worked = met.and_then(|mut meeting| {
        // The first makes the folder; the others hear whether it could.
        let made = if here.rank == 0 {
            run.make_work()
        } else {
            Ok(())
        };
        let said = made
            .as_ref()
            .err()
            .map(BenchError::line)
            .unwrap_or_default();
        let heard = meeting.gather(said.as_bytes())?;
        made?;
        if let Some(said) = heard.iter().find(|said| !said.is_empty()) {
            return Err(BenchError::Ranks(
                String::from_utf8_lossy(said).into_owned(),
            ));
        }
        work(registry, &spec, here, &run.folder, meeting, stop, watch)
    });
    let error = worked.err().map(|error| error.line());
    if let Some(error) = &error {
        run.fail(here, error);
        if here.rank == 0 {
            run.fail_all(error);
        }
    }
    Ok(run.end_of_rank(here, error))
}

/// Finds the others.
fn meet(
    spec: &RunSpec,
    here: Place,
    number: u32,
    deadline: Instant,
    stop: &Stop,
) -> Result<Box<dyn Meeting>> {
    stop.check(spec.timeout_s)?;
    if let Some(folder) = spec.meeting_folder() {
        // Each run of a list meets in a place of its own.
        let folder: PathBuf = folder.join(format!("run-{number:03}"));
        let meeting = FolderMeeting::join(&folder, here.rank, here.world_size, deadline)?;
        return Ok(Box::new(meeting));
    }
    if here.world_size == 1 {
        return Ok(Box::new(Alone));
    }
    let (host, port) = master(&|name| std::env::var(name).ok())?;
    // The port itself is PyTorch's. Each run of a list has one of its own: nobody comes to a
    // meeting that is just over.
    let own = u16::try_from(number)
        .ok()
        .and_then(|number| port.checked_add(number)?.checked_add(1));
    let port = own.ok_or_else(|| {
        BenchError::Usage("there are too few ports after `MASTER_PORT`: choose a lower one".into())
    })?;
    if here.rank == 0 {
        let fault =
            |error| BenchError::Ranks(format!("rank 0 cannot listen at port {port}: {error}"));
        let listener = TcpListener::bind(("0.0.0.0", port)).map_err(fault)?;
        Server::start(listener, here.world_size, deadline).map_err(fault)?;
    }
    let meeting = TcpMeeting::join(&host, port, here.rank, here.world_size, deadline)?;
    Ok(Box::new(meeting))
}

/// The run as the first rank has settled it.
fn agree(meeting: &mut dyn Meeting, own: &RunSpec, here: Place) -> Result<RunSpec> {
    let mine = if here.rank == 0 {
        own.json()
    } else {
        Vec::new()
    };
    let all = meeting.gather(&mine)?;
    let spec = RunSpec::parse(all.first().map(Vec::as_slice).unwrap_or_default())?;
    if spec.benchmark != own.benchmark || spec.ranks != own.ranks {
        return Err(BenchError::Ranks(format!(
            "rank 0 runs `{}` with {} ranks and this one `{}` with {}: start all with the same command",
            spec.benchmark, spec.ranks, own.benchmark, own.ranks
        )));
    }
    Ok(spec)
}

/// This rank's work, and the wait for the others to end theirs.
fn work(
    registry: &Registry,
    spec: &RunSpec,
    here: Place,
    folder: &Path,
    mut meeting: Box<dyn Meeting>,
    stop: &Stop,
    watch: Watch<'_>,
) -> Result<()> {
    match spec.engine {
        Engine::Native => {
            let rank = Rank {
                spec,
                registration: registry.find(&spec.benchmark)?,
                place: here,
                stop,
                output: folder,
            };
            let of = spec.warmup + spec.iterations;
            let manifest = rank.run(meeting.as_mut(), &mut |iteration| {
                watch(Event::Iteration {
                    rank: here.rank,
                    iteration: iteration.i,
                    of,
                    wall_ns: iteration.wall_ns,
                });
            })?;
            if let Some(error) = manifest.error {
                return Err(BenchError::Ranks(error));
            }
        }
        Engine::Torch | Engine::Python => in_python(spec, here, folder, stop)?,
    }
    // Only ranks that passed come here: one that failed has left, and the others hear of it.
    meeting.barrier()
}

fn in_python(spec: &RunSpec, here: Place, folder: &Path, stop: &Stop) -> Result<()> {
    let mut command = python::rank(&folder.join(RUN));
    command.envs(here.environment()).stdin(Stdio::null());
    if spec.meeting_folder().is_none() && here.world_size > 1 {
        let (host, port) = master(&|name| std::env::var(name).ok())?;
        command
            .env("MASTER_ADDR", host)
            .env("MASTER_PORT", port.to_string());
    }
    program::run_well(&mut command, &|| stop.check(spec.timeout_s)).map(|_| ())
}
