use proptest::prelude::*;

use super::*;

#[test]
fn p_values_are_those_of_scipy() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("golden.json")).expect("it is JSON");
    let tests = golden["rank_tests"].as_array().expect("a list");
    assert!(tests.len() >= 20);
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        let list = value.as_array().expect("a list").iter();
        list.map(|one| one.as_f64().expect("a number")).collect()
    };
    for one in tests {
        let found = mann_whitney(&numbers(&one["a"]), &numbers(&one["b"])).expect("values");
        assert_eq!(Some(found.u), one["u"].as_f64(), "{one}");
        assert_eq!(Some(found.exact), one["exact"].as_bool(), "{one}");
        let wanted = one["p"].as_f64().expect("a number");
        assert!((found.p - wanted).abs() <= 1e-9 * wanted, "{found:?} {one}");
    }
}

#[test]
fn the_least_p_is_what_n_allows() {
    for (n, least) in [
        (3, 0.1),
        (4, 2.0 / 70.0),
        (5, 2.0 / 252.0),
        (6, 2.0 / 924.0),
    ] {
        let low: Vec<f64> = (0..n).map(f64::from).collect();
        let high: Vec<f64> = (0..n).map(|i| f64::from(i) + 100.0).collect();
        let found = mann_whitney(&low, &high).expect("both have values");
        assert!((found.p - least).abs() < 1e-12, "n {n}: {}", found.p);
        assert_eq!(found.u, 0.0);
    }
}

#[test]
fn values_that_are_all_equal_show_nothing() {
    assert_eq!(mann_whitney(&[1.0; 9], &[1.0; 7]).expect("values").p, 1.0);
    assert!(mann_whitney(&[], &[1.0]).is_err());
    assert!(mann_whitney(&[1.0], &[f64::NAN]).is_err());
}

#[test]
fn adjusted_values_are_those_of_benjamini_and_hochberg() {
    let found = adjusted(&[0.01, 0.04, 0.03, 0.5]);
    let wanted = [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5];
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
    }
    assert!(adjusted(&[]).is_empty());
}

/// Every way to choose which places hold the first side.
fn counted(n1: usize, n2: usize, least: usize) -> f64 {
    let n = n1 + n2;
    let (mut all, mut over) = (0u32, 0u32);
    for chosen in 0u32..1 << n {
        if chosen.count_ones() as usize != n1 {
            continue;
        }
        let ranks = (0..n).filter(|place| chosen >> place & 1 == 1);
        let u = ranks.sum::<usize>() - n1 * (n1 - 1) / 2;
        all += 1;
        over += u32::from(u >= least);
    }
    (2.0 * f64::from(over) / f64::from(all)).min(1.0)
}

proptest! {
    #[test]
    fn exact_p_is_the_share_of_all_orders(order in Just((1..=10u32).collect::<Vec<_>>()).prop_shuffle(), n1 in 1usize..10) {
        let values: Vec<f64> = order.into_iter().map(f64::from).collect();
        let (a, b) = values.split_at(n1);
        let found = mann_whitney(a, b).expect("both have values");
        let pairs = a.iter().flat_map(|x| b.iter().map(move |y| x > y)).filter(|over| *over).count();
        prop_assert_eq!(found.u, pairs as f64);
        let greater = pairs.max(a.len() * b.len() - pairs);
        prop_assert!((found.p - counted(a.len(), b.len(), greater)).abs() < 1e-12);
    }

    #[test]
    fn sides_may_be_exchanged(a in prop::collection::vec(0u8..20, 1..30), b in prop::collection::vec(0u8..20, 1..30)) {
        let (a, b): (Vec<f64>, Vec<f64>) = (a.into_iter().map(f64::from).collect(), b.into_iter().map(f64::from).collect());
        let (one, other) = (mann_whitney(&a, &b).expect("values"), mann_whitney(&b, &a).expect("values"));
        prop_assert!((one.p - other.p).abs() < 1e-12 && one.p > 0.0 && one.p <= 1.0);
        prop_assert_eq!(one.u + other.u, (a.len() * b.len()) as f64);
    }
}
