//! What the builder refuses, and how it gathers files into shards.

use super::*;
use crate::{IndexError, REGION_BYTES};

fn builder() -> IndexBuilder {
    IndexBuilder::new("/data", vec![field("x", "<f4")], BlockSize::DEFAULT).unwrap()
}

fn why<T: std::fmt::Debug>(result: Result<T, IndexError>) -> String {
    match result {
        Err(IndexError::Unindexable { what, why }) => format!("{what}: {why}"),
        other => panic!("{other:?} is not a refusal"),
    }
}

fn contiguous(segment: SegmentIndex, offset: u64, shape: &[u64]) -> FieldExtent {
    FieldExtent {
        segment,
        shape: shape.to_vec(),
        storage: Storage::Contiguous { offset },
    }
}

#[test]
fn paths_that_leave_the_root_or_repeat_are_refused() {
    let mut builder = builder();
    for path in [
        "", "/a", "../a", "a/../b", "a/..", "a//b", "./a", "a\0b", "a/",
    ] {
        why(builder.add_segment(path, fingerprint(1)));
    }
    why(builder.add_segment(&"a".repeat(4097), fingerprint(1)));
    builder.add_segment("a..b/...c", fingerprint(1)).unwrap();
    let refused = why(builder.add_segment("a..b/...c", fingerprint(2)));
    assert_eq!(refused, "file `a..b/...c`: it was added before");
}

#[test]
fn fields_without_a_name_of_their_own_are_refused() {
    for fields in [
        vec![],
        vec![field("", "<f4")],
        vec![field("x", "<f4"), field("x", "<f8")],
    ] {
        why(IndexBuilder::new("/", fields, BlockSize::DEFAULT));
    }
}

#[test]
fn small_files_share_a_shard_and_large_ones_do_not() {
    let mut builder = builder();
    let block = u64::from(BlockSize::DEFAULT.bytes());
    let sizes = [0, 1, 0, REGION_BYTES - block, 0, REGION_BYTES + 1, 5, 0];
    for (n, size) in sizes.iter().enumerate() {
        builder
            .add_segment(&n.to_string(), fingerprint(*size))
            .unwrap();
    }
    let index = Index::parse(bytes_of(builder)).unwrap();
    index.verify().unwrap();
    let placed: Vec<_> = (0..sizes.len() as u32)
        .map(|n| index.segment(SegmentIndex(n)).unwrap())
        .map(|segment| (segment.shard.0, segment.shard_start))
        .collect();
    let full = REGION_BYTES;
    let expected = [
        (0, 0),
        (0, 0),
        (0, block),
        (0, block),
        (0, full),
        (1, 0),
        (2, 0),
        (2, block),
    ];
    assert_eq!(placed, expected);
    assert_eq!(index.shard_segments(ShardIndex(0)), Ok(0..5));
    assert_eq!(index.shard_len(ShardIndex(0)), Ok(full));
    assert_eq!(index.shard_len(ShardIndex(1)), Ok(full + 1));
}

#[test]
fn a_shard_holds_at_most_65536_files() {
    let mut builder = builder();
    for n in 0..=65_536 {
        builder.add_segment(&n.to_string(), fingerprint(0)).unwrap();
    }
    let index = Index::parse(bytes_of(builder)).unwrap();
    index.verify().unwrap();
    assert_eq!(index.shard_segments(ShardIndex(0)), Ok(0..65_536));
    assert_eq!(index.shard_segments(ShardIndex(1)), Ok(65_536..65_537));
}

#[test]
fn extents_outside_their_file_are_refused() {
    let mut builder = builder();
    let segment = builder.add_segment("a", fingerprint(40)).unwrap();
    for (offset, shape) in [
        (1, vec![10]),
        (u64::MAX, vec![1]),
        (0, vec![u64::MAX, 2]),
        (0, vec![1 << 62]),
        (41, vec![0]),
        (0, vec![1; 33]),
    ] {
        why(builder.add_sample(None, &[contiguous(segment, offset, &shape)], None));
    }
    why(builder.add_sample(None, &[contiguous(SegmentIndex(1), 0, &[1])], None));
    why(builder.add_sample(None, &[], None));
    assert!(builder.is_empty(), "a refused sample is not added");

    for shape in [&[10][..], &[], &[0, u64::MAX, u64::MAX], &[1; 32]] {
        let extent = contiguous(segment, 0, shape);
        builder.add_sample(None, &[extent], None).unwrap();
    }
    let index = Index::parse(bytes_of(builder)).unwrap();
    index.verify().unwrap();
    let lens = [0, 1, 2, 3].map(|n| index.sample(n).unwrap().decoded_len().unwrap());
    assert_eq!(lens, [40, 4, 0, 4]);
}

#[test]
fn keys_and_checksums_are_for_all_samples_or_none() {
    let mut builder = builder();
    let segment = builder.add_segment("a", fingerprint(4)).unwrap();
    let extent = [contiguous(segment, 0, &[1])];
    for key in ["", "a\0b", &"k".repeat(4097)] {
        why(builder.add_sample(Some(key), &extent, None));
    }
    builder.add_sample(Some("k"), &extent, Some(1)).unwrap();
    why(builder.add_sample(None, &extent, Some(1)));
    why(builder.add_sample(Some("l"), &extent, None));
    builder.add_sample(Some("k"), &extent, Some(1)).unwrap();
    let refused = builder.write(&mut Vec::new()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot index key `k`: samples 0 and 1 both have it"
    );
}

fn layout(array: &[u64], chunk: &[u64]) -> ChunkLayout {
    ChunkLayout {
        array_shape: array.to_vec(),
        chunk_shape: chunk.to_vec(),
        filters: vec![],
        fill_value: vec![],
    }
}

#[test]
fn layouts_out_of_bounds_are_refused() {
    let mut builder = builder();
    let mut with = |change: fn(&mut ChunkLayout)| {
        let mut layout = layout(&[4, 4], &[2, 2]);
        change(&mut layout);
        why(builder.intern_layout(layout));
    };
    with(|l| l.array_shape.clear());
    with(|l| (l.array_shape.clear(), l.chunk_shape.clear()).0);
    with(|l| l.chunk_shape[1] = 0);
    with(|l| l.chunk_shape = vec![1 << 16, 1 << 16]);
    with(|l| (l.array_shape, l.chunk_shape) = (vec![u64::MAX; 2], vec![1; 2]));
    with(|l| (l.array_shape, l.chunk_shape) = (vec![1; 33], vec![1; 33]));
    with(|l| l.filters = vec![Filter::Lzf; 33]);
    with(|l| l.filters = vec![Filter::Shuffle { element_size: 0 }]);
    with(|l| l.fill_value = vec![0; 65_536]);
    let first = builder.intern_layout(layout(&[4], &[2])).unwrap();
    assert_eq!(builder.intern_layout(layout(&[4], &[2])), Ok(first));
}

#[test]
fn chunks_must_be_sorted_and_inside_their_file() {
    let mut builder = builder();
    let segment = builder.add_segment("a", fingerprint(100)).unwrap();
    let chunk = |grid_index, offset, stored_len| StoredChunk {
        grid_index,
        offset,
        stored_len,
        filter_mask: 0,
    };
    for chunks in [
        [chunk(1, 0, 8), chunk(0, 8, 8)],
        [chunk(1, 0, 8), chunk(1, 8, 8)],
        [chunk(0, 0, 0), chunk(1, 8, 8)],
        [chunk(0, 0, 8), chunk(1, 93, 8)],
        [chunk(0, u64::MAX, 8), chunk(1, 8, 8)],
    ] {
        why(builder.add_chunks(segment, &chunks));
    }
    why(builder.add_chunks(SegmentIndex(1), &[]));
}

#[test]
fn chunked_fields_must_fit_their_layout_and_their_run() {
    let mut builder = builder();
    let segment = builder.add_segment("a", fingerprint(1000)).unwrap();
    let other = builder.add_segment("b", fingerprint(1000)).unwrap();
    let layout = builder.intern_layout(layout(&[6, 3], &[2, 3])).unwrap();
    let stored: Vec<_> = (0..3)
        .map(|n| StoredChunk {
            grid_index: n,
            offset: n * 24,
            stored_len: 24,
            filter_mask: 0,
        })
        .collect();
    builder.add_chunks(other, &stored).unwrap();
    let run = builder.add_chunks(segment, &stored).unwrap();
    assert_eq!(run, ChunksRef { first: 3, count: 3 });
    let extent = |shape: &[u64], first_row, rows, first, count| {
        [FieldExtent {
            segment,
            shape: shape.to_vec(),
            storage: Storage::Chunked {
                layout,
                first_row,
                rows,
                chunks: ChunksRef { first, count },
            },
        }]
    };
    for (reason, wrong) in [
        ("rows", extent(&[2, 3], 0, 3, 3, 1)),
        ("rank", extent(&[2, 3, 1], 0, 2, 3, 1)),
        ("beyond axis 0", extent(&[2, 4], 0, 2, 3, 1)),
        ("outside the array", extent(&[2, 3], 5, 2, 5, 1)),
        ("outside the array", extent(&[3], u64::MAX, 1, 5, 1)),
        ("do not lie in rows", extent(&[2, 3], 0, 2, 4, 1)),
        ("do not lie in rows", extent(&[2, 3], 0, 2, 3, 2)),
        ("do not lie in rows", extent(&[0, 3], 0, 0, 3, 1)),
        ("another file", extent(&[2, 3], 0, 2, 0, 1)),
        ("one run", extent(&[6, 3], 0, 6, 2, 3)),
        ("one run", extent(&[6, 3], 0, 6, 4, 3)),
        ("one run", extent(&[6, 3], 0, 6, u64::MAX, 3)),
    ] {
        let refused = why(builder.add_sample(None, &wrong, None));
        assert!(refused.contains(reason), "{refused}");
    }
    for right in [
        extent(&[6, 3], 0, 6, 3, 3),
        extent(&[3], 5, 1, 5, 1),
        extent(&[2, 3], 1, 2, 3, 2),
        extent(&[2, 3], 1, 2, 0, 0),
        extent(&[0, 3], 6, 0, 0, 0),
    ] {
        builder.add_sample(None, &right, None).unwrap();
    }
    let index = Index::parse(bytes_of(builder)).unwrap();
    index.verify().unwrap();
    let field = index.sample(1).unwrap().field(0).unwrap();
    assert_eq!((field.shape().rank(), field.decoded_len()), (1, 12));
}

#[test]
fn files_of_a_size_are_shards_of_their_own_where_that_is_asked_for() {
    let mut builder = builder().own_shards_from(10);
    for (n, size) in [3, 10, 3, 3, 11, 12].iter().enumerate() {
        let added = builder.add_segment(&n.to_string(), fingerprint(*size));
        added.unwrap();
    }
    let index = Index::parse(bytes_of(builder)).unwrap();
    index.verify().unwrap();
    let shards: Vec<u32> = (0..6)
        .map(|n| index.segment(SegmentIndex(n)).unwrap().shard.0)
        .collect();
    assert_eq!(shards, [0, 1, 2, 2, 3, 4]);
}
