//! What a benchmark is, and the list of those there are.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_analysis::suite::Verify;

use crate::folder::Folder;
use crate::measure::nanoseconds;
use crate::meet::Meeting;
use crate::place::Place;
use crate::python::PythonBenchmark;
use crate::spec::{Engine, Fsync, Interface, RunSpec};
use crate::{BenchError, Kind, Op, Param, Params, Recorder, Result, Stop};

/// What one rank does in each iteration. One is made for each rank of a run.
///
/// # Contract
/// - `set_up`, `verify` and `tear_down` are not timed; `run` is, and does nothing that is not
///   storage's work: content is made before it.
/// - Files are made in [`Stage::own`] and [`Stage::shared`] only.
/// - Long loops call [`Stage::go_on`], so that a signal ends them.
/// - All ranks call [`Stage::barrier`] equally often.
///
/// # Example
/// A benchmark of one's own: lines appended to a log, each made durable.
///
/// ```
/// use std::fs::{File, OpenOptions};
/// use std::io::Write;
///
/// use forebay_bench::{
///     BenchError, Kind, Param, Params, Registration, Registry, Result, Stage, Verify, Work,
///     Workload, run_alone,
/// };
///
/// struct AppendLog {
///     lines: u64,
///     line: Vec<u8>,
///     log: Option<File>,
/// }
///
/// impl Workload for AppendLog {
///     fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
///         let path = at.own.path().join("log");
///         let log = OpenOptions::new().create(true).append(true).open(&path);
///         self.log = Some(log.map_err(|source| BenchError::Io { act: "open", path, source })?);
///         Ok(())
///     }
///
///     fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
///         let (append, fsync) = (at.op("append"), at.op("fsync"));
///         let path = at.own.path().join("log");
///         let fault = |source| BenchError::Io { act: "append to", path: path.clone(), source };
///         let log = self.log.as_mut().expect("set up");
///         for _ in 0..self.lines {
///             at.go_on()?;
///             let mut lap = at.recorder.lap();
///             log.write_all(&self.line).map_err(fault)?;
///             at.recorder.part(&mut lap, append);
///             log.sync_data().map_err(fault)?;
///             at.recorder.part(&mut lap, fsync);
///         }
///         let bytes = self.lines * self.line.len() as u64;
///         Ok(Work { ops: self.lines, bytes, ..Work::default() })
///     }
///
///     fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
///         let log = std::fs::read(at.own.path().join("log")).unwrap_or_default();
///         let wanted = self.line.repeat(self.lines as usize);
///         Ok(Verify { checked: 1, bad: u64::from(log != wanted) })
///     }
///
///     fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
///         at.own.clear()
///     }
/// }
///
/// const APPEND_LOG: Registration = Registration {
///     help: "Append lines to a log and make each durable",
///     category: "Mine",
///     params: &[Param::new("lines", Kind::Count, "100", "lines to append")],
///     samples: |params| params.count("lines"),
///     ..Registration::new("append_log", |params| {
///         let lines = params.count("lines")?;
///         Ok(Box::new(AppendLog { lines, line: b"loss 0.25\n".to_vec(), log: None }))
///     })
/// };
///
/// let registry = Registry::standard().with(APPEND_LOG);
/// let folder = tempfile::tempdir().unwrap();
/// let manifest = run_alone(&registry, "append_log", &[("lines", "20")], folder.path())?;
/// assert_eq!(manifest.timing["fsync"].count, 20 * 10);
/// # Ok::<(), BenchError>(())
/// ```
pub trait Workload {
    /// Once, before the first iteration.
    ///
    /// # Errors
    /// Any error ends the run; so for all of these.
    fn prepare(&mut self, _at: &mut Stage<'_>) -> Result<()> {
        Ok(())
    }

    /// Before each iteration.
    ///
    /// # Errors
    /// See [`Workload::prepare`].
    fn set_up(&mut self, _at: &mut Stage<'_>) -> Result<()> {
        Ok(())
    }

    /// The files that the timed part reads: these are taken out of the page cache if that is
    /// asked for, and looked at.
    fn reads(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// What besides the page cache may have held what the timed part read, in words.
    fn held_elsewhere(&self) -> Option<String> {
        None
    }

    /// The timed part.
    ///
    /// # Errors
    /// See [`Workload::prepare`].
    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work>;

    /// Compares what was made or read with what it should be.
    ///
    /// # Errors
    /// See [`Workload::prepare`].
    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify>;

    /// Removes what the iteration made.
    ///
    /// # Errors
    /// See [`Workload::prepare`].
    fn tear_down(&mut self, _at: &mut Stage<'_>) -> Result<()> {
        Ok(())
    }
}

/// How much an iteration did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Operations, as the benchmark counts them.
    pub ops: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// Time inside the timed part that was no storage's work, such as content that is too large
    /// to be made before: it is taken off.
    pub paused: Duration,
}

/// What a benchmark has to work with.
pub struct Stage<'a> {
    /// The run's settings.
    pub spec: &'a RunSpec,
    /// This rank among the others.
    pub place: Place,
    /// This rank's own folder.
    pub own: &'a Folder,
    /// A folder of all ranks.
    pub shared: &'a Folder,
    /// The run's folder of results, for files that are to be kept.
    pub output: &'a Path,
    /// Number of the iteration, from 0, warm-ups among them.
    pub iteration: u32,
    /// Where samples go.
    pub recorder: Recorder,
    pub(crate) meeting: &'a mut dyn Meeting,
    pub(crate) stop: &'a Stop,
}

impl Stage<'_> {
    /// The operation of this name.
    pub fn op(&mut self, name: &str) -> Op {
        self.recorder.op(name)
    }

    /// Goes on, or ends because of a signal or the deadline.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`], [`BenchError::Deadline`].
    #[inline]
    pub fn go_on(&self) -> Result<()> {
        self.stop.check(self.spec.timeout_s)
    }

    /// Waits for all ranks, and records how long as `barrier_wait`.
    ///
    /// # Errors
    /// [`BenchError::Ranks`] names the ranks that did not come.
    pub fn barrier(&mut self) -> Result<()> {
        let began = Instant::now();
        self.meet()?;
        if self.place.world_size > 1 {
            let wait = self.op("barrier_wait");
            self.recorder.add(wait, nanoseconds(began.elapsed()));
        }
        Ok(())
    }

    /// Waits for all ranks outside the timed part.
    ///
    /// # Errors
    /// As [`Stage::barrier`].
    pub fn meet(&mut self) -> Result<()> {
        self.gather(&[]).map(|_| ())
    }

    /// Brings bytes and gets what all brought, by rank.
    ///
    /// # Errors
    /// As [`Stage::barrier`].
    pub fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.go_on()?;
        let all = self.meeting.gather(bytes);
        // Why this rank was told to end comes before what the others then saw.
        self.go_on()?;
        all
    }

    /// Whether this is rank 0.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.place.rank == 0
    }
}

/// One benchmark: its name, what it takes, and how it is made.
#[derive(Clone, Copy)]
pub struct Registration {
    /// Its name, in words joined by `_`.
    pub name: &'static str,
    /// What kind of work it does.
    pub category: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// What is written through where nothing is said of it.
    pub fsync: Fsync,
    /// What can do the work; the first is the default.
    pub engines: &'static [Engine],
    /// How it can reach files; the first is the default.
    pub interfaces: &'static [Interface],
    /// Of its parameters, those that name files that are there before it and that it reads: these
    /// are what a mount of Forebay or its client can serve.
    pub reads: &'static [&'static str],
    /// About how many samples an iteration gives in all operations: memory is kept in bounds by
    /// it.
    pub samples: fn(&Params) -> Result<u64>,
    /// Makes the native workload; parameters that cannot be are refused here.
    pub build: fn(&Params) -> Result<Box<dyn Workload>>,
}

impl Registration {
    /// A benchmark without parameters that does few operations; change what differs.
    #[must_use]
    pub const fn new(name: &'static str, build: fn(&Params) -> Result<Box<dyn Workload>>) -> Self {
        Self {
            name,
            category: "Other",
            help: "",
            params: &[],
            fsync: Fsync::None,
            engines: &[Engine::Native],
            interfaces: &[Interface::Native],
            reads: &[],
            samples: |_| Ok(1_000),
            build,
        }
    }
}

/// The benchmarks that a program knows.
#[derive(Clone)]
pub struct Registry(Vec<Registration>);

impl Registry {
    /// The suite.
    #[must_use]
    pub fn standard() -> Self {
        Self(crate::workloads::ALL.to_vec())
    }

    /// One more; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, registration: Registration) -> Self {
        self.0.retain(|known| known.name != registration.name);
        self.0.push(registration);
        self
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.0.iter()
    }

    /// The one of this name.
    ///
    /// # Errors
    /// [`BenchError::Usage`] lists those there are.
    pub fn find(&self, name: &str) -> Result<&Registration> {
        let found = self.0.iter().find(|known| known.name == name);
        found.ok_or_else(|| self.unknown(name, &[]))
    }

    /// That there is no benchmark of this name, neither here nor in Python, and what may be meant.
    #[must_use]
    pub fn unknown(&self, name: &str, python: &[PythonBenchmark]) -> BenchError {
        let mut names: Vec<&str> = self.0.iter().map(|known| known.name).collect();
        let python = python.iter().map(|known| known.name.as_str());
        names.extend(python.filter(|name| self.0.iter().all(|known| known.name != *name)));
        let said = crate::names::near(name, &names);
        BenchError::Usage(format!("there is no benchmark `{name}`: {said}"))
    }
}

/// Parameters that several benchmarks share.
pub(crate) const NUM_COPIES: Param =
    Param::new("num_copies", Kind::Count, "5000", "files of each rank");
pub(crate) const FILE_SIZE: Param =
    Param::new("file_size", Kind::Size, "4KiB", "bytes of each file");
