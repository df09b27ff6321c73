//! Puts samples of several indexes together into one, without holding them in memory.

use std::collections::HashMap;
use std::io::{self, Seek, Write};

use xxhash_rust::xxh3::xxh3_128;

use super::build::{IndexBuilder, unindexable};
use super::format::{Header, Section, VERSION, WITHOUT_VALUES};
use super::record::{
    CONTIGUOUS, ChunkRecord, FieldRecord, HashRecord, SegmentRecord, ShardRecord, VALUE,
};
use super::sections::{Sections, invalid};
use super::{FieldSpec, Index, keys, layouts, tables};
use crate::{IndexError, SegmentIndex};

/// An index that samples are taken from.
#[derive(Debug)]
pub struct Part<'a, B> {
    /// The index.
    pub index: &'a Index<B>,
    /// What stands before the paths of its segments: nothing, or folders and a `/`.
    pub prefix: &'a str,
}

/// One sample of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Position of the part.
    pub part: u32,
    /// Position of the sample in it.
    pub sample: u64,
}

/// Which samples an index is put together from.
pub trait Picks {
    /// Number of samples.
    fn len(&self) -> u64;

    /// True if there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether samples have keys.
    fn has_keys(&self) -> bool;

    /// Appends the samples whose fields, one after another, are the fields of sample `sample`.
    fn picks(&self, sample: u64, out: &mut Vec<Pick>);

    /// Appends the key of sample `sample`, where samples have keys.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if it cannot be read from its part.
    fn key(&self, sample: u64, out: &mut String) -> Result<(), IndexError>;
}

/// Writes an index of the samples that `picks` names, with `fields`, below `root`.
///
/// Memory: 16 bytes for each sample with a key, and the segments, layouts and shapes. A file that
/// several parts have is one segment. Checksums are kept if each sample is one of a part that has
/// them.
///
/// # Errors
/// What `out` reports, or `InvalidInput` around an [`IndexError`] if parts contradict each other
/// (fields, block size, fingerprints), a key is there twice, or a part is damaged.
pub fn compose<B: AsRef<[u8]>>(
    root: &str,
    fields: &[FieldSpec],
    parts: &[Part<'_, B>],
    picks: &impl Picks,
    out: &mut (impl Write + Seek),
) -> io::Result<()> {
    let composer = Composer::new(root, fields, parts, picks).map_err(invalid)?;
    let hashes = composer.hashes().map_err(invalid)?;
    composer.write(&hashes, out)
}

/// Where the numbers of a part are found in the whole.
struct Moved {
    segments: Vec<u32>,
    layouts: Vec<u32>,
    shapes: HashMap<u32, u32>,
    first_chunk: u64,
    first_value: u64,
}

struct Composer<'a, B, P> {
    /// Holds the tables, and no sample.
    tables: IndexBuilder,
    parts: &'a [Part<'a, B>],
    moved: Vec<Moved>,
    picks: &'a P,
    checksums: bool,
}

/// Bytes that were not asked for by section before they were written.
struct Keys {
    hashes: Vec<HashRecord>,
    bytes: u64,
}

impl<'a, B: AsRef<[u8]>, P: Picks> Composer<'a, B, P> {
    fn new(
        root: &str,
        fields: &[FieldSpec],
        parts: &'a [Part<'a, B>],
        picks: &'a P,
    ) -> Result<Self, IndexError> {
        let Some(first) = parts.first() else {
            return Err(unindexable("an index of no parts", "name one"));
        };
        let tables = IndexBuilder::new(root, fields.to_vec(), first.index.block_size())?;
        let one = |part: &Part<'_, B>| part.index.fields().len() == fields.len();
        let mut composer = Self {
            tables,
            parts,
            moved: Vec::with_capacity(parts.len()),
            picks,
            checksums: parts
                .iter()
                .all(|part| part.index.view().head.header.checksums && one(part)),
        };
        let (mut first_chunk, mut first_value) = (0, 0);
        for part in parts {
            composer.add_tables(part, first_chunk, first_value)?;
            let view = part.index.view();
            first_chunk += view.head.header.chunks;
            first_value += view.section(Section::Values).len() as u64;
        }
        Ok(composer)
    }

    fn add_tables(
        &mut self,
        part: &Part<'_, B>,
        first_chunk: u64,
        first_value: u64,
    ) -> Result<(), IndexError> {
        if part.index.block_size() != self.tables.block_size {
            let (one, other) = (part.index.block_size(), self.tables.block_size);
            return Err(unindexable(
                "these indexes together",
                format!("blocks have {} and {} bytes", one.bytes(), other.bytes()),
            ));
        }
        let mut path = String::new();
        let mut segments = Vec::with_capacity(part.index.segment_count() as usize);
        for number in 0..part.index.segment_count() {
            let segment = part.index.segment(SegmentIndex(number))?;
            path.clear();
            path.push_str(part.prefix);
            path.push_str(segment.path);
            segments.push(self.segment(&path, segment.fingerprint)?);
        }
        let view = part.index.view();
        let stored = view.section(Section::Layouts);
        let layouts = (0..view.head.header.layouts).map(|number| {
            let parsed = view.head.layouts.get(stored, number)?;
            Ok(self.tables.intern_layout(parsed.layout.clone())?.0)
        });
        let layouts = layouts.collect::<Result<_, IndexError>>()?;
        let mut shapes = HashMap::new();
        let (mut word, words) = (0, view.section(Section::Shapes).len() / 8);
        while word < words {
            let at =
                u32::try_from(word).map_err(|_| unindexable("shapes", "there are too many"))?;
            let shape: Vec<u64> = view.shape(at)?.iter().collect();
            let moved = self.tables.intern_shape(&shape);
            shapes.insert(at, moved.map_err(|why| unindexable("shapes", why))?);
            word += 1 + shape.len();
        }
        self.moved.push(Moved {
            segments,
            layouts,
            shapes,
            first_chunk,
            first_value,
        });
        Ok(())
    }

    fn segment(&mut self, path: &str, found: crate::Fingerprint) -> Result<u32, IndexError> {
        let Some(known) = self.tables.paths_known.get(&xxh3_128(path.as_bytes())) else {
            return Ok(self.tables.add_segment(path, found)?.0);
        };
        let record = &self.tables.segments[*known as usize];
        if record.fingerprint() == found {
            return Ok(*known);
        }
        Err(unindexable(
            format!("file `{path}`"),
            format!(
                "it was written to between the making of two indexes: {} bytes in one, {} in the \
                 other",
                record.size, found.size
            ),
        ))
    }

    /// Hashes of the keys, sorted, and how long the keys are.
    fn hashes(&self) -> Result<Keys, IndexError> {
        let mut found = Keys {
            hashes: Vec::new(),
            bytes: 0,
        };
        if !self.picks.has_keys() {
            return Ok(found);
        }
        found.hashes.reserve_exact(self.picks.len() as usize);
        let mut key = String::new();
        for sample in 0..self.picks.len() {
            key.clear();
            self.picks.key(sample, &mut key)?;
            if let Some(fault) = super::check::text_fault(&key) {
                let what = format!("key `{key}` of sample {sample}");
                return Err(unindexable(what, fault));
            }
            found.bytes += key.len() as u64;
            found.hashes.push(HashRecord {
                hash: keys::hash(&key),
                sample,
            });
        }
        found.hashes.sort_unstable();
        keys::check_unique(&found.hashes, |sample| {
            let mut key = String::new();
            self.picks.key(sample, &mut key).map(|()| key)
        })?;
        Ok(found)
    }

    fn header(&self, keys: &Keys) -> Header {
        let values = self.parts.iter().any(|part| {
            let header = &part.index.view().head.header;
            header.section_count() == Section::COUNT
        });
        let samples = self.picks.len();
        let sum = |section: Section| -> u64 {
            let lens = self.parts.iter();
            lens.map(|part| part.index.view().section(section).len() as u64)
                .sum()
        };
        let with_keys = |len: u64| if self.picks.has_keys() { len } else { 0 };
        let tables = &self.tables;
        let fields = tables.fields.len() as u64;
        let mut header = Header {
            version: if values { VERSION } else { WITHOUT_VALUES },
            block_size: tables.block_size,
            keys: self.picks.has_keys(),
            checksums: self.checksums,
            objects: crate::is_store_url(&self.tables.root),
            samples,
            chunks: sum(Section::Chunks) / ChunkRecord::LEN as u64,
            segments: tables.segments.len() as u32,
            shards: tables.shards.len() as u32,
            fields: tables.fields.len() as u32,
            layouts: tables.layouts.len() as u32,
            ..Header::default()
        };
        header.place([
            tables.root.len() as u64,
            tables::encode_fields(&tables.fields).len() as u64,
            layouts::encode(&tables.layouts).len() as u64,
            (tables.shards.len() * ShardRecord::LEN) as u64,
            (tables.segments.len() * SegmentRecord::LEN) as u64,
            tables.paths.len() as u64,
            tables.shapes.len() as u64 * 8,
            samples * fields * FieldRecord::LEN as u64,
            sum(Section::Chunks),
            with_keys((samples + 1) * 8),
            keys.bytes,
            (keys.hashes.len() * HashRecord::LEN) as u64,
            if self.checksums { samples * 4 } else { 0 },
            sum(Section::Values),
        ]);
        header
    }

    fn write(&self, keys: &Keys, out: &mut (impl Write + Seek)) -> io::Result<()> {
        let mut header = self.header(keys);
        let mut sections = Sections::begin(out, &header)?;
        let tables = &self.tables;
        sections.whole(Section::Root, tables.root.as_bytes())?;
        sections.whole(Section::Fields, &tables::encode_fields(&tables.fields))?;
        sections.whole(Section::Layouts, &layouts::encode(&tables.layouts))?;
        sections.begin_section(Section::Shards)?;
        for shard in &tables.shards {
            sections.bytes(&shard.encode())?;
        }
        sections.begin_section(Section::Segments)?;
        for segment in &tables.segments {
            sections.bytes(&segment.encode())?;
        }
        sections.whole(Section::Paths, tables.paths.as_bytes())?;
        sections.begin_section(Section::Shapes)?;
        for word in &tables.shapes {
            sections.bytes(&word.to_le_bytes())?;
        }
        sections.begin_section(Section::Records)?;
        self.records(&mut sections)?;
        self.verbatim(Section::Chunks, &mut sections)?;
        self.keys(keys, &mut sections)?;
        sections.begin_section(Section::Checksums)?;
        if self.checksums {
            self.checksums(&mut sections)?;
        }
        if header.section_count() == Section::COUNT {
            self.verbatim(Section::Values, &mut sections)?;
        }
        sections.end(&mut header)
    }

    fn records(&self, sections: &mut Sections<'_, impl Write + Seek>) -> io::Result<()> {
        let mut picks = Vec::new();
        // Parts whose fields were seen to be the right ones at a place among the picks.
        let mut seen = Vec::new();
        for sample in 0..self.picks.len() {
            picks.clear();
            self.picks.picks(sample, &mut picks);
            let mut field = 0;
            for pick in &picks {
                let place = (field, pick.part);
                if !seen.contains(&place) {
                    self.check_fields(sample, field, *pick).map_err(invalid)?;
                    seen.push(place);
                }
                field += self.record(*pick, sections)?;
            }
            if field != self.tables.fields.len() {
                let what = format!("sample {sample}");
                let why = format!("it has {field} fields of {}", self.tables.fields.len());
                return Err(invalid(unindexable(what, why)));
            }
        }
        Ok(())
    }

    fn check_fields(&self, sample: u64, field: usize, pick: Pick) -> Result<(), IndexError> {
        let found = self.part(pick)?.index.fields();
        let wanted = self.tables.fields.get(field..).unwrap_or_default();
        if wanted.starts_with(found) {
            return Ok(());
        }
        let odd = (0..found.len()).find(|n| wanted.get(*n) != Some(&found[*n]));
        let shown = |field: Option<&FieldSpec>| {
            field.map_or("none".to_owned(), |field| {
                format!("`{}` ({})", field.name, field.dtype)
            })
        };
        let odd = odd.unwrap_or(0);
        Err(unindexable(
            format!("sample {sample}"),
            format!(
                "its field is {}, that of others is {}",
                shown(found.get(odd)),
                shown(wanted.get(odd))
            ),
        ))
    }

    fn part(&self, pick: Pick) -> Result<&Part<'a, B>, IndexError> {
        let part = self.parts.get(pick.part as usize);
        part.ok_or_else(|| unindexable(format!("part {}", pick.part), "it is not there"))
    }

    /// Writes the records of a sample as they are in the whole; returns how many.
    fn record(
        &self,
        pick: Pick,
        sections: &mut Sections<'_, impl Write + Seek>,
    ) -> io::Result<usize> {
        let part = self.part(pick).map_err(invalid)?;
        let moved = &self.moved[pick.part as usize];
        let sample = part.index.sample(pick.sample).map_err(invalid)?;
        let fields = part.index.fields().len();
        for field in 0..fields {
            // For its checks: every number of the record leads to something that is there.
            sample.field(field).map_err(invalid)?;
            let number = pick.sample * fields as u64 + field as u64;
            let view = part.index.view();
            let record = view.record(Section::Records, number).map_err(invalid)?;
            let mut record = FieldRecord::decode(record);
            let shape = moved.shapes.get(&record.shape).copied();
            record.shape = shape.ok_or_else(|| {
                let what = format!("field {field} of sample {}", pick.sample);
                invalid(unindexable(what, "its shape lies inside another"))
            })?;
            match record.layout {
                VALUE => record.start += moved.first_value,
                CONTIGUOUS => record.segment = moved.segments[record.segment as usize],
                layout => {
                    record.segment = moved.segments[record.segment as usize];
                    record.layout = moved.layouts[layout as usize];
                    if record.chunks > 0 {
                        record.start += moved.first_chunk;
                    }
                }
            }
            sections.bytes(&record.encode())?;
        }
        Ok(fields)
    }

    /// Chunks and values say nothing that changes: they follow each other, part by part.
    fn verbatim(
        &self,
        section: Section,
        sections: &mut Sections<'_, impl Write + Seek>,
    ) -> io::Result<()> {
        sections.begin_section(section)?;
        for part in self.parts {
            sections.bytes(part.index.view().section(section))?;
        }
        Ok(())
    }

    fn keys(&self, keys: &Keys, sections: &mut Sections<'_, impl Write + Seek>) -> io::Result<()> {
        let count = match self.picks.has_keys() {
            true => self.picks.len(),
            false => 0,
        };
        let mut key = String::new();
        let mut end = 0_u64;
        sections.begin_section(Section::KeyOffsets)?;
        for sample in 0..count {
            if sample == 0 {
                sections.bytes(&end.to_le_bytes())?;
            }
            key.clear();
            self.picks.key(sample, &mut key).map_err(invalid)?;
            end += key.len() as u64;
            sections.bytes(&end.to_le_bytes())?;
        }
        sections.begin_section(Section::KeyBytes)?;
        for sample in 0..count {
            key.clear();
            self.picks.key(sample, &mut key).map_err(invalid)?;
            sections.bytes(key.as_bytes())?;
        }
        sections.begin_section(Section::KeyHashes)?;
        for hash in &keys.hashes {
            sections.bytes(&hash.encode())?;
        }
        Ok(())
    }

    fn checksums(&self, sections: &mut Sections<'_, impl Write + Seek>) -> io::Result<()> {
        let mut picks = Vec::new();
        for sample in 0..self.picks.len() {
            picks.clear();
            self.picks.picks(sample, &mut picks);
            for pick in &picks {
                let part = self.part(*pick).map_err(invalid)?;
                let found = part.index.sample(pick.sample).map_err(invalid)?;
                sections.bytes(&found.crc32c().unwrap_or(0).to_le_bytes())?;
            }
        }
        Ok(())
    }
}
