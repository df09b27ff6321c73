//! One file read as a loader reads it, each call timed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use crate::format::Shape;
use crate::{Result, SweepError};

/// What one file cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Loaded {
    /// Whether it was read from the local tier.
    pub(crate) is_local: bool,
    /// Seconds in open and close.
    pub(crate) meta_s: f64,
    /// Seconds in reads.
    pub(crate) read_s: f64,
}

/// How to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
    pub(crate) transfer_bytes: u64,
    pub(crate) keep_page_cache: bool,
}

impl Reading {
    /// Reads a file and checks its bytes; the check is not part of the times.
    pub(crate) fn load(
        &self,
        path: &Path,
        file: u32,
        is_local: bool,
        buffer: &mut Vec<u8>,
    ) -> Result<Loaded> {
        let bytes = self.shape.file_bytes() as usize;
        buffer.resize(bytes, 0);
        let began = Instant::now();
        let opened = File::open(path).map_err(SweepError::io("open", path))?;
        let mut meta_s = began.elapsed().as_secs_f64();

        let began = Instant::now();
        let mut done = 0;
        while done < bytes {
            let end = bytes.min(done + self.transfer_bytes as usize);
            let read = opened.read_at(&mut buffer[done..end], done as u64);
            match read.map_err(SweepError::io("read", path))? {
                0 => break,
                n => done += n,
            }
        }
        let read_s = began.elapsed().as_secs_f64();
        if !self.keep_page_cache {
            // Advice: what is not followed makes later reads faster, not wrong.
            let _ = rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed);
        }

        let began = Instant::now();
        drop(opened);
        meta_s += began.elapsed().as_secs_f64();
        let wrong = |found| SweepError::Content {
            path: path.to_owned(),
            found,
        };
        self.shape
            .check(file, self.seed, &buffer[..done])
            .map_err(wrong)?;
        Ok(Loaded {
            is_local,
            meta_s,
            read_s,
        })
    }
}
