//! A tree of folders: made, walked, removed.

use std::ffi::CString;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, mkdirat, unlinkat};

use super::flat::{both, holds};
use crate::folder::{Cursor, Folder};
use crate::workload::{Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Op, Param, Params, Result, Verify, files};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Metadata",
    help: "Make a tree of folders, walk it, remove it",
    params: &[
        Param::new("depth", Kind::Count, "4", "levels of folders"),
        Param::new("breadth", Kind::Count, "8", "folders in each folder"),
        Param::new(
            "files_per_dir",
            Kind::Count,
            "0",
            "empty files in each folder",
        ),
        Param::new(
            "force",
            Kind::Flag,
            "false",
            "allow more than a million folders",
        ),
    ],
    samples: |params| {
        let tree = Tree::new(params)?;
        Ok(tree.folders.saturating_mul(2 + 2 * tree.files.len() as u64))
    },
    ..Registration::new("folder_bench", |params| Ok(Box::new(Tree::new(params)?)))
};

/// Folders that are made without `force`.
const MANY: u64 = 1_000_000;

/// Names in one folder.
const WIDE: u64 = 1_000_000;

struct Tree {
    depth: u64,
    /// Names of the folders in each folder.
    names: Vec<CString>,
    /// Names of the files in each folder.
    files: Vec<CString>,
    /// Folders in all.
    folders: u64,
    root: Option<Folder>,
    walked: (u64, u64),
}

/// Folders of a tree: the sum of `breadth` to the powers 1 to `depth`.
fn folders(depth: u64, breadth: u64) -> u64 {
    let (mut sum, mut level) = (0u64, 1u64);
    for _ in 0..depth.min(1 << 24) {
        level = level.saturating_mul(breadth);
        sum = sum.saturating_add(level);
        if sum == u64::MAX || level == 0 {
            break;
        }
    }
    sum
}

impl Tree {
    fn new(params: &Params) -> Result<Self> {
        let (depth, breadth) = (params.positive("depth")?, params.positive("breadth")?);
        let in_each = params.count("files_per_dir")?;
        let folders = folders(depth, breadth);
        if folders > MANY && !params.flag("force")? {
            return Err(BenchError::Usage(format!(
                "depth {depth} and breadth {breadth} make {folders} folders: more than {MANY} need `force`"
            )));
        }
        if breadth > WIDE || in_each > WIDE || depth > 1 << 24 {
            return Err(BenchError::Usage(format!(
                "`breadth` and `files_per_dir` must be at most {WIDE}, and `depth` at most 16777216"
            )));
        }
        let names = |letter: char, count: u64| -> Result<Vec<CString>> {
            let name = |number| CString::new(format!("{letter}{number}"));
            let names = (0..count).map(name).collect::<std::result::Result<_, _>>();
            names.map_err(|error| BenchError::Content(error.to_string()))
        };
        Ok(Self {
            depth,
            names: names('d', breadth)?,
            files: names('f', in_each)?,
            folders,
            root: None,
            walked: (0, 0),
        })
    }

    fn root(&self) -> Result<&Folder> {
        let missing = || BenchError::Content("the folder of the tree was not made".into());
        self.root.as_ref().ok_or_else(missing)
    }

    /// Visits every folder of the tree, whole subtrees before their neighbours. `enter` is called
    /// with the folder above before a folder is entered, `leave` after it was left. The way up is
    /// by `..`, so no depth needs more than two descriptors.
    fn visit(
        &self,
        at: &mut Stage<'_>,
        mut enter: impl FnMut(&mut Stage<'_>, &Cursor, &CString) -> Result<()>,
        mut leave: impl FnMut(&mut Stage<'_>, &Cursor, &CString) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = Cursor::new(self.root()?)?;
        let mut next = vec![0usize];
        while let Some(number) = next.last_mut() {
            at.go_on()?;
            if let Some(name) = self.names.get(*number) {
                *number += 1;
                enter(at, &cursor, name)?;
                if (next.len() as u64) < self.depth {
                    cursor.down(name)?;
                    next.push(0);
                } else {
                    leave(at, &cursor, name)?;
                }
                continue;
            }
            next.pop();
            if let Some(above) = next.last() {
                cursor.up()?;
                leave(at, &cursor, &self.names[above - 1])?;
            }
        }
        Ok(())
    }

    fn make(&self, at: &mut Stage<'_>, mkdir: Op, create: Op) -> Result<()> {
        let enter = |at: &mut Stage<'_>, above: &Cursor, name: &CString| {
            let mut lap = at.recorder.lap();
            mkdirat(above, name, Mode::from_raw_mode(0o755)).map_err(above.fault("make folder"))?;
            at.recorder.part(&mut lap, mkdir);
            if self.files.is_empty() {
                return Ok(());
            }
            let inner = above.open(name)?;
            for file in &self.files {
                let mut lap = at.recorder.lap();
                drop(files::create(&inner, file, OFlags::empty()).map_err(above.fault("create"))?);
                at.recorder.part(&mut lap, create);
            }
            Ok(())
        };
        self.visit(at, enter, |_, _, _| Ok(()))
    }

    /// Folders and files that a walk finds.
    fn walk(&self, at: &mut Stage<'_>) -> Result<(u64, u64)> {
        let mut cursor = Cursor::new(self.root()?)?;
        let (mut folders, mut files) = (0, 0);
        let mut way = vec![self.list(&cursor, &mut folders, &mut files)?];
        while let Some(inner) = way.last_mut() {
            at.go_on()?;
            if let Some(name) = inner.pop() {
                cursor.down(&name)?;
                way.push(self.list(&cursor, &mut folders, &mut files)?);
            } else {
                way.pop();
                if !way.is_empty() {
                    cursor.up()?;
                }
            }
        }
        Ok((folders, files))
    }

    /// The names of the folders in a folder.
    fn list(&self, cursor: &Cursor, folders: &mut u64, files: &mut u64) -> Result<Vec<CString>> {
        let mut inner = Vec::new();
        for entry in Dir::read_from(cursor.as_fd()).map_err(cursor.fault("list"))? {
            let entry = entry.map_err(cursor.fault("list"))?;
            let name = entry.file_name();
            // Only names of this benchmark are there: a folder's begins with `d`.
            let is_folder = match entry.file_type() {
                FileType::Unknown => name.to_bytes().starts_with(b"d"),
                kind => kind == FileType::Directory,
            };
            if name == c"." || name == c".." {
            } else if is_folder {
                *folders += 1;
                inner.push(name.to_owned());
            } else {
                *files += 1;
            }
        }
        Ok(inner)
    }

    fn remove(&self, at: &mut Stage<'_>, rmdir: Op, unlink: Op) -> Result<()> {
        let leave = |at: &mut Stage<'_>, above: &Cursor, name: &CString| {
            if !self.files.is_empty() {
                let inner = above.open(name)?;
                for file in &self.files {
                    let mut lap = at.recorder.lap();
                    unlinkat(&inner, file, AtFlags::empty()).map_err(above.fault("delete"))?;
                    at.recorder.part(&mut lap, unlink);
                }
            }
            let mut lap = at.recorder.lap();
            unlinkat(above, name, AtFlags::REMOVEDIR).map_err(above.fault("remove folder"))?;
            at.recorder.part(&mut lap, rmdir);
            Ok(())
        };
        self.visit(at, |_, _, _| Ok(()), leave)
    }
}

impl Workload for Tree {
    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.root = Some(at.own.make(&format!("tree-{:05}", at.iteration))?);
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let ops = ["mkdir", "create", "walk", "rmdir", "unlink"].map(|name| at.op(name));
        let [mkdir, create, walk, rmdir, unlink] = ops;
        at.recorder.reserve(mkdir, self.folders as usize);
        at.recorder.reserve(rmdir, self.folders as usize);
        self.make(at, mkdir, create)?;
        let mut lap = at.recorder.lap();
        self.walked = self.walk(at)?;
        at.recorder.part(&mut lap, walk);
        self.remove(at, rmdir, unlink)?;
        let files = self.folders * self.files.len() as u64;
        Ok(Work {
            ops: 2 * (self.folders + files) + 1,
            ..Work::default()
        })
    }

    fn verify(&mut self, _at: &mut Stage<'_>) -> Result<Verify> {
        let wanted = (self.folders, self.folders * self.files.len() as u64);
        let walked = Verify {
            checked: 1,
            bad: u64::from(self.walked != wanted),
        };
        Ok(both(walked, holds(self.root()?, 0)?))
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.root = None;
        at.own.remove(&format!("tree-{:05}", at.iteration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_a_sum_of_powers() {
        assert_eq!(folders(3, 2), 2 + 4 + 8);
        assert_eq!(folders(5, 1), 5);
        assert_eq!(folders(1, 7), 7);
        assert_eq!(folders(64, 10), u64::MAX);
    }
}
