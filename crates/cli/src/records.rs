//! Files of records, as commands read them.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use forebay_analysis::RecordError;

use crate::Failure;

/// A file of records, open.
pub(crate) fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let fault = |error| {
        let shown = path.display();
        Failure::new(format!("cannot open records `{shown}`: {error}"))
    };
    File::open(path).map(BufReader::new).map_err(fault)
}

/// Reads files one after the other into a reader, and ends it. A failure names the file, or all of
/// them where it is of all.
pub(crate) fn read_all<R: Default, T>(
    files: &[PathBuf],
    read: impl Fn(&mut R, BufReader<File>) -> Result<(), RecordError>,
    finish: impl FnOnce(R) -> Result<T, RecordError>,
) -> Result<T, Failure> {
    let mut reader = R::default();
    for path in files {
        read(&mut reader, open(path)?).map_err(|error| unfit(&quoted(path), error))?;
    }
    let names: Vec<String> = files.iter().map(|path| quoted(path)).collect();
    finish(reader).map_err(|error| unfit(&names.join(", "), error))
}

/// What cannot be used, and why.
pub(crate) fn unfit(names: &str, error: RecordError) -> Failure {
    Failure::from(error).of(&format!("cannot use records {names}"))
}

/// A path in the words of an error.
pub(crate) fn quoted(path: &Path) -> String {
    format!("`{}`", path.display())
}
