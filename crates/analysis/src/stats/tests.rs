//! Every statistic against its naive definition.

use proptest::prelude::*;

use super::*;

fn values() -> impl Strategy<Value = Vec<f64>> {
    // Few distinct values on one side, so that ties are common; wide spread on the other.
    let tied = (0u8..6).prop_map(|v| f64::from(v) * 0.25);
    let spread = (-12.0f64..7.0).prop_map(|exponent| 10f64.powf(exponent));
    prop::collection::vec(prop_oneof![tied, spread], 1..700)
}

fn sorted(values: &[f64]) -> Sorted {
    Sorted::new(values.iter().copied()).expect("finite and not empty")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-12)
}

proptest! {
    #[test]
    fn a_quantile_at_a_whole_place_is_the_value_there(values in values()) {
        let sorted = sorted(&values);
        let mut naive = values;
        naive.sort_by(f64::total_cmp);
        let last = naive.len() - 1;
        for (place, value) in naive.iter().enumerate() {
            let q = if last == 0 { 0.5 } else { place as f64 / last as f64 };
            let (low, high) = (naive[place.saturating_sub(1)], naive[(place + 1).min(last)]);
            let found = sorted.quantile(q);
            // q is rounded, so the place may be an ulp off and mix in a neighbour.
            prop_assert!((found - value).abs() <= 1e-9 * (high - low).abs() + 1e-15);
        }
    }

    #[test]
    fn quantiles_rise_and_stay_within_the_values(values in values(), a in 0.0..=1.0f64, b in 0.0..=1.0f64) {
        let sorted = sorted(&values);
        let (low, high) = (sorted.quantile(a.min(b)), sorted.quantile(a.max(b)));
        prop_assert!(sorted.min() <= low && low <= high && high <= sorted.max());
        let below = values.iter().filter(|v| **v < low).count() as f64;
        prop_assert!(below <= a.min(b) * (values.len() - 1) as f64 + 1.0);
    }

    #[test]
    fn median_mean_max_and_excess_are_as_defined(values in values()) {
        let sorted = sorted(&values);
        let mut naive = values.clone();
        naive.sort_by(f64::total_cmp);
        let n = naive.len();
        let median = (naive[(n - 1) / 2] + naive[n / 2]) / 2.0;
        let excess: f64 = values.iter().filter(|v| **v > median).map(|v| v - median).sum();
        prop_assert!(close(sorted.median(), median));
        prop_assert!(close(sorted.mean(), values.iter().sum::<f64>() / n as f64));
        prop_assert_eq!(sorted.max(), values.iter().copied().fold(0.0, f64::max));
        prop_assert!((sorted.excess() - excess).abs() <= 1e-9 * (1.0 + sorted.sum()));
    }

    #[test]
    fn a_share_counts_what_is_strictly_above(values in values(), pick in any::<prop::sample::Index>()) {
        let threshold = values[pick.index(values.len())];
        let share = sorted(&values).share_over(threshold);
        prop_assert_eq!(share.over, values.iter().filter(|v| **v > threshold).count());
        prop_assert_eq!(share.n, values.len());
    }

    #[test]
    fn a_tail_is_exact_at_each_point_and_keeps_both_ends(values in values(), limit in 2usize..80) {
        let sorted = sorted(&values);
        let tail = sorted.tail(limit);
        prop_assert!(tail.len() <= limit);
        prop_assert_eq!(tail[0].x, sorted.min());
        let last = tail[tail.len() - 1];
        prop_assert_eq!((last.x, last.over), (sorted.max(), 0));
        for pair in tail.windows(2) {
            prop_assert!(pair[0].x < pair[1].x && pair[0].over > pair[1].over);
        }
        for point in tail {
            prop_assert_eq!(point.over, values.iter().filter(|v| **v > point.x).count());
        }
    }

    #[test]
    fn an_interval_holds_its_ratio_and_repeats(values in values(), scale in 0.1..10.0f64, seed: u64) {
        let base: Vec<f64> = values.iter().map(|v| v + 1.0).collect();
        let loaded: Vec<f64> = base.iter().map(|v| v * scale).collect();
        let plan = BootstrapPlan { resamples: 60, seed, ..BootstrapPlan::default() };
        for statistic in [Statistic::Mean, Statistic::Median, Statistic::P99] {
            let found = ratio_interval(&loaded, &base, statistic, &plan).expect("both are positive");
            prop_assert!(close(found.ratio, scale));
            prop_assert!(found.low <= found.high);
            prop_assert_eq!(found, ratio_interval(&loaded, &base, statistic, &plan).expect("again"));
        }
    }
}

#[test]
fn quantiles_match_numpy() {
    // numpy.quantile([1, 2, 4, 8, 16, 100], q)
    let sorted = sorted(&[16.0, 1.0, 8.0, 2.0, 100.0, 4.0]);
    for (q, wanted) in [(0.5, 6.0), (0.95, 79.0), (0.99, 95.8), (0.25, 2.5)] {
        assert!(close(sorted.quantile(q), wanted), "q {q}");
    }
    assert_eq!(sorted.quantile(f64::NAN), 100.0);
    assert_eq!((sorted.quantile(-1.0), sorted.quantile(2.0)), (1.0, 100.0));
}

#[test]
fn a_long_tail_keeps_its_last_values_one_by_one() {
    let values: Vec<f64> = (1..=50_000u32).map(|i| 1.0 / f64::from(i)).collect();
    let tail = sorted(&values).tail(400);
    assert!(tail.len() > 100 && tail.len() <= 400, "{}", tail.len());
    let rarest: Vec<usize> = tail.iter().rev().take(4).map(|point| point.over).collect();
    assert_eq!(rarest, [0, 1, 2, 3]);
}

#[test]
fn the_interval_covers_the_truth_about_as_often_as_it_says() {
    let mut random = Numbers(7);
    let covered = (0..200u64)
        .filter(|seed| {
            let mut draw = || (0..60).map(|_| 1.0 + random.next()).collect::<Vec<f64>>();
            let (values, base) = (draw(), draw());
            let plan = BootstrapPlan {
                resamples: 300,
                seed: *seed,
                ..BootstrapPlan::default()
            };
            let found = ratio_interval(&values, &base, Statistic::Mean, &plan).expect("positive");
            (found.low..=found.high).contains(&1.0)
        })
        .count();
    // 95 % of 200 is 190; a binomial of p = 0.95 leaves 178..=200 once in tens of thousands.
    assert!((178..=200).contains(&covered), "{covered} of 200");
}

/// A Weyl sequence: even over [0, 1), and independent of the generator under test.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn nothing_is_computed_from_nothing() {
    assert_eq!(Sorted::new([]), Err(StatsError::Empty));
    let infinite = Sorted::new([1.0, f64::INFINITY]);
    assert!(matches!(
        infinite,
        Err(StatsError::NotFinite { place: 1, .. })
    ));
    assert!(Sorted::new([f64::NAN]).is_err());
    let zero = sorted(&[0.0, 0.0, 5.0]);
    assert_eq!(
        Interference::between(&zero, &zero),
        Err(StatsError::ZeroBaseline)
    );
    let plan = BootstrapPlan {
        resamples: 0,
        ..BootstrapPlan::default()
    };
    assert!(ratio_interval(&[1.0], &[1.0], Statistic::Mean, &plan).is_err());
    let plan = BootstrapPlan {
        confidence: f64::NAN,
        ..BootstrapPlan::default()
    };
    assert!(ratio_interval(&[1.0], &[1.0], Statistic::Mean, &plan).is_err());
}

#[test]
fn interference_is_loaded_over_baseline_with_both_n() {
    let factor = Interference::between(&sorted(&[1.0, 2.0, 3.0]), &sorted(&[4.0, 290.0]))
        .expect("the baseline is above 0");
    assert_eq!((factor.median_ratio, factor.worst_ratio), (73.5, 145.0));
    assert_eq!(factor.max_ratio, 290.0 / 3.0);
    assert_eq!((factor.baseline_n, factor.loaded_n), (3, 2));
}
