//! Where the time of an iteration goes: the mean of each stage, stacked.

use super::scale::{Axis, Frame, time_label};
use super::svg::{Anchor, Svg};
use super::view::View;
use crate::epochs::sorted;
use crate::record::Timing;
use crate::run::Series;
use crate::text;

/// Rows that are drawn: beyond it the table has to do.
const MAX_ROWS: usize = 24;

/// Name and class of each stage, in the order in which an iteration runs.
pub(super) const STAGES: [(&str, &str); 6] = [
    ("DataLoader wait", "t0"),
    ("copy to device", "t1"),
    ("forward", "t2"),
    ("backward", "t3"),
    ("optimizer", "t4"),
    ("rest", "t5"),
];

/// The chart; `None` where no stage but the wait was recorded, or where it would be too tall.
pub(super) fn chart(view: &View<'_>) -> Option<String> {
    let mut rows = view.drawn();
    rows.sort_by_key(|one| one.epoch());
    let recorded = |one: &&Series| means(one)[1..5].iter().any(|mean| *mean > 0.0);
    if rows.len() > MAX_ROWS || !rows.iter().any(recorded) {
        return None;
    }
    const ROW: f64 = 34.0;
    let label = "Mean time of each stage of an iteration, for each path and epoch";
    let height = ROW * rows.len() as f64;
    let mut svg = Svg::new(1000.0, height + 60.0, label);
    let longest = rows.iter().map(|one| mean_total(one)).fold(0.0, f64::max);
    let frame = Frame {
        left: 190.0,
        top: 10.0,
        width: 720.0,
        height,
        x: Axis::linear(longest),
        y: Axis::linear(1.0),
    };
    for tick in frame.x.ticks() {
        let x = frame.x_at(tick);
        svg.line("grid", (x, frame.top), (x, frame.bottom()));
    }
    frame.draw_x(&mut svg, time_label);
    for (place, one) in rows.iter().enumerate() {
        row(&mut svg, &frame, one, frame.top + ROW * place as f64, ROW);
    }
    Some(svg.finish())
}

fn row(svg: &mut Svg, frame: &Frame, series: &Series, top: f64, height: f64) {
    let (path, epoch) = (series.path(), series.epoch());
    let middle = top + height / 2.0 + 4.0;
    let name = format!("{}, epoch {epoch}", text::clip(path, 12));
    svg.text("name", (frame.left - 10.0, middle), Anchor::End, &name);
    let mut start = 0.0;
    for (mean, (stage, class)) in means(series).into_iter().zip(STAGES) {
        let (left, right) = (frame.x_at(start), frame.x_at(start + mean));
        start += mean;
        if mean > 0.0 {
            let title = format!("{path}, epoch {epoch}, {stage}: {}", text::duration(mean));
            let size = (right - left, height - 10.0);
            svg.rect(&format!("stage {class}"), (left, top + 5.0), size, &title);
        }
    }
    let at = (frame.x_at(start) + 8.0, middle);
    svg.text(
        "value",
        at,
        Anchor::Start,
        &text::duration(mean_total(series)),
    );
}

fn mean_total(series: &Series) -> f64 {
    sorted(series, |timing| timing.total_s).mean()
}

/// The mean of each stage in seconds, in the order of [`STAGES`]. A stage that was not recorded
/// is part of the rest.
fn means(series: &Series) -> [f64; 6] {
    let stages: [fn(&Timing) -> f64; 5] = [
        |timing| timing.wait_s,
        |timing| timing.h2d_s.unwrap_or(0.0),
        |timing| timing.forward_s.unwrap_or(0.0),
        |timing| timing.backward_s.unwrap_or(0.0),
        |timing| timing.optimizer_s.unwrap_or(0.0),
    ];
    let known = stages.map(|stage| sorted(series, stage).mean());
    let rest = (mean_total(series) - known.iter().sum::<f64>()).max(0.0);
    let [wait, h2d, forward, backward, optimizer] = known;
    [wait, h2d, forward, backward, optimizer, rest]
}
