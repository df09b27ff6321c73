//! One rank of a run: iterations, measured, and the manifest that it leaves.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_analysis::suite::{
    Cache, Dist, FileSystem, GANG_START, Iteration, Manifest, Status, Timing, Verify,
};

use crate::meet::Meeting;
use crate::place::Place;
use crate::spec::{DropCache, Interface, RunSpec, manifest_name, unix_ns};
use crate::work::WorkFolder;
use crate::workload::{Registration, Stage, Workload};
use crate::{BenchError, Params, Recorder, Result, Stop, cache, facts, files, measure};

/// How long after the deadline a rank that does not come back from the kernel is given up.
const GRACE: Duration = Duration::from_secs(10);

/// The folder that all ranks of a run share in its work folder.
pub(crate) const SHARED: &str = "shared";

/// How the mount table calls a mount of Forebay.
const MOUNT: &str = "forebay";

/// What is told while a rank works.
pub type Report<'a> = &'a mut dyn FnMut(&Iteration);

/// One rank, ready to work.
pub struct Rank<'a> {
    /// The run's settings.
    pub spec: &'a RunSpec,
    /// The benchmark.
    pub registration: &'a Registration,
    /// This rank among the others.
    pub place: Place,
    /// Why to end early.
    pub stop: &'a Stop,
    /// The run's folder, where the manifest goes.
    pub output: &'a Path,
}

impl Rank<'_> {
    /// Does all iterations and writes the manifest, whatever happens.
    ///
    /// # Errors
    /// [`BenchError::Io`] when the manifest cannot be written; a benchmark that fails is no error
    /// here.
    pub fn run(&self, meeting: &mut dyn Meeting, report: Report<'_>) -> Result<Manifest> {
        let mut manifest = blank(self.spec, self.place);
        match self.watch(|| self.measure(meeting, &mut manifest, report)) {
            Ok(()) => manifest.status = Status::Pass,
            Err(error) => manifest.error = Some(error.line()),
        }
        write_manifest(self.output, &manifest)?;
        Ok(manifest)
    }

    /// Writes the manifest of a rank that cannot begin.
    ///
    /// # Errors
    /// As [`Rank::run`].
    pub fn fail(&self, error: &BenchError) -> Result<Manifest> {
        let mut manifest = blank(self.spec, self.place);
        manifest.error = Some(error.line());
        write_manifest(self.output, &manifest)?;
        Ok(manifest)
    }

    /// Calls `work`; at the deadline it is told to end, and a while after that this process ends
    /// even if a call of the kernel does not come back.
    fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, is_done) = mpsc::channel::<()>();
        let stop = self.stop.clone();
        let mut late = blank(self.spec, self.place);
        let seconds = self.spec.timeout_s;
        let output = self.output.to_owned();
        thread::scope(|scope| {
            scope.spawn(move || {
                if is_done.recv_timeout(Duration::from_secs(seconds))
                    != Err(RecvTimeoutError::Timeout)
                {
                    return;
                }
                stop.expire();
                if is_done.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
                    let error = BenchError::Deadline { seconds };
                    late.error = Some(format!(
                        "{error}; a call of the file system did not come back"
                    ));
                    // Nobody is left to tell if this fails too.
                    let _ = write_manifest(&output, &late);
                    std::process::exit(1);
                }
            });
            let result = work();
            drop(done);
            result
        })
    }

    fn measure(
        &self,
        meeting: &mut dyn Meeting,
        manifest: &mut Manifest,
        report: Report<'_>,
    ) -> Result<()> {
        let work = WorkFolder::join(&self.spec.work_dir, &self.spec.run_id)?;
        let shared = work.enter(SHARED)?;
        let own = work.make(&format!("rank-{:05}", self.place.rank))?;
        let params = Params::resolve(self.registration.params, &self.spec.params)?;
        manifest.fs = self.measured(&params, own.path())?;
        let mut workload = (self.registration.build)(&params)?;
        let mut stage = Stage {
            spec: self.spec,
            place: self.place,
            own: &own,
            shared: &shared,
            output: self.output,
            iteration: 0,
            recorder: Recorder::new(self.spec.time_ops),
            meeting,
            stop: self.stop,
        };
        stage.meet()?;
        let gang_start = unix_ns().saturating_sub(self.spec.started_unix_ns);
        workload.prepare(&mut stage)?;
        let mut ended = Ok(());
        for i in 0..self.spec.warmup.saturating_add(self.spec.iterations) {
            stage.iteration = i;
            ended = self.iterate(workload.as_mut(), &mut stage, manifest);
            if ended.is_err() {
                break;
            }
            if let Some(iteration) = manifest.iterations.last() {
                report(iteration);
            }
        }
        manifest.timing = stage.recorder.timings();
        let not_cold = &mut manifest.cache.not_cold;
        not_cold.extend(workload.held_elsewhere());
        if manifest.measured().next().is_some() {
            let timing = Timing::from_samples(&[gang_start]);
            manifest.timing.insert(GANG_START.into(), timing);
        }
        ended
    }

    /// The file system that is measured: that of the files it is named to read, else that of its
    /// own folder.
    fn measured(&self, params: &Params, own: &Path) -> Result<FileSystem> {
        let named = self.registration.reads.iter().map(|name| params.text(name));
        let named = named.collect::<Result<Vec<&str>>>()?;
        let path = named
            .into_iter()
            .map(|text| text.trim_start_matches("file://"));
        let path = path.map(Path::new).find(|path| path.is_absolute());
        let found = facts::file_system(path.unwrap_or(own));
        let is_mount = found.fstype.starts_with("fuse") && found.source == MOUNT;
        if self.spec.interface == Interface::Mount && !is_mount {
            return Err(BenchError::Usage(format!(
                "`--interface mount` is for files on a mount of Forebay, and `{}` is on `{}` of type {}",
                path.unwrap_or(own).display(),
                found.mount,
                found.fstype
            )));
        }
        Ok(found)
    }

    fn iterate(
        &self,
        workload: &mut dyn Workload,
        at: &mut Stage<'_>,
        manifest: &mut Manifest,
    ) -> Result<()> {
        let warmup = at.iteration < self.spec.warmup;
        let last = at.iteration + 1 == self.spec.warmup + self.spec.iterations;
        at.go_on()?;
        workload.set_up(at)?;
        self.cool(workload, &mut manifest.cache)?;
        at.meet()?;
        at.recorder.begin();
        let start_unix_ns = unix_ns();
        let began = Instant::now();
        let work = workload.run(at)?;
        let wall_ns = measure::nanoseconds(began.elapsed().saturating_sub(work.paused));
        at.barrier()?;
        at.recorder.end(warmup);
        manifest.iterations.push(Iteration {
            i: at.iteration,
            warmup,
            start_unix_ns,
            wall_ns,
            io_bytes: work.bytes,
            ops: work.ops,
        });
        add(&mut manifest.verify, workload.verify(at)?)?;
        // Nobody removes what another still compares.
        at.meet()?;
        if last && self.spec.keep_data {
            return Ok(());
        }
        workload.tear_down(at)
    }

    /// Brings the files that are read to the state that is asked for.
    fn cool(&self, workload: &dyn Workload, record: &mut Cache) -> Result<()> {
        let reads = workload.reads();
        if reads.is_empty() {
            record.policy = self.spec.drop_cache.word().to_owned();
            if self.spec.drop_cache != DropCache::None {
                record.not_cold = vec!["this benchmark reads no file in its timed part".into()];
            }
            return Ok(());
        }
        let files = reads.iter().map(std::path::PathBuf::as_path);
        cache::prepare(self.spec.drop_cache, files, record, || {
            self.stop.check(self.spec.timeout_s)
        })
    }
}

fn add(all: &mut Verify, found: Verify) -> Result<()> {
    all.checked += found.checked;
    all.bad += found.bad;
    match found.bad {
        0 => Ok(()),
        bad => Err(BenchError::Content(format!(
            "{bad} of {} things compared are not as they should be",
            found.checked
        ))),
    }
}

/// A manifest of a rank that has measured nothing.
#[must_use]
pub fn blank(spec: &RunSpec, place: Place) -> Manifest {
    let dist = Dist {
        rank: place.rank,
        local_rank: place.local_rank,
        world_size: place.world_size,
        backend: None,
        init: spec.dist_init.clone(),
    };
    Manifest {
        argv: spec.argv.clone(),
        params: spec.comparable(),
        host: facts::host(),
        fs: facts::file_system(&spec.dataset_path),
        cache: Cache {
            policy: spec.drop_cache.word().to_owned(),
            ..Cache::default()
        },
        ..Manifest::new(&spec.benchmark, &spec.run_id, dist)
    }
}

/// Writes a rank's manifest: whole, or not at all.
///
/// # Errors
/// [`BenchError::Io`] names the file.
pub fn write_manifest(output: &Path, manifest: &Manifest) -> Result<()> {
    let file = output.join(manifest_name(manifest.dist.rank));
    let json = serde_json::to_vec(manifest)
        .map_err(|error| BenchError::Content(format!("a manifest cannot be written: {error}")))?;
    files::write_whole(&file, &json)
}
