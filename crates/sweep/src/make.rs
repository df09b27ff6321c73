//! Making data sets, and taking them away again.
//!
//! A data set is a folder `forebay-sweep-NAME` with a description, `SET.json`, and the files. Each
//! file appears whole or not at all, so an interrupted run goes on where it was.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::order::CachedSet;
use crate::place::Place;
use crate::{DataSet, Result, SweepError};

const DESCRIPTION: &str = "SET.json";
/// Files of one subfolder.
const FOLDER_FILES: u32 = 4_096;
/// A description is not read beyond this, in bytes.
const MAX_DESCRIPTION: u64 = 1 << 16;

/// What a folder of files is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    made_by: String,
    set: DataSet,
    seed: u64,
}

/// A data set in a folder.
#[derive(Clone, Debug)]
pub struct Made {
    folder: PathBuf,
    set: DataSet,
    seed: u64,
}

impl Made {
    /// The data set of `seed` in a tier's folder, made or not.
    #[must_use]
    pub fn at(tier: &Path, set: &DataSet, seed: u64) -> Self {
        let folder = tier.join(format!("forebay-sweep-{}", set.name));
        Self {
            folder,
            set: set.clone(),
            seed,
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a file.
    #[must_use]
    pub fn file(&self, file: u32) -> PathBuf {
        let name = format!(
            "img_{file:08}_of_{:08}.{}",
            self.set.files,
            self.set.shape.format.extension()
        );
        self.folder
            .join(format!("{:05}", file / FOLDER_FILES))
            .join(name)
    }

    fn description(&self) -> Description {
        // The batch is no part of the files.
        let set = DataSet {
            batch: None,
            ..self.set.clone()
        };
        Description {
            made_by: "forebay tiers sweep".into(),
            set,
            seed: self.seed,
        }
    }

    /// Checks that the folder is free or holds this very data set, as far as it was made.
    ///
    /// # Errors
    /// [`SweepError::Taken`] when something else has its name.
    pub fn check_folder(&self) -> Result<()> {
        let path = self.folder.join(DESCRIPTION);
        let taken = |found: String| SweepError::Taken {
            path: self.folder.clone(),
            found,
        };
        match fs::metadata(&path) {
            Ok(found) if found.len() > MAX_DESCRIPTION => {
                Err(taken("has a description that is none".into()))
            }
            Ok(_) => {
                let text = fs::read(&path).map_err(SweepError::io("read", &path))?;
                match serde_json::from_slice::<Description>(&text) {
                    Ok(found) if found == self.description() => Ok(()),
                    Ok(_) => Err(taken("holds a data set made with other settings".into())),
                    Err(_) => Err(taken("has a description that is none".into())),
                }
            }
            Err(_) => {
                let entries = fs::read_dir(&self.folder).ok();
                match entries.and_then(|mut entries| entries.next()) {
                    Some(_) => Err(taken("is there and holds something else".into())),
                    None => Ok(()),
                }
            }
        }
    }

    /// Bytes of the files of `wanted` that are not there.
    #[must_use]
    pub fn missing_bytes(&self, wanted: &Wanted) -> u64 {
        let missing = (0..self.set.files).filter(|file| wanted.has(*file) && !self.is_there(*file));
        missing.count() as u64 * self.set.shape.file_bytes()
    }

    fn is_there(&self, file: u32) -> bool {
        let found = fs::metadata(self.file(file));
        found.is_ok_and(|found| found.is_file() && found.len() == self.set.shape.file_bytes())
    }

    /// Makes the folder and its description, before any process makes files in it.
    ///
    /// # Errors
    /// [`SweepError`] when the folder is taken or cannot be written.
    pub fn begin(&self) -> Result<()> {
        self.check_folder()?;
        fs::create_dir_all(&self.folder).map_err(SweepError::io("make folder", &self.folder))?;
        let text = serde_json::to_vec_pretty(&self.description()).unwrap_or_default();
        write_whole(&self.folder.join(DESCRIPTION), &text, 0)
    }

    /// Makes the files of `wanted` that are not there and that fall to one of the processes that
    /// share the work. `progress` is told the bytes of each.
    ///
    /// # Errors
    /// [`SweepError`] when a file cannot be written.
    pub fn make(&self, wanted: &Wanted, by: Place, mut progress: impl FnMut(u64)) -> Result<()> {
        for file in (by.rank..self.set.files).step_by(by.size.max(1) as usize) {
            if !wanted.has(file) || self.is_there(file) {
                continue;
            }
            let path = self.file(file);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(SweepError::io("make folder", folder))?;
            }
            write_whole(&path, &self.set.shape.encode(file, self.seed), by.rank)?;
            progress(self.set.shape.file_bytes());
        }
        Ok(())
    }

    /// Deletes the files of this data set, and its folders where nothing else is left in them.
    ///
    /// # Errors
    /// [`SweepError`] when the folder is not this data set's or a file cannot be deleted.
    pub fn remove(&self) -> Result<()> {
        self.check_folder()?;
        for file in 0..self.set.files {
            remove_if_there(&self.file(file))?;
        }
        for folder in 0..=self.set.files.saturating_sub(1) / FOLDER_FILES {
            // A folder that holds something of someone else stays.
            let _ = fs::remove_dir(self.folder.join(format!("{folder:05}")));
        }
        remove_if_there(&self.folder.join(DESCRIPTION))?;
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }
}

fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SweepError::io("delete", path)(error))
        }
        _ => Ok(()),
    }
}

/// Which files of a data set a tier needs.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// All.
    All,
    /// Those that are cached at this rate, in percent.
    Cached(CachedSet, f64),
}

impl Wanted {
    fn has(&self, file: u32) -> bool {
        match self {
            Self::All => true,
            Self::Cached(set, rate) => set.holds(file, *rate),
        }
    }
}

/// The file is there whole or not at all, whoever else writes the same one.
fn write_whole(path: &Path, bytes: &[u8], rank: u32) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".partial-{rank}"));
    let partial = PathBuf::from(partial);
    let written = File::create(&partial).and_then(|mut file| file.write_all(bytes));
    let done = written.and_then(|()| fs::rename(&partial, path));
    done.map_err(|error| {
        // It is this process's own.
        let _ = fs::remove_file(&partial);
        SweepError::io("write", path)(error)
    })
}

/// Checks that a tier has room for so many more bytes.
///
/// # Errors
/// [`SweepError::NoSpace`] when it has not; [`SweepError::Io`] when that cannot be told.
pub fn check_space(tier: &Path, needed: u64) -> Result<()> {
    let found =
        rustix::fs::statvfs(tier).map_err(|error| SweepError::io("use", tier)(error.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    // A file system that is full to the last block is slow, and others need room, too.
    if needed > 0 && free < needed + needed / 50 {
        return Err(SweepError::NoSpace {
            path: tier.to_owned(),
            free,
            needed,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::settings::parse_set;

    const ALONE: Place = Place { rank: 0, size: 1 };

    fn set(text: &str) -> DataSet {
        parse_set(text, Format::Raw, |text| text.parse().ok()).expect("sound")
    }

    #[test]
    fn making_goes_on_where_it_was_and_removing_takes_only_what_was_made() {
        let temp = tempfile::tempdir().expect("temp");
        let set = set("a:10:64");
        let made = Made::at(temp.path(), &set, 1);
        let mut bytes = 0;
        made.begin().expect("begun");
        made.make(
            &Wanted::Cached(CachedSet::new(10, 1), 40.0),
            ALONE,
            |more| bytes += more,
        )
        .expect("made");
        assert_eq!(bytes, 4 * 64);
        assert_eq!(made.missing_bytes(&Wanted::All), 6 * 64);
        fs::write(made.file(0), "short").expect("write");
        made.make(&Wanted::All, ALONE, |_| {}).expect("made");
        assert_eq!(made.missing_bytes(&Wanted::All), 0);
        let read = fs::read(made.file(0)).expect("there");
        assert_eq!(set.shape.check(0, 1, &read), Ok(()));

        fs::write(made.folder().join("mine"), "x").expect("write");
        made.remove().expect("removed");
        let left: Vec<_> = fs::read_dir(made.folder())
            .expect("there")
            .flatten()
            .collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn what_someone_else_has_there_is_left_alone() {
        let temp = tempfile::tempdir().expect("temp");
        let made = Made::at(temp.path(), &set("a:4:64"), 1);
        made.begin().expect("begun");
        made.make(&Wanted::All, ALONE, |_| {}).expect("made");
        let other = Made::at(temp.path(), &set("a:4:80"), 1);
        assert!(matches!(other.begin(), Err(SweepError::Taken { .. })));
        assert!(matches!(other.remove(), Err(SweepError::Taken { .. })));
        let other = Made::at(temp.path(), &set("b:4:80"), 1);
        fs::create_dir(other.folder()).expect("made");
        fs::write(other.folder().join("mine"), "x").expect("write");
        assert!(matches!(other.begin(), Err(SweepError::Taken { .. })));
    }

    #[test]
    fn a_tier_without_room_is_told_before_anything_is_written() {
        let temp = tempfile::tempdir().expect("temp");
        assert!(check_space(temp.path(), 1).is_ok());
        let told = check_space(temp.path(), 1 << 60).unwrap_err();
        assert!(matches!(told, SweepError::NoSpace { .. }), "{told}");
        assert!(check_space(&temp.path().join("none"), 1).is_err());
    }
}
