//! `forebay run -- COMMAND`

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use forebay_client::status;
use forebay_members::make_secret;
use forebay_residency::NodePaths;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Failure;
use crate::members::{self, Together};
use crate::preload::{Preload, PreloadArguments};
use crate::serve::{logged_since, open_log};
use crate::status::NO_FOLDER;

/// Locked by the first process of a node, which has the daemon.
const FIRST: &str = "run.lock";
/// Locked by the others of the node while they need it.
const AT_WORK: &str = "run.others";
/// How often what is waited for is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a daemon may take to leave.
const LEAVE: Duration = Duration::from_secs(30);
/// Signals that are passed on to the command.
const PASSED_ON: [(i32, Signal); 3] = [
    (signal_hook::consts::SIGTERM, Signal::TERM),
    (signal_hook::consts::SIGINT, Signal::INT),
    (signal_hook::consts::SIGHUP, Signal::HUP),
];

/// Run a command with a daemon on each node of the job: `srun forebay run -- python train.py`. The first process of a node brings its daemon up, waits for the others, and takes it down when all of the node are done.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Cache folder on the node's own device [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Bytes that the cache may take, such as 500GiB [default: what is free, less the floor]
    #[arg(long)]
    capacity: Option<String>,
    /// `plan`, `lru` or `pin` [default: plan]
    #[arg(long)]
    policy: Option<String>,
    /// Folders, parted by colons, in which members may have data sets opened that no client here has open
    #[arg(long)]
    exports: Option<String>,
    /// A TOML file with a table `serve`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    others: members::MemberArguments,
    /// File with the job's secret, made if it is not there [default: $FOREBAY_SECRET, or made in file:DIR]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Encrypt the links to members, in software: for networks that others can listen to
    #[arg(long)]
    encrypt_links: bool,
    /// Keep names of published files there and not among the members: etcd://HOST:PORT/PREFIX
    #[arg(long, value_name = "PLACE")]
    names: Option<String>,
    #[command(flatten)]
    preload: PreloadArguments,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Ends with what the command ended with.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folder = folder(arguments)?;
    let paths = NodePaths::new(folder.clone());
    paths.create_folder()?;
    let preload = arguments.preload.find(&paths)?;
    let preload = preload.as_ref();
    let signals = Signals::catch()?;
    let end = Instant::now() + arguments.others.wait();
    loop {
        if let Some(lock) = lock(&folder, FIRST, FlockOperation::NonBlockingLockExclusive)? {
            if let Some(preload) = preload {
                preload.index_roots(&paths)?;
            }
            let mut daemon = Daemon::start(arguments, &paths, lock)?;
            daemon.wait_until_ready(&paths, end)?;
            let status = run_command(arguments, preload, &folder, &signals)?;
            daemon.end(&paths, arguments.others.wait(), &signals);
            return Ok(exit_code(status));
        }
        if paths.connect().is_ok() {
            // While this lock is held the first process of the node leaves the daemon alone.
            let _at_work = lock(&folder, AT_WORK, FlockOperation::NonBlockingLockShared)?;
            wait_for_members(&folder, end);
            let status = run_command(arguments, preload, &folder, &signals)?;
            return Ok(exit_code(status));
        }
        if Instant::now() >= end {
            let message = "the first process of this node brought no daemon up in time";
            return Err(Failure::new(message).hint(format!("see `{}`", paths.log().display())));
        }
        std::thread::sleep(LOOK);
    }
}

fn folder(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let named = match &arguments.cache {
        Some(cache) => Some(std::path::absolute(cache)?),
        None => NodePaths::default_folder(|name| std::env::var_os(name)),
    };
    named.ok_or_else(|| Failure::usage(NO_FOLDER))
}

/// A lock in the cache folder; `None` if another has it. Held until the process ends, however it
/// does.
fn lock(folder: &Path, name: &str, how: FlockOperation) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(folder.join(name))?;
    match flock(&file, how) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The node's daemon, as its first process holds it. On drop it leaves.
struct Daemon {
    child: Child,
    /// Where its words begin in the log.
    logged_from: u64,
    together: Option<Together>,
    _lock: File,
}

impl Daemon {
    fn start(arguments: &Arguments, paths: &NodePaths, lock: File) -> Result<Self, Failure> {
        let together = arguments
            .others
            .find(arguments.others.said().as_deref(), false)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "serve",
            "--with-parent",
            "--idle-exit-seconds",
            "0",
            "--cache",
        ]);
        command.arg(paths.folder());
        let flags = [
            ("--capacity", &arguments.capacity),
            ("--policy", &arguments.policy),
            ("--exports", &arguments.exports),
            ("--names", &arguments.names),
        ];
        for (flag, value) in flags {
            command.args(value.iter().flat_map(|value| [flag, value.as_str()]));
        }
        if let Some(config) = &arguments.config {
            command.arg("--config").arg(config);
        }
        if let Some(together) = &together {
            let Together {
                members, listen, ..
            } = together;
            command.args(["--members", members, "--listen", listen]);
            if let Some((met, _)) = &together.met {
                command.args(["--follow", &met.place()]);
            }
            if arguments.encrypt_links {
                command.arg("--encrypt-links");
            }
            if let Some(secret) = secret(arguments, together)? {
                command.arg("--secret-file").arg(secret);
            }
        }
        let mut log = open_log(paths)?;
        let logged_from = log.seek(SeekFrom::End(0))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Ok(Self {
            child: child
                .map_err(|error| Failure::new(format!("cannot start the daemon: {error}")))?,
            logged_from,
            together,
            _lock: lock,
        })
    }

    fn wait_until_ready(&mut self, paths: &NodePaths, end: Instant) -> Result<(), Failure> {
        // Its own, and not one that was there before and that this child cannot take the place of.
        let is_mine = |status: &Value, child: &Child| status["pid"] == child.id();
        loop {
            let answered = paths.connect().is_ok();
            let status = answered.then(|| asked(paths.folder())).flatten();
            if status.is_some_and(|status| is_mine(&status, &self.child)) {
                wait_for_members(paths.folder(), end);
                return Ok(());
            }
            if let Some(ended) = self.child.try_wait()? {
                return Err(Failure::new(match last_words(paths, self.logged_from) {
                    Some(words) => format!("the daemon did not start: {words}"),
                    None => format!("the daemon ended with {ended}"),
                })
                .hint(format!("see `{}`", paths.log().display())));
            }
            if Instant::now() >= end {
                return Err(Failure::new("the daemon did not answer in time"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until nobody needs the daemon, and ends it.
    fn end(self, paths: &NodePaths, limit: Duration, signals: &Signals) {
        let others_work = || {
            lock(
                paths.folder(),
                AT_WORK,
                FlockOperation::NonBlockingLockExclusive,
            )
            .is_ok_and(|lock| lock.is_none())
        };
        while others_work() && !signals.any() {
            std::thread::sleep(LOOK);
        }
        if let Some((met, nodes)) = self.together.as_ref().and_then(|each| each.met.as_ref())
            && !met.done(*nodes, limit).unwrap_or(false)
        {
            eprintln!("left, though other nodes of the job may not be done");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let end = Instant::now() + LEAVE;
        let mut asked = kill_process(Pid::from_child(&self.child), Signal::TERM).is_ok();
        while asked && Instant::now() < end {
            asked = matches!(self.child.try_wait(), Ok(None));
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the daemon's log says last of what failed, from this place on.
fn last_words(paths: &NodePaths, from: u64) -> Option<String> {
    let log = logged_since(paths, from);
    let mut failed = log.lines().filter_map(|line| line.strip_prefix("error: "));
    failed.next_back().map(str::to_owned)
}

/// The file with the secret, if not the environment has it.
fn secret(arguments: &Arguments, together: &Together) -> Result<Option<PathBuf>, Failure> {
    if let Some(path) = &arguments.secret_file {
        make_secret(path).map_err(|error| {
            let path = path.display();
            Failure::new(format!("cannot make secret file `{path}`: {error}"))
        })?;
        return Ok(Some(path.clone()));
    }
    if std::env::var_os("FOREBAY_SECRET").is_some_and(|secret| !secret.is_empty()) {
        return Ok(None);
    }
    match &together.secret_file {
        Some(path) => Ok(Some(path.clone())),
        None => Err(Failure::usage("several nodes need a secret").hint(
            "name a file that all nodes see with --secret-file, which is made if it is not \
             there, or set FOREBAY_SECRET",
        )),
    }
}

fn asked(folder: &Path) -> Option<Value> {
    let text = status(folder, ANSWER).ok()?;
    serde_json::from_str(&text).ok()
}

/// Waits until all members are up, or until `end`: those that come late cost time and nothing else.
fn wait_for_members(folder: &Path, end: Instant) {
    loop {
        let status = asked(folder).unwrap_or_default();
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let is_there = |member: &&Value| member["state"] == "up" || member["state"] == "this node";
        let there = members.iter().filter(is_there).count();
        if there == members.len() {
            return;
        }
        if Instant::now() >= end {
            let all = members.len();
            eprintln!("going on with {there} of {all} nodes: `forebay status` shows why");
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Signals that came, and were not passed on yet.
struct Signals(Vec<(Arc<AtomicBool>, Signal)>, Arc<AtomicBool>);

impl Signals {
    fn catch() -> io::Result<Self> {
        let ever = Arc::new(AtomicBool::new(false));
        let catch = |(number, signal)| {
            let came = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, came.clone())?;
            signal_hook::flag::register(number, ever.clone())?;
            Ok((came, signal))
        };
        let caught = PASSED_ON
            .into_iter()
            .map(catch)
            .collect::<io::Result<_>>()?;
        Ok(Self(caught, ever))
    }

    /// True if any came, ever.
    fn any(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    fn pass_on(&self, to: &Child) {
        for (came, signal) in &self.0 {
            if came.swap(false, Ordering::Relaxed) {
                let _ = kill_process(Pid::from_child(to), *signal);
            }
        }
    }
}

fn run_command(
    arguments: &Arguments,
    preload: Option<&Preload>,
    folder: &Path,
    signals: &Signals,
) -> Result<ExitStatus, Failure> {
    let (program, words) = arguments
        .command
        .split_first()
        .ok_or_else(|| Failure::usage("no command"))?;
    let mut command = Command::new(program);
    command.args(words).env("FOREBAY_CACHE", folder);
    if let Some(preload) = preload {
        preload.set(&mut command);
    }
    let mut child = command
        .spawn()
        .map_err(|error| Failure::new(format!("cannot run `{program}`: {error}")))?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        signals.pass_on(&child);
        std::thread::sleep(LOOK / 5);
    }
}

/// As a shell has it: a signal is 128 and its number.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1))
}
