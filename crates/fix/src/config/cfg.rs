//! QuickFIX's format of settings: sections of lines.

use super::fields::{Entry, Raw, Section};
use sidestep_sys::Problem;

/// Splits the text into sections. Values are kept as they are, `#` included: only whole lines are comments.
pub(super) fn parse(text: &str, name: &str) -> Result<Raw, Problem> {
    let mut raw = Raw::default();
    let mut in_session = None;
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let (number, line) = (number + 1, line.trim());
        let wrong = |why: &str| Problem::usage(format!("{name}, line {number}"), why);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[') {
            let heading = heading.strip_suffix(']').unwrap_or(heading).trim();
            if heading.eq_ignore_ascii_case("session") {
                raw.sessions.push(Section { line: number, entries: Vec::new() });
                in_session = Some(true);
            } else if heading.eq_ignore_ascii_case("default") {
                in_session = Some(false);
            } else {
                return Err(wrong(&format!("there is no section [{heading}]")).next("use [DEFAULT] and [SESSION]"));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(wrong("it is neither a section nor Key=Value").next("comments begin with #"));
        };
        let entry = Entry { key: key.trim().to_owned(), value: value.trim().to_owned(), line: number };
        match (in_session, raw.sessions.last_mut()) {
            (Some(true), Some(session)) => session.entries.push(entry),
            (Some(_), _) => raw.default.entries.push(entry),
            (None, _) => return Err(wrong("it stands before any section").next("begin with [DEFAULT] or [SESSION]")),
        }
    }
    Ok(raw)
}
