//! Many files of one size in one folder.

use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};

use crate::content::Pool;
use crate::files;
use crate::folder::Folder;
use crate::workload::Stage;
use crate::{BenchError, Params, Result, Verify};

/// The most files of one rank: more names would not fit the memory of a small node.
const MOST: u64 = 10_000_000;

/// Files whose content is compared after an iteration; all are counted and their size is checked.
const COMPARED: u64 = 256;

/// Names and content of the files, made before any clock runs.
#[derive(Debug)]
pub(super) struct Flat {
    pub(super) count: u64,
    pub(super) size: u64,
    names: Vec<CString>,
    pool: Option<Pool>,
}

impl Flat {
    /// By `num_copies` and `file_size`.
    pub(super) fn new(params: &Params) -> Result<Self> {
        let count = params.positive("num_copies")?;
        if count > MOST {
            return Err(BenchError::Usage(format!(
                "`num_copies` must be at most {MOST}: {count}"
            )));
        }
        Ok(Self {
            count,
            size: params.count("file_size")?,
            names: Vec::new(),
            pool: None,
        })
    }

    /// Makes names and content; once, in `prepare`.
    pub(super) fn prepare(&mut self, at: &Stage<'_>, prefix: &str) -> Result<()> {
        let name = |index| CString::new(format!("{prefix}{index}.dat"));
        self.names = (0..self.count)
            .map(name)
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| BenchError::Usage("a name of a file holds a zero byte".into()))?;
        let seed = at.spec.seed.wrapping_add(u64::from(at.place.rank) << 32);
        self.pool = Some(Pool::new(seed, self.count, self.size));
        Ok(())
    }

    pub(super) fn names(&self) -> &[CString] {
        &self.names
    }

    /// The parts that the content of a file is written in.
    pub(super) fn parts(&self, index: u64) -> impl Iterator<Item = &[u8]> {
        self.pool.iter().flat_map(move |pool| pool.parts(index))
    }

    /// Writes the files of `range` outside the timed part.
    pub(super) fn make(
        &self,
        at: &Stage<'_>,
        folder: &Folder,
        range: std::ops::Range<u64>,
    ) -> Result<()> {
        for index in range {
            at.go_on()?;
            let name = self.names[index as usize].as_c_str();
            let fault = |error| BenchError::os("write", &folder.path().join(shown(name)))(error);
            let file = files::create(folder, name, OFlags::empty()).map_err(fault)?;
            for part in self.parts(index) {
                files::write_all(&file, part).map_err(fault)?;
            }
        }
        Ok(())
    }

    /// Checks that the files of `range` are in `folder` with their size, and the content of some.
    pub(super) fn verify(
        &self,
        at: &Stage<'_>,
        folder: &Folder,
        range: std::ops::Range<u64>,
        zero: bool,
    ) -> Result<Verify> {
        let mut found = Verify::default();
        let every = (self.count / COMPARED).max(1);
        for index in range {
            at.go_on()?;
            let name = self.names[index as usize].as_c_str();
            let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
            let sized = stat.is_ok_and(|stat| stat.st_size as u64 == self.size);
            let good = sized
                && (!index.is_multiple_of(every) || self.is_content(folder, name, index, zero)?);
            found.checked += 1;
            found.bad += u64::from(!good);
        }
        Ok(found)
    }

    fn is_content(&self, folder: &Folder, name: &CStr, index: u64, zero: bool) -> Result<bool> {
        // A file larger than the pool is compared by its size alone.
        let Some(pool) = self.pool.as_ref().filter(|_| self.size <= 64 << 20) else {
            return Ok(true);
        };
        let fault = |error| BenchError::os("read", &folder.path().join(shown(name)))(error);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, name, flags, Mode::empty()).map_err(fault)?;
        let mut bytes = vec![0; self.size as usize + 1];
        let read = files::read_full(&file, &mut bytes).map_err(fault)?;
        let bytes = &bytes[..read];
        Ok(if zero {
            bytes.len() as u64 == self.size && bytes.iter().all(|byte| *byte == 0)
        } else {
            pool.is(index, bytes)
        })
    }
}

pub(super) fn shown(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

/// A check that a folder holds so many entries and no more.
pub(super) fn holds(folder: &Folder, count: u64) -> Result<Verify> {
    let found = folder.names()?.len() as u64;
    Ok(Verify {
        checked: 1,
        bad: u64::from(found != count),
    })
}

/// Both checks together.
pub(super) fn both(one: Verify, other: Verify) -> Verify {
    Verify {
        checked: one.checked + other.checked,
        bad: one.bad + other.bad,
    }
}

/// Makes entries of a folder durable.
pub(super) fn sync_folder(folder: &Folder) -> Result<()> {
    rustix::fs::fsync(folder.as_fd()).map_err(BenchError::os("write back folder", folder.path()))
}
