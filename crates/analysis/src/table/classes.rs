//! The I/O time of processes by class.

use super::table;
use crate::text;
use crate::tiers::darshan::OtherFile;
use crate::tiers::{Named, Point, Study};

/// The processes of a study with their seconds by class, the `top` slowest of each epoch, and
/// where the time of the slowest goes.
#[must_use]
pub fn classes(study: &Study, top: usize) -> String {
    let mut out = String::new();
    for setup in &study.setups {
        for point in &setup.points {
            let rate = point.rate.map(|rate| format!("{rate} on the local tier"));
            let name = (!setup.name.is_empty()).then(|| text::printable(&setup.name));
            let heads: Vec<String> = name.into_iter().chain(rate).collect();
            if !heads.is_empty() {
                out.push_str(&format!("{}\n", heads.join(", ")));
            }
            for epoch in point.table.epochs() {
                out.push_str(&processes(point, epoch, top));
            }
        }
    }
    out
}

/// The `top` files of no tier with the most seconds; nothing where there are none.
#[must_use]
pub fn other(files: &[OtherFile], top: usize) -> String {
    if files.is_empty() {
        return String::new();
    }
    let cells = files.iter().take(top).map(|one| {
        vec![
            text::clip(&text::printable(&one.file), 100),
            seconds(one.seconds),
        ]
    });
    let mut out = String::from("\n")
        + &table(
            &["other: on no tier", "seconds"],
            &cells.collect::<Vec<_>>(),
        );
    if files.len() > top {
        let rest: f64 = files[top..].iter().map(|one| one.seconds).sum();
        let count = text::count(files.len() - top);
        out.push_str(&format!("{count} more files, {} s\n", seconds(rest)));
    }
    out
}

fn processes(point: &Point, epoch: Option<u32>, top: usize) -> String {
    let table_of = &point.table;
    let first = epoch.map_or("process".into(), |epoch| format!("epoch {epoch}, process"));
    let classes = table_of.classes().iter().map(|class| class.name());
    let heads: Vec<&str> = [&*first]
        .into_iter()
        .chain(classes)
        .chain(["total", "other"])
        .collect();
    let rows = table_of.by_time(epoch);
    let cells = rows.iter().take(top).map(|row| {
        let name = text::clip(&text::printable(row.process()), 48);
        let times = row
            .seconds()
            .iter()
            .copied()
            .chain([row.total_s(), row.other_s()]);
        [name].into_iter().chain(times.map(seconds)).collect()
    });
    let mut out = table(&heads, &cells.collect::<Vec<Vec<String>>>());
    if rows.len() > top {
        out.push_str(&format!(
            "{} more processes\n",
            text::count(rows.len() - top)
        ));
    }
    if let Some(slowest) = rows.first() {
        let name = text::printable(slowest.process());
        let total = slowest.total_s();
        let stack = stack(table_of.named(slowest), total);
        out.push_str(&format!(
            "slowest: {name}, {} s = {stack}\n",
            seconds(total)
        ));
    }
    if let Some(wall) = point.execution_s.get(&epoch) {
        out.push_str(&format!("execution: {} s\n", seconds(*wall)));
    }
    out
}

/// Seconds to the microsecond, as profilers resolve them.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.6}")
}

fn stack(named: Named<'_>, total: f64) -> String {
    let part = |(class, of_class): (_, f64)| {
        let percent = if total > 0.0 {
            100.0 * of_class / total
        } else {
            0.0
        };
        format!("{class} {} ({percent:.1} %)", seconds(of_class))
    };
    named.pairs().map(part).collect::<Vec<_>>().join(" + ")
}
