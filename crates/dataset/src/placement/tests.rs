use super::*;
use proptest::prelude::*;

fn nodes(count: usize) -> Vec<Member> {
    (0..count)
        .map(|node| Member::new(format!("n{node:02}:7000")))
        .collect()
}

fn placed(regions: u64, members: &[Member]) -> Placement {
    Placement::new(0xF0EB, [regions * REGION_BYTES], members).unwrap()
}

fn region(number: u32) -> Region {
    let shard = ShardIndex(0);
    Region { shard, number }
}

fn names(placement: &Placement, members: &[Member]) -> Vec<String> {
    let owners = placement.owners.iter();
    owners
        .map(|owner| members[usize::from(*owner)].name.clone())
        .collect()
}

fn counts(placement: &Placement, members: usize) -> Vec<u64> {
    let mut counts = vec![0; members];
    placement
        .owners
        .iter()
        .for_each(|owner| counts[usize::from(*owner)] += 1);
    counts
}

#[test]
fn owners_are_frozen_as_placement_1() {
    let members = nodes(5);
    let lens = [3 * REGION_BYTES, 1, 0, 4 * REGION_BYTES + 1];
    let placement =
        Placement::new(0x0123_4567_89AB_CDEF_0011_2233_4455_6677, lens, &members).unwrap();
    assert_eq!(
        placement.owners, GOLDEN,
        "daemons of two versions would ask each other for what neither owns: raise the version of \
         the protocol between them"
    );
    let mut heavy = nodes(3);
    heavy[1].weight = NonZeroU32::new(3).unwrap();
    assert_eq!(placed(12, &heavy).owners, GOLDEN_WEIGHTED);
    let last = Region {
        shard: ShardIndex(3),
        number: 4,
    };
    assert_eq!(placement.order(last), GOLDEN_ORDER);
}

#[test]
fn keepers_are_frozen_as_placement_1() {
    let keepers = |name: &str| keepers_of_name(name, &nodes(5)).unwrap();
    assert_eq!(
        [keepers("a"), keepers("step 1/é")],
        GOLDEN_KEEPERS,
        "daemons of two versions would look for names in other places: raise the version of the \
         protocol between them"
    );
    let mut members = nodes(5);
    members.reverse();
    let reversed = keepers_of_name("a", &members).unwrap().into_iter();
    assert!(reversed.eq(keepers("a").into_iter().map(|keeper| 4 - keeper)));
    assert_eq!(keepers_of_name("a", &[]), Err(PlacementError::NoMembers));
}

#[test]
fn names_are_kept_by_all_members_alike() {
    let members = nodes(8);
    let mut kept = [0; 8];
    for name in 0..8000 {
        kept[keepers_of_name(&format!("step {name}"), &members).unwrap()[0]] += 1;
    }
    assert!(
        kept.iter().all(|kept| (800..1200).contains(kept)),
        "{kept:?}"
    );
}

const GOLDEN_KEEPERS: [[usize; 5]; 2] = [[2, 0, 4, 1, 3], [0, 2, 3, 4, 1]];
const GOLDEN: [u16; 10] = [2, 2, 4, 0, 2, 0, 0, 4, 4, 3];
const GOLDEN_WEIGHTED: [u16; 12] = [1, 2, 1, 1, 2, 2, 1, 0, 0, 0, 1, 1];
const GOLDEN_ORDER: [usize; 5] = [3, 2, 1, 0, 4];

#[test]
fn the_most_loaded_of_64_owns_at_most_a_tenth_more_than_the_mean() {
    for generation in 0..8 {
        let members = nodes(64);
        let lens = [10_000 * REGION_BYTES];
        let placement = Placement::new(generation, lens, &members).unwrap();
        let most = *counts(&placement, 64).iter().max().unwrap() as f64;
        assert!(most <= 1.1 * 10_000.0 / 64.0, "{most}");
    }
}

#[test]
fn a_large_file_is_spread_by_weight() {
    let mut members = nodes(4);
    members[2].weight = NonZeroU32::new(5).unwrap();
    let counts = counts(&placed(8000, &members), 4);
    for (count, share) in counts.iter().zip([1000, 1000, 5000, 1000]) {
        assert!(count.abs_diff(share) <= share / 10, "{counts:?}");
    }
}

#[test]
fn of_64_that_lose_one_hardly_any_region_of_the_others_moves() {
    let members = nodes(64);
    let before = names(&placed(10_000, &members), &members);
    for gone in [0, 31, 63] {
        let mut fewer = members.clone();
        let gone = fewer.remove(gone).name;
        let after = names(&placed(10_000, &fewer), &fewer);
        let moved = (before.iter().zip(&after)).filter(|(old, new)| old != new && **old != gone);
        let moved = moved.count();
        assert!(
            moved <= 100,
            "{moved} of 10,000 moved between those that stay"
        );
    }
}

#[test]
fn the_logarithm_is_one() {
    for draw in [
        0,
        1,
        2,
        3,
        1 << 20,
        u64::MAX / 3,
        u64::MAX / 2,
        u64::MAX - 5000,
    ] {
        let wanted = 64.0 * std::f64::consts::LN_2 - ((draw as f64) + 1.0).ln();
        let got = minus_ln(draw);
        assert!((got - wanted).abs() < 1e-12, "{draw}: {got} for {wanted}");
    }
    assert_eq!(minus_ln(u64::MAX), 0.0);
}

#[test]
fn lists_of_members_that_differ_hash_differently() {
    let members = nodes(3);
    let hash = hash_of_members(&members);
    assert_eq!(hash, GOLDEN_HASH, "raise the version of the protocol");
    let reversed: Vec<Member> = members.iter().rev().cloned().collect();
    assert_eq!(hash_of_members(&reversed), hash);
    assert_ne!(hash_of_members(&members[..2]), hash);
    let mut heavy = members;
    heavy[1].weight = NonZeroU32::new(2).unwrap();
    assert_ne!(hash_of_members(&heavy), hash);
}

const GOLDEN_HASH: u64 = 13_086_300_102_608_950_918;

#[test]
fn what_cannot_be_placed_is_refused() {
    let place = |lens: &[u64], members: &[Member]| {
        Placement::new(0, lens.iter().copied(), members).unwrap_err()
    };
    assert_eq!(place(&[1], &[]), PlacementError::NoMembers);
    let twice = [Member::new("a"), Member::new("b"), Member::new("a")];
    assert_eq!(place(&[1], &twice), PlacementError::Twice("a".into()));
    assert!(matches!(
        place(&[u64::MAX; 3], &nodes(1)),
        PlacementError::TooLarge(_)
    ));
    let placement = placed(2, &nodes(2));
    assert_eq!(placement.owner(region(2)), None);
    let shard = ShardIndex(1);
    assert_eq!(placement.owner(Region { shard, number: 0 }), None);
    assert!(placement.order(region(u32::MAX)).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nobody_is_over_its_share_and_the_order_of_names_is_no_matter(
        regions in 1u64..200,
        weights in proptest::collection::vec(1u32..6, 1..20),
        generation in any::<u128>(),
    ) {
        let mut members = nodes(weights.len());
        for (member, weight) in members.iter_mut().zip(&weights) {
            member.weight = NonZeroU32::new(*weight).unwrap();
        }
        let lens = [regions * REGION_BYTES];
        let placement = Placement::new(generation, lens, &members).unwrap();
        let sum: u32 = weights.iter().sum();
        for (count, weight) in counts(&placement, members.len()).iter().zip(&weights) {
            let share = regions as f64 * f64::from(*weight) / f64::from(sum);
            prop_assert!(*count as f64 <= (share * 13.0 / 12.0).ceil() + 1e-6);
        }
        let reversed: Vec<Member> = members.iter().rev().cloned().collect();
        let other = Placement::new(generation, lens, &reversed).unwrap();
        prop_assert_eq!(names(&placement, &members), names(&other, &reversed));
        for number in 0..regions as u32 {
            let order = placement.order(region(number));
            prop_assert_eq!(Some(order[0]), placement.owner(region(number)));
            let mut all = order;
            all.sort_unstable();
            prop_assert_eq!(all, (0..members.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_leaves_changes_no_rank_among_those_that_stay(
        members in 2usize..30,
        gone in any::<prop::sample::Index>(),
        number in 0u32..8,
    ) {
        let members = nodes(members);
        let mut fewer = members.clone();
        let gone = fewer.remove(gone.index(members.len()));
        let rank = |members: &[Member]| {
            let placement = placed(8, members);
            let ranked = ranked(&placement.seeds, &placement.key(region(number))).into_iter();
            ranked.map(|member| members[member].name.clone()).collect::<Vec<_>>()
        };
        let mut without = rank(&members);
        without.retain(|name| *name != gone.name);
        prop_assert_eq!(without, rank(&fewer));
    }

    #[test]
    fn joining_and_leaving_move_what_they_must_and_little_else(
        count in 2usize..30,
        gone in any::<prop::sample::Index>(),
        regions in 1u64..1000,
        generation in any::<u128>(),
    ) {
        let members = nodes(count);
        let mut fewer = members.clone();
        let gone = fewer.remove(gone.index(count)).name;
        let lens = [regions * REGION_BYTES];
        let all = names(&Placement::new(generation, lens, &members).unwrap(), &members);
        let few = names(&Placement::new(generation, lens, &fewer).unwrap(), &fewer);
        let moved = all.iter().zip(&few).filter(|(old, new)| old != new && **old != gone).count();
        // As many as one standard deviation of a member's load, for each member.
        let bound = (regions as f64 * count as f64).sqrt() + 4.0;
        prop_assert!((moved as f64) <= bound, "{moved} of {regions} over {count}, bound {bound}");
    }
}
