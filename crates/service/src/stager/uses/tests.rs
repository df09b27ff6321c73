use super::*;
use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder, Storage};
use forebay_dataset::{BlockSize, DType, Fingerprint};
use proptest::prelude::*;

/// One file of 4 KiB blocks; sample `n` has the bytes `[start, start + len)`.
fn index(samples: &[(u64, u64)]) -> Index<Vec<u8>> {
    let field = FieldSpec {
        name: "data".into(),
        dtype: DType::U8,
    };
    let mut builder = IndexBuilder::new("/r", vec![field], BlockSize::new(4096).unwrap()).unwrap();
    let file = Fingerprint {
        size: 1 << 20,
        mtime_ns: 0,
        inode: 1,
    };
    let segment = builder.add_segment("a", file).unwrap();
    for (start, len) in samples {
        let storage = Storage::Contiguous { offset: *start };
        let extent = FieldExtent {
            segment,
            shape: vec![*len],
            storage,
        };
        builder.add_sample(None, &[extent], None).unwrap();
    }
    let mut bytes = Vec::new();
    builder.write(&mut bytes).unwrap();
    Index::parse(bytes).unwrap()
}

fn windows(order: &[u64], width: usize) -> impl Fn(u64) -> Vec<u64> {
    move |from| {
        order
            .iter()
            .skip(from as usize)
            .take(width)
            .copied()
            .collect()
    }
}

proptest! {
    #[test]
    fn the_next_use_is_the_first_sample_that_needs_the_block(
        samples in proptest::collection::vec((0u64..900_000, 1u64..50_000), 1..20),
        order in proptest::collection::vec(0u64..22, 0..60),
        width in 1usize..9,
        now in 0u64..60,
    ) {
        let index = index(&samples);
        let uses = Uses::of(&index, windows(&order, width)).unwrap().unwrap();
        for block in 0..256u64 {
            let needs = |sample: &u64| samples.get(*sample as usize).is_some_and(|(start, len)| {
                start / 4096 <= block && block <= (start + len - 1) / 4096
            });
            let wanted = (now..order.len() as u64).find(|time| needs(&order[*time as usize]));
            prop_assert_eq!(uses.next(ShardIndex(0), block, now), wanted, "block {}", block);
        }
    }
}

#[test]
fn blocks_that_do_not_exist_are_never_needed() {
    let uses = Uses::of(&index(&[(0, 10)]), windows(&[0], 4))
        .unwrap()
        .unwrap();
    assert_eq!(uses.next(ShardIndex(0), 0, 0), Some(0));
    assert_eq!(uses.next(ShardIndex(0), u64::MAX, 0), None);
    assert_eq!(uses.next(ShardIndex(9), 0, 0), None);
}

#[test]
fn an_order_that_changes_while_it_is_read_spoils_no_other_blocks_uses() {
    let index = index(&[(0, 10), (4096, 10), (8192, 10)]);
    let passes = std::cell::Cell::new(0);
    let order = |from: u64| {
        passes.set(passes.get() + u32::from(from == 0));
        let orders: [&[u64]; 2] = [&[0, 1, 2, 1], &[2, 0, 0, 0]];
        windows(orders[passes.get() as usize - 1], 9)(from)
    };
    let uses = Uses::of(&index, order).unwrap().unwrap();
    for (block, now) in (0..3).flat_map(|block| (0..5).map(move |now| (block, now))) {
        let next = uses.next(ShardIndex(0), block, now);
        assert!(
            next.is_none_or(|next| next >= now),
            "{block} {now} {next:?}"
        );
    }
    assert_eq!(uses.next(ShardIndex(0), 2, 0), Some(0));
    let never = uses.next(ShardIndex(0), 1, 0);
    assert!(never.is_none_or(|next| next > 4), "{never:?} is another's");
}
