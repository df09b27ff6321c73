//! What the commands of this group read: record files.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use forebay_analysis::tiers::Study;

use crate::Failure;

/// Where the I/O of processes is taken from.
#[derive(Args)]
pub(crate) struct Input {
    /// Records of a run or a sweep (docs/RECORDS.md)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Input {
    /// All that the files say. What a reader must know besides goes to stderr.
    pub(crate) fn study(&self) -> Result<Study, Failure> {
        let [file] = self.files.as_slice() else {
            let message = "more than one record file was named";
            return Err(Failure::usage(message).hint("name one file of records"));
        };
        let study = records(file)?;
        for sentence in study.unread.sentences() {
            eprintln!("note: {sentence}");
        }
        Ok(study)
    }
}

fn records(path: &Path) -> Result<Study, Failure> {
    let shown = path.display();
    let file = File::open(path)
        .map_err(|error| Failure::new(format!("cannot open records `{shown}`: {error}")))?;
    Study::read(BufReader::new(file))
        .map_err(|error| Failure::from(error).of(&format!("cannot use records `{shown}`")))
}
