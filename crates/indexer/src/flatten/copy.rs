//! Reads samples from the origin, decodes them, and packs them.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use forebay_dataset::decode::{Rows, Scratch};
use forebay_dataset::index::{Chunk, ChunkLayout, Field, Index};
use forebay_dataset::{DecodeError, SegmentIndex};
use forebay_origin::{Origin, SegmentRef};

use super::folder::Receipt;
use super::plan::{Checksum, Packing, ShardPlan, fields};
use crate::IndexerError;
use crate::error::Result;

/// Bytes read at once from contiguous fields.
const PIECE: usize = 4 << 20;
/// Bytes of a chunked field that are decoded at once, if its chunks allow it.
const BAND: u64 = 64 << 20;
/// Bytes of rows that one chunk spans, above which they are decoded row by row.
const MAX_BAND: u64 = 1 << 30;

/// Copies samples, one after another. One for each thread.
pub(crate) struct Copier<'a, B> {
    index: &'a Index<B>,
    origin: &'a dyn Origin,
    /// The index, for messages.
    path: &'a Path,
    piece: Vec<u8>,
    stored: Vec<u8>,
    scratch: Scratch,
    /// Rows that were decoded last, for the field they belong to.
    bands: Vec<Option<Band>>,
}

/// All rows that one row of chunks holds. Row samples use it again and again.
struct Band {
    segment: SegmentIndex,
    layout: ChunkLayout,
    first_row: u64,
    chunks: Vec<Chunk>,
    bytes: Vec<u8>,
}

/// A chunked field that is being read.
struct Chunked<'a> {
    segment: SegmentRef<'a>,
    shard_start: u64,
    rows: Rows<'a>,
    sample: u64,
    field: usize,
}

impl Chunked<'_> {
    /// Bytes of one row, and of the rows that one chunk spans.
    fn row_bytes(&self) -> (u64, u64) {
        let width = self.rows.layout.array_shape[1..].iter();
        let row = width.fold(u64::from(self.rows.element_size), |len, dim| {
            len.saturating_mul(*dim)
        });
        (row, row.saturating_mul(self.rows.layout.chunk_shape[0]))
    }

    fn chunks_per_row(&self) -> u64 {
        let layout = self.rows.layout;
        let axes = layout.array_shape.iter().zip(&layout.chunk_shape);
        axes.skip(1)
            .map(|(dim, chunk)| dim.div_ceil(*chunk))
            .product()
    }

    /// The same field, other rows of the array.
    const fn with_rows(&self, first_row: u64, rows: u64) -> Rows<'_> {
        Rows {
            first_row,
            rows,
            ..self.rows
        }
    }
}

impl<'a, B: AsRef<[u8]>> Copier<'a, B> {
    pub(crate) fn new(index: &'a Index<B>, origin: &'a dyn Origin, path: &'a Path) -> Self {
        Self {
            index,
            origin,
            path,
            piece: Vec::new(),
            stored: Vec::new(),
            scratch: Scratch::default(),
            bands: index.fields().iter().map(|_| None).collect(),
        }
    }

    /// Appends a sample and returns its CRC32C.
    pub(crate) fn sample<W: Write>(
        &mut self,
        number: u64,
        packing: &mut Packing<'_, W>,
    ) -> Result<u32> {
        for field in 0..self.index.fields().len() {
            packing.align()?;
            self.field(number, field, packing)?;
        }
        Ok(packing.end_sample())
    }

    /// Appends one field of a sample.
    pub(crate) fn field<W: Write>(
        &mut self,
        number: u64,
        field_number: usize,
        packing: &mut Packing<'_, W>,
    ) -> Result<()> {
        let index = self.index;
        let sample = index.sample(number).map_err(self.in_index())?;
        let field = sample.field(field_number).map_err(self.in_index())?;
        let (Some(number_of_file), false) = (field.segment(), field.decoded_len() == 0) else {
            return match field {
                Field::Value { bytes, .. } => packing.bytes(bytes),
                _ => Ok(()),
            };
        };
        let segment = index.segment(number_of_file).map_err(self.in_index())?;
        let source = SegmentRef {
            index: number_of_file,
            path: segment.path,
            fingerprint: segment.fingerprint,
        };
        match (field, field.rows()) {
            (Field::Contiguous { shard_range, .. }, _) => match shard_range {
                Some(range) => {
                    let offset = range.start() - segment.shard_start;
                    self.contiguous(source, offset, range.len(), packing)
                }
                None => Ok(()),
            },
            (Field::Chunked { chunks, .. }, Some(rows)) => {
                let chunked = Chunked {
                    segment: source,
                    shard_start: segment.shard_start,
                    rows,
                    sample: number,
                    field: field_number,
                };
                self.chunked(&chunked, chunks.collect(), packing)
            }
            (Field::Chunked { .. }, None) | (Field::Value { .. }, _) => Ok(()),
        }
    }

    fn in_index(&self) -> impl Fn(forebay_dataset::IndexError) -> IndexerError + use<B> {
        super::in_index(self.path)
    }

    fn contiguous<W: Write>(
        &mut self,
        segment: SegmentRef<'_>,
        mut offset: u64,
        mut len: u64,
        packing: &mut Packing<'_, W>,
    ) -> Result<()> {
        while len > 0 {
            let now = len.min(PIECE as u64) as usize;
            self.piece.resize(self.piece.len().max(now), 0);
            let piece = &mut self.piece[..now];
            self.origin.read_at(segment, offset, piece)?;
            packing.bytes(piece)?;
            offset += now as u64;
            len -= now as u64;
        }
        Ok(())
    }

    fn chunked<W: Write>(
        &mut self,
        field: &Chunked<'_>,
        chunks: Vec<Chunk>,
        packing: &mut Packing<'_, W>,
    ) -> Result<()> {
        let (row_bytes, chunk_row_bytes) = field.row_bytes();
        if field.rows.rows == 0 || row_bytes == 0 {
            return Ok(());
        }
        let rows_per_chunk = field.rows.layout.chunk_shape[0];
        let (first, end) = (field.rows.first_row, field.rows.first_row + field.rows.rows);
        let in_one_chunk_row = first / rows_per_chunk == (end - 1) / rows_per_chunk;
        if in_one_chunk_row && field.rows.rows < rows_per_chunk && chunk_row_bytes <= BAND {
            return self.slice_of_band(field, chunks, row_bytes, packing);
        }
        if row_bytes > MAX_BAND {
            return Err(IndexerError::Request(format!(
                "one row of field `{}` has {row_bytes} bytes: over {MAX_BAND} cannot be decoded",
                self.index.fields()[field.field].name
            )));
        }
        // Whole rows of chunks where they are small enough, so that each is decoded once.
        let step = if chunk_row_bytes <= MAX_BAND {
            rows_per_chunk * (BAND / chunk_row_bytes).max(1)
        } else {
            MAX_BAND / row_bytes
        };
        let mut from = first;
        let mut bytes = std::mem::take(&mut self.piece);
        while from < end {
            let to = if chunk_row_bytes <= MAX_BAND {
                (from / rows_per_chunk * rows_per_chunk + step).min(end)
            } else {
                from.saturating_add(step).min(end)
            };
            self.decode(field, from, to - from, &chunks, &mut bytes)?;
            packing.bytes(&bytes)?;
            from = to;
        }
        self.piece = bytes;
        Ok(())
    }

    /// A field that is part of a row of chunks: the whole row of chunks is decoded and kept.
    fn slice_of_band<W: Write>(
        &mut self,
        field: &Chunked<'_>,
        chunks: Vec<Chunk>,
        row_bytes: u64,
        packing: &mut Packing<'_, W>,
    ) -> Result<()> {
        let layout = field.rows.layout;
        let per_chunk = layout.chunk_shape[0];
        let first_row = field.rows.first_row / per_chunk * per_chunk;
        let known = self.bands[field.field].take().filter(|band| {
            band.segment == field.segment.index
                && band.first_row == first_row
                && band.chunks == chunks
                && band.layout == *layout
        });
        let band = match known {
            Some(band) => band,
            None => {
                let rows = per_chunk.min(layout.array_shape[0] - first_row);
                let mut bytes = Vec::new();
                self.decode(field, first_row, rows, &chunks, &mut bytes)?;
                Band {
                    segment: field.segment.index,
                    layout: layout.clone(),
                    first_row,
                    chunks,
                    bytes,
                }
            }
        };
        // Both fit in memory: the band was allocated.
        let start = ((field.rows.first_row - first_row) * row_bytes) as usize;
        let len = (field.rows.rows * row_bytes) as usize;
        packing.bytes(&band.bytes[start..start + len])?;
        self.bands[field.field] = Some(band);
        Ok(())
    }

    /// Decodes `rows` rows from `first_row` on into `out`, from those of `chunks` that hold them.
    fn decode(
        &mut self,
        field: &Chunked<'_>,
        first_row: u64,
        rows: u64,
        chunks: &[Chunk],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let fail = |source: DecodeError| IndexerError::Decode {
            path: field.segment.path.into(),
            sample: field.sample,
            field: self.index.fields()[field.field].name.clone(),
            source,
        };
        let part = field.with_rows(first_row, rows);
        let len = part.decoded_len().map_err(fail)?;
        out.clear();
        out.resize(len as usize, 0);
        part.fill(out).map_err(fail)?;
        let rows_per_chunk = part.layout.chunk_shape[0];
        let per_row = field.chunks_per_row();
        let start = (first_row / rows_per_chunk).saturating_mul(per_row);
        let end = (first_row + rows)
            .div_ceil(rows_per_chunk)
            .saturating_mul(per_row);
        let from = chunks.partition_point(|chunk| chunk.grid_index < start);
        let to = chunks.partition_point(|chunk| chunk.grid_index < end);
        for chunk in &chunks[from..to] {
            self.stored.resize(chunk.shard_range.len() as usize, 0);
            let offset = chunk.shard_range.start() - field.shard_start;
            self.origin
                .read_at(field.segment, offset, &mut self.stored)?;
            part.place(
                chunk.grid_index,
                chunk.filter_mask,
                &self.stored,
                &mut self.scratch,
                out,
            )
            .map_err(fail)?;
        }
        Ok(())
    }

    /// Checks a shard that an earlier run wrote. Returns the samples' checksums if the shard is
    /// what its receipt says.
    pub(super) fn check(
        &self,
        path: &Path,
        plan: &ShardPlan,
        receipt: &Receipt,
    ) -> Result<Option<Vec<u32>>> {
        let Ok(file) = File::open(path) else {
            return Ok(None);
        };
        let len = file
            .metadata()
            .map_err(IndexerError::io("read", path))?
            .len();
        if len != plan.len || receipt.bytes != plan.len {
            return Ok(None);
        }
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut whole = Checksum::new();
        let mut checksums = Vec::new();
        let (mut at, mut read) = (0, 0);
        for sample in plan.first..plan.end {
            let mut own = Checksum::new();
            for field in fields(self.index, sample, &mut at).map_err(self.in_index())? {
                feed(&mut reader, path, field.offset - read, &mut [&mut whole])?;
                let len = field.len;
                feed(&mut reader, path, len, &mut [&mut whole, &mut own])?;
                read = field.offset + len;
            }
            checksums.push(own.value());
        }
        Ok((whole.value() == receipt.crc32c).then_some(checksums))
    }
}

/// Reads `len` bytes into checksums.
fn feed(
    reader: &mut impl Read,
    path: &Path,
    mut len: u64,
    sums: &mut [&mut Checksum],
) -> Result<()> {
    let mut buffer = [0; 16 << 10];
    while len > 0 {
        let now = len.min(buffer.len() as u64) as usize;
        let part = &mut buffer[..now];
        reader
            .read_exact(part)
            .map_err(IndexerError::io("read", path))?;
        for sum in sums.iter_mut() {
            sum.update(part);
        }
        len -= now as u64;
    }
    Ok(())
}
