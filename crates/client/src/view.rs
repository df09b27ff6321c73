//! Samples without a copy.

use std::time::Instant;

use forebay_dataset::index::Field;
use forebay_residency::View;

use crate::answers::Served;
use crate::dataset::Dataset;
use crate::error::ClientError;
use crate::read::stage_range;

/// The bytes of one field.
#[derive(Debug)]
pub enum FieldBytes {
    /// In place, in the block file's pages; the evictor leaves them alone while this lives.
    View(View),
    /// A copy, where there is no room to stage or the field has to be decoded.
    Copy(Vec<u8>),
}

impl FieldBytes {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::View(view) => view.bytes(),
            Self::Copy(bytes) => bytes,
        }
    }
}

impl Dataset {
    /// The fields of a sample, without a copy where that is possible.
    pub fn view(&self, sample: u64) -> Result<Vec<FieldBytes>, ClientError> {
        let found = self.index.sample(sample)?;
        let mut copied: Option<(Vec<u8>, Vec<crate::FieldPlace>)> = None;
        (0..self.index.fields().len())
            .map(|number| {
                if let Some(bytes) = self.view_field(&found.field(number)?)? {
                    return Ok(bytes);
                }
                let (bytes, places) = match &copied {
                    Some(copied) => copied,
                    None => copied.insert(self.copy_sample(sample)?),
                };
                let place = places[number];
                Ok(FieldBytes::Copy(
                    bytes[place.offset as usize..][..place.len as usize].to_vec(),
                ))
            })
            .collect()
    }

    fn view_field(&self, field: &Field<'_>) -> Result<Option<FieldBytes>, ClientError> {
        let (shard, shard_range) = match *field {
            Field::Contiguous {
                shard, shard_range, ..
            } => (shard, shard_range),
            Field::Value { bytes, .. } => return Ok(Some(FieldBytes::Copy(bytes.to_vec()))),
            Field::Chunked { .. } => return Ok(None),
        };
        let Some(range) = shard_range else {
            return Ok(Some(FieldBytes::Copy(Vec::new())));
        };
        for attempt in 0..2 {
            if let Some(open) = self.process().shards.get(&self.index, shard)?
                && let Ok(Some(view)) = open.view(range)
            {
                let served = if attempt == 0 {
                    Served::Local
                } else {
                    Served::Staged
                };
                self.count(shard, range.len(), served);
                return Ok(Some(FieldBytes::View(view)));
            }
            if !self.stage_ranges(&[stage_range(shard, range)], Instant::now() + self.deadline)? {
                break;
            }
        }
        Ok(None)
    }

    fn copy_sample(&self, sample: u64) -> Result<(Vec<u8>, Vec<crate::FieldPlace>), ClientError> {
        let mut bytes = vec![0; self.sample_bytes(sample)? as usize];
        self.read_into(sample, &mut bytes)?;
        Ok((bytes, self.places(sample)?))
    }
}
