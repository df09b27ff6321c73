//! One thing that was looked at.

use serde::Serialize;
use serde_json::Value;

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// It is there and works.
    Ok,
    /// It is not there.
    Missing,
    /// It is there, and does not work or may not be used.
    Refused,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Refused => "refused",
        }
    }
}

/// A thing, how it is, why, and the way out.
#[derive(Debug, Serialize)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) state: State,
    /// Forebay does not work without it.
    needed: bool,
    /// What was found, or why it is not as it should be.
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    way_out: Option<String>,
    /// More of it, for programs.
    #[serde(skip_serializing_if = "Value::is_null")]
    details: Value,
}

impl Item {
    fn new(name: impl Into<String>, state: State, reason: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state,
            needed: false,
            reason: reason.into(),
            way_out: None,
            details: Value::Null,
        }
    }

    pub(super) fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(name, State::Ok, found)
    }

    pub(super) fn missing(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(name, State::Missing, why)
    }

    pub(super) fn refused(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(name, State::Refused, why)
    }

    pub(super) fn way_out(mut self, way: impl Into<String>) -> Self {
        self.way_out = Some(way.into());
        self
    }

    pub(super) fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    pub(super) fn details(mut self, details: impl Serialize) -> Self {
        // What is no JSON is not shown: words say it already.
        self.details = serde_json::to_value(details).unwrap_or_default();
        self
    }

    /// True for what Forebay needs and has not.
    pub(super) fn is_broken(&self) -> bool {
        self.needed && self.state != State::Ok
    }

    pub(super) fn words(&self) -> String {
        let reason = self.reason.trim_end().replace('\n', "\n           ");
        let mut text = format!("  {:<8} {}: {reason}\n", self.state.word(), self.name);
        if let Some(way) = &self.way_out {
            text.push_str(&format!("           way out: {way}\n"));
        }
        text
    }
}
