//! Index files from the outside: what was put in comes out, and damage is named.

mod builder;
mod compose;
mod damage;
mod golden;
mod model;

use super::*;
use crate::{BlockSize, ByteRange, Fingerprint, SegmentIndex, ShardIndex};

pub(super) fn fingerprint(size: u64) -> Fingerprint {
    Fingerprint {
        size,
        mtime_ns: -7,
        inode: 99,
    }
}

pub(super) fn field(name: &str, dtype: &str) -> FieldSpec {
    FieldSpec {
        name: name.to_owned(),
        dtype: dtype.parse().unwrap(),
    }
}

/// Two files, two fields (one contiguous, one chunked), two keyed samples with checksums.
pub(super) fn small() -> IndexBuilder {
    let fields = vec![field("x", "<f4"), field("y", "|u1")];
    let mut builder = IndexBuilder::new("/data", fields, BlockSize::DEFAULT).unwrap();
    let a = builder.add_segment("a.h5", fingerprint(100)).unwrap();
    let b = builder.add_segment("sub/b.h5", fingerprint(5000)).unwrap();
    let layout = builder
        .intern_layout(ChunkLayout {
            array_shape: vec![4, 3],
            chunk_shape: vec![2, 3],
            filters: vec![Filter::Shuffle { element_size: 1 }, Filter::Lzf],
            fill_value: vec![9],
        })
        .unwrap();
    let chunks =
        [(0, 10, 6, 0), (1, 30, 5, 2)].map(|(grid_index, offset, stored_len, mask)| StoredChunk {
            grid_index,
            offset,
            stored_len,
            filter_mask: mask,
        });
    let run = builder.add_chunks(b, &chunks).unwrap();
    for (key, first_row, first) in [("one", 0, run.first), ("two", 2, run.first + 1)] {
        let x = FieldExtent {
            segment: a,
            shape: vec![5, 2],
            storage: Storage::Contiguous {
                offset: 20 + first_row,
            },
        };
        let y = FieldExtent {
            segment: b,
            shape: vec![2, 3],
            storage: Storage::Chunked {
                layout,
                first_row,
                rows: 2,
                chunks: ChunksRef { first, count: 1 },
            },
        };
        builder
            .add_sample(Some(key), &[x, y], Some(0x0102_0304))
            .unwrap();
    }
    builder
}

/// One file, a field in it and two in the index, two keyed samples.
pub(super) fn valued() -> IndexBuilder {
    let fields = vec![field("x", "<f4"), field("y", "<i8"), field("name", "|S3")];
    let mut builder = IndexBuilder::new("/data", fields, BlockSize::DEFAULT).unwrap();
    let segment = builder.add_segment("a.h5", fingerprint(100)).unwrap();
    for (key, label, name) in [("one", -1_i64, *b"ab\0"), ("two", 258, *b"xyz")] {
        let x = FieldExtent {
            segment,
            shape: vec![5],
            storage: Storage::Contiguous { offset: 20 },
        };
        let value = |bytes: &[u8]| FieldExtent {
            segment: SegmentIndex(0),
            shape: Vec::new(),
            storage: Storage::Value {
                bytes: bytes.to_vec(),
            },
        };
        let fields = [x, value(&label.to_le_bytes()), value(&name)];
        builder.add_sample(Some(key), &fields, None).unwrap();
    }
    builder
}

pub(super) fn bytes_of(builder: IndexBuilder) -> Vec<u8> {
    let mut bytes = Vec::new();
    builder.write(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_small_index_says_what_was_put_in() {
    let index = Index::parse(bytes_of(small())).unwrap();
    index.verify().unwrap();
    assert_eq!((index.root(), index.len()), ("/data", 2));
    assert_eq!(index.fields(), [field("x", "<f4"), field("y", "|u1")]);
    assert_eq!(index.find("two"), Ok(Some(1)));
    assert_eq!(index.find("three"), Ok(None));
    assert_eq!(index.key(0), Ok(Some("one")));

    let b = index.segment(SegmentIndex(1)).unwrap();
    assert_eq!(
        (b.path, b.shard, b.shard_start),
        ("sub/b.h5", ShardIndex(0), 65_536)
    );
    assert_eq!(b.fingerprint, fingerprint(5000));
    assert_eq!(index.shard_len(ShardIndex(0)), Ok(70_536));
    assert_eq!(
        index.segment_at(ShardIndex(0), 99),
        Ok(Some(SegmentIndex(0)))
    );
    assert_eq!(index.segment_at(ShardIndex(0), 100), Ok(None));
    assert_eq!(
        index.segment_at(ShardIndex(0), 65_536),
        Ok(Some(SegmentIndex(1)))
    );
    assert_eq!(index.segment_at(ShardIndex(0), 70_536), Ok(None));

    let sample = index.sample(1).unwrap();
    assert_eq!(sample.crc32c(), Some(0x0102_0304));
    assert_eq!(sample.decoded_len(), Ok(40 + 6));
    let Field::Contiguous {
        shape, shard_range, ..
    } = sample.field(0).unwrap()
    else {
        panic!("field 0 is contiguous");
    };
    assert_eq!(shape, [5, 2][..]);
    assert_eq!(shard_range, Some(ByteRange::new(22, 40).unwrap()));
    let Field::Chunked {
        first_row,
        rows,
        chunks,
        ..
    } = sample.field(1).unwrap()
    else {
        panic!("field 1 is chunked");
    };
    assert_eq!((first_row, rows), (2, 2));
    let chunk = Chunk {
        grid_index: 1,
        shard_range: ByteRange::new(65_536 + 30, 5).unwrap(),
        filter_mask: 2,
    };
    assert_eq!(chunks.collect::<Vec<_>>(), [chunk]);
}

#[test]
fn values_lie_in_the_index_and_in_no_file() {
    let index = Index::parse(bytes_of(valued())).unwrap();
    index.verify().unwrap();
    let sample = index.sample(1).unwrap();
    let Field::Value { shape, bytes } = sample.field(1).unwrap() else {
        panic!("field 1 is a value");
    };
    assert_eq!((shape.rank(), bytes), (0, &258_i64.to_le_bytes()[..]));
    let name = sample.field(2).unwrap();
    assert_eq!((name.segment(), name.shard()), (None, None));
    assert_eq!(name.decoded_len(), 3);
    let mut ranges = Vec::new();
    sample.add_stored_ranges(&mut ranges).unwrap();
    assert_eq!(ranges.len(), 1, "nothing is staged for values");
}
