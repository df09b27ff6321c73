//! Points of a series at which its level changed: E-divisive means in sliding windows, accepted
//! by Student's t-test and merged from the weakest up.
//!
//! The method is that of Matteson and James (arXiv 1306.4933) as Hunter, now Apache Otava,
//! applies it (arXiv 2301.03034): the same series gives the same points every time. The variance
//! of a part is the unbiased one here, so a part of very few points is judged a little more
//! carefully than Otava does.

use serde::Serialize;
use statrs::function::beta::beta_reg;

/// How to look for changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DivisiveOptions {
    /// Points that are looked at together; windows overlap by half.
    pub window: usize,
    /// Chance of a change without a cause that is accepted, at each point.
    pub max_p: f64,
    /// The least relative change that is kept.
    pub least_effect: f64,
}

impl Default for DivisiveOptions {
    /// Windows of 50, p below 0.001, 5 % least effect.
    fn default() -> Self {
        Self {
            window: 50,
            max_p: 0.001,
            least_effect: 0.05,
        }
    }
}

/// A place at which the level of a series changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChangePoint {
    /// Place of the first value of the new level, from 0.
    pub index: usize,
    /// Mean from the change before it up to here.
    pub before: f64,
    /// Mean from here to the change after it.
    pub after: f64,
    /// Chance of such a difference between parts of one distribution.
    pub p: f64,
}

impl ChangePoint {
    /// The relative change: 0.3 for 30 % more than before. Infinite where it was 0 before.
    #[must_use]
    pub fn relative(&self) -> f64 {
        self.after / self.before - 1.0
    }

    /// The relative change seen from its smaller side, so that a fall and a rise count alike.
    fn magnitude(&self) -> f64 {
        let back = (self.before / self.after - 1.0).abs();
        self.relative().abs().max(back)
    }
}

/// The places at which the series changed its level, ascending. Values that are not finite make
/// no change; a window below 4 counts as 4.
#[must_use]
pub fn change_points(series: &[f64], options: &DivisiveOptions) -> Vec<ChangePoint> {
    let window = options.window.max(4);
    // The first pass lets weak points through, which the second judges beside their neighbours.
    let weak_p = (options.max_p * 10.0).min(0.5);
    let mut places: Vec<usize> = Vec::new();
    let mut start = 0;
    while start < series.len() {
        let end = (start + window).min(series.len());
        let found = divide(&series[start..end], weak_p);
        let last = found.last().map_or(0, |place| place + start);
        places.extend(found.into_iter().map(|place| place + start));
        start = last.max(start + window / 2);
    }
    places.sort_unstable();
    places.dedup();
    merge(series, places, options)
}

/// Divides a window where it parts best, then its parts, until the best is no change.
fn divide(window: &[f64], max_p: f64) -> Vec<usize> {
    let distances = Distances::new(window);
    let mut places: Vec<usize> = Vec::new();
    loop {
        let mut bounds = vec![0];
        bounds.extend(&places);
        bounds.push(window.len());
        let best = bounds
            .windows(2)
            .filter_map(|part| Some((distances.best(part[0], part[1])?, part[0], part[1])))
            .reduce(|best, next| if next.0.1 > best.0.1 { next } else { best });
        let Some(((place, _), start, end)) = best else {
            return places;
        };
        if t_test(&window[start..place], &window[place..end]) > max_p {
            return places;
        }
        places.push(place);
        places.sort_unstable();
    }
}

/// Drops the weakest place until all are significant and large enough.
fn merge(series: &[f64], mut places: Vec<usize>, options: &DivisiveOptions) -> Vec<ChangePoint> {
    loop {
        let points = measured(series, &places);
        let weakest = points
            .iter()
            .enumerate()
            .max_by(|(_, x), (_, y)| x.p.total_cmp(&y.p))
            .filter(|(_, point)| point.p >= options.max_p);
        let smallest = points
            .iter()
            .enumerate()
            .min_by(|(_, x), (_, y)| x.magnitude().total_cmp(&y.magnitude()))
            .filter(|(_, point)| point.magnitude() <= options.least_effect);
        match weakest.or(smallest) {
            Some((nth, _)) => places.remove(nth),
            None => return points,
        };
    }
}

fn measured(series: &[f64], places: &[usize]) -> Vec<ChangePoint> {
    let bound = |nth: usize| places.get(nth).copied().unwrap_or(series.len());
    let point = |(nth, place): (usize, &usize)| {
        let start = nth.checked_sub(1).map_or(0, bound);
        let (before, after) = (&series[start..*place], &series[*place..bound(nth + 1)]);
        ChangePoint {
            index: *place,
            before: mean(before),
            after: mean(after),
            p: t_test(before, after),
        }
    };
    places.iter().enumerate().map(point).collect()
}

/// Sums of the distances between the values of a window, so that any pair of parts is compared
/// in constant time.
struct Distances {
    n: usize,
    /// At `(i, j)`: the sum of all distances between the first `i` and the first `j` values.
    sums: Vec<f64>,
}

impl Distances {
    fn new(values: &[f64]) -> Self {
        let n = values.len();
        let mut sums = vec![0.0; (n + 1) * (n + 1)];
        for i in 0..n {
            for j in 0..n {
                let distance = (values[i] - values[j]).abs();
                sums[(i + 1) * (n + 1) + j + 1] =
                    distance + sums[i * (n + 1) + j + 1] + sums[(i + 1) * (n + 1) + j]
                        - sums[i * (n + 1) + j];
            }
        }
        Self { n, sums }
    }

    /// The sum of all distances from a value of one range to a value of the other.
    fn between(&self, (a, b): (usize, usize), (c, d): (usize, usize)) -> f64 {
        let at = |i: usize, j: usize| self.sums[i * (self.n + 1) + j];
        at(b, d) - at(a, d) - at(b, c) + at(a, c)
    }

    /// The place that parts `[start, end)` best, and how well: over every place and every end of
    /// the second part, the distance between the parts less the distances within them.
    fn best(&self, start: usize, end: usize) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for place in start + 1..end {
            for stop in place + 1..=end {
                let apart = self.apart(start, place, stop);
                if apart.is_finite() && best.is_none_or(|(_, most)| apart > most) {
                    best = Some((place, apart));
                }
            }
        }
        best
    }

    fn apart(&self, start: usize, place: usize, stop: usize) -> f64 {
        let (n, m) = ((place - start) as f64, (stop - place) as f64);
        let (first, second) = ((start, place), (place, stop));
        // Each pair within a part is counted twice in `between`.
        let within = |part, size: f64| match size {
            1.0 => 0.0,
            size => self.between(part, part) / 2.0 / (size - 1.0),
        };
        2.0 / (m + n) * (self.between(first, second) - m * within(first, n) - n * within(second, m))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Student's t-test of two parts with one variance, two-sided.
fn t_test(a: &[f64], b: &[f64]) -> f64 {
    let (n1, n2) = (a.len() as f64, b.len() as f64);
    let freedom = n1 + n2 - 2.0;
    if freedom < 1.0 {
        return 1.0;
    }
    let (m1, m2) = (mean(a), mean(b));
    let squares = |values: &[f64], mean: f64| -> f64 {
        values.iter().map(|value| (value - mean).powi(2)).sum()
    };
    let variance = (squares(a, m1) + squares(b, m2)) / freedom;
    let t_squared = (m1 - m2).powi(2) / (variance * (1.0 / n1 + 1.0 / n2));
    if t_squared.is_nan() {
        // Both parts are one and the same value, or a value is not finite.
        return 1.0;
    }
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t_squared))
}
