//! One rank that [`super::run_local`] started: this process.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use forebay_analysis::suite::{Iteration, Manifest};

use super::local::MEET;
use crate::meet::{Alone, FolderMeeting, Meeting, TcpMeeting};
use crate::place::Place;
use crate::rank::Rank;
use crate::spec::{Launcher, RunSpec};
use crate::workload::Registry;
use crate::{BenchError, Result, Stop};

/// Does the rank's work by the settings in `run`, and says each iteration on stderr as a line of
/// JSON. The manifest goes beside the settings.
///
/// # Errors
/// [`BenchError`] where there is no rank to be, or its manifest cannot be written.
pub fn run_rank(registry: &Registry, run: &Path, stop: &Stop) -> Result<Manifest> {
    let spec = RunSpec::read(run)?;
    let env = |name: &str| std::env::var(name).ok();
    let place = Place::of(Launcher::Local, &env)?;
    if place.world_size != spec.ranks {
        return Err(BenchError::Usage(format!(
            "the run has {} ranks and `WORLD_SIZE` says {}",
            spec.ranks, place.world_size
        )));
    }
    let rank = Rank {
        spec: &spec,
        registration: registry.find(&spec.benchmark)?,
        place,
        stop,
        output: run.parent().unwrap_or(Path::new(".")),
    };
    let of = spec.warmup + spec.iterations;
    match meet(&spec, place) {
        Ok(mut meeting) => rank.run(meeting.as_mut(), &mut |iteration| say(iteration, of, stop)),
        Err(error) => rank.fail(&error),
    }
}

fn say(iteration: &Iteration, of: u32, stop: &Stop) {
    let Iteration { i, wall_ns, .. } = iteration;
    let line = format!("{{\"iteration\":{i},\"of\":{of},\"wall_ns\":{wall_ns}}}\n");
    // Who started this process is gone: nobody waits for its result any more.
    if std::io::stderr().write_all(line.as_bytes()).is_err() {
        stop.interrupt();
    }
}

fn meet(spec: &RunSpec, place: Place) -> Result<Box<dyn Meeting>> {
    let deadline = Instant::now() + spec.timeout();
    let (rank, size) = (place.rank, place.world_size);
    if let Some(folder) = spec.meeting_folder() {
        let folder = folder.join(&spec.run_id);
        return Ok(Box::new(FolderMeeting::join(
            &folder, rank, size, deadline,
        )?));
    }
    if size == 1 {
        return Ok(Box::new(Alone));
    }
    let address = std::env::var(MEET).unwrap_or_default();
    let parts = address.rsplit_once(':');
    let (host, port) = parts
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
        .ok_or_else(|| {
            BenchError::Usage(format!(
                "`{MEET}` must be HOST:PORT for {size} ranks: `{address}`"
            ))
        })?;
    Ok(Box::new(TcpMeeting::join(
        host, port, rank, size, deadline,
    )?))
}
