//! Progress of a run on stderr: a line that changes on a terminal, lines of JSON elsewhere.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use forebay_bench::launch::Event;
use forebay_bench::spec::RunSpec;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

pub(super) struct Screen {
    benchmark: String,
    run_id: String,
    bar: Option<ProgressBar>,
}

impl Screen {
    pub(super) fn new(spec: &RunSpec) -> Self {
        let total = (u64::from(spec.warmup) + u64::from(spec.iterations)) * u64::from(spec.ranks);
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total);
            let template = "{prefix} {wide_bar} {pos}/{len} iterations, {elapsed}, {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(spec.benchmark.clone());
            bar.set_message("set up");
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self {
            benchmark: spec.benchmark.clone(),
            run_id: spec.run_id.clone(),
            bar,
        }
    }

    pub(super) fn show(&mut self, event: Event) {
        match (&self.bar, event) {
            (_, Event::Named { run_id }) => self.run_id = run_id,
            (Some(bar), Event::Iteration { rank, wall_ns, .. }) => {
                bar.inc(1);
                bar.set_message(format!("rank {rank}: {:.1} ms", wall_ns as f64 / 1e6));
            }
            (Some(bar), Event::Said { rank, line }) => bar.println(format!("rank {rank}: {line}")),
            (
                None,
                Event::Iteration {
                    rank,
                    iteration,
                    of,
                    wall_ns,
                },
            ) => self.say(&json!({
                "benchmark": self.benchmark, "run_id": self.run_id, "rank": rank,
                "iteration": iteration, "of": of, "wall_ns": wall_ns,
            })),
            (None, Event::Said { rank, line }) => self.say(&json!({
                "benchmark": self.benchmark, "run_id": self.run_id, "rank": rank, "said": line,
            })),
        }
    }

    fn say(&self, line: &serde_json::Value) {
        // In one piece: ranks of a launcher share one stderr. A reader of progress that has gone must
        // not end the run.
        let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
