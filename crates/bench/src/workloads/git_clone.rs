//! A repository cloned with git.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workload::{Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Param, Result, Verify, content, program};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Mixed",
    help: "Clone a repository with git, several times",
    interfaces: super::ALSO_MOUNT,
    reads: &["url"],
    params: &[
        Param::new(
            "url",
            Kind::Text,
            "",
            "repository [default: one made on the file system under test]",
        ),
        Param::new("num_copies", Kind::Count, "2", "clones of each rank"),
        Param::new("depth", Kind::Count, "0", "commits of history; 0: all"),
        Param::new(
            "fixture_files",
            Kind::Count,
            "500",
            "files of the repository that is made",
        ),
    ],
    samples: |params| params.count("num_copies"),
    ..Registration::new("git_clone", |params| {
        Ok(Box::new(GitClone {
            url: params.text("url")?.to_owned(),
            copies: params.positive("num_copies")?,
            depth: params.count("depth")?,
            files: params.positive("fixture_files")?.min(100_000),
            head: String::new(),
            bytes: 0,
        }))
    })
};

struct GitClone {
    url: String,
    copies: u64,
    depth: u64,
    files: u64,
    /// The commit that clones must have.
    head: String,
    /// Bytes of one clone's objects and files; known after the first.
    bytes: u64,
}

/// Git without questions to anybody.
fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(folder)
        .env("GIT_TERMINAL_PROMPT", "0");
    // A hook of git that runs this program would lead it to its own repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command
}

fn say(at: &Stage<'_>, command: &mut Command) -> Result<String> {
    let ended = program::run_well(command, &|| at.go_on())?;
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}

impl GitClone {
    /// A repository with files of 1 to 16 KiB in folders, in two commits.
    fn make_fixture(&self, at: &Stage<'_>) -> Result<()> {
        let folder = at.shared.make("repository")?;
        let folder = folder.path();
        say(
            at,
            git(folder).args(["init", "--quiet", "--initial-branch=main"]),
        )?;
        for half in 0..2 {
            for number in (half..self.files).step_by(2) {
                at.go_on()?;
                let inner = folder.join(format!("package-{:03}", number / 50));
                std::fs::create_dir_all(&inner).map_err(BenchError::io("make folder", &inner))?;
                let mut bytes = vec![0; 1024 << (number % 5)];
                content::seeded(at.spec.seed ^ number, &mut bytes);
                let file = inner.join(format!("module_{number}.py"));
                let text = content::hex(&bytes);
                std::fs::write(&file, text).map_err(BenchError::io("write", &file))?;
            }
            say(at, git(folder).args(["add", "--all"]))?;
            let who = [
                "-c",
                "user.name=Forebay",
                "-c",
                "user.email=bench@localhost",
            ];
            let commit = [
                "commit",
                "--quiet",
                "--no-verify",
                "--no-gpg-sign",
                "-m",
                "Half",
            ];
            say(at, git(folder).args(who).args(commit))?;
        }
        Ok(())
    }

    fn place(at: &Stage<'_>, copy: u64) -> PathBuf {
        let folder = at.own.path().join(format!("clones-{:05}", at.iteration));
        folder.join(format!("clone_{copy}"))
    }
}

impl Workload for GitClone {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let made = self.url.is_empty();
        if made && at.is_first() {
            self.make_fixture(at)?;
        }
        at.meet()?;
        if made {
            // By `file://`, so that git copies and does not link.
            self.url = format!("file://{}/repository", at.shared.path().display());
        }
        let mut command = git(at.own.path());
        let heads = say(
            at,
            command.args(["ls-remote", "--exit-code", "--", &self.url, "HEAD"]),
        )?;
        self.head = heads
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        Ok(())
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        at.own
            .make(&format!("clones-{:05}", at.iteration))
            .map(|_| ())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let clone = at.op("clone");
        for copy in 0..self.copies {
            let mut command = git(at.own.path());
            command.args(["clone", "--quiet"]);
            if self.depth > 0 {
                command.arg(format!("--depth={}", self.depth));
            }
            command.arg("--").arg(&self.url).arg(Self::place(at, copy));
            let mut lap = at.recorder.lap();
            say(at, &mut command)?;
            at.recorder.part(&mut lap, clone);
        }
        Ok(Work {
            ops: self.copies,
            bytes: self.bytes * self.copies,
            ..Work::default()
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let mut found = Verify::default();
        for copy in 0..self.copies {
            let place = Self::place(at, copy);
            say(at, git(&place).args(["fsck", "--connectivity-only"]))?;
            let head = say(at, git(&place).args(["rev-parse", "HEAD"]))?;
            let changed = say(at, git(&place).args(["status", "--porcelain"]))?;
            found.checked += 1;
            found.bad += u64::from(head != self.head || !changed.is_empty());
            if self.bytes == 0 {
                self.bytes = tree_bytes(&place)?;
            }
        }
        Ok(found)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        at.own.remove(&format!("clones-{:05}", at.iteration))
    }
}

/// Bytes of all files below a folder; links are not followed.
fn tree_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let fault = |error| BenchError::io("list", &folder)(error);
        for entry in std::fs::read_dir(&folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let kind = entry.file_type().map_err(fault)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                bytes += entry.metadata().map_err(fault)?.len();
            }
        }
    }
    Ok(bytes)
}
