//! Any stored bytes under any layout: an error or a whole field, never a panic or gigabytes.
#![no_main]

use forebay_dataset::decode::{Rows, Scratch};
use forebay_dataset::index::{ChunkLayout, Filter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((settings, stored)) = input.split_at_checked(16) else {
        return;
    };
    let dim = |at: usize| u64::from(settings[at]) % 24 + 1;
    let rank = usize::from(settings[0]) % 3 + 1;
    let filters = settings[1..1 + usize::from(settings[0] >> 4) % 4]
        .iter()
        .map(|byte| match byte % 5 {
            0 => Filter::Deflate,
            1 => Filter::Lzf,
            2 => Filter::Fletcher32,
            3 => Filter::RawDeflate {
                skipped: u32::from(byte / 5),
            },
            _ => Filter::Shuffle {
                element_size: u32::from(byte / 5) + 1,
            },
        })
        .collect();
    let layout = ChunkLayout {
        array_shape: (0..rank).map(|axis| dim(5 + axis)).collect(),
        chunk_shape: (0..rank).map(|axis| dim(8 + axis)).collect(),
        filters,
        fill_value: Vec::new(),
    };
    let first_row = u64::from(settings[11]) % layout.array_shape[0];
    let rows = Rows {
        layout: &layout,
        element_size: u16::from(settings[12]) % 16 + 1,
        first_row,
        rows: layout.array_shape[0] - first_row,
    };
    let len = rows.decoded_len().expect("small numbers");
    let mut out = vec![0; len as usize];
    rows.fill(&mut out).expect("zeros are always a fill value");
    let (grid_index, mask) = (u64::from(settings[13]), u32::from(settings[14]));
    let mut scratch = Scratch::default();
    let _ = rows.place(grid_index, mask, stored, &mut scratch, &mut out);
    // A chunk here has at most 24³ × 16 bytes, and there are two buffers.
    assert!(scratch.capacity() <= 4 << 20);
});
