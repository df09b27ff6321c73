//! `forebay status` and `forebay stop`

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use forebay_client::{status, stop};
use forebay_residency::NodePaths;
use serde_json::Value;

use crate::Failure;
use crate::index::bytes;
use crate::output::count;

/// What is wrong where neither a flag nor a variable leads to a cache folder.
pub(crate) const NO_FOLDER: &str =
    "no cache folder: name one with --cache, or set FOREBAY_CACHE or HOME";
/// How long a daemon may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Show what the node's daemon does.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Cache folder [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Show the settings in force and where each came from
    #[arg(long)]
    plan: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Show it again every so many seconds, until Ctrl-C [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
}

/// Stop the node's daemon. Trainers go on without it.
#[derive(Args)]
pub(crate) struct StopArguments {
    /// Cache folder [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long)]
    cache: Option<PathBuf>,
}

fn folder(named: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let found = named
        .cloned()
        .or_else(|| NodePaths::default_folder(|name| std::env::var_os(name)));
    found.ok_or_else(|| Failure::usage(NO_FOLDER))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    loop {
        if arguments.watch.is_some() && std::io::stdout().is_terminal() {
            // Back to the top of an empty screen.
            print!("\x1b[H\x1b[2J");
        }
        show(arguments)?;
        let Some(seconds) = arguments.watch else {
            return Ok(());
        };
        std::io::stdout().flush()?;
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

fn show(arguments: &Arguments) -> Result<(), Failure> {
    let text = status(&folder(arguments.cache.as_ref())?, DEADLINE).map_err(|error| {
        Failure::from(error).hint(
            "a client starts a daemon when it opens a data set; `forebay serve` runs one by hand",
        )
    })?;
    let status: Value = serde_json::from_str(&text)?;
    if arguments.json {
        println!("{status:#}");
    } else if arguments.plan {
        print!("{}", plan_words(&status["plan"]));
    } else {
        print!("{}", words(&status));
    }
    Ok(())
}

pub(crate) fn run_stop(arguments: &StopArguments) -> Result<(), Failure> {
    Ok(stop(&folder(arguments.cache.as_ref())?, DEADLINE)?)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn words(status: &Value) -> String {
    let size = |name: &str| bytes(number(&status[name]));
    let mut text = format!(
        "daemon {} ({}), up {:.0} s, {}\n\
         cache `{}`: {} of {} used, policy {}\n\
         asked {}: {} resident at first look{}, {} read through\n\
         read from the origin {}, evicted {}\n",
        status["pid"],
        status["version"].as_str().unwrap_or("?"),
        status["uptime_seconds"].as_f64().unwrap_or(0.0),
        count(number(&status["links"]), "client"),
        status["plan"]["cache"].as_str().unwrap_or("?"),
        size("used_bytes"),
        bytes(number(&status["plan"]["capacity_bytes"])),
        status["plan"]["policy"].as_str().unwrap_or("?"),
        size("asked_bytes"),
        size("local_bytes"),
        share(&status["local_bytes"], &status["asked_bytes"]),
        size("direct_bytes"),
        size("origin_bytes"),
        count(number(&status["metrics"]["evicted_blocks"]), "block"),
    );
    text.push_str(&stager(&status["stager"]));
    text.push_str(&fabric(&status["fabric"]));
    text.push_str(&members(&status["members"]));
    for dataset in status["datasets"].as_array().into_iter().flatten() {
        let resident = number(&dataset["resident_blocks"]) * number(&dataset["block_bytes"]);
        text.push_str(&format!(
            "data set `{}`: {}, {} resident\n",
            dataset["index"].as_str().unwrap_or("?"),
            count(number(&dataset["samples"]), "sample"),
            bytes(resident),
        ));
    }
    text
}

/// A part of a whole, in brackets; nothing where there is no whole.
fn share(part: &Value, whole: &Value) -> String {
    match number(whole) {
        0 => String::new(),
        whole => format!(" ({:.2} %)", 100.0 * number(part) as f64 / whole as f64),
    }
}

/// A line about staging ahead of need, where an order is followed.
fn stager(stager: &Value) -> String {
    if number(&stager["plans"]) == 0 {
        return String::new();
    }
    let iterations = stager["ahead_iterations"].as_u64();
    let iterations = iterations.map_or(String::new(), |ahead| {
        format!(" ({} of the rank least ahead)", count(ahead, "iteration"))
    });
    let yields = if stager["yields"] == true {
        ", yielding to collectives"
    } else {
        ""
    };
    format!(
        "staging along {}: {} ahead{iterations}, {} of {} reads in flight, {}, staged {}{yields}\n",
        count(number(&stager["plans"]), "order"),
        count(number(&stager["ahead_samples"]), "sample"),
        number(&stager["in_flight_reads"]),
        number(&stager["flight_limit"]),
        bytes(number(&stager["in_flight_bytes"])),
        bytes(number(&stager["staged_bytes"])),
    )
}

/// A line about what blocks go over beside TCP, where something is to be.
fn fabric(fabric: &Value) -> String {
    let reason = fabric["reason"].as_str();
    let Some(provider) = fabric["provider"].as_str() else {
        return reason.map_or(String::new(), |reason| {
            format!("links over TCP: {reason}\n")
        });
    };
    let class = fabric["requested_class"].as_str();
    let class = class.map_or(String::new(), |class| format!(", class {class} requested"));
    let lent = bytes(number(&fabric["lent_bytes"]));
    format!("links over libfabric `{provider}`{class}: lent {lent}\n")
}

/// What came of a member over the fabric, and why no more.
fn over_fabric(fabric: &Value) -> String {
    let part = format!(
        " ({} over libfabric",
        bytes(number(&fabric["received_bytes"]))
    );
    let failed = match number(&fabric["failed_reads"]) {
        0 => String::new(),
        failed => format!(", {} failed", count(failed, "read")),
    };
    let reason = match (fabric["open"] == true, fabric["reason"].as_str()) {
        (false, Some(reason)) => format!(", not now: {reason}"),
        _ => String::new(),
    };
    format!("{part}{failed}{reason})")
}

/// A line for each member of the job.
fn members(members: &Value) -> String {
    let line = |member: &Value| {
        let state = member["state"].as_str().unwrap_or("?");
        let name = member["name"].as_str().unwrap_or("?");
        let received = match member["received_bytes"].as_u64() {
            Some(received) => format!(", received {}", bytes(received)),
            None => String::new(),
        };
        let over_fabric = match &member["fabric"] {
            Value::Null => String::new(),
            fabric => over_fabric(fabric),
        };
        let reason = member["reason"].as_str();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        format!("member `{name}`: {state}{received}{over_fabric}{reason}\n")
    };
    members.as_array().into_iter().flatten().map(line).collect()
}

fn plan_words(plan: &Value) -> String {
    let source = |name: &str| {
        plan["sources"][name]
            .as_str()
            .unwrap_or("default")
            .to_owned()
    };
    let line = |name: &str, value: &Value| {
        let source = source(name.trim_end_matches("_bytes"));
        format!("{name} = {value}  # {source}\n")
    };
    let settings = plan
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "sources");
    settings.map(|(name, value)| line(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_goes_over_a_fabric_is_shown_beside_what_goes_over_tcp() {
        let open = json!({
            "provider": "tcp;ofi_rxm", "requested_class": "dscp 10", "lent_bytes": 4096,
            "reason": null,
        });
        assert_eq!(
            fabric(&open),
            "links over libfabric `tcp;ofi_rxm`, class dscp 10 requested: lent 4.00 KiB\n"
        );
        let none = json!({ "provider": null, "reason": "there is none" });
        assert_eq!(fabric(&none), "links over TCP: there is none\n");
        assert_eq!(fabric(&Value::Null), "");
        let member = json!([{
            "name": "b:1", "state": "up", "received_bytes": 8192,
            "fabric": {
                "open": false, "reason": "it was late", "received_bytes": 4096, "failed_reads": 1,
            },
        }]);
        assert_eq!(
            members(&member),
            "member `b:1`: up, received 8.00 KiB (4.00 KiB over libfabric, 1 read failed, not now: \
             it was late)\n"
        );
    }
}
