//! The Python that Forebay's own programs run in, and its packages.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_bench::python::interpreter;
use serde_json::Value;

use crate::doctor::item::Item;

/// How long an interpreter may take to start.
const LIMIT: Duration = Duration::from_secs(30);
/// Finds packages without importing them: torch takes seconds.
const SCRIPT: &str = "\
import importlib.metadata, importlib.util, json, platform
def version(name):
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return 'of no known version'
found = {name: version(name) for name in ('forebay', 'torch')}
print(json.dumps({'python': platform.python_version(), **found}))
";
const WAY_OUT: &str = "name the Python of your trainers in FOREBAY_PYTHON, or put it on the path";

pub(super) fn items() -> Vec<Item> {
    let python = interpreter();
    let shown = python.display();
    match ask(&python) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            vec![Item::missing("interpreter", format!("there is no `{shown}`")).way_out(WAY_OUT)]
        }
        Err(error) => {
            vec![Item::refused("interpreter", format!("`{shown}`: {error}")).way_out(WAY_OUT)]
        }
        Ok(found) => {
            let version = found["python"].as_str().unwrap_or("?");
            vec![
                Item::ok("interpreter", format!("`{shown}`, Python {version}")),
                forebay(found["forebay"].as_str()),
                torch(found["torch"].as_str()),
            ]
        }
    }
}

fn forebay(found: Option<&str>) -> Item {
    let mine = env!("CARGO_PKG_VERSION");
    match found {
        None => Item::missing("forebay", "not installed in it").way_out(WAY_OUT),
        Some(version) if version == mine => Item::ok("forebay", version),
        Some(version) => Item::refused("forebay", format!("{version}, and this command is {mine}"))
            .way_out("install the package and the command from one wheel"),
    }
}

fn torch(found: Option<&str>) -> Item {
    match found {
        Some(version) => Item::ok("torch", version),
        None => Item::missing("torch", "not installed in it: `forebay.torch` needs it"),
    }
}

fn ask(python: &Path) -> io::Result<Value> {
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let end = Instant::now() + LIMIT;
    // What it prints is far less than a pipe holds, so it ends without being read.
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > end => {
                child.kill()?;
                child.wait()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut text = String::new();
    if let Some(output) = child.stdout.take() {
        output.take(4096).read_to_string(&mut text)?;
    }
    serde_json::from_str(&text)
        .map_err(|_| io::Error::other(format!("it cannot say what it has: it ended with {status}")))
}
