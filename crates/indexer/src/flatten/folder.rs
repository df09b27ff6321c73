//! The output folder: what may be in it, and what is complete.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::IndexerError;
use crate::error::Result;
use crate::output::write_whole;

const STATE: &str = "flatten.json";
const INDEX: &str = "index.forebay";
/// Version of the state file and of the shards' packing.
const FORMAT: u32 = 1;

/// What the folder is being filled with.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    format: u32,
    /// Generation of the source's index, in hexadecimal.
    source: String,
    shard_bytes: u64,
}

/// What a complete shard holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Receipt {
    pub(super) bytes: u64,
    pub(super) crc32c: u32,
}

/// An output folder that belongs to this run.
pub(super) struct Folder {
    path: PathBuf,
    /// Holds the lock on the folder.
    _lock: File,
}

pub(super) fn shard_name(number: usize) -> String {
    format!("shard-{number:05}.fbs")
}

fn receipt_name(number: usize) -> String {
    format!("shard-{number:05}.json")
}

impl Folder {
    /// Opens or makes the folder, for the samples of the index of generation `source`.
    pub(super) fn open(path: &Path, source: u128, shard_bytes: u64) -> Result<Self> {
        fs::create_dir_all(path).map_err(IndexerError::io("create", path))?;
        let lock = File::open(path).map_err(IndexerError::io("open", path))?;
        // Some network file systems cannot lock a folder; then two runs at once write the same
        // bytes, which costs time only.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(IndexerError::Request(format!(
                "another process is writing `{}`",
                path.display()
            )));
        }
        let folder = Self {
            path: path.to_path_buf(),
            _lock: lock,
        };
        folder.claim(&State {
            format: FORMAT,
            source: format!("{source:032x}"),
            shard_bytes,
        })?;
        Ok(folder)
    }

    fn claim(&self, wanted: &State) -> Result<()> {
        let path = self.path.join(STATE);
        let state = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<State>(&bytes).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.refuse_strangers(false)?;
                let text = serde_json::to_vec_pretty(wanted).unwrap_or_default();
                return write_whole(&path, |out| {
                    out.write_all(&text)
                        .map_err(IndexerError::io("write", &path))
                });
            }
            Err(error) => return Err(IndexerError::io("read", &path)(error)),
        };
        self.refuse_strangers(true)?;
        if state.as_ref() == Some(wanted) {
            return Ok(());
        }
        Err(IndexerError::Request(format!(
            "`{}` holds samples of another index, of another version of the same files, or in \
             shards of another size: remove it, or choose another folder",
            self.path.display()
        )))
    }

    /// Fails on a file that no run of this request writes.
    fn refuse_strangers(&self, claimed: bool) -> Result<()> {
        let entries = fs::read_dir(&self.path).map_err(IndexerError::io("list", &self.path))?;
        for entry in entries {
            let entry = entry.map_err(IndexerError::io("list", &self.path))?;
            let name = entry.file_name();
            let own = name.to_str().is_some_and(|name| {
                let whole = name.strip_suffix(".partial").unwrap_or(name);
                whole == STATE || (claimed && (whole == INDEX || is_shard_file(whole)))
            });
            if !own {
                return Err(IndexerError::Request(format!(
                    "`{}` holds something else (`{}`): choose an empty folder",
                    self.path.display(),
                    name.display()
                )));
            }
        }
        Ok(())
    }

    pub(super) fn index(&self) -> PathBuf {
        self.path.join(INDEX)
    }

    /// Whether an earlier run got to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.index().exists()
    }

    pub(super) fn shard(&self, number: usize) -> PathBuf {
        self.path.join(shard_name(number))
    }

    /// What an earlier run says of a shard. One that cannot be read counts as none.
    pub(super) fn receipt(&self, number: usize) -> Option<Receipt> {
        let bytes = fs::read(self.path.join(receipt_name(number))).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(super) fn write_receipt(&self, number: usize, receipt: &Receipt) -> Result<()> {
        let path = self.path.join(receipt_name(number));
        let text = serde_json::to_vec(receipt).unwrap_or_default();
        write_whole(&path, |out| {
            out.write_all(&text)
                .map_err(IndexerError::io("write", &path))
        })
    }

    /// Removes what only an unfinished output needs.
    pub(super) fn remove_receipts(&self, shards: usize) -> Result<()> {
        for number in 0..shards {
            let path = self.path.join(receipt_name(number));
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(IndexerError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_shard_file(name: &str) -> bool {
    name.strip_prefix("shard-")
        .and_then(|rest| rest.strip_suffix(".fbs").or(rest.strip_suffix(".json")))
        .is_some_and(|number| number.len() >= 5 && number.bytes().all(|b| b.is_ascii_digit()))
}
