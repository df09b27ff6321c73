//! One self-contained HTML page about a run.
//!
//! The page holds its style and its charts itself: it has no script, refers to no other file and
//! tells the browser to fetch none. All text from records and callers is escaped. The page is
//! also well-formed XML, so that other tools can read it.

pub mod fabric;
mod page;
mod paper;
mod scale;
mod scatter;
mod stages;
mod staircase;
pub mod suite;
mod svg;
mod tables;
mod tails;
#[cfg(test)]
mod tests;
mod thin;
pub mod tiers;
mod view;
mod walls;

use crate::epochs::Window;
use crate::run::Run;

/// What a report says besides what the records hold.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportOptions {
    /// Heading of the page.
    pub title: String,
    /// The compute window that waits are judged by.
    pub window: Window,
    /// The path that others are compared with; chosen as in [`Run::baseline`] when `None`.
    pub baseline: Option<String>,
    /// What a reader must not conclude, one sentence each.
    pub not_shown: Vec<String>,
    /// Whether the figures of the reference study stand beside the run's own.
    pub reference: bool,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            title: "Forebay: training run".into(),
            window: Window::OwnEpoch,
            baseline: None,
            not_shown: Vec::new(),
            reference: true,
        }
    }
}

/// Renders the page.
#[must_use]
pub fn render(run: &Run, options: &ReportOptions) -> String {
    page::render(&view::View::new(run, options), options)
}
