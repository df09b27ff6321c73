//! Handing over to the Python package, where torch is.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_members::{Job, Launcher};

use crate::Failure;

/// Names the interpreter, where it is not the one beside this command.
const PYTHON: &str = "FOREBAY_PYTHON";

/// Ports for ranks that meet at the first host of a job: below those that kernels give out.
const PORTS: std::ops::Range<u64> = 20_000..30_000;

/// Becomes the interpreter with `forebay.fabric`; returns only if it cannot.
pub(super) fn run(command: &str, words: &[OsString]) -> Result<(), Failure> {
    let python = interpreter()?;
    let mut program = Command::new(&python);
    program.args(["-m", "forebay.fabric", command]).args(words);
    if std::env::var_os("MASTER_ADDR").is_none() {
        program.envs(meeting()?);
    }
    let fault = program.exec();
    Err(
        Failure::new(format!("cannot run `{}`: {fault}", python.display())).hint(format!(
            "name a Python that has forebay and torch in {PYTHON}"
        )),
    )
}

/// The interpreter: as named, beside this command, or the first on the path.
fn interpreter() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(PYTHON).filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let this = std::env::current_exe().ok();
    let beside = this.as_deref().and_then(Path::parent);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("python3"));
    let places = beside.map(|folder| folder.join("python3"));
    let mut places = places.into_iter().chain(on_path);
    places.find(|place| place.is_file()).ok_or_else(|| {
        Failure::new("there is no `python3` beside this command and none on the path").hint(
            format!("name a Python that has forebay and torch in {PYTHON}"),
        )
    })
}

/// Where the ranks of a Slurm job meet: at its first host.
fn meeting() -> Result<Vec<(&'static str, String)>, Failure> {
    let job = Job::of(&|name| std::env::var(name).ok())?;
    let Some(job) = job.filter(|job| job.launcher == Launcher::Slurm) else {
        return Ok(Vec::new());
    };
    let Some(host) = job.hosts.first() else {
        return Ok(Vec::new());
    };
    // The same on all ranks, and hardly that of another job on the host.
    let sum = (job.id.bytes()).fold(0u64, |sum, byte| {
        sum.wrapping_mul(131).wrapping_add(u64::from(byte))
    });
    let port = PORTS.start + sum % (PORTS.end - PORTS.start);
    Ok(vec![
        ("MASTER_ADDR", host.clone()),
        ("MASTER_PORT", port.to_string()),
    ])
}
