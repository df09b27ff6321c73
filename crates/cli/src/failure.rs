//! How a command fails: what happened to which thing, why, and a hint when there is one.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// A command that did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    usage: bool,
}

impl Failure {
    /// A failure in words.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            usage: false,
        }
    }

    /// The request itself was wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            usage: true,
            ..Self::new(message)
        }
    }

    /// A way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure, as one of the request: for commands whose exit code 1 says something else.
    pub(crate) fn into_usage(mut self) -> Self {
        self.usage = true;
        self
    }

    /// The same failure, and what it is about.
    pub(crate) fn of(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// What happened, without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Prints it and gives the exit code.
    pub(crate) fn show(&self) -> ExitCode {
        eprintln!("{self}");
        ExitCode::from(if self.usage { 2 } else { 1 })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl<E: Error> From<E> for Failure {
    /// The error and its causes, each once.
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self::new(message)
    }
}
