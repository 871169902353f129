//! Faults of a schema, with their place.

use sidestep_sys::Problem;

/// What is wrong, and where.
#[derive(Debug)]
pub(crate) struct Fault {
    line: usize,
    element: String,
    why: String,
    next: &'static str,
}

impl Fault {
    /// A fault in the element that begins in this line.
    pub(crate) fn new(line: usize, element: impl Into<String>, why: impl Into<String>, next: &'static str) -> Self {
        Self { line, element: element.into(), why: why.into(), next }
    }

    /// As users see it.
    pub(crate) fn problem(&self, file: &str) -> Problem {
        let Self { line, element, why, next } = self;
        let place = if element.is_empty() { format!("line {line}") } else { format!("line {line}, {element}") };
        Problem::usage(format!("cannot use the SBE schema {file}"), format!("{place}: {why}")).next(*next)
    }
}
