//! Fewer dots than iterations, and none of the extremes lost.

/// Points of one panel, over all its series.
pub(super) const MAX_POINTS: usize = 20_000;

/// Places of at most `limit` of the values, ascending. The values are cut into equal stretches,
/// and each stretch keeps its least, its greatest and two others, so both edges of the cloud
/// and its density survive; the greatest of all is always kept. `limit` below 4 counts as 4.
pub(super) fn keep(values: &[f64], limit: usize) -> Vec<usize> {
    let limit = limit.max(4);
    if values.len() <= limit {
        return (0..values.len()).collect();
    }
    let stretches = limit / 4;
    let mut kept = Vec::with_capacity(limit);
    for stretch in 0..stretches {
        let start = stretch * values.len() / stretches;
        let end = (stretch + 1) * values.len() / stretches;
        let by_value = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
        let len = end - start;
        kept.extend((start..end).min_by(by_value));
        kept.extend((start..end).max_by(by_value));
        kept.extend([start + len / 3, start + 2 * len / 3]);
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::keep;

    proptest! {
        #[test]
        fn extremes_survive_and_the_limit_holds(
            values in prop::collection::vec(0.0..50.0f64, 0..3000),
            limit in 0usize..600,
        ) {
            let kept = keep(&values, limit);
            prop_assert!(kept.len() <= limit.max(4));
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            let most = |places: &mut dyn Iterator<Item = usize>| {
                places.map(|place| values[place]).fold(f64::MIN, f64::max)
            };
            let least = |places: &mut dyn Iterator<Item = usize>| {
                places.map(|place| values[place]).fold(f64::MAX, f64::min)
            };
            prop_assert_eq!(most(&mut kept.iter().copied()), most(&mut (0..values.len())));
            prop_assert_eq!(least(&mut kept.iter().copied()), least(&mut (0..values.len())));
        }
    }
}
