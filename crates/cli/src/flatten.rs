//! `forebay flatten`

use std::path::PathBuf;

use clap::Args;
use forebay_indexer::{FlattenRequest, FlattenSource, flatten};
use serde_json::json;

use crate::Failure;
use crate::index::{SampleArguments, bytes};
use crate::progress::Bar;

/// Rewrite samples, decoded, into packed shards, so that one range holds each of them.
///
/// A run that was stopped goes on where it was; the output has an index only when it is complete.
#[derive(Args)]
pub(crate) struct Arguments {
    /// An index file, or files and folders to index first
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// Folder to write
    #[arg(short, long)]
    output: PathBuf,
    #[command(flatten)]
    samples: SampleArguments,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn source(&self) -> Result<FlattenSource, Failure> {
        match self.inputs.as_slice() {
            [path]
                if path
                    .extension()
                    .is_some_and(|extension| extension == "forebay") =>
            {
                Ok(FlattenSource::Index {
                    path: path.clone(),
                    root: self.samples.root(),
                })
            }
            inputs => {
                let unwritten = self.output.join("index.forebay");
                Ok(FlattenSource::Inputs(
                    self.samples.request(inputs.to_vec(), unwritten)?,
                ))
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let request = FlattenRequest::new(arguments.source()?, arguments.output.clone());
    let summary = flatten(&request, &Bar::default())?;
    if arguments.json {
        let json = json!({
            "index": summary.index,
            "samples": summary.samples,
            "shards": summary.shards,
            "shards_reused": summary.shards_reused,
            "bytes": summary.bytes,
            "generation": format!("{:032x}", summary.generation),
            "seconds": summary.seconds,
        });
        println!("{json}");
    } else {
        eprintln!(
            "flattened {} samples into {} shards ({}) in {:.2} s\nwrote `{}`",
            summary.samples,
            summary.shards,
            bytes(summary.bytes),
            summary.seconds,
            summary.index.display()
        );
        if summary.shards_reused > 0 {
            eprintln!(
                "{} shards were complete from an earlier run",
                summary.shards_reused
            );
        }
    }
    Ok(())
}
