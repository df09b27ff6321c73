//! `forebay doctor`

mod cache;
mod fabric;
mod item;
mod job;
mod network;
mod python;
mod stores;
mod system;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::Failure;
use crate::doctor::item::Item;

/// Show what this machine has, what Forebay would use of it, and the way out of what is missing.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Cache folder [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Things that belong together.
#[derive(Serialize)]
struct Section {
    name: &'static str,
    items: Vec<Item>,
}

/// All that was looked at.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    /// Nothing that is needed is broken.
    sound: bool,
    sections: Vec<Section>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let report = look(arguments);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", words(&report));
    }
    Ok(if report.sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn look(arguments: &Arguments) -> Report {
    let section = |name, items| Section { name, items };
    let sections = vec![
        section("system", system::items()),
        section("cache", cache::items(arguments.cache.as_deref())),
        section("mounts", system::mounts()),
        section("job", job::items()),
        section("network", network::items()),
        section("libfabric", fabric::items(arguments.cache.as_deref())),
        section("stores of objects", stores::items()),
        section("Python", python::items()),
    ];
    let mut items = sections.iter().flat_map(|section| &section.items);
    Report {
        version: env!("CARGO_PKG_VERSION"),
        sound: !items.any(Item::is_broken),
        sections,
    }
}

fn words(report: &Report) -> String {
    let mut text = format!("forebay {}\n", report.version);
    for section in &report.sections {
        text.push_str(&format!("\n{}\n", section.name));
        for item in &section.items {
            text.push_str(&item.words());
        }
    }
    let all = report.sections.iter().flat_map(|section| &section.items);
    let broken: Vec<&str> = (all.filter(|item| item.is_broken()))
        .map(|item| item.name.as_str())
        .collect();
    text.push_str(&match broken[..] {
        [] => "\nnothing that is needed is broken\n".to_owned(),
        _ => format!("\nneeded and broken: {}\n", broken.join(", ")),
    });
    text
}

/// What `look` finds, or `None` if it takes longer: drivers, name servers and file systems may hang,
/// and a doctor may not. What hangs is left behind and ends with the process.
fn within<T: Send + 'static>(
    limit: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (found, wait) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody waits for it any more where it fails.
        let _ = found.send(look());
    });
    wait.recv_timeout(limit).ok()
}

/// The variable, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The program of that name on the path.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}
