//! How far a long run has come.

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Looking for files; counted in files, of which nobody knows how many there are.
    List,
    /// Reading the structure of files; counted in files.
    Scan,
    /// Writing the index; counted in samples.
    Write,
    /// Copying samples; counted in bytes.
    Copy,
    /// Comparing files with the index; counted in files.
    Check,
    /// Reading and decoding samples; counted in samples.
    Read,
}

/// Hears how far a run has come. Called from several threads.
pub trait Progress: Sync {
    /// A stage begins, with `total` units of work.
    fn begin(&self, stage: Stage, total: u64) {
        let _ = (stage, total);
    }

    /// `units` more were done of the stage that began last.
    fn advance(&self, units: u64) {
        let _ = units;
    }
}

/// Hears nothing.
impl Progress for () {}
