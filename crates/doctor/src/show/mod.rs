//! The examination for a terminal and for scripts.

mod text;

pub use text::text;

use crate::Examination;
use crate::check::{Check, Verdict};
use serde::Serialize;
use sidestep_sys::Problem;

/// The version of the document.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'e> {
    schema: u32,
    tool: Tool,
    verdicts: &'e [Verdict],
    checks: &'e [Check],
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// The style of the text.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Set if escape sequences for colour may be used.
    pub colour: bool,
    /// Characters in a line.
    pub width: usize,
}

/// Returns it as JSON, ending in a newline.
///
/// # Errors
/// Fails if it cannot be written as JSON.
pub fn json(examination: &Examination) -> Result<String, Problem> {
    let document = Document {
        schema: SCHEMA,
        tool: Tool { name: "sidestep", version: env!("CARGO_PKG_VERSION") },
        verdicts: &examination.verdicts,
        checks: &examination.checks,
    };
    let text = serde_json::to_string_pretty(&document).map_err(|error| {
        Problem::failed("cannot write the checks", error).next("leave --json out to see them as text")
    })?;
    Ok(text + "\n")
}
