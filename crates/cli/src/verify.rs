//! `forebay verify`

use std::path::PathBuf;

use clap::Args;
use forebay_indexer::{VerifyReport, VerifyRequest, verify};
use serde_json::json;

use crate::Failure;
use crate::output::count;
use crate::progress::Bar;
use crate::stores::stores;

/// Check an index, and compare every file of the origin with what it recorded.
///
/// Faults go to stdout, one a line; the exit code is 1 if there is any.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The index file
    index: PathBuf,
    /// Folder of the origin's files [default: the one that the index names]
    #[arg(long)]
    root: Option<PathBuf>,
    /// Read and decode every sample too, and compare it with its checksum where it has one
    #[arg(long)]
    data: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let request = VerifyRequest {
        index: arguments.index.clone(),
        root: arguments.root.clone(),
        data: arguments.data,
        stores: Some(stores()?),
    };
    let report = verify(&request, &Bar::default())?;
    if arguments.json {
        println!("{}", json(&report));
    } else {
        report.listed.iter().for_each(|fault| println!("{fault}"));
        eprintln!("{}", words(&report));
    }
    match report.faults {
        0 => Ok(()),
        faults => Err(Failure::new(format!(
            "`{}` and its files have {}",
            arguments.index.display(),
            count(faults, "fault")
        ))
        .hint(
            "files that lie elsewhere: name their folder with --root; files that changed, or a \
             damaged index: index them again",
        )),
    }
}

fn json(report: &VerifyReport) -> serde_json::Value {
    json!({
        "samples": report.samples,
        "segments": report.segments,
        "read": report.read,
        "compared": report.compared,
        "faults": report.faults,
        "listed": report.listed,
        "seconds": report.seconds,
    })
}

fn words(report: &VerifyReport) -> String {
    // Only what is without a fault has been verified.
    let done = if report.faults == 0 {
        "verified"
    } else {
        "checked"
    };
    let samples = count(report.samples, "sample");
    let files = count(report.segments, "file");
    let mut text = format!("{done} {samples} in {files} in {:.2} s", report.seconds);
    if report.read > 0 {
        text.push_str(&format!(
            "; read {} of them, {} with a checksum",
            report.read, report.compared
        ));
    }
    if report.faults > report.listed.len() as u64 {
        let listed = report.listed.len();
        text.push_str(&format!("; the first {listed} faults are listed"));
    }
    text
}
