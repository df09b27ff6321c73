//! `forebay flatten`

use std::path::PathBuf;

use clap::Args;
use forebay_indexer::{FlattenRequest, FlattenSource, flatten};
use serde_json::json;

use crate::Failure;
use crate::index::{SampleArguments, bytes, flattened, refuse_flattened};
use crate::output::{count, hinted};
use crate::progress::Bar;
use crate::stores::stores;

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
        let Some(path) = self.index() else {
            refuse_flattened(&self.inputs)?;
            let unwritten = self.output.join("index.forebay");
            let request = self.samples.request(self.inputs.clone(), unwritten)?;
            return Ok(FlattenSource::Inputs(request));
        };
        match self.samples.of_files().as_slice() {
            [] => Ok(FlattenSource::Index {
                path,
                root: self.samples.root(),
            }),
            given => Err(Failure::usage(format!(
                "`{}` is an index, which says already what a sample is: {} cannot change it",
                path.display(),
                given.join(", ")
            ))
            .hint("give them to `forebay index`, or flatten the files themselves")),
        }
    }

    /// The index to flatten, where one is named: it, or the folder that holds it.
    fn index(&self) -> Option<PathBuf> {
        let [path] = self.inputs.as_slice() else {
            return None;
        };
        let named = path.extension().is_some_and(|end| end == "forebay") && !path.is_dir();
        named.then(|| path.clone()).or_else(|| flattened(path))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut request = FlattenRequest::new(arguments.source()?, arguments.output.clone());
    request.stores = Some(stores()?);
    let summary = flatten(&request, &Bar::default()).map_err(hinted)?;
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
            "flattened {} into {} ({}) in {:.2} s\nwrote `{}`",
            count(summary.samples, "sample"),
            count(summary.shards, "shard"),
            bytes(summary.bytes),
            summary.seconds,
            summary.index.display()
        );
        if summary.shards_reused > 0 {
            let reused = count(summary.shards_reused, "shard");
            eprintln!("of them {reused} complete from an earlier run");
        }
    }
    Ok(())
}
