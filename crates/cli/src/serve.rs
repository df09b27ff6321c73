//! `forebay serve`

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use forebay_residency::NodePaths;
use forebay_service::{PlanError, ServePlan, ServeSettings, Served, Source, serve};

use crate::Failure;
use crate::members::{self, Together};
use crate::outside::outside;
use crate::status::NO_FOLDER;

/// A log that grew past this is begun anew.
const LOG_BYTES: u64 = 1 << 20;

/// Run the node's daemon. Clients start one by themselves where they find none.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Cache folder on the node's own device [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Bytes that the cache may take, such as 500GiB [default: what is free, less the floor]
    #[arg(long)]
    capacity: Option<String>,
    /// Bytes of the device that stay free for others [default: a twentieth of what is free]
    #[arg(long)]
    free_floor: Option<String>,
    /// When there is no room: `plan` evicts what announced orders need last, `lru` what was used longest ago, `pin` nothing [default: plan]
    #[arg(long)]
    policy: Option<String>,
    /// Leave after so many seconds without a client; 0 never [default: 600]
    #[arg(long)]
    idle_exit_seconds: Option<u64>,
    /// Reads of the origin in progress at one time, at most [default: 64]
    #[arg(long)]
    origin_reads: Option<u32>,
    /// Clients connected at one time, at most [default: 1024]
    #[arg(long)]
    max_links: Option<u32>,
    /// Late reads of the origin that one request may have begun once more at one time [default: 8]
    #[arg(long)]
    hedged_reads: Option<u32>,
    /// Bytes that staging may be ahead of one rank, such as 4GiB [default: 1GiB, at most a quarter of the capacity]
    #[arg(long)]
    look_ahead: Option<String>,
    /// Seconds that staging may be ahead of one rank, at its own pace [default: 120]
    #[arg(long)]
    look_ahead_seconds: Option<u64>,
    /// Bytes a second that staging ahead of need may read, such as 2GB [default: any number]
    #[arg(long)]
    look_ahead_rate: Option<String>,
    #[command(flatten)]
    others: members::MemberArguments,
    /// File with the job's secret, mode 600 [default: the secret in $FOREBAY_SECRET]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Folders, parted by colons, in which members may have data sets opened that no client here has open
    #[arg(long)]
    exports: Option<String>,
    /// Differentiated services code point (traffic class) of what is sent to members and to stores of objects, 0 to 63
    #[arg(long)]
    dscp: Option<u32>,
    /// Milliseconds after which a member that says nothing is given up [default: 1500]
    #[arg(long)]
    peer_silence_ms: Option<u32>,
    /// What blocks go over between members: tcp, libfabric, libfabric:PROVIDER, or auto (a fast fabric where there is one) [default: tcp]
    #[arg(long)]
    transport: Option<String>,
    /// Label of the traffic class on a fabric, such as bulk-data [default: what --dscp says]
    #[arg(long, value_name = "LABEL")]
    tclass: Option<String>,
    /// Encrypt the links to members, in software: for networks that others can listen to
    #[arg(long)]
    encrypt_links: bool,
    /// Keep names of published files there and not among the members: etcd://HOST:PORT/PREFIX
    #[arg(long, value_name = "PLACE")]
    names: Option<String>,
    /// Where members come and go, as `forebay run` has found it
    #[arg(long, hide = true)]
    follow: Option<String>,
    /// A TOML file with a [serve] table
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Leave the daemon behind in the background, with its log in the cache folder
    #[arg(long)]
    detach: bool,
    /// The daemon that `--detach` leaves behind
    #[arg(long, hide = true)]
    detached: bool,
    /// Leave when the process that started this one ends
    #[arg(long, hide = true)]
    with_parent: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    }
    if !arguments.detach {
        restart_for_fabric(arguments);
    }
    // Held while this daemon serves: it is this node's place among the others.
    let together = together(arguments)?;
    let plan = plan(arguments, together.as_ref()).inspect_err(|failure| {
        if arguments.detach {
            log(arguments.cache.as_deref(), failure);
        }
    })?;
    if arguments.detach {
        return detach(&plan);
    }
    if arguments.detached {
        // A session of its own, so that the end of the trainer's terminal or job step is not the
        // daemon's. It fails only where that is so already.
        let _ = rustix::process::setsid();
    }
    let met = together.as_ref().and_then(|each| each.met.as_ref());
    let place = met.map(|(met, _)| met.place()).or(arguments.follow.clone());
    let outside = outside(&plan, place.as_deref())?;
    let folder = plan.cache.folder.clone();
    let serving = format!(
        "serving `{}`: capacity {}, policy {}",
        folder.display(),
        crate::index::bytes(plan.cache.capacity_bytes),
        plan.cache.policy.name()
    );
    match serve(plan, outside, arguments.detached, || eprintln!("{serving}"))? {
        Served::AlreadyServed if arguments.detached => {
            eprintln!("another daemon serves it already")
        }
        Served::AlreadyServed => {
            return Err(Failure::new(format!(
                "another daemon serves `{}` already",
                folder.display()
            ))
            .hint("`forebay status` shows it, `forebay stop` ends it"));
        }
        Served::Idle => eprintln!("left: no client for the time set"),
        Served::Stopped => eprintln!("stopped"),
    }
    Ok(())
}

/// Buffers of libfabric for messages of a kind that nobody sends here: by default some 70 MB for
/// each endpoint of `ofi_rxm`.
const SMALL_BUFFERS: [(&str, &str); 3] = [
    ("FI_OFI_RXM_BUFFER_SIZE", "256"),
    ("FI_OFI_RXM_MSG_RX_SIZE", "16"),
    ("FI_OFI_RXM_MSG_TX_SIZE", "16"),
];

/// Starts this process anew with [`SMALL_BUFFERS`] where blocks may go over a fabric: libfabric takes
/// them from the environment, which only a new program can be given without harm.
fn restart_for_fabric(arguments: &Arguments) {
    let set = std::env::var("FOREBAY_TRANSPORT").ok();
    let transport = arguments.transport.clone().or(set);
    let may_use_fabric = match transport.as_deref() {
        None | Some("") => arguments.config.is_some(),
        Some(transport) => transport != "tcp",
    };
    let absent = |(name, _): &&(&str, &str)| std::env::var_os(name).is_none();
    let wanted: Vec<_> = SMALL_BUFFERS.iter().filter(absent).copied().collect();
    let Some(program) = std::env::current_exe().ok().filter(|_| may_use_fabric) else {
        return;
    };
    if wanted.is_empty() {
        return;
    }
    // It returns only where it fails, and the daemon does with more memory then.
    let _ = Command::new(program)
        .args(std::env::args_os().skip(1))
        .envs(wanted)
        .exec();
}

/// Finds out who the other nodes are, where that is more than reading a list.
fn together(arguments: &Arguments) -> Result<Option<Together>, Failure> {
    let said = arguments.others.said();
    // The daemon that is left behind finds them itself.
    if arguments.detach || !members::are_found_out(said.as_deref()) {
        return Ok(None);
    }
    arguments.others.find(said.as_deref(), true)
}

fn plan(arguments: &Arguments, together: Option<&Together>) -> Result<ServePlan, Failure> {
    let is_list = !members::are_found_out(arguments.others.members.as_deref());
    let said = &arguments.others;
    let has_secret =
        arguments.secret_file.is_some() || std::env::var_os("FOREBAY_SECRET").is_some();
    let met = together
        .filter(|_| !has_secret)
        .and_then(|each| each.secret_file.clone());
    let flags = ServeSettings {
        cache: arguments
            .cache
            .as_deref()
            .and_then(|path| std::path::absolute(path).ok()),
        capacity: arguments.capacity.clone(),
        free_floor: arguments.free_floor.clone(),
        policy: arguments.policy.clone(),
        idle_exit_seconds: arguments.idle_exit_seconds,
        origin_reads: arguments.origin_reads,
        max_links: arguments.max_links,
        hedged_reads: arguments.hedged_reads,
        look_ahead: arguments.look_ahead.clone(),
        look_ahead_seconds: arguments.look_ahead_seconds,
        look_ahead_rate: arguments.look_ahead_rate.clone(),
        members: match together {
            Some(together) => Some(together.members.clone()),
            None => said.members.clone().filter(|_| is_list),
        },
        listen: match together {
            Some(together) => Some(together.listen.clone()),
            None => said.listen.clone().filter(|_| is_list),
        },
        secret_file: (arguments.secret_file.as_deref())
            .and_then(|path| std::path::absolute(path).ok())
            .or(met),
        exports: arguments.exports.clone(),
        dscp: arguments.dscp,
        peer_silence_ms: arguments.peer_silence_ms,
        transport: arguments.transport.clone(),
        tclass: arguments.tclass.clone(),
        encrypt_links: arguments.encrypt_links.then_some(true),
        names: arguments.names.clone(),
    };
    let file = match &arguments.config {
        None => ServeSettings::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::new(format!(
                    "cannot read configuration `{}`: {error}",
                    path.display()
                ))
            })?;
            ServeSettings::from_toml(&text).map_err(|error| {
                let shown = path.display();
                Failure::usage(format!("configuration `{shown}`: {error}").trim_end())
            })?
        }
    };
    resolve(flags, file)
}

/// The plan of a daemon that is told its folder and nothing else, or that `forebay run` tells which
/// of the members it is.
pub(crate) fn plan_in(folder: &Path) -> Result<ServePlan, Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let list = set("FOREBAY_MEMBERS").filter(|said| !members::are_found_out(Some(said)));
    let listen = match (list, set("FOREBAY_LISTEN")) {
        (Some(list), None) => members::mine(&list).ok(),
        _ => None,
    };
    let flags = ServeSettings {
        cache: std::path::absolute(folder).ok(),
        listen,
        ..ServeSettings::default()
    };
    resolve(flags, ServeSettings::default())
}

fn resolve(flags: ServeSettings, file: ServeSettings) -> Result<ServePlan, Failure> {
    let mut env = ServeSettings::from_env(|name| std::env::var(name).ok()).map_err(broken)?;
    // What is found out stands in the flags by now.
    env.members = env
        .members
        .filter(|said| !members::are_found_out(Some(said)));
    let layers = [
        (Source::CommandLine, flags),
        (Source::Environment, env),
        (Source::File, file),
    ];
    let default = NodePaths::default_folder(|name| std::env::var_os(name));
    if default.is_none() && layers.iter().all(|(_, layer)| layer.cache.is_none()) {
        return Err(Failure::usage(NO_FOLDER));
    }
    ServePlan::resolve(&layers, default, room).map_err(broken)
}

fn broken(error: PlanError) -> Failure {
    Failure::usage(error.to_string())
}

/// Bytes that a cache in the folder could take: what is free and what it has.
fn room(folder: &Path) -> u64 {
    let there = folder
        .ancestors()
        .find(|folder| folder.exists())
        .unwrap_or(Path::new("/"));
    let free =
        rustix::fs::statvfs(there).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    free.saturating_add(allocated(&folder.join("blocks")))
}

fn allocated(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => allocated(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// What was written to the log from this place on, as far as its first 64 KiB.
pub(crate) fn logged_since(paths: &NodePaths, place: u64) -> String {
    let mut text = Vec::new();
    // What cannot be read tells nobody anything.
    let _ = File::open(paths.log()).and_then(|mut log| {
        log.seek(SeekFrom::Start(place))?;
        log.take(64 << 10).read_to_end(&mut text)
    });
    String::from_utf8_lossy(&text).into_owned()
}

pub(crate) fn open_log(paths: &NodePaths) -> io::Result<File> {
    let fresh = std::fs::metadata(paths.log()).is_ok_and(|log| log.len() > LOG_BYTES);
    OpenOptions::new()
        .create(true)
        .append(!fresh)
        .write(true)
        .truncate(fresh)
        .mode(0o600)
        .open(paths.log())
}

/// A client that starts a daemon hears no words of it and sends its user to the log. So the log has
/// to have them, wrong settings too.
fn log(cache: Option<&Path>, failure: &Failure) {
    let Some(Ok(folder)) = cache.map(std::path::absolute) else {
        return;
    };
    // Where the log cannot be written there is stderr, which has the same words.
    let _ = open_log(&NodePaths::new(folder)).and_then(|mut log| writeln!(log, "{failure}"));
}

/// Starts the daemon in the background and ends, so that no client is its parent.
fn detach(plan: &ServePlan) -> Result<(), Failure> {
    let paths = plan.paths();
    paths.create_folder().map_err(|error| {
        Failure::new(format!(
            "cannot use cache folder `{}`: {error}",
            paths.folder().display()
        ))
    })?;
    let log = open_log(&paths).map_err(|error| {
        Failure::new(format!(
            "cannot write log `{}`: {error}",
            paths.log().display()
        ))
    })?;
    let arguments = std::env::args_os()
        .skip(1)
        .filter(|argument| argument != "--detach");
    let daemon = Command::new(std::env::current_exe()?)
        .args(arguments)
        .arg("--detached")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start the daemon: {error}")))?;
    eprintln!("started as process {}", daemon.id());
    Ok(())
}
