//! Logs to test with, written as each version of Darshan writes them.

use std::io::Write;

use crate::header::{ByteOrder, Compression, Version};

/// Numbers in a byte order.
#[derive(Clone)]
pub(crate) struct Words {
    order: ByteOrder,
    pub(crate) bytes: Vec<u8>,
}

impl Words {
    pub(crate) fn new(order: ByteOrder) -> Self {
        let bytes = Vec::new();
        Self { order, bytes }
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.bytes.extend(match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.bytes.extend(match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    pub(crate) fn i64s(self, values: impl IntoIterator<Item = i64>) -> Self {
        values
            .into_iter()
            .fold(self, |words, value| words.u64(value.cast_unsigned()))
    }

    pub(crate) fn f64s(self, values: impl IntoIterator<Item = f64>) -> Self {
        values
            .into_iter()
            .fold(self, |words, value| words.u64(value.to_bits()))
    }

    /// Text, with NULs up to `len`.
    pub(crate) fn text(mut self, text: &str, len: usize) -> Self {
        let end = self.bytes.len() + len;
        self.bytes.extend(text.as_bytes());
        self.bytes.resize(end, 0);
        self
    }
}

/// A log to be written.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) version: Version,
    pub(crate) order: ByteOrder,
    pub(crate) compression: Compression,
    pub(crate) names: Vec<(u64, &'static str)>,
    /// Id, version and records of each module.
    pub(crate) modules: Vec<(usize, u32, Vec<u8>)>,
    /// Modules that ran out of memory, as bits.
    pub(crate) partial: u64,
    /// Streams that each region is cut into.
    pub(crate) streams: usize,
}

pub(crate) const VERSIONS: [(&str, Version); 5] = [
    ("3.00", Version::V300),
    ("3.10", Version::V310),
    ("3.20", Version::V320),
    ("3.21", Version::V321),
    ("3.41", Version::V341),
];

impl Writer {
    pub(crate) fn new(version: Version, order: ByteOrder, compression: Compression) -> Self {
        Self {
            version,
            order,
            compression,
            names: vec![(7, "/gfs/train/a"), (7, "/later"), (9, "/lfs/b")],
            modules: Vec::new(),
            partial: 0,
            streams: 2,
        }
    }

    pub(crate) fn words(&self) -> Words {
        Words::new(self.order)
    }

    pub(crate) fn module(mut self, id: usize, version: u32, records: Words) -> Self {
        self.modules.push((id, version, records.bytes));
        self
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let is_old = self.version < Version::V341;
        let (slots, header_bytes) = if is_old { (16, 360) } else { (64, 1328) };
        let mut body = self.pack(&self.job());
        let at = |body: &mut Vec<u8>, packed: Vec<u8>| {
            let start = header_bytes + body.len();
            body.extend(&packed);
            (start as u64, packed.len() as u64)
        };
        let names = self.pack(&self.name_records());
        let names = at(&mut body, names);
        let mut places = vec![(0, 0); slots];
        let mut versions = vec![0; slots];
        for (id, version, records) in &self.modules {
            places[*id] = at(&mut body, self.pack(records));
            versions[*id] = *version;
        }
        let (name, _) = VERSIONS
            .iter()
            .find(|(_, one)| *one == self.version)
            .unwrap();
        let mut words = self.words().text(name, 8).u64(6_567_223);
        words.bytes.push(match self.compression {
            Compression::Zlib => 0,
            Compression::Bzip2 => 1,
            Compression::None => 2,
        });
        words = if is_old {
            words.text("", 3).u32(self.partial as u32)
        } else {
            words.text("", 7).u64(self.partial)
        };
        for (start, bytes) in std::iter::once(names).chain(places) {
            words = words.u64(start).u64(bytes);
        }
        let words = versions.into_iter().fold(words, Words::u32);
        assert_eq!(words.bytes.len(), header_bytes);
        [words.bytes, body].concat()
    }

    fn job(&self) -> Vec<u8> {
        let words = self.words();
        let words = if self.version < Version::V341 {
            words.i64s([1000, 1_700_000_000, 1_700_000_060, 1, 42])
        } else {
            words.i64s([1000, 1_700_000_000, 5, 1_700_000_060, 500_000_005, 1, 42])
        };
        let words = words.text("lib_ver=3.9.9\nh=a=b;c=d\nfork_parent=41\n", 1024);
        let rest = "train.py --epochs 5\nlustre\t/gfs\nxfs\t/\next4\t/lfs";
        words.text(rest, rest.len()).bytes
    }

    fn name_records(&self) -> Vec<u8> {
        let mut words = self.words();
        for (id, name) in &self.names {
            words = words.u64(*id);
            words = match self.version {
                Version::V300 => words.u32(name.len() as u32).text(name, name.len()),
                _ => words.text(name, name.len() + 1),
            };
        }
        words.bytes
    }

    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        let step = bytes.len().div_ceil(self.streams).max(1);
        let parts = bytes.chunks(step);
        match self.compression {
            Compression::None => bytes.to_vec(),
            Compression::Zlib => parts.flat_map(zlib).collect(),
            Compression::Bzip2 => parts.flat_map(bzip).collect(),
        }
    }
}

pub(crate) fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn bzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
