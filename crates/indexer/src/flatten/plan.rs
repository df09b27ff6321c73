//! Which sample goes where: a pure function of the index and the size of shards.

use std::io::Write;
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};
use forebay_dataset::IndexError;
use forebay_dataset::index::Index;

use crate::IndexerError;
use crate::error::Result;

/// Samples and fields begin at multiples of this: a cache line, and what vector loads like.
const ALIGN: u64 = 64;

/// The samples `[first, end)` of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardPlan {
    pub(super) first: u64,
    pub(super) end: u64,
    /// Bytes of the shard.
    pub(super) len: u64,
}

/// A field of a packed sample.
pub(super) struct PackedField {
    pub(super) offset: u64,
    /// Bytes.
    pub(super) len: u64,
    pub(super) shape: Vec<u64>,
}

fn align(at: u64) -> std::result::Result<u64, IndexError> {
    at.checked_next_multiple_of(ALIGN)
        .ok_or_else(|| IndexError::Damaged("its samples have over 2^64 bytes".to_owned()))
}

fn after(at: u64, len: u64) -> std::result::Result<u64, IndexError> {
    at.checked_add(len)
        .ok_or_else(|| IndexError::Damaged("its samples have over 2^64 bytes".to_owned()))
}

/// Divides the samples of an index among shards.
pub(super) fn shards<B: AsRef<[u8]>>(
    index: &Index<B>,
    shard_bytes: u64,
) -> std::result::Result<Vec<ShardPlan>, IndexError> {
    let mut shards = Vec::new();
    let mut open = ShardPlan {
        first: 0,
        end: 0,
        len: 0,
    };
    for sample in 0..index.len() {
        let mut end = open.len;
        skip(index, sample, &mut end)?;
        if end > shard_bytes && open.end > open.first {
            shards.push(open);
            end = 0;
            skip(index, sample, &mut end)?;
            open.first = sample;
        }
        open.end = sample + 1;
        open.len = end;
    }
    if open.end > open.first {
        shards.push(open);
    }
    Ok(shards)
}

fn skip<B: AsRef<[u8]>>(
    index: &Index<B>,
    sample: u64,
    at: &mut u64,
) -> std::result::Result<(), IndexError> {
    let found = index.sample(sample)?;
    for field in 0..index.fields().len() {
        *at = after(align(*at)?, found.field(field)?.decoded_len())?;
    }
    Ok(())
}

/// The fields of a sample that begins at or after byte `at`, which moves behind them.
pub(super) fn fields<B: AsRef<[u8]>>(
    index: &Index<B>,
    sample: u64,
    at: &mut u64,
) -> std::result::Result<Vec<PackedField>, IndexError> {
    let found = index.sample(sample)?;
    let mut packed = Vec::with_capacity(index.fields().len());
    for number in 0..index.fields().len() {
        let field = found.field(number)?;
        let offset = align(*at)?;
        *at = after(offset, field.decoded_len())?;
        packed.push(PackedField {
            offset,
            len: field.decoded_len(),
            shape: field.shape().iter().collect(),
        });
    }
    Ok(packed)
}

/// CRC32C.
pub(super) struct Checksum(Digest);

impl Checksum {
    pub(super) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn value(&self) -> u32 {
        // The algorithm has 32 bits.
        self.0.finalize() as u32
    }
}

/// Writes the bytes of a shard in order.
pub(crate) struct Packing<'a, W> {
    out: &'a mut W,
    path: PathBuf,
    len: u64,
    shard: Checksum,
    sample: Checksum,
}

impl<'a, W: Write> Packing<'a, W> {
    pub(crate) fn new(out: &'a mut W, path: &Path) -> Self {
        Self {
            out,
            path: path.to_path_buf(),
            len: 0,
            shard: Checksum::new(),
            sample: Checksum::new(),
        }
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// CRC32C of all bytes so far, padding included.
    pub(crate) fn checksum(&self) -> u32 {
        self.shard.value()
    }

    /// Pads to where a field may begin.
    pub(crate) fn align(&mut self) -> Result<()> {
        let padding = [0; ALIGN as usize];
        let len = self.len.next_multiple_of(ALIGN) - self.len;
        self.raw(&padding[..len as usize])
    }

    /// Appends bytes of the current sample.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.sample.update(bytes);
        self.raw(bytes)
    }

    /// Ends the current sample and returns the CRC32C of its fields.
    pub(crate) fn end_sample(&mut self) -> u32 {
        std::mem::replace(&mut self.sample, Checksum::new()).value()
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.shard.update(bytes);
        self.len += bytes.len() as u64;
        self.out
            .write_all(bytes)
            .map_err(IndexerError::io("write", &self.path))
    }
}
