//! Runs started and watched over, so that each rank leaves a manifest and nothing else is left.

mod job;
mod local;
mod member;

use std::path::{Path, PathBuf};

use forebay_analysis::suite::{Manifest, SuiteRun};
use serde_json::Map;

pub use job::run_in_job;
pub use local::{Ranks, run_local};
pub use member::run_rank;

use crate::meet::Alone;
use crate::place::Place;
use crate::plan::{Known, Options};
use crate::rank::{Rank, SHARED, blank, write_manifest};
use crate::spec::{RunSpec, manifest_name};
use crate::work::WorkFolder;
use crate::workload::Registry;
use crate::{BenchError, Result, Stop, files};

/// The largest manifest that is read back, in bytes.
const MANIFEST_BYTES: u64 = forebay_analysis::suite::MAX_MANIFEST_BYTES;

/// The run's settings in its folder.
pub const RUN: &str = "run.json";

/// What happens while a run goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The ranks of a launcher have agreed on the name of their run, which is that of the first.
    Named {
        /// It.
        run_id: String,
    },
    /// A rank has done an iteration.
    Iteration {
        /// The rank.
        rank: u32,
        /// The number of the iteration, from 0.
        iteration: u32,
        /// Iterations in all, warm-ups too.
        of: u32,
        /// How long it took.
        wall_ns: u64,
    },
    /// A rank said something.
    Said {
        /// The rank.
        rank: u32,
        /// A line.
        line: String,
    },
}

/// What hears of events.
pub type Watch<'a> = &'a mut dyn FnMut(Event);

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// Its settings.
    pub spec: RunSpec,
    /// Its folder of results.
    pub folder: PathBuf,
    /// All its ranks, where their manifests could be read.
    pub run: Option<SuiteRun>,
    /// Why it failed; `None` if it passed.
    pub error: Option<String>,
    /// What went wrong besides and spoils no figure.
    pub notes: Vec<String>,
}

/// A run's two folders: of results, and the one it works in.
struct Run<'a> {
    spec: &'a RunSpec,
    folder: PathBuf,
    work: Option<WorkFolder>,
    notes: Vec<String>,
}

impl<'a> Run<'a> {
    /// Makes the folder of results and writes the settings.
    fn begin(spec: &'a RunSpec, output_dir: &Path) -> Result<Self> {
        let folder = output_dir.join(&spec.run_id);
        std::fs::create_dir_all(&folder).map_err(BenchError::io("make folder", &folder))?;
        files::write_whole(&folder.join(RUN), &spec.json())?;
        Ok(Self {
            spec,
            folder,
            work: None,
            notes: Vec::new(),
        })
    }

    /// Makes the folder that ranks work in.
    fn make_work(&mut self) -> Result<()> {
        let work = WorkFolder::create(&self.spec.work_dir, &self.spec.run_id)?;
        let root = WorkFolder::join(work.path(), &self.spec.run_id);
        self.work = Some(work);
        root?.make(SHARED).map(|_| ())
    }

    /// Leaves a manifest of failure for a rank that left none.
    fn fail(&mut self, place: Place, error: &str) {
        if self.folder.join(manifest_name(place.rank)).exists() {
            return;
        }
        let mut manifest = blank(self.spec, place);
        manifest.error = Some(error.to_owned());
        if let Err(error) = write_manifest(&self.folder, &manifest) {
            self.notes.push(error.line());
        }
    }

    fn fail_all(&mut self, error: &str) {
        for rank in 0..self.spec.ranks {
            self.fail(place(self.spec, rank), error);
        }
    }

    /// Removes the work folder, and gathers the manifests of all ranks.
    fn end(mut self, mut error: Option<String>) -> Outcome {
        self.remove_work(error.is_none());
        let run = match self.read() {
            Ok(run) => {
                error = error.or_else(|| run.fault());
                Some(run)
            }
            Err(fault) => {
                error = error.or(Some(fault));
                None
            }
        };
        self.outcome(run, error)
    }

    /// The same for one rank of a job: the first gathers what manifests it sees. On nodes that do
    /// not share the folder of results, those are not all.
    fn end_of_rank(mut self, here: Place, error: Option<String>) -> Outcome {
        self.remove_work(error.is_none());
        let run = if here.rank == 0 {
            self.read().ok()
        } else {
            None
        };
        self.outcome(run, error)
    }

    fn outcome(self, run: Option<SuiteRun>, error: Option<String>) -> Outcome {
        Outcome {
            spec: self.spec.clone(),
            folder: self.folder,
            run,
            error,
            notes: self.notes,
        }
    }

    fn remove_work(&mut self, passed: bool) {
        if let Some(work) = self.work.take()
            && !(self.spec.keep_data && passed)
        {
            let path = work.path().to_owned();
            if let Err(error) = work.remove() {
                let note = format!("`{}` is left behind: {}", path.display(), error.line());
                self.notes.push(note);
            }
        }
    }

    fn read(&self) -> std::result::Result<SuiteRun, String> {
        let mut ranks = Vec::new();
        for rank in 0..self.spec.ranks {
            let file = self.folder.join(manifest_name(rank));
            // Of another node, in a folder that is not shared.
            if !file.exists() {
                continue;
            }
            let bytes = files::read_bounded(&file, MANIFEST_BYTES).map_err(|error| error.line())?;
            let manifest =
                Manifest::read(&bytes).map_err(|error| format!("`{}`: {error}", file.display()))?;
            ranks.push(manifest);
        }
        SuiteRun::new(ranks).map_err(|error| error.to_string())
    }
}

fn place(spec: &RunSpec, rank: u32) -> Place {
    Place {
        rank,
        local_rank: rank,
        world_size: spec.ranks,
    }
}

/// Runs one benchmark with one rank in this process, with defaults for all but `params`, on the
/// file system of `folder`; results go to `folder` too.
///
/// # Errors
/// Whatever made it fail.
pub fn run_alone(
    registry: &Registry,
    benchmark: &str,
    params: &[(&str, &str)],
    folder: &Path,
) -> Result<Manifest> {
    let known = Known {
        registry,
        python: &[],
    };
    let options = Options {
        dataset_path: Some(folder.to_owned()),
        engine: Some(crate::spec::Engine::Native),
        ..Options::default()
    };
    let given: Map<_, _> = params
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.into()))
        .collect();
    let spec = known.settle(benchmark, &options, &given, Vec::new())?;
    let mut run = Run::begin(&spec, folder)?;
    run.make_work()?;
    let rank = Rank {
        spec: &spec,
        registration: registry.find(benchmark)?,
        place: place(&spec, 0),
        stop: &Stop::default(),
        output: &run.folder.clone(),
    };
    let manifest = rank.run(&mut Alone, &mut |_| ())?;
    match run.end(manifest.error.clone()).error {
        None => Ok(manifest),
        Some(error) => Err(BenchError::Content(error)),
    }
}
