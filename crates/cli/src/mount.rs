//! `forebay mount`

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use forebay_client::DaemonCommand;
use forebay_mount::{Mount, MountOptions, Served, find_manifest, serve};
use forebay_residency::NodePaths;
use serde_json::json;

use crate::Failure;
use crate::index::bytes;
use crate::output::count;
use crate::progress::Bar;
use crate::serve::{logged_since, open_log};
use crate::status::NO_FOLDER;

/// Mount a folder or a data set read-only: names from its manifest, bytes from the node's cache.
#[derive(Args)]
#[command(
    after_help = "Runs until a signal or an unmount (`fusermount3 -u MOUNT`, or `umount MOUNT` \
    as root). docs/MOUNT.md describes what it promises."
)]
pub(crate) struct Arguments {
    /// A folder, or an index made by `forebay index`
    source: PathBuf,
    /// The folder to mount on
    mount: PathBuf,
    /// Cache folder on the node's own device [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Where the manifest of a folder is kept: used if it is there, else written [default: in the cache, written anew each time]
    #[arg(long, value_name = "INDEX")]
    manifest: Option<PathBuf>,
    /// Folder or URL of an index's files, if not the one that it records
    #[arg(long)]
    root: Option<PathBuf>,
    /// Longest wait of a read for the daemon, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    deadline: f64,
    /// Bytes that the cache of a daemon may take that this starts, such as 500GiB
    #[arg(long)]
    capacity: Option<String>,
    /// Start no daemon: use the one that is there, or else read the origin
    #[arg(long)]
    no_daemon: bool,
    /// Let other users in, as far as the files' permissions allow
    #[arg(long)]
    allow_other: bool,
    /// Do not let the kernel read files itself that are resident as a whole
    #[arg(long)]
    no_passthrough: bool,
    /// Reads that may wait for staging at one time, 1 to 1024
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    readers: u32,
    /// Print what is mounted, and in the end what was served, as JSON lines
    #[arg(long)]
    json: bool,
    /// Leave the mount behind in the background, with its log in the cache folder
    #[arg(long)]
    detach: bool,
    /// The mount that `--detach` leaves behind
    #[arg(long, hide = true)]
    detached: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = options(arguments)?;
    let paths = NodePaths::new(options.cache.clone());
    paths.create_folder().map_err(|error| {
        let shown = options.cache.display();
        Failure::new(format!("cannot use cache folder `{shown}`: {error}"))
    })?;
    if arguments.detach {
        return detach(arguments, &options, &paths);
    }
    if arguments.detached {
        // As for the daemon: the end of the terminal is not the mount's.
        let _ = rustix::process::setsid();
        std::env::set_current_dir("/")?;
    }
    let served = serve(&options, &Bar::default(), |mount| {
        show(arguments, mount);
    })?;
    if arguments.detached {
        // Nobody listens to its stdout any more.
        eprintln!("{}", served_words(&served));
    } else if arguments.json {
        println!("{}", served_json(&served));
    } else {
        eprintln!("{}", served_words(&served));
    }
    Ok(())
}

fn options(arguments: &Arguments) -> Result<MountOptions, Failure> {
    let absolute = |path: &Path| std::path::absolute(path);
    let folder = arguments
        .cache
        .clone()
        .or_else(|| NodePaths::default_folder(|name| std::env::var_os(name)));
    let folder = folder.ok_or_else(|| Failure::usage(NO_FOLDER))?;
    let deadline = Duration::try_from_secs_f64(arguments.deadline)
        .ok()
        .filter(|deadline| !deadline.is_zero());
    let deadline = deadline.ok_or_else(|| {
        let shown = arguments.deadline;
        Failure::usage(format!(
            "`--deadline` must be a number of seconds over 0: {shown}"
        ))
    })?;
    let is_url = |path: &Path| path.to_str().is_some_and(|text| text.contains("://"));
    let place = |path: &PathBuf| match is_url(path) {
        true => Ok(path.clone()),
        false => absolute(path),
    };
    let capacity = arguments.capacity.iter().flat_map(|capacity| {
        let flag = OsString::from("--capacity");
        [flag, OsString::from(capacity)]
    });
    let program = match arguments.no_daemon {
        true => None,
        false => Some(std::env::current_exe()?.into_os_string()),
    };
    Ok(MountOptions {
        manifest: arguments.manifest.as_deref().map(absolute).transpose()?,
        root: arguments.root.as_ref().map(place).transpose()?,
        deadline,
        daemon: DaemonCommand {
            program,
            arguments: capacity.collect(),
        },
        allow_other: arguments.allow_other,
        passthrough: !arguments.no_passthrough,
        readers: arguments.readers as usize,
        ..MountOptions::new(
            place(&arguments.source)?,
            absolute(&arguments.mount)?,
            absolute(&folder)?,
        )
    })
}

fn show(arguments: &Arguments, mount: &Mount) {
    if let Some(warning) = mount.warning() {
        eprintln!("warning: reading the origin directly, without a cache: {warning}");
    }
    let (files, total) = mount.files();
    let index = &mount.manifest().index;
    let point = mount.mount_point().display().to_string();
    if let Some(walked) = &mount.manifest().walked
        && walked.left_out > 0
    {
        let left_out = count(walked.left_out, "socket, pipe or device");
        eprintln!("warning: left out {left_out}");
    }
    // Whoever left it behind reads a line, whatever form it shows to its user.
    if arguments.json || arguments.detached {
        let line = json!({
            "mounted": point,
            "index": index,
            "files": files,
            "bytes": total,
            "walk_seconds": mount.manifest().walked.map(|walked| walked.seconds),
            "passthrough": mount.passes(),
            "pid": std::process::id(),
        });
        println!("{line}");
        // A pipe does not end lines by itself.
        let _ = std::io::stdout().flush();
    } else {
        eprintln!("{}", mounted_words(&point, files, total));
    }
}

fn mounted_words(point: &str, files: u64, total: u64) -> String {
    format!(
        "mounted on {point}: {} ({})",
        count(files, "file"),
        bytes(total)
    )
}

fn served_json(served: &Served) -> serde_json::Value {
    json!({
        "opens": served.opens,
        "passthrough_opens": served.passthrough_opens,
        "reads": served.reads,
        "read_bytes": served.read_bytes,
        "failed_reads": served.failed_reads,
        "local_bytes": served.local_bytes,
        "staged_bytes": served.staged_bytes,
        "direct_bytes": served.direct_bytes,
    })
}

fn served_words(served: &Served) -> String {
    format!(
        "unmounted: {} opened, {} of them left to the kernel; read here: {} resident, {} staged, {} from the origin",
        count(served.opens, "file"),
        served.passthrough_opens,
        bytes(served.local_bytes),
        bytes(served.staged_bytes),
        bytes(served.direct_bytes),
    )
}

/// Starts the mount in the background and ends once it is there.
fn detach(arguments: &Arguments, options: &MountOptions, paths: &NodePaths) -> Result<(), Failure> {
    // Here, where someone sees how far it is.
    let manifest = find_manifest(options, &Bar::default())?;
    let cannot_log = |error| {
        let shown = paths.log().display().to_string();
        Failure::new(format!("cannot write log `{shown}`: {error}"))
    };
    let mut log = open_log(paths).map_err(cannot_log)?;
    let said_before = log.seek(SeekFrom::End(0)).map_err(cannot_log)?;
    let mut words: Vec<OsString> = std::env::args_os()
        .skip(1)
        .filter(|argument| argument != "--detach")
        .collect();
    words.push("--detached".into());
    if manifest.walked.is_some() && arguments.manifest.is_none() {
        words.extend(["--manifest".into(), manifest.index.into_os_string()]);
    }
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start the mount: {error}")))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let Ok(found) = serde_json::from_str::<serde_json::Value>(&line) else {
        child.wait()?;
        return Err(Failure::new(last_words(paths, said_before)));
    };
    if arguments.json {
        println!("{found}");
        return Ok(());
    }
    let number = |name: &str| found[name].as_u64().unwrap_or_default();
    let point = found["mounted"].as_str().unwrap_or_default();
    let mounted = mounted_words(point, number("files"), number("bytes"));
    eprintln!("{mounted}, by process {}", child.id());
    Ok(())
}

/// What the mount that ended said.
fn last_words(paths: &NodePaths, from: u64) -> String {
    let said = logged_since(paths, from);
    let said = said.trim().trim_start_matches("error: ");
    match said {
        "" => format!("the mount ended at once; see `{}`", paths.log().display()),
        said => said.to_owned(),
    }
}
