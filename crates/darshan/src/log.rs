//! A whole log.

use std::collections::HashMap;

use crate::bytes::Bytes;
use crate::error::{DarshanError, Fault, Region};
use crate::header::{ByteOrder, Compression, Header, ModulePlace, Place, Version};
use crate::job::{self, Job};
use crate::module::{Module, ModuleState, ModuleSummary};
use crate::names;
use crate::records::{
    self, DxtRecord, HeatmapRecord, LustreRecord, PosixRecord, StdioRecord, Step,
};
use crate::region::{self, Inflated};

/// The most that is taken from one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Decompressed bytes of one region.
    pub region_bytes: usize,
    /// Decompressed bytes of all regions.
    pub total_bytes: usize,
    /// Records of one module, and names.
    pub records: usize,
}

impl Default for Limits {
    /// 256 MiB of a region, 1 GiB in all, 2,000,000 records: more than Darshan writes with the
    /// settings it comes with.
    fn default() -> Self {
        Self {
            region_bytes: 256 << 20,
            total_bytes: 1 << 30,
            records: 2_000_000,
        }
    }
}

/// Bytes of the job region: Darshan writes 4 KiB.
const MAX_JOB_BYTES: usize = 1 << 20;

/// Everything that a log says, and what it lacks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Log {
    /// Version of the format.
    pub version: Version,
    /// Byte order of the machine that wrote it.
    pub order: ByteOrder,
    /// How it is compressed.
    pub compression: Compression,
    /// The job that was profiled.
    pub job: Job,
    /// Names of files, by the id in records.
    pub names: HashMap<u64, String>,
    /// Every module that has records, also those that are not read.
    pub modules: Vec<ModuleSummary>,
    /// Records of POSIX.
    pub posix: Vec<PosixRecord>,
    /// Records of STDIO.
    pub stdio: Vec<StdioRecord>,
    /// Records of LUSTRE.
    pub lustre: Vec<LustreRecord>,
    /// Records of HEATMAP.
    pub heatmap: Vec<HeatmapRecord>,
    /// Records of `DXT_POSIX`.
    pub dxt_posix: Vec<DxtRecord>,
    /// Records of `DXT_MPIIO`.
    pub dxt_mpiio: Vec<DxtRecord>,
    /// What is missing, and why; empty for a log that is whole.
    pub faults: Vec<Fault>,
}

impl Log {
    /// Reads a log, with the default [`Limits`].
    ///
    /// # Errors
    /// [`DarshanError`] where the bytes are no log, or the job cannot be read. What else is
    /// missing stands in [`Log::faults`].
    pub fn read(log: &[u8]) -> Result<Self, DarshanError> {
        Self::read_within(log, &Limits::default())
    }

    /// Reads a log within other limits.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn read_within(log: &[u8], limits: &Limits) -> Result<Self, DarshanError> {
        let header = Header::read(log)?;
        let mut reader = Reader {
            log,
            header: &header,
            limits,
            left_bytes: limits.total_bytes,
            faults: Vec::new(),
        };
        let job = reader.job()?;
        let names = reader.names();
        let mut read = Self {
            version: header.version,
            order: header.order,
            compression: header.compression,
            job,
            names,
            modules: Vec::new(),
            posix: Vec::new(),
            stdio: Vec::new(),
            lustre: Vec::new(),
            heatmap: Vec::new(),
            dxt_posix: Vec::new(),
            dxt_mpiio: Vec::new(),
            faults: Vec::new(),
        };
        for place in &header.modules {
            read.module(&mut reader, place);
        }
        read.faults = reader.faults;
        Ok(read)
    }

    /// Name of the file that records of an id are about.
    #[must_use]
    pub fn name(&self, id: u64) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    fn module(&mut self, reader: &mut Reader<'_>, place: &ModulePlace) {
        let (module, version) = (place.module, place.version);
        let found = match module {
            // All its records were dropped.
            _ if place.place.bytes == 0 => None,
            Module::Posix => {
                reader.records(place, records::posix::reader(version), &mut self.posix)
            }
            Module::Stdio => {
                reader.records(place, records::stdio::reader(version), &mut self.stdio)
            }
            Module::Lustre => {
                reader.records(place, records::lustre::reader(version), &mut self.lustre)
            }
            Module::Heatmap => {
                reader.records(place, records::heatmap::reader(version), &mut self.heatmap)
            }
            Module::DxtPosix => {
                let decoder = records::dxt::reader(module, version);
                reader.records(place, decoder, &mut self.dxt_posix)
            }
            Module::DxtMpiio => {
                let decoder = records::dxt::reader(module, version);
                reader.records(place, decoder, &mut self.dxt_mpiio)
            }
            _ => None,
        };
        if place.is_partial {
            reader.faults.push(Fault::Partial(Region::Module(module)));
        }
        let ids: Vec<u64> = match module {
            Module::Posix => self.posix.iter().map(|record| record.id).collect(),
            Module::Stdio => self.stdio.iter().map(|record| record.id).collect(),
            _ => Vec::new(),
        };
        let unnamed = ids.iter().filter(|id| !self.names.contains_key(id)).count();
        if unnamed > 0 {
            reader.faults.push(Fault::Unnamed {
                region: Region::Module(module),
                records: unnamed,
            });
        }
        self.modules.push(ModuleSummary {
            module,
            version,
            bytes: place.place.bytes,
            is_partial: place.is_partial,
            state: found.map_or(ModuleState::Skipped, |_| ModuleState::Read),
            records: found.unwrap_or(0),
        });
    }
}

struct Reader<'a> {
    log: &'a [u8],
    header: &'a Header,
    limits: &'a Limits,
    left_bytes: usize,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    fn job(&mut self) -> Result<Job, DarshanError> {
        let start = self.header.version.header_bytes() as u64;
        let behind = std::iter::once(self.header.names)
            .chain(self.header.modules.iter().map(|module| module.place));
        // Regions follow each other; the job's has no place of its own in the header.
        let end = behind.map(|place| place.start).find(|start| *start > 0);
        let end = end.unwrap_or(self.log.len() as u64);
        let place = Place {
            start,
            bytes: end.saturating_sub(start),
        };
        let compression = self.header.compression;
        let Inflated { bytes, fault } =
            region::read(self.log, Region::Job, place, compression, MAX_JOB_BYTES);
        let mut decoded = Bytes::new(&bytes, self.header.order);
        match (job::read(&mut decoded, self.header.version), fault) {
            (Some(job), fault) => {
                self.faults.extend(fault);
                Ok(job)
            }
            (None, Some(fault)) => Err(DarshanError::Job(fault.to_string())),
            (None, None) => Err(DarshanError::Job("it is too short".into())),
        }
    }

    fn names(&mut self) -> HashMap<u64, String> {
        let place = self.header.names;
        if place.bytes == 0 {
            return HashMap::new();
        }
        let bytes = self.inflate(Region::Names, place);
        let bytes = Bytes::new(&bytes, self.header.order);
        let (names, rest) = names::read(bytes, self.header.version, self.limits.records);
        if names.len() == self.limits.records && rest.len() > 0 {
            self.full(Region::Names);
        } else if rest.len() > 0 {
            self.left_over(Region::Names, rest.len());
        }
        names
    }

    /// Reads the records of a module into `into`; `None` where its version is not known.
    fn records<T>(
        &mut self,
        place: &ModulePlace,
        decoder: Option<impl Fn(&mut Bytes<'_>) -> Option<Step<T>>>,
        into: &mut Vec<T>,
    ) -> Option<usize> {
        let region = Region::Module(place.module);
        let Some(decoder) = decoder else {
            let version = place.version;
            self.faults.push(Fault::Version { region, version });
            return None;
        };
        let bytes = self.inflate(region, place.place);
        let bytes = Bytes::new(&bytes, self.header.order);
        let decoded = records::decode(bytes, self.limits.records, decoder);
        if decoded.is_full {
            self.full(region);
        }
        if decoded.left_over > 0 {
            self.left_over(region, decoded.left_over);
        }
        if decoded.left_out > 0 {
            self.faults.push(Fault::LeftOut {
                region,
                records: decoded.left_out,
                why: "this old version mixes POSIX and STDIO in them",
            });
        }
        into.extend(decoded.records);
        Some(into.len())
    }

    fn inflate(&mut self, region: Region, place: Place) -> std::borrow::Cow<'a, [u8]> {
        let limit = self.limits.region_bytes.min(self.left_bytes);
        let found = region::read(self.log, region, place, self.header.compression, limit);
        self.left_bytes -= found.bytes.len();
        self.faults.extend(found.fault);
        found.bytes
    }

    fn full(&mut self, region: Region) {
        let (limit, what) = (self.limits.records, "records");
        self.faults.push(Fault::Limit {
            region,
            limit,
            what,
        });
    }

    /// The end of a region makes no whole record. A fault of its bytes explains that already.
    fn left_over(&mut self, region: Region, bytes: usize) {
        let explained = self.faults.iter().any(|fault| match fault {
            Fault::Truncated { region: of, .. }
            | Fault::Damaged { region: of, .. }
            | Fault::Limit { region: of, .. } => *of == region,
            _ => false,
        });
        if !explained {
            let why = format!("its last {bytes} bytes are no whole record");
            self.faults.push(Fault::Damaged { region, why });
        }
    }
}
