//! `sidestep fix sessions` and `sidestep fix reset`.

use crate::args_fix::{Reset, Sessions};
use crate::{exit, output};
use serde::Deserialize;
use sidestep_fix::engine::ask;
use sidestep_sys::Problem;
use std::fmt::Write;

/// One session in the answer of an engine.
#[derive(Debug, Deserialize)]
struct Row {
    session: String,
    phase: String,
    peer: String,
    next_outbound: u64,
    next_inbound: u64,
    sent: u64,
    received: u64,
    last_error: String,
}

pub(super) fn sessions(args: &Sessions) -> Result<u8, Problem> {
    let answer = ask(&args.admin, "sessions")?;
    output::print(&if args.json { answer } else { table(&answer)? })?;
    Ok(exit::GOOD)
}

pub(super) fn reset(args: &Reset) -> Result<u8, Problem> {
    let request = match (args.outbound, args.inbound) {
        (Some(outbound), Some(inbound)) => format!("set {} {outbound} {inbound}", args.session),
        _ => format!("reset {}", args.session),
    };
    output::print(&table(&ask(&args.admin, &request)?)?)?;
    Ok(exit::GOOD)
}

fn table(lines: &str) -> Result<String, Problem> {
    let mut text = format!(
        "{:<32} {:<15} {:>10} {:>10} {:>12} {:>12}  {}\n",
        "session", "phase", "next out", "next in", "sent", "received", "peer"
    );
    for line in lines.lines() {
        let row: Row = serde_json::from_str(line).map_err(|error| Problem::failed("cannot read the answer", error))?;
        let _ = write!(
            text,
            "{:<32} {:<15} {:>10} {:>10} {:>12} {:>12}  {}",
            row.session, row.phase, row.next_outbound, row.next_inbound, row.sent, row.received, row.peer
        );
        if !row.last_error.is_empty() {
            let _ = write!(text, " ({})", row.last_error);
        }
        text.push('\n');
    }
    Ok(text)
}
