//! What commands share: what they may write over, whole files, a way out of a lost file, counts in words.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use forebay_dataset::IndexError;
use forebay_indexer::IndexerError;
use forebay_origin::{IndexFile, OriginError};

use crate::Failure;

/// Refuses to write an index over anything but an index or an empty file: a slip of the command
/// line must not cost a data set.
pub(crate) fn may_hold_index(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::new(format!("cannot write `{shown}`: {error}"))),
    };
    let fault = if found.is_dir() {
        "it is a folder"
    } else if !found.is_file() {
        "it is no plain file"
    } else if found.len() > 0 && is_other(path) {
        "it is there and is no index"
    } else {
        return Ok(());
    };
    let hint = "name a new file, or an index that may be replaced, with --output";
    Err(Failure::usage(format!("cannot write an index to `{shown}`: {fault}")).hint(hint))
}

/// Whether the file is something else than an index, sound or not.
fn is_other(path: &Path) -> bool {
    match IndexFile::open(path) {
        Ok(_) => false,
        Err(OriginError::Index { source, .. }) => matches!(source, IndexError::NotAnIndex { .. }),
        Err(_) => true,
    }
}

/// The failure, with a way out where the origin's file is not where it was.
pub(crate) fn hinted(error: IndexerError) -> Failure {
    let gone = matches!(&error, IndexerError::Origin(OriginError::Open { source, .. })
        if source.kind() == io::ErrorKind::NotFound);
    let failure = Failure::from(error);
    if gone {
        failure.hint("if the files lie elsewhere, name their folder with --root")
    } else {
        failure
    }
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

/// Refuses an output that is one of the inputs.
pub(crate) fn must_not_replace(output: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let Ok(output) = output.canonicalize() else {
        return Ok(());
    };
    let is_same = |input: &&PathBuf| input.canonicalize().is_ok_and(|input| input == output);
    match inputs.iter().find(is_same) {
        Some(input) => {
            let message = format!("the output would replace the input `{}`", input.display());
            Err(Failure::usage(message).hint("name another file"))
        }
        None => Ok(()),
    }
}

/// Writes a file that is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|error| Failure::new(format!("cannot write `{}`: {error}", path.display())))
}
