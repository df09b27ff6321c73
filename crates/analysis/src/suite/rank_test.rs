//! Whether two samples differ: the Mann-Whitney U test, and many such tests at one time.

use serde::Serialize;
use statrs::function::erf::erfc;

use crate::stats::StatsError;

/// Products of both sizes up to which the exact distribution is counted out. Its greatest count,
/// 40 over 20, is a whole number in an `f64`.
const EXACT_UP_TO: usize = 400;

/// The result of a Mann-Whitney U test, two-sided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankTest {
    /// Pairs in which the first side's value is the greater; a tie counts half.
    pub u: f64,
    /// Chance of a difference at least as great between samples of one distribution.
    pub p: f64,
    /// Whether `p` was counted out; otherwise it is the normal approximation, with corrections
    /// for ties and continuity.
    pub exact: bool,
}

/// Tests whether the values of `a` tend to be greater or smaller than those of `b`.
///
/// # Errors
/// [`StatsError`] when a side is empty or holds a value that is not finite.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Result<RankTest, StatsError> {
    if a.is_empty() || b.is_empty() {
        return Err(StatsError::Empty);
    }
    let mut all: Vec<(f64, bool)> = Vec::with_capacity(a.len() + b.len());
    all.extend(a.iter().map(|value| (*value, true)));
    all.extend(b.iter().map(|value| (*value, false)));
    if let Some(place) = all.iter().position(|(value, _)| !value.is_finite()) {
        let value = all[place].0;
        return Err(StatsError::NotFinite { place, value });
    }
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let (rank_sum, ties) = ranked(&all);
    let (n1, n2) = (a.len() as f64, b.len() as f64);
    let u = rank_sum - n1 * (n1 + 1.0) / 2.0;
    let greater = u.max(n1 * n2 - u);
    let exact = ties == 0.0 && a.len() * b.len() <= EXACT_UP_TO;
    let p = if exact {
        tail(a.len(), b.len(), greater as usize)
    } else {
        normal(n1, n2, greater, ties)
    };
    Ok(RankTest { u, p, exact })
}

/// Sum of the ranks of the first side, ties sharing the mean of theirs; and the sum of t³ − t
/// over all groups of t equal values.
fn ranked(all: &[(f64, bool)]) -> (f64, f64) {
    let (mut rank_sum, mut ties) = (0.0, 0.0);
    let mut at = 0;
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let size = group.len() as f64;
        let rank = at as f64 + (size + 1.0) / 2.0;
        rank_sum += rank * group.iter().filter(|(_, first)| *first).count() as f64;
        ties += size.powi(3) - size;
        at += group.len();
    }
    (rank_sum, ties)
}

/// Twice the chance that U is at least `u`, of all orders of the values without ties.
fn tail(n1: usize, n2: usize, u: usize) -> f64 {
    // How many orders give each U: the coefficients of the Gaussian binomial, of which each step
    // multiplies by (1 - x^(n2 + i)) and divides by (1 - x^i).
    let mut orders = vec![0.0f64; n1 * n2 + 1];
    orders[0] = 1.0;
    for i in 1..=n1 {
        for at in (n2 + i..orders.len()).rev() {
            orders[at] -= orders[at - n2 - i];
        }
        for at in i..orders.len() {
            orders[at] += orders[at - i];
        }
    }
    let all: f64 = orders.iter().sum();
    let at_least: f64 = orders[u.min(n1 * n2)..].iter().sum();
    (2.0 * at_least / all).min(1.0)
}

fn normal(n1: f64, n2: f64, u: f64, ties: f64) -> f64 {
    let n = n1 + n2;
    let variance = n1 * n2 / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        // All values are equal.
        return 1.0;
    }
    let z = (u - n1 * n2 / 2.0 - 0.5) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2).min(1.0)
}

/// The p-values as Benjamini and Hochberg adjust them: where all that are at most `q` are called
/// findings, the expected share of false ones among the findings is at most `q`.
#[must_use]
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|x, y| p[*x].total_cmp(&p[*y]));
    let mut out = vec![1.0; p.len()];
    let mut least = 1.0f64;
    for (place, index) in order.into_iter().enumerate().rev() {
        least = least.min(p[index] * p.len() as f64 / (place + 1) as f64);
        out[index] = least;
    }
    out
}
