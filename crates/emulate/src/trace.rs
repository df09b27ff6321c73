//! The trace: one JSON line for each request answered.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::delay::Timing;
use crate::error::{Error, Result};

/// One answered request.
#[derive(Debug, Serialize)]
pub struct TraceLine<'a> {
    /// `read`, `lookup`, `getattr`, `open`, `readdir` or `readlink`.
    pub op: &'a str,
    /// Path below the source.
    pub path: String,
    /// Where a read begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Bytes a read asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub len: Option<u32>,
    /// Bytes returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returned: Option<usize>,
    /// 0, or the `errno` answered.
    pub errno: i32,
    /// The request's number in its class.
    pub index: u64,
    /// Time waited or held, in ms.
    pub queued_ms: f64,
    /// Time drawn, in ms.
    pub delay_ms: f64,
}

impl<'a> TraceLine<'a> {
    /// A line for `op` on `path`; the fields of reads are left out.
    pub fn new(op: &'a str, path: &Path, timing: Timing) -> Self {
        Self {
            op,
            path: path.to_string_lossy().into_owned(),
            offset: None,
            len: None,
            returned: None,
            errno: 0,
            index: timing.index,
            queued_ms: timing.queued.as_secs_f64() * 1e3,
            delay_ms: timing.delay.as_secs_f64() * 1e3,
        }
    }
}

/// Where trace lines go. Lines are buffered; [`Trace::flush`] writes them out.
#[derive(Debug)]
pub struct Trace {
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    writer: BufWriter<File>,
    failed: bool,
}

impl Trace {
    /// Write to a new file at `path`, replacing what is there.
    ///
    /// # Errors
    /// [`Error::Trace`] if it can't be made.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|source| Error::Trace {
            path: path.to_owned(),
            source,
        })?;
        let writer = BufWriter::with_capacity(1 << 16, file);
        Ok(Self {
            out: Mutex::new(Out {
                writer,
                failed: false,
            }),
        })
    }

    /// Add a line. A trace that can't be written ends with one warning; the mount goes on.
    pub fn add(&self, line: &TraceLine<'_>) {
        self.with(|writer| {
            serde_json::to_writer(&mut *writer, line)?;
            writer.write_all(b"\n")
        });
    }

    /// Write out what is buffered.
    pub fn flush(&self) {
        self.with(Write::flush);
    }

    fn with(&self, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.failed {
            return;
        }
        if let Err(error) = write(&mut out.writer) {
            out.failed = true;
            eprintln!("warning: the trace ends here: {error}");
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.flush();
    }
}
