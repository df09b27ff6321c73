//! Reads the structure of HDF5 files, several at a time.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use forebay_dataset::Fingerprint;
use forebay_dataset::index::FieldSpec;

use crate::detect::outline;
use crate::error::Result;
use crate::files::InputFile;
use crate::groups::{GroupSamples, GroupWalk};
use crate::h5::{Family, H5File, OtherFile, Place};
use crate::objects::REQUESTS;
use crate::pattern::Pattern;
use crate::plan::Job;
use crate::rows::{self, RowSamples};
use crate::source::Source;
use crate::{IndexerError, glob};

/// The fields of a kind of sample.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) fields: Vec<FieldSpec>,
    /// Samples that have them.
    pub(crate) samples: u64,
    /// The first such sample, for messages.
    pub(crate) example: String,
}

/// Which fields to keep.
#[derive(Debug)]
pub(crate) struct FieldFilter {
    patterns: Vec<String>,
    /// Whether each pattern was met.
    met: Vec<AtomicBool>,
    /// The first names that were left out, for messages.
    others: Mutex<BTreeSet<String>>,
}

/// Names that a message lists.
const LISTED: usize = 12;

impl FieldFilter {
    pub(crate) fn new(patterns: &[String]) -> Self {
        Self {
            patterns: patterns.to_vec(),
            met: patterns.iter().map(|_| AtomicBool::new(false)).collect(),
            others: Mutex::default(),
        }
    }

    /// Whether the field `name` is wanted.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        if self.patterns.is_empty() {
            return true;
        }
        let mut kept = false;
        for (pattern, met) in self.patterns.iter().zip(&self.met) {
            if glob::matches(pattern, name) {
                // Relaxed: read after the threads that write it are joined.
                met.store(true, Ordering::Relaxed);
                kept = true;
            }
        }
        kept
    }

    /// Whether the part `suffix` of the data set `name` is wanted: both, or the data set as a whole.
    pub(crate) fn keeps_part(&self, name: &str, suffix: &str) -> bool {
        // Both are asked, so that both patterns count as met.
        let whole = self.keeps(name);
        whole | (!suffix.is_empty() && self.keeps(&format!("{name}{suffix}")))
    }

    /// Whether `name` is a wanted field, or a group that may hold one.
    pub(crate) fn may_hold(&self, name: &str) -> bool {
        let wanted = self.patterns.is_empty()
            || self.patterns.iter().any(|pattern| {
                glob::matches(pattern, name) || {
                    // `a/*` and `*/b` may lie in `a`; `ab` and `b/c` cannot.
                    let first = pattern.find(['*', '?']).unwrap_or(pattern.len());
                    let literal = &pattern[..first];
                    let below = format!("{name}/");
                    literal.starts_with(&below)
                        || (first < pattern.len() && below.starts_with(literal))
                }
            });
        if !wanted {
            self.leave_out(name);
        }
        wanted
    }

    /// Remembers a name for messages, while none of the patterns was met.
    fn leave_out(&self, name: &str) {
        if self.met.iter().all(|met| met.load(Ordering::Relaxed)) {
            return;
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if others.len() < LISTED {
            others.insert(name.to_owned());
        }
    }

    /// Fails if a pattern was not met by any field.
    pub(crate) fn check_all_met(&self) -> Result<()> {
        for (pattern, met) in self.patterns.iter().zip(&self.met) {
            if !met.load(Ordering::Relaxed) {
                let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                let names: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
                let there = match names.is_empty() {
                    true => "check `--fields`".to_owned(),
                    false => format!("left out are {}", names.join(", ")),
                };
                return Err(IndexerError::Request(format!(
                    "no sample has a field `{pattern}`: {there}"
                )));
            }
        }
        Ok(())
    }
}

/// What a job found.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) file: usize,
    pub(crate) rule: usize,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) samples: Samples,
    /// Files that it leads to, by the numbers that its arrays have, from 1 on.
    pub(crate) others: Vec<OtherFile>,
}

/// The samples of one file by one pattern.
#[derive(Debug)]
pub(crate) enum Samples {
    Groups(GroupSamples),
    Rows(RowSamples),
}

impl Samples {
    /// The kinds of samples in the file.
    pub(crate) fn schemas(&self) -> &[Schema] {
        match self {
            Self::Groups(groups) => &groups.schemas,
            Self::Rows(rows) => std::slice::from_ref(&rows.schema),
        }
    }
}

/// Runs `work` for `0..count`, on at most as many threads as there are processors. The results
/// are in order; of several errors, the one of the lowest number is returned.
pub(crate) fn parallel<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    parallel_on(threads, count, work)
}

/// As many threads as the inputs can use: those in a store wait for it, not for a processor.
pub(crate) fn parallel_over<T: Send>(
    inputs: &[InputFile],
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    match inputs.first() {
        Some(InputFile {
            object: Some(_), ..
        }) => parallel_on(REQUESTS, count, work),
        _ => parallel(count, work),
    }
}

/// The same as [`parallel`], on so many threads.
pub(crate) fn parallel_on<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = threads.min(count);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Relaxed: the counter hands out numbers; `results` carries the data.
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let result = work(number);
                    if result.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Reads an HDF5 file by a pattern.
pub(crate) fn scan(
    input: &InputFile,
    job: Job,
    pattern: &Pattern,
    filter: &FieldFilter,
) -> Result<Scanned> {
    let path = &input.path;
    let (mut scanned, others) = with_file(input, |file, fingerprint| {
        let samples = match pattern {
            Pattern::Groups(parts) => {
                Samples::Groups(GroupWalk::new(input, file, parts, filter).run()?)
            }
            Pattern::Rows(names) => Samples::Rows(rows::scan(input, file, names, filter)?),
        };
        if samples.schemas().is_empty() {
            return Err(IndexerError::Request(format!(
                "no group of `{}` has the form `{}`: {}",
                path.display(),
                pattern,
                outline(file).map_err(IndexerError::h5(path, ""))?
            )));
        }
        Ok(Scanned {
            file: job.file,
            rule: job.rule,
            fingerprint,
            samples,
            others: Vec::new(),
        })
    })?;
    scanned.others = others;
    Ok(scanned)
}

/// Opens an HDF5 file, reads it by `read`, and makes sure that neither it nor any file that it led
/// to changed meanwhile. Those are returned too.
///
/// A panic of the parser is an error of the file: it cannot have been well formed.
pub(crate) fn with_file<T>(
    input: &InputFile,
    read: impl FnOnce(&H5File, Fingerprint) -> Result<T>,
) -> Result<(T, Vec<OtherFile>)> {
    let path = &input.path;
    let source = Arc::new(Source::open(input)?);
    let before = source
        .fingerprint()
        .map_err(IndexerError::io("read", path))?;
    let base = input.superblock.unwrap_or(0);
    let family = Family::new(input, Arc::clone(&source));
    let result = catch_unwind(AssertUnwindSafe(|| {
        let place = Place::first(Arc::clone(&family));
        let file = H5File::open(Arc::clone(&source), before.size, base, input.swmr, place)
            .map_err(IndexerError::h5(path, ""))?;
        read(&file, before)
    }));
    // First, since a file that is being written looks damaged.
    source.check_unchanged(path, before)?;
    let others = family.finish()?;
    let found = result.unwrap_or_else(|_| {
        Err(IndexerError::Damaged {
            place: format!("`{}`", path.display()),
            what: "its structure makes no sense".to_owned(),
        })
    })?;
    Ok((found, others))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use forebay_dataset::ErrorKind;

    use super::*;

    /// A superblock of version 0, and nothing that it leads to.
    const SMALLEST: [u8; 96] = {
        let head = *b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0";
        let mut bytes = [0; 96];
        let mut at = 0;
        while at < head.len() {
            bytes[at] = head[at];
            at += 1;
        }
        bytes
    };

    #[test]
    fn a_file_that_changes_while_it_is_read_is_stale() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.h5");
        std::fs::write(&path, SMALLEST).unwrap();
        let input = InputFile {
            path: path.clone(),
            name: "a.h5".to_owned(),
            superblock: Some(0),
            object: None,
            swmr: false,
            decode: false,
            listed: None,
        };
        assert!(with_file(&input, |_, _| Ok(())).is_ok());
        let result = with_file(&input, |_, _| {
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(b"more").unwrap();
            Ok(())
        });
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stale);
        assert!(error.to_string().contains("a.h5"), "{error}");
    }

    #[test]
    fn a_panic_of_the_parser_is_an_error_of_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.h5");
        std::fs::write(&path, SMALLEST).unwrap();
        let input = InputFile {
            path,
            name: "a.h5".to_owned(),
            superblock: Some(0),
            object: None,
            swmr: false,
            decode: false,
            listed: None,
        };
        let result = with_file::<()>(&input, |_, _| panic!("as a parser does"));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_file_without_a_superblock_is_damaged() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a.h5");
        std::fs::write(&path, b"\x89HDF\r\n\x1a\n").unwrap();
        let input = InputFile {
            path,
            name: "a.h5".to_owned(),
            superblock: Some(0),
            object: None,
            swmr: false,
            decode: false,
            listed: None,
        };
        let error = with_file(&input, |_, _| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn filters_look_into_groups_that_may_hold_a_field() {
        let filter = FieldFilter::new(&["coord".to_owned(), "edges/*".to_owned()]);
        for name in ["coord", "edges/x", "edges/x/y"] {
            assert!(filter.keeps(name) && filter.may_hold(name), "{name}");
        }
        assert!(filter.may_hold("edges") && !filter.keeps("edges"));
        for name in ["edge", "coords", "coord/x", "x/edges"] {
            assert!(!filter.keeps(name) && !filter.may_hold(name), "{name}");
        }
        let all = FieldFilter::new(&["*/x".to_owned()]);
        assert!(all.may_hold("a") && all.may_hold("a/b") && all.keeps("a/b/x"));
        assert!(filter.check_all_met().is_ok());
        assert!(FieldFilter::new(&["z".to_owned()]).check_all_met().is_err());
    }

    #[test]
    fn the_first_error_in_order_is_returned() {
        for _ in 0..50 {
            let error = parallel::<()>(64, |number| match number {
                7 | 9 | 40 => Err(IndexerError::Request(number.to_string())),
                _ => Ok(()),
            });
            assert_eq!(error.unwrap_err().to_string(), "7");
        }
        assert_eq!(parallel(5, Ok).unwrap(), [0, 1, 2, 3, 4]);
    }
}
