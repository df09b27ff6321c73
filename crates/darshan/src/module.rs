//! The modules of Darshan: parts that each watch one interface.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::header::Version;

/// A part of Darshan that watches one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named as `Module::name` says")]
pub enum Module {
    Null,
    Posix,
    MpiIo,
    H5f,
    H5d,
    PnetcdfFile,
    PnetcdfVar,
    Bgq,
    Lustre,
    Stdio,
    DxtPosix,
    DxtMpiio,
    Mdhim,
    Apxc,
    Apmpi,
    Heatmap,
    Dfs,
    Daos,
    /// An id that is not known.
    Unknown(u8),
}

/// Every module, by its id in version 3.41.
const BY_ID: [Module; 18] = [
    Module::Null,
    Module::Posix,
    Module::MpiIo,
    Module::H5f,
    Module::H5d,
    Module::PnetcdfFile,
    Module::PnetcdfVar,
    Module::Bgq,
    Module::Lustre,
    Module::Stdio,
    Module::DxtPosix,
    Module::DxtMpiio,
    Module::Mdhim,
    Module::Apxc,
    Module::Apmpi,
    Module::Heatmap,
    Module::Dfs,
    Module::Daos,
];

/// The module of an id. Older versions lack some, and those behind them have lower ids.
pub(crate) fn of_id(version: Version, id: usize) -> Module {
    let absent = |module: &Module| match module {
        Module::PnetcdfVar => version < Version::V341,
        Module::H5d => version < Version::V320,
        _ => false,
    };
    let mut known = BY_ID.into_iter().filter(|module| !absent(module));
    known.nth(id).unwrap_or(Module::Unknown(id.min(255) as u8))
}

impl Module {
    /// Its name, as Darshan's own tools write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Posix => "POSIX",
            Self::MpiIo => "MPI-IO",
            Self::H5f => "H5F",
            Self::H5d => "H5D",
            Self::PnetcdfFile => "PNETCDF_FILE",
            Self::PnetcdfVar => "PNETCDF_VAR",
            Self::Bgq => "BG/Q",
            Self::Lustre => "LUSTRE",
            Self::Stdio => "STDIO",
            Self::DxtPosix => "DXT_POSIX",
            Self::DxtMpiio => "DXT_MPIIO",
            Self::Mdhim => "MDHIM",
            Self::Apxc => "APXC",
            Self::Apmpi => "APMPI",
            Self::Heatmap => "HEATMAP",
            Self::Dfs => "DFS",
            Self::Daos => "DAOS",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(id) => write!(f, "with the unknown id {id}"),
            known => f.pad(known.name()),
        }
    }
}

impl Serialize for Module {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What became of the records of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModuleState {
    /// They were read, as far as they go.
    Read,
    /// This crate does not read this module, or not in this version.
    Skipped,
}

/// A module of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleSummary {
    /// The module.
    pub module: Module,
    /// Version of its records.
    pub version: u32,
    /// Bytes that they take in the file, compressed.
    pub bytes: u64,
    /// Whether Darshan dropped records of it for want of memory.
    pub is_partial: bool,
    /// What became of them.
    pub state: ModuleState,
    /// Records that were read.
    pub records: usize,
}
