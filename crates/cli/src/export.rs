//! `forebay export`

use std::path::PathBuf;

use clap::Args;
use forebay_indexer::{ExportRequest, export};

use crate::Failure;
use crate::output::count;
use crate::progress::Bar;

/// Write an index as a Parquet table: a row for each field of each sample.
///
/// Columns: sample, key, field, file, offset, length, dtype, shape, chunks.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The index file
    index: PathBuf,
    /// The Parquet file to write
    #[arg(short, long)]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    may_hold_table(&arguments.output)?;
    let request = ExportRequest {
        index: arguments.index.clone(),
        output: arguments.output.clone(),
    };
    let rows = export(&request, &Bar::default())?;
    eprintln!(
        "wrote {} to `{}`",
        count(rows, "row"),
        arguments.output.display()
    );
    Ok(())
}

/// Refuses to write over anything but a Parquet file.
fn may_hold_table(path: &std::path::Path) -> Result<(), Failure> {
    let shown = path.display();
    let mut magic = [0; 4];
    let read =
        std::fs::File::open(path).and_then(|mut file| std::io::Read::read(&mut file, &mut magic));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(0) => Ok(()),
        Ok(_) if magic == *b"PAR1" => Ok(()),
        Ok(_) => Err(Failure::usage(format!(
            "cannot write a table to `{shown}`: it is there and is no Parquet file"
        ))
        .hint("name a new file with --output")),
        Err(error) => Err(Failure::new(format!("cannot write `{shown}`: {error}"))),
    }
}
