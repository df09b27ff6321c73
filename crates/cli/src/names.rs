//! `forebay publish`, `forebay unpublish`, `forebay consume`, and the list of what is published.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use forebay_client::{DaemonCommand, Published, PublishedFile, Publisher};
use serde_json::json;

use crate::Failure;
use crate::index::bytes;
use crate::ls::written;

/// Bytes that are read and written at one time.
const CHUNK: usize = 4 << 20;
/// How long a daemon may take to list names.
const LIST: Duration = Duration::from_secs(10);

/// What all of them need to know.
#[derive(Args)]
struct Where {
    /// Cache folder of the node's daemon [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Seconds to wait
    #[arg(long, default_value_t = 60.0, value_parser = seconds)]
    timeout: f64,
}

/// Publish a file by a name, under which every node of the job finds it.
///
/// The file stays where it is. Publish it once it is complete, and leave it as it is from then on.
/// What had the name before is replaced.
#[derive(Args)]
pub(crate) struct PublishArguments {
    /// Name to publish it by
    name: String,
    /// The file
    path: PathBuf,
    #[command(flatten)]
    at: Where,
}

/// Let nobody find a name any more. The file itself is left where it is.
#[derive(Args)]
pub(crate) struct UnpublishArguments {
    /// The name
    name: String,
    #[command(flatten)]
    at: Where,
}

/// Wait for a published file and write its bytes to stdout or a file.
#[derive(Args)]
pub(crate) struct ConsumeArguments {
    /// Name that it is published by
    name: String,
    /// File to write, which is there once it is complete [default: stdout]
    #[arg(long, short)]
    output: Option<PathBuf>,
    #[command(flatten)]
    at: Where,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    let value = value.filter(|value| Duration::try_from_secs_f64(*value).is_ok());
    value.ok_or_else(|| "a number of seconds, 0 or more".to_owned())
}

impl Where {
    fn publisher(&self) -> Result<Publisher, Failure> {
        publisher(self.cache.as_deref())
    }

    fn timeout(&self) -> Duration {
        Duration::try_from_secs_f64(self.timeout).unwrap_or_default()
    }
}

fn publisher(cache: Option<&Path>) -> Result<Publisher, Failure> {
    let daemon = DaemonCommand {
        program: Some(std::env::current_exe()?.into()),
        arguments: Vec::new(),
    };
    Ok(Publisher::new(cache, daemon)?)
}

pub(crate) fn run_publish(arguments: &PublishArguments) -> Result<(), Failure> {
    let at = &arguments.at;
    let publisher = at.publisher()?;
    let file = publisher.publish(&arguments.name, &arguments.path, at.timeout())?;
    eprintln!("published `{}`, {}", file.name, bytes(file.size));
    Ok(())
}

pub(crate) fn run_unpublish(arguments: &UnpublishArguments) -> Result<(), Failure> {
    let at = &arguments.at;
    at.publisher()?.unpublish(&arguments.name, at.timeout())?;
    eprintln!("unpublished `{}`", arguments.name);
    Ok(())
}

pub(crate) fn run_consume(arguments: &ConsumeArguments) -> Result<(), Failure> {
    let at = &arguments.at;
    let published = at.publisher()?.consume(&arguments.name, at.timeout())?;
    let Some(path) = &arguments.output else {
        return copy(&published, &mut io::stdout().lock());
    };
    let mut part = path.clone().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let failed =
        |error: io::Error| Failure::new(format!("cannot write `{}`: {error}", path.display()));
    let mut out = File::create(&part).map_err(failed)?;
    let copied = copy(&published, &mut out);
    drop(out);
    let kept = copied.and_then(|()| std::fs::rename(&part, path).map_err(failed));
    kept.inspect_err(|_| drop(std::fs::remove_file(&part)))
}

fn copy(published: &Published, out: &mut impl Write) -> Result<(), Failure> {
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < published.size() {
        let read = published.read_at(at, &mut buffer)?;
        if let Err(error) = out.write_all(&buffer[..read]) {
            return written(Err(error));
        }
        at += read as u64;
    }
    written(out.flush())
}

/// Lists what is published, a file a line.
pub(crate) fn list(cache: Option<&Path>, limit: u64, as_json: bool) -> Result<(), Failure> {
    let publisher = publisher(cache)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut after, mut left) = (String::new(), limit);
    loop {
        let files = publisher.list(&after, LIST)?;
        let Some(last) = files.last() else {
            return written(out.flush());
        };
        after.clone_from(&last.name);
        for file in &files {
            if left == 0 {
                return written(out.flush());
            }
            left -= 1;
            if let Err(error) = writeln!(out, "{}", line(file, as_json)) {
                return written(Err(error));
            }
        }
    }
}

fn line(file: &PublishedFile, as_json: bool) -> String {
    if as_json {
        let value = json!({
            "name": file.name,
            "node": file.node,
            "bytes": file.size,
            "generation": file.generation,
        });
        return value.to_string();
    }
    let node = if file.node.is_empty() {
        "here"
    } else {
        &file.node
    };
    format!("{}\t{}\t{node}", file.name, file.size)
}
