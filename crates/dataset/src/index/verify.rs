//! The full check of an index: every checksum, every record.

use super::check::MAX_SHARD_SEGMENTS;
use super::format::{Section, crc32c, damaged};
use super::record::HashRecord;
use super::view::View;
use super::{ChunkLayout, keys};
use crate::{IndexError, SegmentIndex, ShardIndex};

impl View<'_> {
    pub(super) fn verify(&self) -> Result<(), IndexError> {
        self.verify_bytes()?;
        self.verify_shards()?;
        self.verify_shapes()?;
        for layout in 0..self.head.header.layouts {
            self.head
                .layouts
                .get(self.section(Section::Layouts), layout)?;
        }
        for sample in 0..self.head.header.samples {
            for field in 0..self.head.fields.len() {
                self.field(sample, field)?;
            }
        }
        if self.head.header.keys {
            self.verify_keys()?;
        }
        Ok(())
    }

    fn verify_bytes(&self) -> Result<(), IndexError> {
        let header = &self.head.header;
        let mut end = header.len();
        let places = &header.places[..header.section_count()];
        for (section, place) in Section::ALL.into_iter().zip(places) {
            self.check_crc(section)?;
            let padding = self.bytes.get(end..place.offset as usize);
            if padding.is_none_or(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                return Err(damaged(format!(
                    "the bytes before section `{}` are not zeros",
                    section.name()
                )));
            }
            end = (place.offset + place.len) as usize;
        }
        let sections = Section::ALL.map(|section| self.section(section));
        if header.generation_of(&sections) != header.generation {
            return Err(damaged(
                "the content does not have the generation it claims",
            ));
        }
        Ok(())
    }

    pub(super) fn check_crc(&self, section: Section) -> Result<(), IndexError> {
        let stored = self.head.header.places[section as usize].crc32c;
        let computed = crc32c(self.section(section));
        if stored == computed {
            Ok(())
        } else {
            Err(damaged(format!(
                "section `{}` fails its checksum: stored {stored:08x}, computed {computed:08x}",
                section.name()
            )))
        }
    }

    /// Shards hold all segments, in order, each at the first free block boundary.
    fn verify_shards(&self) -> Result<(), IndexError> {
        let header = &self.head.header;
        let mut next = 0;
        for n in 0..header.shards {
            let shard = self.shard(ShardIndex(n))?;
            let wrong = || damaged(format!("shard {n} does not follow from its segments"));
            if shard.first_segment != next
                || shard.segments == 0
                || shard.segments > MAX_SHARD_SEGMENTS
            {
                return Err(wrong());
            }
            next = next.checked_add(shard.segments).ok_or_else(wrong)?;
            let mut len = 0;
            for segment in shard.first_segment..next {
                let segment = self.segment(SegmentIndex(segment))?;
                let start = header.block_size.align_up(len).ok_or_else(wrong)?;
                if segment.shard != ShardIndex(n) || segment.shard_start != start {
                    return Err(wrong());
                }
                len = start + segment.fingerprint.size;
            }
            if len != shard.len {
                return Err(wrong());
            }
        }
        if next == header.segments {
            Ok(())
        } else {
            Err(damaged("some segments belong to no shard"))
        }
    }

    /// Shapes lie one after the other; every number of the section belongs to one.
    fn verify_shapes(&self) -> Result<(), IndexError> {
        let words = self.section(Section::Shapes).len() / 8;
        let mut word = 0;
        while word < words {
            let at = u32::try_from(word).map_err(|_| damaged("section `shapes` is too long"))?;
            let rank = self.shape(at)?.rank();
            debug_assert!(rank <= ChunkLayout::MAX_RANK);
            word += 1 + rank;
        }
        Ok(())
    }

    fn verify_keys(&self) -> Result<(), IndexError> {
        let (offsets, _) = self.section(Section::KeyOffsets).as_chunks::<8>();
        let blob = self.section(Section::KeyBytes).len() as u64;
        let ends = (offsets.first(), offsets.last());
        let whole = (Some(&[0; 8]), Some(&blob.to_le_bytes()));
        if ends != whole {
            return Err(damaged("keys do not cover their bytes"));
        }
        let (entries, _) = self.section(Section::KeyHashes).as_chunks();
        let mut last: Option<HashRecord> = None;
        for entry in entries.iter().map(HashRecord::decode) {
            let key = self.key(entry.sample)?;
            // Strictly ascending, and each with the hash of its own key: so every sample is there
            // exactly once.
            if last.is_some_and(|last| last >= entry) || keys::hash(key) != entry.hash {
                return Err(damaged(format!(
                    "the hash of key `{key}` is wrong or out of order"
                )));
            }
            let shares_hash = last.is_some_and(|last| last.hash == entry.hash);
            if shares_hash && self.find(key)? != Some(entry.sample) {
                return Err(damaged(format!("key `{key}` occurs twice")));
            }
            last = Some(entry);
        }
        Ok(())
    }
}
