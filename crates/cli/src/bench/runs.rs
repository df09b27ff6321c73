//! Folders of runs, read into memory.

use std::path::{Path, PathBuf};

use forebay_analysis::suite::{MAX_MANIFEST_BYTES, Manifest, Metric, SuiteRun};
use forebay_bench::files::read_bounded;

use crate::Failure;

/// How deep runs may lie below the folder that was named.
const MAX_DEPTH: usize = 4;

/// Runs that are read at one time.
const MAX_RUNS: usize = 100_000;

/// The run in this folder.
pub(super) fn one(folder: &Path) -> Result<SuiteRun, Failure> {
    let files = manifests(folder)?;
    if files.is_empty() {
        let message = format!("no run in `{}`: it has no `rank-*.json`", folder.display());
        return Err(Failure::usage(message).hint("name the folder of one run"));
    }
    read(folder, &files)
}

/// The run in this folder, or all runs in folders below it. Where a metric is given, only its
/// values are kept of each run.
pub(super) fn many(folder: &Path, metric: Option<Metric>) -> Result<Vec<SuiteRun>, Failure> {
    let mut runs = Vec::new();
    walk(folder, MAX_DEPTH, &mut |folder, files| {
        if runs.len() == MAX_RUNS {
            return Err(Failure::new(format!("there are more than {MAX_RUNS} runs")));
        }
        let run = read(folder, files)?;
        runs.push(match metric {
            Some(metric) => run.reduced(metric),
            None => run,
        });
        Ok(())
    })?;
    if runs.is_empty() {
        let message = format!("no run in `{}` or below it", folder.display());
        let hint = "name the folder of one run, or a folder that holds such folders";
        return Err(Failure::usage(message).hint(hint));
    }
    Ok(runs)
}

type Visit<'a> = dyn FnMut(&Path, &[PathBuf]) -> Result<(), Failure> + 'a;

fn walk(folder: &Path, depth: usize, visit: &mut Visit<'_>) -> Result<(), Failure> {
    let files = manifests(folder)?;
    if !files.is_empty() {
        return visit(folder, &files);
    }
    if depth == 0 {
        return Ok(());
    }
    let mut below: Vec<PathBuf> = entries(folder)?
        .into_iter()
        // A link could lead round in a circle.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    below.sort();
    below
        .iter()
        .try_for_each(|folder| walk(folder, depth - 1, visit))
}

fn entries(folder: &Path) -> Result<Vec<std::fs::DirEntry>, Failure> {
    std::fs::read_dir(folder)
        .and_then(Iterator::collect)
        .map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", folder.display())))
}

/// The manifests right in this folder, by name.
fn manifests(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_manifest = |name: &str| name.starts_with("rank-") && name.ends_with(".json");
    let mut found: Vec<PathBuf> = entries(folder)?
        .into_iter()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_manifest))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    Ok(found)
}

fn read(folder: &Path, files: &[PathBuf]) -> Result<SuiteRun, Failure> {
    let ranks = files
        .iter()
        .map(|path| manifest(path))
        .collect::<Result<_, _>>()?;
    SuiteRun::new(ranks)
        .map_err(|error| Failure::from(error).of(&format!("cannot use `{}`", folder.display())))
}

fn manifest(path: &Path) -> Result<Manifest, Failure> {
    let bytes = read_bounded(path, MAX_MANIFEST_BYTES)?;
    Manifest::read(&bytes)
        .map_err(|error| Failure::from(error).of(&format!("cannot use `{}`", path.display())))
}
