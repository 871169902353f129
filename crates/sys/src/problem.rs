//! The one error that a user sees: the thing, the reason, the next step.

use crate::printable::is_printable;
use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};

/// The kind of a [`Problem`], which selects the program's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operation failed: exit code 1.
    Failed,
    /// The request itself is wrong: exit code 2.
    Usage,
    /// Too few samples for the answer asked for: exit code 5.
    NotEnoughData,
    /// Interrupted by the user (Ctrl-C): exit code 130, as a shell reports SIGINT.
    Interrupted,
}

/// An error: the thing, the reason, the next step.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: Kind,
    what: String,
    why: String,
    next: String,
    errno: Option<i32>,
}

impl Problem {
    /// Makes an error: `what` names the thing ("cannot connect to 10.0.0.2:7411"), `why` the reason ("connection
    /// refused").
    pub fn new(kind: Kind, what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { kind, what: what.into(), why: why.to_string(), next: String::new(), errno: None }
    }

    /// Makes a failure: exit code 1.
    pub fn failed(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(Kind::Failed, what, why)
    }

    /// Makes an error of usage: exit code 2.
    pub fn usage(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(Kind::Usage, what, why)
    }

    /// Adds the next step ("start it there with: sidestep bench serve").
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = next.into();
        self
    }

    /// Adds the errno of the system call that failed, for callers that speak errno (the C ABI, intercepted calls).
    #[must_use]
    pub fn errno(mut self, errno: impl Into<Option<i32>>) -> Self {
        self.errno = errno.into();
        self
    }

    /// The errno, if the reason was a failed system call.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno
    }

    /// The kind, which decides the exit code.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The next step; empty if there is none.
    pub fn next_step(&self) -> &str {
        &self.next
    }

    /// Thing and reason on one line, for a table row or a log line.
    pub fn brief(&self) -> String {
        format!("{}: {}", self.what, self.why)
    }

    /// Thing, reason and next step on one line, for a log line.
    pub fn line(&self) -> String {
        if self.next.is_empty() { self.brief() } else { format!("{}; next: {}", self.brief(), self.next) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if !self.next.is_empty() {
            write!(f, "\n  next: {}", self.next)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Writes a line to standard error. A failure to write is ignored, whereas `eprintln` panics.
pub fn say(text: impl fmt::Display) {
    let text = text.to_string();
    // Names and reasons can come from any source.
    let clean: String = text.chars().map(|c| if c == '\n' || is_printable(c) { c } else { '?' }).collect();
    let _ = writeln!(io::stderr(), "sidestep: {clean}");
}

thread_local! {
    static NOTES: Cell<bool> = const { Cell::new(true) };
}

/// Writes a line about normal progress, unless the calling thread has switched that off.
pub fn note(text: impl fmt::Display) {
    if NOTES.get() {
        say(text);
    }
}

/// Switches [`note`] off for the calling thread, so that it reports only errors ([`say`]): it serves a program whose
/// user asked for something else.
pub fn disable_notes() {
    NOTES.set(false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_thing_reason_and_next_step() {
        let problem = Problem::failed("cannot read a.json", "no such file").next("check the path");
        assert_eq!(problem.to_string(), "cannot read a.json: no such file\n  next: check the path");
        assert_eq!(problem.brief(), "cannot read a.json: no such file");
        assert_eq!(problem.line(), "cannot read a.json: no such file; next: check the path");
        assert_eq!(Problem::failed("a", "b").line(), "a: b");
        assert_eq!(problem.kind(), Kind::Failed);
        assert_eq!(problem.raw_os_error(), None);
        let error = io::Error::from_raw_os_error(libc::EADDRINUSE);
        assert_eq!(problem.errno(error.raw_os_error()).raw_os_error(), Some(libc::EADDRINUSE));
    }
}
