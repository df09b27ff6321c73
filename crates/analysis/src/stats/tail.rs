//! The tail distribution: how many values exceed x, for every x that matters.

use serde::Serialize;

use super::Sorted;

/// One step of a tail distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TailPoint {
    /// A value that was measured.
    pub x: f64,
    /// How many values are strictly above it.
    pub over: usize,
}

impl Sorted {
    /// The tail distribution in at most `limit` points, ascending in `x` and exact at each of
    /// them. The smallest and the greatest value are always among them; between, points are
    /// spread evenly over the logarithm of the value and over the logarithm of the share, so
    /// that both the body and the last few values keep their shape on log-log axes.
    ///
    /// A `limit` below 2 counts as 2.
    #[must_use]
    pub fn tail(&self, limit: usize) -> Vec<TailPoint> {
        let values = self.values();
        let limit = limit.max(2);
        let last_of_equals = |place: &usize| {
            let place = *place;
            place + 1 == values.len() || values[place] < values[place + 1]
        };
        let steps: Vec<usize> = (0..values.len()).filter(last_of_equals).collect();
        let kept = if steps.len() <= limit {
            steps
        } else {
            thin(values, &steps, limit)
        };
        let point = |place: usize| TailPoint {
            x: values[place],
            over: values.len() - 1 - place,
        };
        kept.into_iter().map(point).collect()
    }
}

/// Chooses at most `limit` of the `steps`, which are ascending places in `values`.
fn thin(values: &[f64], steps: &[usize], limit: usize) -> Vec<usize> {
    let end = steps.len() - 1;
    let half = (limit - 2) / 2;
    let mut chosen = vec![0, end];
    // Values far below the greatest would stretch the scale for nothing that can be seen.
    let high = values[steps[end]];
    let low = values[steps[0]].max(high * 1e-6);
    for i in 1..=half {
        let part = i as f64 / (half + 1) as f64;
        // Even in the logarithm of the number of values above.
        let above = (values.len() as f64).powf(part);
        let place = values.len().saturating_sub(above as usize);
        chosen.push(steps.partition_point(|step| *step < place).min(end));
        if low > 0.0 {
            // Even in the logarithm of the value.
            let x = low * (high / low).powf(part);
            chosen.push(steps.partition_point(|step| values[*step] < x).min(end));
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|choice| steps[choice]).collect()
}
