//! Ranks as processes of this machine.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::{Event, Outcome, RUN, Run, Watch, place};
use crate::meet::Server;
use crate::spec::{Engine, RunSpec, unix_ns};
use crate::{BenchError, Result, Stop, python};

/// The address that native ranks of this machine meet at.
pub(super) const MEET: &str = "FOREBAY_BENCH_MEET";

/// Between two looks at the ranks.
const LOOK: Duration = Duration::from_millis(20);

/// For ranks to end by themselves, first when another failed and then when they were asked to.
const GRACE: Duration = Duration::from_secs(5);

/// The longest line of a rank that is shown.
const LINE: u64 = 16 << 10;

/// How ranks are started.
pub struct Ranks<'a> {
    /// This program; a rank is its `bench rank`.
    pub program: PathBuf,
    /// Why to end early.
    pub stop: &'a Stop,
}

/// Runs a benchmark with all its ranks on this machine.
///
/// # Errors
/// [`BenchError::Io`] where the folder of results cannot be made; whatever happens later is in the
/// outcome.
pub fn run_local(
    spec: &RunSpec,
    output_dir: &Path,
    ranks: &Ranks<'_>,
    watch: Watch<'_>,
) -> Result<Outcome> {
    // A run of a list starts when those before it have ended.
    let spec = &RunSpec {
        started_unix_ns: unix_ns(),
        ..spec.clone()
    };
    let mut run = Run::begin(spec, output_dir)?;
    let ended = run
        .make_work()
        .and_then(|()| Gang::start(spec, &run.folder, ranks))
        .and_then(|mut gang| {
            gang.watch(ranks.stop, watch);
            for (rank, how) in gang.faults() {
                run.fail(place(spec, rank), &how);
            }
            match gang.told {
                Some(Told::Stop(error)) => Err(error),
                _ => Ok(()),
            }
        });
    let error = ended.err().map(|error| error.line());
    if let Some(error) = &error {
        run.fail_all(error);
    }
    Ok(run.end(error))
}

/// One rank's process.
struct Member {
    rank: u32,
    child: Child,
    ended: Option<ExitStatus>,
    /// What it said last that was no progress: why it ended, where it left no manifest.
    said: Option<String>,
}

/// Why ranks were asked to end.
enum Told {
    /// By a signal, or at the deadline.
    Stop(BenchError),
    /// Because one of them failed.
    Failure,
}

/// All ranks of a run.
struct Gang {
    members: Vec<Member>,
    events: Receiver<Event>,
    began: Instant,
    patience: Duration,
    seconds: u64,
    told: Option<Told>,
    /// When ranks are sent the next, stronger signal.
    next: Option<(Instant, Signal)>,
}

impl Gang {
    fn start(spec: &RunSpec, folder: &Path, ranks: &Ranks<'_>) -> Result<Self> {
        let began = Instant::now();
        let (sender, events) = mpsc::channel();
        let mut gang = Self {
            members: Vec::new(),
            events,
            began,
            // The ranks end at the deadline by themselves.
            patience: spec.timeout() + 3 * GRACE,
            seconds: spec.timeout_s,
            told: None,
            next: None,
        };
        let meeting = meeting(spec, began)?;
        for rank in 0..spec.ranks {
            let mut command = match spec.engine {
                Engine::Native => {
                    let mut command = Command::new(&ranks.program);
                    command.args(["bench", "rank"]).arg(folder.join(RUN));
                    command
                }
                Engine::Torch | Engine::Python => python::rank(&folder.join(RUN)),
            };
            command
                .envs(place(spec, rank).environment())
                .envs(meeting.iter().map(|(name, value)| (*name, value)))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            // What a launcher around this program said of its own ranks is not theirs.
            for name in ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"] {
                command.env_remove(name);
            }
            let child = command.spawn().map_err(|error| {
                gang.kill();
                BenchError::Program {
                    program: command.get_program().to_string_lossy().into_owned(),
                    fault: format!("cannot be started: {error}"),
                }
            });
            gang.add(rank, child?, sender.clone());
        }
        Ok(gang)
    }

    fn add(&mut self, rank: u32, mut child: Child, sender: Sender<Event>) {
        if let Some(stderr) = child.stderr.take() {
            // It ends with the pipe; a rank's child that keeps it open holds nobody up.
            std::thread::spawn(move || listen(rank, stderr, &sender));
        }
        self.members.push(Member {
            rank,
            child,
            ended: None,
            said: None,
        });
    }

    /// Waits until all ranks have ended, one way or another.
    fn watch(&mut self, stop: &Stop, watch: Watch<'_>) {
        while self.look() {
            while let Ok(event) = self.events.try_recv() {
                self.hear(event, watch);
            }
            if !matches!(self.told, Some(Told::Stop(_))) {
                let late = self.began.elapsed() > self.patience;
                let deadline = late.then_some(BenchError::Deadline {
                    seconds: self.seconds,
                });
                if let Some(error) = stop.check(self.seconds).err().or(deadline) {
                    self.told = Some(Told::Stop(error));
                    self.next = Some((Instant::now(), Signal::TERM));
                }
            }
            if self.told.is_none() && self.members.iter().any(Member::has_failed) {
                self.told = Some(Told::Failure);
                self.next = Some((Instant::now() + GRACE, Signal::TERM));
            }
            if !self.remind() {
                break;
            }
            if let Ok(event) = self.events.recv_timeout(LOOK) {
                self.hear(event, watch);
            }
        }
        // What was said last may still be on its way.
        let until = Instant::now() + Duration::from_millis(200);
        while let Ok(event) = self
            .events
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.hear(event, watch);
        }
    }

    fn hear(&mut self, event: Event, watch: Watch<'_>) {
        if let Event::Said { rank, line } = &event
            && let Some(member) = self.members.iter_mut().find(|one| one.rank == *rank)
        {
            member.said = Some(line.clone());
        }
        watch(event);
    }

    /// Whether any rank is still there.
    fn look(&mut self) -> bool {
        for member in self
            .members
            .iter_mut()
            .filter(|member| member.ended.is_none())
        {
            // One that cannot be waited for is nobody's child any more.
            member.ended = member.child.try_wait().ok().flatten();
        }
        self.members.iter().any(|member| member.ended.is_none())
    }

    /// Sends the signal that is due. `false` when even the strongest did not help.
    fn remind(&mut self) -> bool {
        let Some((due, signal)) = self.next else {
            return true;
        };
        if Instant::now() < due {
            return true;
        }
        if signal == Signal::CONT {
            return false;
        }
        for member in self.members.iter().filter(|member| member.ended.is_none()) {
            // It is this process's own child and not waited for yet, so the number is its.
            let _ = kill_process(Pid::from_child(&member.child), signal);
        }
        // A process in a call that does not come back outlives even this; it is then left.
        let after = if signal == Signal::TERM {
            Signal::KILL
        } else {
            Signal::CONT
        };
        self.next = Some((Instant::now() + GRACE, after));
        true
    }

    fn kill(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }

    /// How ranks ended that did not end well, in words. It stands in the manifest of one that wrote
    /// none itself.
    fn faults(&self) -> Vec<(u32, String)> {
        let fault = |member: &Member| {
            let how = match member.ended {
                Some(status) if status.success() => "the rank ended without a manifest".to_owned(),
                Some(status) => format!("the rank was ended: {status}"),
                None => "the rank could not be ended: a call of the file system did not come back"
                    .to_owned(),
            };
            match &member.said {
                Some(said) => format!("{how}; it said: {said}"),
                None => how,
            }
        };
        self.members
            .iter()
            .map(|member| (member.rank, fault(member)))
            .collect()
    }
}

impl Member {
    fn has_failed(&self) -> bool {
        self.ended.is_some_and(|status| !status.success())
    }
}

/// What ranks are told of their meeting.
fn meeting(spec: &RunSpec, began: Instant) -> Result<Vec<(&'static str, String)>> {
    if spec.meeting_folder().is_some() || spec.ranks == 1 {
        return Ok(Vec::new());
    }
    let fault = |error| BenchError::Ranks(format!("ranks cannot meet on this machine: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(fault)?;
    let port = listener.local_addr().map_err(fault)?.port();
    if spec.engine == Engine::Native {
        // Its thread ends with the last rank, or at the deadline.
        Server::start(listener, spec.ranks, began + spec.timeout()).map_err(fault)?;
        return Ok(vec![(MEET, format!("127.0.0.1:{port}"))]);
    }
    // PyTorch opens it again.
    drop(listener);
    let host = "127.0.0.1".to_owned();
    Ok(vec![
        ("MASTER_ADDR", host),
        ("MASTER_PORT", port.to_string()),
    ])
}

/// A line of progress.
#[derive(Deserialize)]
struct Progress {
    iteration: u32,
    of: u32,
    wall_ns: u64,
}

/// Passes on what a rank says.
fn listen(rank: u32, stderr: ChildStderr, sender: &Sender<Event>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match Read::by_ref(&mut reader)
            .take(LINE)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let event = match serde_json::from_str::<Progress>(&text) {
            Ok(Progress {
                iteration,
                of,
                wall_ns,
            }) => Event::Iteration {
                rank,
                iteration,
                of,
                wall_ns,
            },
            Err(_) if text.is_empty() => continue,
            Err(_) => Event::Said { rank, line: text },
        };
        if sender.send(event).is_err() {
            return;
        }
    }
}
