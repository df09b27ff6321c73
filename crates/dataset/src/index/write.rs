//! Writes what a builder collected.

use std::io::{self, Write};

use super::build::IndexBuilder;
use super::format::{ALIGN, Header, Section, VERSION, WITHOUT_VALUES};
use super::record::{ChunkRecord, HashRecord, SegmentRecord, ShardRecord};
use super::{keys, tables};
use crate::IndexError;

impl IndexBuilder {
    /// Writes the file. The same content gives the same bytes and the same generation.
    ///
    /// # Errors
    /// What `out` reports, or `InvalidInput` around an [`IndexError::Unindexable`] if two samples
    /// have one key.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        let has_keys = self.has_keys();
        let hashes = if has_keys {
            self.sorted_hashes()
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?
        } else {
            Vec::new()
        };
        let key_ends: &[u64] = if has_keys { &self.key_ends } else { &[] };
        let sections: [&[u8]; Section::COUNT] = [
            self.root.as_bytes(),
            &tables::encode_fields(&self.fields),
            &super::layouts::encode(&self.layouts),
            &encoded(&self.shards, ShardRecord::encode),
            &encoded(&self.segments, SegmentRecord::encode),
            self.paths.as_bytes(),
            &encoded(&self.shapes, |dim| dim.to_le_bytes()),
            &self.records,
            &self.chunks,
            &encoded(key_ends, |end| end.to_le_bytes()),
            self.keys.as_bytes(),
            &encoded(&hashes, HashRecord::encode),
            &self.checksums,
            self.values.as_deref().unwrap_or_default(),
        ];
        let mut header = Header {
            version: match self.values {
                Some(_) => VERSION,
                None => WITHOUT_VALUES,
            },
            block_size: self.block_size,
            keys: has_keys,
            checksums: !self.checksums.is_empty(),
            objects: crate::is_store_url(&self.root),
            samples: self.samples,
            chunks: (self.chunks.len() / ChunkRecord::LEN) as u64,
            segments: self.segments.len() as u32,
            shards: self.shards.len() as u32,
            fields: self.fields.len() as u32,
            layouts: self.layouts.len() as u32,
            ..Header::default()
        };
        header.seal(&sections);
        let encoded_header = header.encode();
        out.write_all(&encoded_header)?;
        let mut end = encoded_header.len() as u64;
        for (place, bytes) in header.places[..header.section_count()].iter().zip(sections) {
            let padding = [0; ALIGN as usize];
            out.write_all(&padding[..(place.offset - end) as usize])?;
            out.write_all(bytes)?;
            end = place.offset + place.len;
        }
        Ok(())
    }

    fn sorted_hashes(&self) -> Result<Vec<HashRecord>, IndexError> {
        let key = |sample: u64| {
            let (start, end) = (
                self.key_ends[sample as usize],
                self.key_ends[sample as usize + 1],
            );
            &self.keys[start as usize..end as usize]
        };
        let mut hashes: Vec<HashRecord> = (0..self.samples)
            .map(|sample| HashRecord {
                hash: keys::hash(key(sample)),
                sample,
            })
            .collect();
        hashes.sort_unstable();
        keys::check_unique(&hashes, |sample| Ok(key(sample).to_owned()))?;
        Ok(hashes)
    }
}

fn encoded<T, const N: usize>(items: &[T], encode: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    items.iter().flat_map(encode).collect()
}
