//! Random indexes: what comes out is what was put in.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const FILE: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) fields: Vec<FieldSpec>,
    samples: Vec<Vec<FieldExtent>>,
    segments: Vec<u64>,
    layouts: Vec<ChunkLayout>,
    keyed: bool,
    checksums: bool,
}

fn dtype() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["<f4", "|u1", ">i8", "<c16", "|S12", "|b1"])
}

/// Shape, chunks and which rows: one chunked array each.
fn chunked() -> impl Strategy<Value = (ChunkLayout, u64, u64, bool)> {
    let dims = prop::collection::vec((1..30u64, 1..9u64), 1..4);
    (dims, any::<(u64, u64)>(), any::<bool>()).prop_map(|(dims, (a, b), row)| {
        let (array_shape, chunk_shape): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
        let (first_row, rows) = match row {
            true => (a % array_shape[0], 1),
            false => {
                let first = a % (array_shape[0] + 1);
                (first, b % (array_shape[0] - first + 1))
            }
        };
        let filters = vec![Filter::Shuffle { element_size: 4 }, Filter::Lzf];
        let layout = ChunkLayout {
            array_shape,
            chunk_shape,
            filters,
            fill_value: vec![],
        };
        (layout, first_row, rows, row)
    })
}

#[derive(Clone, Debug)]
pub(super) enum Draft {
    Contiguous(Vec<u64>, u64),
    Value(Vec<u64>, u8),
    Chunked(ChunkLayout, u64, u64, bool),
}

fn draft() -> impl Strategy<Value = (usize, Draft)> {
    let contiguous = (prop::collection::vec(0..9u64, 0..4), 0..FILE / 2)
        .prop_map(|(shape, offset)| Draft::Contiguous(shape, offset));
    let chunked = chunked().prop_map(|(l, first, rows, row)| Draft::Chunked(l, first, rows, row));
    let value = (prop::collection::vec(0..4u64, 0..3), any::<u8>())
        .prop_map(|(shape, byte)| Draft::Value(shape, byte));
    (any::<usize>(), prop_oneof![contiguous, chunked, value])
}

pub(super) type Case = (
    Vec<&'static str>,
    Vec<Vec<(usize, Draft)>>,
    Vec<u64>,
    bool,
    bool,
);

pub(super) fn case() -> impl Strategy<Value = Case> {
    let dtypes = prop::collection::vec(dtype(), 1..4);
    dtypes.prop_flat_map(|dtypes| {
        let sample = prop::collection::vec(draft(), dtypes.len());
        let samples = prop::collection::vec(sample, 0..12);
        // Sizes over half a region, so that some files share shards and others do not.
        let segments = prop::collection::vec(FILE..crate::REGION_BYTES * 3 / 4, 1..6);
        (
            Just(dtypes),
            samples,
            segments,
            any::<bool>(),
            any::<bool>(),
        )
    })
}

/// Every chunk of the grid that holds some of the rows, but each third is absent.
fn chunks_of(layout: &ChunkLayout, first_row: u64, rows: u64) -> Vec<StoredChunk> {
    let per_row: u64 = (1..layout.array_shape.len())
        .map(|axis| layout.array_shape[axis].div_ceil(layout.chunk_shape[axis]))
        .product();
    let (start, end) = (first_row, first_row + rows);
    let grid_rows = match rows {
        0 => 0..0,
        _ => start / layout.chunk_shape[0]..end.div_ceil(layout.chunk_shape[0]),
    };
    (grid_rows.start * per_row..grid_rows.end * per_row)
        .filter(|grid_index| grid_index % 3 != 2)
        .map(|grid_index| StoredChunk {
            grid_index,
            offset: grid_index * 100 % (FILE - 100),
            stored_len: 1 + (grid_index % 99) as u32,
            filter_mask: (grid_index % 4) as u32,
        })
        .collect()
}

fn value(field: &FieldSpec, shape: Vec<u64>, byte: u8) -> (Vec<u64>, Storage) {
    let len = shape.iter().product::<u64>() * u64::from(field.dtype.size());
    let bytes = vec![byte; len as usize];
    (shape, Storage::Value { bytes })
}

/// Builds the index and remembers what went into it. Samples are numbered from `first`.
pub(super) fn build(case: &Case, first: usize) -> (Vec<u8>, Input, HashMap<u64, Vec<StoredChunk>>) {
    let (dtypes, drafts, segments, keyed, checksums) = case.clone();
    let fields: Vec<FieldSpec> = (0..)
        .zip(&dtypes)
        .map(|(n, dtype): (u32, _)| field(&format!("f{n}"), dtype))
        .collect();
    let mut builder =
        IndexBuilder::new("relative/root", fields.clone(), BlockSize::DEFAULT).unwrap();
    for (n, size) in segments.iter().enumerate() {
        builder
            .add_segment(&format!("d{}/é{n}", n % 2), fingerprint(*size))
            .unwrap();
    }
    let (mut samples, mut layouts, mut stored) = (Vec::new(), Vec::new(), HashMap::new());
    for (n, drafts) in drafts.into_iter().enumerate() {
        let mut extents = Vec::new();
        for (pick, draft) in drafts {
            let segment = SegmentIndex((pick % segments.len()) as u32);
            let (shape, storage) = match draft {
                Draft::Contiguous(shape, offset) => (shape, Storage::Contiguous { offset }),
                Draft::Value(shape, byte) => value(&fields[extents.len()], shape, byte),
                Draft::Chunked(layout, first_row, rows, row) => {
                    let number = builder.intern_layout(layout.clone()).unwrap();
                    layouts.resize(layouts.len().max(number.0 as usize + 1), layout.clone());
                    let run = chunks_of(&layout, first_row, rows);
                    let chunks = builder.add_chunks(segment, &run).unwrap();
                    if chunks.count > 0 {
                        stored.insert(chunks.first, run);
                    }
                    let mut shape = layout.array_shape.clone();
                    if row {
                        shape.remove(0);
                    } else {
                        shape[0] = rows;
                    }
                    let storage = Storage::Chunked {
                        layout: number,
                        first_row,
                        rows,
                        chunks,
                    };
                    (shape, storage)
                }
            };
            extents.push(FieldExtent {
                segment,
                shape,
                storage,
            });
        }
        let key = format!("kéy/{}", first + n);
        let key = keyed.then_some(key.as_str());
        let crc = checksums.then_some(n as u32 * 7);
        builder.add_sample(key, &extents, crc).unwrap();
        samples.push(extents);
    }
    let input = Input {
        fields,
        samples,
        segments,
        layouts,
        keyed,
        checksums,
    };
    (bytes_of(builder), input, stored)
}

fn check_field(
    index: &Index<Vec<u8>>,
    input: &Input,
    stored: &HashMap<u64, Vec<StoredChunk>>,
    (sample, nth): (u64, usize),
) -> Result<(), TestCaseError> {
    let extent = &input.samples[sample as usize][nth];
    let field = index.sample(sample).unwrap().field(nth).unwrap();
    let start = index.segment(extent.segment).unwrap().shard_start;
    let size = input.fields[nth].dtype.size();
    let len = extent.shape.iter().product::<u64>() * u64::from(size);
    prop_assert_eq!(&field.shape().iter().collect::<Vec<_>>(), &extent.shape);
    prop_assert_eq!(
        (field.segment(), field.decoded_len()),
        (
            (!matches!(extent.storage, Storage::Value { .. })).then_some(extent.segment),
            len
        )
    );
    match (field, &extent.storage) {
        (Field::Contiguous { shard_range, .. }, Storage::Contiguous { offset }) => {
            prop_assert_eq!(shard_range, ByteRange::new(start + offset, len).ok());
        }
        (
            Field::Chunked {
                layout,
                element_size,
                first_row,
                rows,
                chunks,
                ..
            },
            Storage::Chunked {
                layout: number,
                first_row: given_row,
                rows: given_rows,
                chunks: run,
            },
        ) => {
            prop_assert_eq!(layout, &input.layouts[number.0 as usize]);
            prop_assert_eq!(
                (element_size, first_row, rows),
                (size, *given_row, *given_rows)
            );
            let expected: Vec<Chunk> = stored
                .get(&run.first)
                .filter(|_| run.count > 0)
                .into_iter()
                .flatten()
                .map(|chunk| Chunk {
                    grid_index: chunk.grid_index,
                    shard_range: ByteRange::new(start + chunk.offset, chunk.stored_len.into())
                        .unwrap(),
                    filter_mask: chunk.filter_mask,
                })
                .collect();
            prop_assert_eq!(chunks.collect::<Vec<_>>(), expected);
        }
        (Field::Value { bytes, .. }, Storage::Value { bytes: given }) => {
            prop_assert_eq!(bytes, &given[..]);
        }
        (field, storage) => prop_assert!(false, "{:?} became {:?}", storage, field),
    }
    Ok(())
}

proptest! {
    #[test]
    fn an_index_says_what_was_put_in(case in case()) {
        let (bytes, input, stored) = build(&case, 0);
        prop_assert_eq!(&bytes, &build(&case, 0).0, "the same content gives the same bytes");
        let index = Index::parse(bytes).unwrap();
        index.verify().unwrap();
        prop_assert_eq!(index.len(), input.samples.len() as u64);
        prop_assert_eq!(index.fields(), &input.fields[..]);
        for n in 0..index.len() {
            for field in 0..input.fields.len() {
                check_field(&index, &input, &stored, (n, field))?;
            }
            let key = format!("kéy/{n}");
            prop_assert_eq!(index.key(n).unwrap(), input.keyed.then_some(key.as_str()));
            prop_assert_eq!(index.find(&key).unwrap(), input.keyed.then_some(n));
            let crc = index.sample(n).unwrap().crc32c();
            prop_assert_eq!(crc, input.checksums.then_some(n as u32 * 7));
        }
        for n in 0..index.segment_count() {
            let segment = index.segment(SegmentIndex(n)).unwrap();
            let size = input.segments[n as usize];
            prop_assert_eq!(segment.path, format!("d{}/é{n}", n % 2));
            prop_assert_eq!(segment.fingerprint, fingerprint(size));
            for offset in [0, size / 2, size - 1] {
                let found = index.segment_at(segment.shard, segment.shard_start + offset);
                prop_assert_eq!(found, Ok(Some(SegmentIndex(n))));
            }
            let after = index.segment_at(segment.shard, segment.shard_start + size).unwrap();
            prop_assert_ne!(after, Some(SegmentIndex(n)));
        }
        let refused = index.sample(index.len()).unwrap_err();
        prop_assert_eq!(refused.kind(), crate::ErrorKind::NotFound);
    }

    #[test]
    fn find_agrees_with_a_map(
        keys in prop::collection::hash_set("[a-c]{1,5}", 0..120),
        probes in prop::collection::vec("[a-c]{1,5}", 60),
    ) {
        let fields = vec![field("x", "|u1")];
        let mut builder = IndexBuilder::new("/", fields, BlockSize::DEFAULT).unwrap();
        let segment = builder.add_segment("a", fingerprint(1)).unwrap();
        let extent = [FieldExtent { segment, shape: vec![1], storage: Storage::Contiguous { offset: 0 } }];
        let mut model = HashMap::new();
        for (n, key) in (0..).zip(&keys) {
            builder.add_sample(Some(key), &extent, None).unwrap();
            model.insert(key.as_str(), n);
        }
        let index = Index::parse(bytes_of(builder)).unwrap();
        index.verify().unwrap();
        for key in keys.iter().chain(&probes) {
            prop_assert_eq!(index.find(key), Ok(model.get(key.as_str()).copied()));
        }
    }
}

#[test]
fn any_change_of_content_changes_the_generation() {
    let base = Index::parse(bytes_of(small())).unwrap().generation();
    let mut with_file = small();
    with_file.add_segment("c", fingerprint(0)).unwrap();
    assert_ne!(
        Index::parse(bytes_of(with_file)).unwrap().generation(),
        base
    );
    let again = Index::parse(bytes_of(small())).unwrap().generation();
    assert_eq!(again, base);
}

#[test]
fn an_index_is_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Index::parse(bytes_of(small())).unwrap());
}
