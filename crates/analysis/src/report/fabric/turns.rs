//! Every all-reduce of one tier, its phases taking turns.

use crate::fabric::Contention;
use crate::report::scale::{Axis, Frame, time_label};
use crate::report::svg::{Anchor, Svg};
use crate::report::thin;
use crate::text;

/// Dots of one phase.
const MAX_DOTS: usize = 4_000;

pub(super) fn chart(one: &Contention) -> String {
    let name = format!(
        "{}, {}",
        text::clip(&one.tier, 48),
        text::bytes(one.message_bytes)
    );
    let mut svg = Svg::new(1000.0, 240.0, &format!("All-reduces beside {name}"));
    let (base, loaded) = placed(one);
    let values = base.iter().chain(&loaded).map(|point| point.1);
    let frame = Frame {
        left: 84.0,
        top: 36.0,
        width: 880.0,
        height: 160.0,
        x: Axis::linear((base.len() + loaded.len()).max(1) as f64),
        y: Axis::log(values),
    };
    frame.draw_title(&mut svg, &name);
    frame.draw_y(&mut svg, time_label);
    frame.draw_x(&mut svg, |tick| text::count(tick.round() as usize));
    // Dots that stand far apart may be large.
    let few = base.len() + loaded.len() <= 1_000;
    let size = if few { " few" } else { "" };
    for (colour, points) in [("s1", &base), ("s0", &loaded)] {
        let heights: Vec<f64> = points.iter().map(|point| point.1).collect();
        let kept = thin::keep(&heights, MAX_DOTS);
        let at = |place: usize| frame.at(points[place].0, points[place].1);
        let dots: Vec<(f64, f64)> = kept.into_iter().map(at).collect();
        svg.dots(&format!("dots {colour}{size}"), &dots);
    }
    if let Some(sorted) = one.baseline.sorted() {
        let y = frame.y_at(sorted.median());
        svg.line("window", (frame.left, y), (frame.right(), y));
    }
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 38.0);
    svg.text(
        "label",
        below,
        Anchor::Middle,
        "all-reduce, in the order measured",
    );
    svg.finish()
}

type Points = Vec<(f64, f64)>;

/// Both phases with their places: round by round, the baseline first.
fn placed(one: &Contention) -> (Points, Points) {
    let (mut base, mut loaded) = (Points::new(), Points::new());
    let mut place = 0.0;
    let rounds = one.baseline.rounds().len().max(one.loaded.rounds().len());
    for round in 0..rounds {
        for (turns, points) in [(&one.baseline, &mut base), (&one.loaded, &mut loaded)] {
            for value in turns.rounds().get(round).into_iter().flatten() {
                points.push((place + 0.5, *value));
                place += 1.0;
            }
        }
    }
    (base, loaded)
}
