//! The frame of an index file: header, section table, alignment. `docs/FORMAT.md` draws it.

use xxhash_rust::xxh3::Xxh3;

use crate::{BlockSize, IndexError};

pub(super) const MAGIC: [u8; 8] = *b"FBINDEX\0";
/// The newest version that is read.
pub(super) const VERSION: u32 = 2;
/// Version 1 is version 2 without its last section, and still what is written where no field is a
/// value: files stay readable by whoever knows only version 1.
pub(super) const WITHOUT_VALUES: u32 = 1;
/// Sections begin on multiples of this, so that a mapped section is aligned to a cache line.
pub(super) const ALIGN: u64 = 64;

const FIXED_LEN: usize = 96;
const ENTRY_LEN: usize = 24;

const FLAG_KEYS: u32 = 1;
const FLAG_CHECKSUMS: u32 = 2;
/// Segments are objects of a store. A reader that does not know it refuses the file.
const FLAG_OBJECTS: u32 = 4;

/// Parts of the file, in the order in which they lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Root,
    Fields,
    Layouts,
    Shards,
    Segments,
    Paths,
    Shapes,
    Records,
    Chunks,
    KeyOffsets,
    KeyBytes,
    KeyHashes,
    Checksums,
    Values,
}

impl Section {
    pub(super) const COUNT: usize = 14;
    pub(super) const ALL: [Self; Self::COUNT] = [
        Self::Root,
        Self::Fields,
        Self::Layouts,
        Self::Shards,
        Self::Segments,
        Self::Paths,
        Self::Shapes,
        Self::Records,
        Self::Chunks,
        Self::KeyOffsets,
        Self::KeyBytes,
        Self::KeyHashes,
        Self::Checksums,
        Self::Values,
    ];

    /// As the section table says it: 1 for the first.
    pub(super) const fn id(self) -> u32 {
        self as u32 + 1
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Fields => "fields",
            Self::Layouts => "layouts",
            Self::Shards => "shards",
            Self::Segments => "segments",
            Self::Paths => "paths",
            Self::Shapes => "shapes",
            Self::Records => "field records",
            Self::Chunks => "chunks",
            Self::KeyOffsets => "key offsets",
            Self::KeyBytes => "key bytes",
            Self::KeyHashes => "key hashes",
            Self::Checksums => "sample checksums",
            Self::Values => "values",
        }
    }
}

/// Where one section lies in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) crc32c: u32,
}

/// Everything the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) generation: u128,
    pub(super) block_size: BlockSize,
    pub(super) keys: bool,
    pub(super) checksums: bool,
    pub(super) objects: bool,
    pub(super) file_len: u64,
    pub(super) samples: u64,
    pub(super) chunks: u64,
    pub(super) segments: u32,
    pub(super) shards: u32,
    pub(super) fields: u32,
    pub(super) layouts: u32,
    pub(super) places: [Place; Section::COUNT],
}

impl Default for Header {
    fn default() -> Self {
        Self {
            version: VERSION,
            generation: 0,
            block_size: BlockSize::DEFAULT,
            keys: false,
            checksums: false,
            objects: false,
            file_len: 0,
            samples: 0,
            chunks: 0,
            segments: 0,
            shards: 0,
            fields: 0,
            layouts: 0,
            places: [Place::default(); Section::COUNT],
        }
    }
}

impl Header {
    /// Puts the sections one after the other, and fixes checksums, file length and generation.
    pub(super) fn seal(&mut self, sections: &[&[u8]; Section::COUNT]) {
        self.place(sections.map(|bytes| bytes.len() as u64));
        let count = self.section_count();
        for (place, bytes) in self.places[..count].iter_mut().zip(sections) {
            place.crc32c = crc32c(bytes);
        }
        self.generation = self.generation_of(sections);
    }

    /// Puts sections of these lengths one after the other, and fixes the file length.
    pub(super) fn place(&mut self, lens: [u64; Section::COUNT]) {
        let mut next = self.len() as u64;
        let count = self.section_count();
        for (place, len) in self.places[..count].iter_mut().zip(lens) {
            place.offset = next.next_multiple_of(ALIGN);
            place.len = len;
            next = place.offset + len;
        }
        self.file_len = next;
    }

    /// What the header says of the content: the first of what the generation is made of.
    pub(super) fn counts(&self) -> Vec<u8> {
        self.fixed()[32..].to_vec()
    }

    /// The identity of this content: hash of the counts and of every section with its length.
    pub(super) fn generation_of(&self, sections: &[&[u8]; Section::COUNT]) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(&self.counts());
        for bytes in &sections[..self.section_count()] {
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        hash.digest128()
    }

    /// Sections of a file of this version.
    pub(super) const fn section_count(&self) -> usize {
        match self.version {
            WITHOUT_VALUES => Section::COUNT - 1,
            _ => Section::COUNT,
        }
    }

    /// Bytes of header and section table together.
    pub(super) const fn len(&self) -> usize {
        FIXED_LEN + ENTRY_LEN * self.section_count()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; self.len()];
        out[..FIXED_LEN].copy_from_slice(&self.fixed());
        let (entries, _) = out[FIXED_LEN..].as_chunks_mut::<ENTRY_LEN>();
        for ((entry, section), place) in entries.iter_mut().zip(Section::ALL).zip(&self.places) {
            entry[0..4].copy_from_slice(&section.id().to_le_bytes());
            entry[4..8].copy_from_slice(&place.crc32c.to_le_bytes());
            entry[8..16].copy_from_slice(&place.offset.to_le_bytes());
            entry[16..24].copy_from_slice(&place.len.to_le_bytes());
        }
        let crc = header_crc(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn fixed(&self) -> [u8; FIXED_LEN] {
        let flags = [
            (self.keys, FLAG_KEYS),
            (self.checksums, FLAG_CHECKSUMS),
            (self.objects, FLAG_OBJECTS),
        ];
        let flags: u32 = flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, flag)| flag)
            .sum();
        let mut out = [0; FIXED_LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[16..32].copy_from_slice(&self.generation.to_le_bytes());
        out[32..36].copy_from_slice(&(self.len() as u32).to_le_bytes());
        out[36..40].copy_from_slice(&self.block_size.bytes().to_le_bytes());
        out[40..44].copy_from_slice(&flags.to_le_bytes());
        out[44..48].copy_from_slice(&(self.section_count() as u32).to_le_bytes());
        out[48..56].copy_from_slice(&self.file_len.to_le_bytes());
        out[56..64].copy_from_slice(&self.samples.to_le_bytes());
        out[64..72].copy_from_slice(&self.chunks.to_le_bytes());
        out[72..76].copy_from_slice(&self.segments.to_le_bytes());
        out[76..80].copy_from_slice(&self.shards.to_le_bytes());
        out[80..84].copy_from_slice(&self.fields.to_le_bytes());
        out[84..88].copy_from_slice(&self.layouts.to_le_bytes());
        out
    }

    /// Reads and checks everything that can be checked without reading a section.
    pub(super) fn decode(file: &[u8]) -> Result<Self, IndexError> {
        if !file.starts_with(&MAGIC) {
            let found = file[..file.len().min(MAGIC.len())].to_vec();
            return Err(IndexError::NotAnIndex { found });
        }
        let cut = || {
            damaged(format!(
                "the file has {} bytes, less than a header",
                file.len()
            ))
        };
        let version = u32_at(file.get(..12).ok_or_else(cut)?, 8);
        if !(WITHOUT_VALUES..=VERSION).contains(&version) {
            return Err(IndexError::Version {
                found: version,
                known: VERSION,
            });
        }
        let len = Self {
            version,
            ..Self::default()
        }
        .len();
        let bytes = file.get(..len).ok_or_else(cut)?;
        let (stored, computed) = (u32_at(bytes, 12), header_crc(bytes));
        if stored != computed {
            return Err(damaged(format!(
                "the header fails its checksum: stored {stored:08x}, computed {computed:08x}"
            )));
        }
        let header = Self::from_fields(version, bytes)?;
        header.check_lengths(file.len() as u64)?;
        Ok(header)
    }

    fn from_fields(version: u32, bytes: &[u8]) -> Result<Self, IndexError> {
        let frame = Self {
            version,
            ..Self::default()
        };
        let expect = |what: &str, at: usize, wanted: u32| match u32_at(bytes, at) {
            found if found == wanted => Ok(()),
            found => Err(damaged(format!("{what} is {found}, not {wanted}"))),
        };
        expect("header length", 32, frame.len() as u32)?;
        expect("number of sections", 44, frame.section_count() as u32)?;
        expect("reserved word", 88, 0)?;
        expect("reserved word", 92, 0)?;
        let flags = u32_at(bytes, 40);
        if flags & !(FLAG_KEYS | FLAG_CHECKSUMS | FLAG_OBJECTS) != 0 {
            return Err(damaged(format!("flags {flags:#x} are unknown")));
        }
        let mut places = [Place::default(); Section::COUNT];
        let count = frame.section_count();
        for (place, section) in places[..count].iter_mut().zip(Section::ALL) {
            let at = FIXED_LEN + ENTRY_LEN * section as usize;
            expect("section id", at, section.id())?;
            *place = Place {
                crc32c: u32_at(bytes, at + 4),
                offset: u64_at(bytes, at + 8),
                len: u64_at(bytes, at + 16),
            };
        }
        Ok(Self {
            version,
            generation: u128::from(u64_at(bytes, 16)) | u128::from(u64_at(bytes, 24)) << 64,
            block_size: BlockSize::new(u32_at(bytes, 36)).map_err(|e| damaged(e.to_string()))?,
            keys: flags & FLAG_KEYS != 0,
            checksums: flags & FLAG_CHECKSUMS != 0,
            objects: flags & FLAG_OBJECTS != 0,
            file_len: u64_at(bytes, 48),
            samples: u64_at(bytes, 56),
            chunks: u64_at(bytes, 64),
            segments: u32_at(bytes, 72),
            shards: u32_at(bytes, 76),
            fields: u32_at(bytes, 80),
            layouts: u32_at(bytes, 84),
            places,
        })
    }

    /// Sections must lie exactly where a writer puts them and be as long as the counts say, so
    /// that no later access needs to ask again whether a record exists in its section.
    fn check_lengths(&self, found: u64) -> Result<(), IndexError> {
        if found != self.file_len {
            return Err(damaged(format!(
                "the file has {found} bytes, its header says {}",
                self.file_len
            )));
        }
        let mut next = Some(self.len() as u64);
        let places = &self.places[..self.section_count()];
        for (section, place) in Section::ALL.into_iter().zip(places) {
            let expected = next.and_then(|end| end.checked_next_multiple_of(ALIGN));
            if expected != Some(place.offset) {
                return Err(damaged(format!(
                    "section `{}` is misplaced at {}",
                    section.name(),
                    place.offset
                )));
            }
            if !self.length_fits(section, place.len) {
                return Err(damaged(format!(
                    "section `{}` has {} bytes, which contradicts the counts",
                    section.name(),
                    place.len
                )));
            }
            next = place.offset.checked_add(place.len);
        }
        if next != Some(self.file_len) {
            return Err(damaged("sections end beside the end of the file"));
        }
        Ok(())
    }

    fn length_fits(&self, section: Section, len: u64) -> bool {
        let samples = Some(self.samples);
        let times = |count: Option<u64>, width: u64| count.and_then(|n| n.checked_mul(width));
        let exact = match section {
            Section::Shards => times(Some(self.shards.into()), 16),
            Section::Segments => times(Some(self.segments.into()), 48),
            Section::Records => times(times(samples, self.fields.into()), 32),
            Section::Chunks => times(Some(self.chunks), 24),
            Section::KeyOffsets if self.keys => times(self.samples.checked_add(1), 8),
            Section::KeyHashes if self.keys => times(samples, 16),
            Section::Checksums if self.checksums => times(samples, 4),
            Section::KeyBytes if self.keys => return true,
            Section::KeyOffsets | Section::KeyBytes | Section::KeyHashes | Section::Checksums => {
                Some(0)
            }
            Section::Shapes => return len.is_multiple_of(8),
            Section::Root
            | Section::Fields
            | Section::Layouts
            | Section::Paths
            | Section::Values => return true,
        };
        exact == Some(len)
    }
}

pub(super) fn header_crc(bytes: &[u8]) -> u32 {
    let mut zeroed = bytes.to_vec();
    zeroed[12..16].fill(0);
    crc32c(&zeroed)
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cold]
pub(crate) fn damaged(why: impl Into<String>) -> IndexError {
    IndexError::Damaged(why.into())
}

/// Little-endian number at a fixed place of a record whose length was checked.
pub(crate) fn u64_at(record: &[u8], at: usize) -> u64 {
    let mut le = [0; 8];
    le.copy_from_slice(&record[at..at + 8]);
    u64::from_le_bytes(le)
}

/// Little-endian number at a fixed place of a record whose length was checked.
pub(crate) fn u32_at(record: &[u8], at: usize) -> u32 {
    let mut le = [0; 4];
    le.copy_from_slice(&record[at..at + 4]);
    u32::from_le_bytes(le)
}
