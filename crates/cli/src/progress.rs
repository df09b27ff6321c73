//! Progress of long work on stderr, where someone looks at it.

use std::io::IsTerminal;
use std::sync::Mutex;

use forebay_indexer::{Progress, Stage};
use indicatif::{ProgressBar, ProgressStyle};

/// A bar on a terminal; silence elsewhere.
#[derive(Default)]
pub(crate) struct Bar {
    current: Mutex<Option<ProgressBar>>,
}

impl Progress for Bar {
    fn begin(&self, stage: Stage, total: u64) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let (name, units) = match stage {
            Stage::List => ("listing", "{pos} files"),
            Stage::Scan => ("scanning", "{pos}/{len} files"),
            Stage::Write => ("writing", "{pos}/{len} samples"),
            Stage::Check => ("comparing", "{pos}/{len} files"),
            Stage::Read => ("reading", "{pos}/{len} samples"),
            Stage::Copy => ("copying", "{bytes}/{total_bytes} ({bytes_per_sec})"),
        };
        let template = match stage {
            Stage::List => format!("{name} {{spinner}} {units}"),
            _ => format!("{name} {{wide_bar}} {units}, {{eta}} left"),
        };
        let style = ProgressStyle::with_template(&template);
        let bar = ProgressBar::new(total);
        if let Ok(style) = style {
            bar.set_style(style);
        }
        let previous = self.lock().replace(bar);
        previous.iter().for_each(ProgressBar::finish_and_clear);
    }

    fn advance(&self, units: u64) {
        if let Some(bar) = &*self.lock() {
            bar.inc(units);
        }
    }
}

impl Bar {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.current
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.lock().iter().for_each(ProgressBar::finish_and_clear);
    }
}
