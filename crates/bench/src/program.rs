//! Other programs: run to their end, or to the run's.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{BenchError, Result};

/// The most that is kept of what a program says.
const SAID: u64 = 1 << 20;

/// Lines of it that an error repeats: the last ones, and in git's case the reason is the fourth.
const LINES: usize = 5;

/// Between two looks at a signal or the deadline; the end of the program is noticed at once.
const LOOK: Duration = Duration::from_millis(50);

/// What a program left behind.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// Runs a program without input. What it says goes to memory, so that no pipe can fill up.
pub(crate) fn run(command: &mut Command, go_on: &dyn Fn() -> Result<()>) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let fault = |fault: String| BenchError::Program {
        program: name.clone(),
        fault,
    };
    let memory =
        || -> std::io::Result<File> { Ok(memfd_create("said", MemfdFlags::CLOEXEC)?.into()) };
    let opened = || -> std::io::Result<_> {
        let (out, err) = (memory()?, memory()?);
        let ends = (out.try_clone()?, err.try_clone()?);
        Ok((out, err, ends))
    };
    let (mut out, mut err, ends) =
        opened().map_err(|error| fault(format!("cannot be started: {error}")))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(ends.0)
        .stderr(ends.1)
        .spawn();
    let child = child.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => fault("is not installed here".to_owned()),
        _ => fault(format!("cannot be started: {error}")),
    })?;
    let status = wait(child, go_on)?.map_err(|error| fault(format!("was lost: {error}")))?;
    let read = |file: &mut File| {
        let mut said = Vec::new();
        let read = file
            .rewind()
            .and_then(|()| file.take(SAID).read_to_end(&mut said));
        read.map(|_| said)
            .map_err(|error| fault(format!("said something that cannot be read: {error}")))
    };
    Ok(Ended {
        status,
        stdout: read(&mut out)?,
        stderr: String::from_utf8_lossy(&read(&mut err)?).into_owned(),
    })
}

/// The same for a program that must end well.
pub(crate) fn run_well(command: &mut Command, go_on: &dyn Fn() -> Result<()>) -> Result<Ended> {
    let ended = run(command, go_on)?;
    if ended.status.success() {
        return Ok(ended);
    }
    let said = ended.stderr.trim();
    Err(BenchError::Program {
        program: command.get_program().to_string_lossy().into_owned(),
        fault: format!("failed: {}: {}", ended.status, last_lines(said)),
    })
}

fn last_lines(said: &str) -> String {
    let lines = said.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.rev().take(LINES).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

/// Waits for a child; ends it when the run is to end.
fn wait(mut child: Child, go_on: &dyn Fn() -> Result<()>) -> Result<std::io::Result<ExitStatus>> {
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok();
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Ok(Ok(status)),
            Err(error) => return Ok(Err(error)),
        }
        if let Err(error) = go_on() {
            // It is this process's own, and not waited for yet.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        match &handle {
            Some(handle) => {
                let timeout = Timespec {
                    tv_sec: 0,
                    tv_nsec: LOOK.subsec_nanos().into(),
                };
                let mut fds = [PollFd::new(handle, PollFlags::IN)];
                // An interruption by a signal is looked at above.
                let _ = poll(&mut fds, Some(&timeout));
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_a_program_says_is_kept_and_a_failure_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let ended = run(&mut command, &|| Ok(())).unwrap();
        assert_eq!(
            (ended.stdout.as_slice(), ended.stderr.as_str()),
            (&b"out\n"[..], "err\n")
        );
        assert_eq!(ended.status.code(), Some(3));
        let error = run_well(&mut command, &|| Ok(())).err().unwrap();
        assert_eq!(error.to_string(), "`sh` failed: exit status: 3: err");
    }

    #[test]
    fn a_program_ends_with_the_run() {
        let began = Instant::now();
        let mut command = Command::new("sleep");
        let ended = run(command.arg("600"), &|| match began.elapsed().as_millis() {
            0..100 => Ok(()),
            _ => Err(BenchError::Interrupted),
        });
        assert!(matches!(ended, Err(BenchError::Interrupted)));
        assert!(began.elapsed() < Duration::from_secs(300));
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let mut command = Command::new("no-such-program-anywhere");
        let error = run(&mut command, &|| Ok(())).err().unwrap();
        assert_eq!(
            error.to_string(),
            "`no-such-program-anywhere` is not installed here"
        );
    }
}
