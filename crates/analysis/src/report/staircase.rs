//! The curve of a tail: the share of all values that exceed x.

use super::scale::Frame;
use crate::stats::Sorted;

/// A falling staircase of at most `most` steps, from all values at the left edge to none right of
/// the greatest.
pub(super) fn staircase(frame: &Frame, sorted: &Sorted, most: usize) -> Vec<(f64, f64)> {
    let n = sorted.n() as f64;
    let mut level = frame.y_at(1.0);
    let mut points = vec![(frame.left, level)];
    for point in sorted.tail(most) {
        let x = frame.x_at(point.x);
        points.push((x, level));
        level = match point.over {
            0 => frame.bottom(),
            over => frame.y_at(over as f64 / n),
        };
        points.push((x, level));
    }
    points
}
