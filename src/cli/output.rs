//! Where everything is printed: results to standard output, the rest to standard error.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal, Write};

use serde::Serialize;

use super::error::CliError;

/// Standard output and standard error, and what the user wants of them.
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Output {
        Output { json }
    }

    /// Whether results are wanted as JSON.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// Whether a progress bar can be shown.
    pub(super) fn shows_progress(&self) -> bool {
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        std::io::stderr().is_terminal() && !dumb
    }

    /// Prints a result for people.
    pub(super) fn text(&self, text: &str) -> Result<(), CliError> {
        let mut out = anstream::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(closed)
    }

    /// Prints a result as one line of JSON.
    pub(super) fn line(&self, value: &impl Serialize) -> Result<(), CliError> {
        let text = serde_json::to_string(value).map_err(|error| CliError::Output(error.into()))?;
        self.text(&text)
    }

    /// Prints whichever is wanted.
    pub(super) fn result(
        &self,
        json: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        if self.json { self.line(json) } else { self.text(&text()) }
    }

    /// Says what the user may want to know beside the result.
    pub(super) fn note(&self, text: &str) {
        // There is nowhere left to complain if standard error is closed.
        let _ = writeln!(anstream::stderr().lock(), "note: {text}");
    }

    /// Prints an error with its causes and what to do.
    pub(super) fn error(&self, error: &CliError) {
        let mut out = anstream::stderr().lock();
        // There is nowhere left to complain if standard error is closed.
        let _ = writeln!(out, "error: {error}");
        let mut cause = error.source();
        while let Some(found) = cause {
            let _ = writeln!(out, "  cause: {found}");
            cause = found.source();
        }
        if let Some(hint) = error.hint() {
            let _ = writeln!(out, "hint: {hint}");
        }
    }
}

fn closed(error: std::io::Error) -> CliError {
    if error.kind() == ErrorKind::BrokenPipe {
        CliError::ClosedPipe
    } else {
        CliError::Output(error)
    }
}
