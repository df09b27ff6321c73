//! Reads what an array leads to, where it has to be decoded before it can be indexed.

use std::sync::Arc;

use forebay_dataset::DType;
use forebay_dataset::decode::{Rows, Scratch};
use hdf5_reader::global_heap::GlobalHeapCollection;

use super::cursor::{Fields, address};
use super::dataset::{Array, ArrayStorage};
use super::dtype::{Kind, Leaf, byte_len};
use super::family::Family;
use super::references::Paths;
use super::{H5File, H5Result, Remedy, damaged, unsupported};

/// All bytes of an array, row-major.
pub(super) fn bytes(family: &Family, array: &Array) -> H5Result<Vec<u8>> {
    let len = byte_len(&array.dims, array.dtype.size())?;
    family.charge_decoded(len)?;
    // Bounded by what may be decoded.
    let mut out = vec![0; len as usize];
    match &array.storage {
        ArrayStorage::Contiguous { offset } if len > 0 => {
            family
                .source(array.file)?
                .read_exact_at(&mut out, *offset)?;
        }
        ArrayStorage::Contiguous { .. } => {}
        ArrayStorage::Value { bytes } => out.copy_from_slice(bytes),
        ArrayStorage::Chunked { layout, chunks } => {
            let rows = Rows {
                layout,
                element_size: array.dtype.size(),
                first_row: 0,
                rows: layout.array_shape.first().copied().unwrap_or(1),
            };
            let source = family.source(array.file)?;
            let (mut stored, mut scratch) = (Vec::new(), Scratch::default());
            rows.fill(&mut out).or_else(undecodable)?;
            for chunk in chunks {
                // It was checked to lie inside the file.
                stored.resize(chunk.stored_len as usize, 0);
                source.read_exact_at(&mut stored, chunk.offset)?;
                let (at, mask) = (chunk.grid_index, chunk.filter_mask);
                rows.place(at, mask, &stored, &mut scratch, &mut out)
                    .or_else(undecodable)?;
            }
        }
        ArrayStorage::Ragged { .. } | ArrayStorage::Stacked(_) => {
            return unsupported("data that is virtual twice over", Remedy::Convert);
        }
    }
    Ok(out)
}

fn undecodable<T>(error: forebay_dataset::DecodeError) -> H5Result<T> {
    damaged(error.to_string())
}

/// What elements that are not where their data set is stand for.
enum Meaning {
    /// Elements of this size in the heap.
    InHeap(Heap, u16),
    /// The path of an object, as text.
    PathOf(Arc<Paths>),
}

/// Elements of variable length, end to end, and the length of each. `references` is what the data
/// set itself holds of them.
pub(super) fn variable(
    file: &H5File,
    leaf: &Leaf,
    references: Array,
) -> H5Result<Vec<(String, Array)>> {
    let (dtype, mut meaning, what) = match &leaf.of.kind {
        Kind::Variable { of, text } => {
            let dtype = if *text { DType::U8 } else { of.dtype()? };
            let meaning = Meaning::InHeap(Heap::default(), dtype.size());
            (dtype, meaning, "a variable-length type")
        }
        Kind::Reference => {
            let meaning = Meaning::PathOf(file.paths()?);
            (DType::U8, meaning, "a type of object references")
        }
        _ => return damaged("it is not of variable length"),
    };
    // They lead to places in the file that holds them.
    let own = match &references.storage {
        ArrayStorage::Chunked { chunks, .. } if chunks.is_empty() => true,
        ArrayStorage::Chunked { .. } | ArrayStorage::Contiguous { .. } => {
            references.file == file.place.number || references.dims.contains(&0)
        }
        _ => false,
    };
    if !own {
        return unsupported(format!("{what} in a virtual data set"), Remedy::Convert);
    }
    let raw = bytes(&file.place.family, &references)?;
    let (mut found, mut lengths, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for element in raw.chunks_exact(usize::from(references.dtype.size())) {
        let elements = match &mut meaning {
            Meaning::InHeap(heap, size) => heap.element(file, element, *size, &mut found)?,
            Meaning::PathOf(paths) => paths.append(file, element, &mut found)?,
        };
        lengths.extend(elements.to_le_bytes());
        ends.push(found.len() as u64);
    }
    let of_values = Array {
        dtype,
        dims: references.dims.clone(),
        storage: ArrayStorage::Ragged { bytes: found, ends },
        file: references.file,
    };
    let mut fields = vec![(leaf.suffix.clone(), of_values)];
    if !references.dims.is_empty() {
        let of_lengths = Array {
            dtype: "<i8".parse().or_else(|_| damaged("no integers"))?,
            storage: ArrayStorage::Value { bytes: lengths },
            ..references
        };
        fields.push((format!("{}/lengths", leaf.suffix), of_lengths));
    }
    Ok(fields)
}

/// The collection of objects that was used last: neighbours lie in one.
#[derive(Default)]
pub(super) struct Heap(Option<(u64, GlobalHeapCollection)>);

impl Heap {
    /// Object number `number` of the collection at `at`.
    pub(super) fn object(&mut self, file: &H5File, at: u64, number: u32) -> H5Result<&[u8]> {
        let held = self.0.as_ref().is_some_and(|(held, _)| *held == at);
        if !held {
            let found = GlobalHeapCollection::parse_at_storage(
                &file.storage,
                at,
                file.offset_size,
                file.length_size,
            )?;
            self.0 = Some((at, found));
        }
        let number = u16::try_from(number).ok();
        let collection = self.0.as_ref().map(|(_, collection)| collection);
        let object = collection.and_then(|found| found.get_object(number?));
        match object {
            Some(object) => Ok(&object.data),
            None => damaged(format!("there is no object in the heap at byte {at}")),
        }
    }

    /// Appends the bytes that an element refers to; how many elements they are.
    fn element(
        &mut self,
        file: &H5File,
        element: &[u8],
        size: u16,
        out: &mut Vec<u8>,
    ) -> H5Result<u64> {
        let mut fields = Fields::new(element, "variable-length element");
        let count = u64::from(fields.u32()?);
        let at = fields.uint(file.offset_size)?;
        let number = fields.u32()?;
        if count == 0 || at == 0 || address(at, file.offset_size).is_none() {
            return Ok(0);
        }
        let len = count.saturating_mul(size.into());
        file.place.family.charge_decoded(len)?;
        let object = self.object(file, at, number)?;
        let Some(bytes) = object.get(..len as usize) else {
            return damaged(format!(
                "an element of {len} bytes has {} in the heap",
                object.len()
            ));
        };
        out.extend_from_slice(bytes);
        Ok(count)
    }
}
