//! Decoding against bytes that HDF5 wrote, against slow models, and against damage.

mod golden;
mod golden_filters;
mod model;

use super::*;
use crate::index::{Bitshuffle, BitshuffleCodec, Filter};

pub(super) fn layout(array: &[u64], chunk: &[u64], filters: &[Filter]) -> ChunkLayout {
    ChunkLayout {
        array_shape: array.to_vec(),
        chunk_shape: chunk.to_vec(),
        filters: filters.to_vec(),
        fill_value: Vec::new(),
    }
}

pub(super) fn all_rows(layout: &ChunkLayout, element_size: u16) -> Rows<'_> {
    Rows {
        layout,
        element_size,
        first_row: 0,
        rows: layout.array_shape[0],
    }
}

/// Places one chunk into a field that is otherwise `0xEE`.
pub(super) fn place(
    rows: Rows<'_>,
    grid_index: u64,
    mask: u32,
    stored: &[u8],
) -> Result<Vec<u8>, DecodeError> {
    let mut out = vec![0xEE; rows.decoded_len().unwrap() as usize];
    rows.place(grid_index, mask, stored, &mut Scratch::default(), &mut out)?;
    Ok(out)
}

#[test]
fn a_fill_value_stands_in_every_element() {
    let mut layout = layout(&[3], &[2], &[]);
    layout.fill_value = vec![1, 2];
    let mut out = [0xEE; 6];
    all_rows(&layout, 2).fill(&mut out).unwrap();
    assert_eq!(out, [1, 2, 1, 2, 1, 2]);

    layout.fill_value.clear();
    all_rows(&layout, 2).fill(&mut out).unwrap();
    assert_eq!(out, [0; 6]);

    layout.fill_value = vec![1, 2, 3];
    let refused = all_rows(&layout, 2).fill(&mut out);
    assert!(matches!(refused, Err(DecodeError::Layout(_))));
}

#[test]
fn a_buffer_of_another_length_is_refused() {
    let layout = layout(&[3], &[2], &[]);
    let rows = all_rows(&layout, 2);
    let wrong = DecodeError::Length {
        found: 5,
        wanted: 6,
    };
    assert_eq!(rows.fill(&mut [0; 5]), Err(wrong.clone()));
    let refused = rows.place(0, 0, &[0; 4], &mut Scratch::default(), &mut [0; 5]);
    assert_eq!(refused, Err(wrong));
}

#[test]
fn a_chunk_of_another_length_is_damage() {
    let layout = layout(&[4], &[2], &[]);
    for stored in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
        let refused = place(all_rows(&layout, 2), 0, 0, stored);
        assert!(matches!(
            refused,
            Err(DecodeError::Damaged {
                filter: "chunk",
                ..
            })
        ));
    }
}

#[test]
fn a_small_stream_cannot_ask_for_gigabytes() {
    // Only a part of the chunk lies in the rows, so it would be decoded into memory of its own.
    for filter in [
        Filter::Deflate,
        Filter::Lzf,
        Filter::Shuffle { element_size: 8 },
        Filter::RawDeflate { skipped: 0 },
    ] {
        let layout = layout(&[2 << 20, 256], &[1 << 20, 256], &[filter]);
        let rows = Rows {
            layout: &layout,
            element_size: 8,
            first_row: 5,
            rows: 1,
        };
        let mut scratch = Scratch::default();
        let refused = rows.place(0, 0, &[0; 100], &mut scratch, &mut [0; 2048]);
        assert!(matches!(refused, Err(DecodeError::Damaged { .. })));
        assert_eq!(scratch.capacity(), 0, "{filter:?}");
    }
}

#[test]
fn a_layout_over_hdf5s_bound_is_refused() {
    let layout = layout(&[1 << 20, 1 << 12], &[1 << 20, 1 << 12], &[]);
    let rows = Rows {
        layout: &layout,
        element_size: 1,
        first_row: 0,
        rows: 0,
    };
    let refused = rows.place(0, 0, &[], &mut Scratch::default(), &mut []);
    assert!(matches!(refused, Err(DecodeError::Layout(_))));
}

#[test]
fn a_mask_beyond_the_filters_is_refused() {
    let layout = layout(&[2], &[2], &[Filter::Lzf]);
    let refused = place(all_rows(&layout, 1), 0, 2, &[1, 2]);
    assert!(matches!(refused, Err(DecodeError::Layout(_))));
}

/// A deflate stream without a frame, of a header and then a chunk.
fn raw_deflated(header: usize, chunk: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder =
        flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&vec![7; header]).unwrap();
    encoder.write_all(chunk).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_header_inside_a_raw_deflate_stream_is_passed_over() {
    let chunk: Vec<u8> = (0..4000_u32).map(|at| (at * at % 251) as u8).collect();
    for header in [0, 1, 128, 511, 512, 513, 5000] {
        let skipped = header as u32;
        let layout = layout(&[4000], &[4000], &[Filter::RawDeflate { skipped }]);
        let stored = raw_deflated(header, &chunk);
        assert_eq!(place(all_rows(&layout, 1), 0, 0, &stored).unwrap(), chunk);
        // Part of the chunk, so that it is decoded elsewhere first.
        let rows = Rows {
            first_row: 1000,
            rows: 5,
            ..all_rows(&layout, 1)
        };
        assert_eq!(place(rows, 0, 0, &stored).unwrap(), chunk[1000..1005]);
    }
}

#[test]
fn a_raw_deflate_stream_of_another_length_is_damage() {
    let chunk = [5; 100];
    let stored = raw_deflated(128, &chunk);
    for skipped in [0, 127, 129, 228, 229, u32::MAX] {
        let layout = layout(&[100], &[100], &[Filter::RawDeflate { skipped }]);
        let refused = place(all_rows(&layout, 1), 0, 0, &stored);
        assert!(
            matches!(refused, Err(DecodeError::Damaged { .. })),
            "{skipped}: {refused:?}"
        );
    }
    let layout = layout(&[100], &[100], &[Filter::RawDeflate { skipped: 128 }]);
    for len in 0..stored.len() {
        assert!(place(all_rows(&layout, 1), 0, 0, &stored[..len]).is_err());
    }
}
