//! `sidestep ring stat`: of a ring, and of an array of records.

use crate::{args, exit, output};
use serde_json::{Value, json};
use sidestep_ring::{Flow, Holder, Kind, Stat, seqlock};
use sidestep_sys::Problem;
use std::fmt::Write;
use std::path::Path;

pub(super) fn run(args: &args::RingStat) -> Result<u8, Problem> {
    let (json, text) = match super::open(&args.file, args.ring) {
        Ok(ring) => both(&args.file, &ring.stat(), as_json, as_text),
        // A file has one array.
        Err(problem) if args.ring > 0 => return Err(problem),
        Err(problem) => match seqlock::stat(&args.file)? {
            Some(array) => both(&args.file, &array, array_as_json, array_as_text),
            None => return Err(problem),
        },
    };
    match &args.json {
        Some(path) => output::write(path, &format!("{json:#}\n"))?,
        None => output::print(&text)?,
    }
    Ok(exit::GOOD)
}

fn both<T>(
    file: &Path,
    stat: &T,
    json: impl Fn(&Path, &T) -> Value,
    text: impl Fn(&Path, &T) -> String,
) -> (Value, String) {
    (json(file, stat), text(file, stat))
}

fn as_json(file: &Path, stat: &Stat) -> Value {
    let is_spsc = stat.kind == Kind::Spsc;
    json!({
        "file": file.display().to_string(),
        "kind": stat.kind.to_string(),
        "capacity_bytes": stat.capacity_bytes,
        "cell_bytes": stat.cell_bytes,
        "message_bytes_max": stat.message_bytes_max,
        "written": flow_json(stat.written),
        "read": is_spsc.then(|| flow_json(stat.read)),
        "dropped": stat.dropped,
        "abandoned": stat.abandoned,
        "lost": stat.lost,
        "kernel_writes": stat.is_foreign,
        "writer": holder_json(&stat.writer),
        "reader": is_spsc.then(|| holder_json(&stat.reader)),
        "fault": stat.fault.map(|fault| fault.to_string()),
    })
}

fn flow_json(flow: Flow) -> Value {
    json!({ "messages": flow.messages, "bytes": flow.bytes, "cells": flow.cells })
}

fn holder_json(holder: &Holder) -> Value {
    json!({
        "pid": holder.process.map(|process| process.pid),
        "alive": holder.is_alive,
        "closed": holder.is_closed,
        "sleeps": holder.sleeps,
        "beat_age_ns": holder.beat_age.map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)),
    })
}

fn as_text(file: &Path, stat: &Stat) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {} ring of {} bytes in cells of {}, messages up to {} bytes",
        file.display(),
        stat.kind,
        stat.capacity_bytes,
        stat.cell_bytes,
        stat.message_bytes_max
    );
    let _ = writeln!(text, "written    {}", flow(stat.written));
    if stat.kind == Kind::Spsc {
        let _ = writeln!(text, "read       {}", flow(stat.read));
        // The two sides were not read at the same instant.
        let _ = writeln!(text, "unread     {} messages", stat.written.messages.saturating_sub(stat.read.messages));
    }
    let _ = writeln!(text, "dropped    {} that could not be published", stat.dropped);
    let _ = writeln!(text, "abandoned  {} begun by writers that died", stat.abandoned);
    let _ = writeln!(text, "lost       {} skipped by new readers", stat.lost);
    let writer = if stat.is_foreign { "the kernel".to_owned() } else { holder(&stat.writer) };
    let _ = writeln!(text, "writer     {writer}");
    if stat.kind == Kind::Spsc {
        let _ = writeln!(text, "reader     {}", holder(&stat.reader));
    }
    if let Some(fault) = stat.fault {
        let _ = writeln!(text, "fault      {fault}: the ring is out of use");
    }
    text
}

fn array_as_json(file: &Path, stat: &seqlock::Stat) -> Value {
    json!({
        "file": file.display().to_string(),
        "kind": "array",
        "records": stat.records,
        "record_bytes": stat.record_bytes,
        "tag": tag(stat.tag),
        "written": stat.written,
        "busy": stat.busy,
        "newest_stamp": stat.newest,
        "writer": holder_json(&stat.writer),
    })
}

fn array_as_text(file: &Path, stat: &seqlock::Stat) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: array of {} records of {} bytes, kind {}",
        file.display(),
        stat.records,
        stat.record_bytes,
        tag(stat.tag)
    );
    let _ = writeln!(text, "written    {} records, newest stamp {}", stat.written, stat.newest);
    let _ = writeln!(text, "busy       {} in the middle of a write", stat.busy);
    let _ = writeln!(text, "writer     {}", holder(&stat.writer));
    text
}

fn tag(tag: u64) -> String {
    tag.to_ne_bytes().escape_ascii().to_string()
}

fn flow(flow: Flow) -> String {
    format!("{} messages, {} bytes, {} cells", flow.messages, flow.bytes, flow.cells)
}

fn holder(holder: &Holder) -> String {
    let mut words = match holder.process {
        Some(process) if holder.is_alive => format!("process {}", process.pid),
        Some(process) => format!("process {}, which ended without closing its side", process.pid),
        None => "nobody".to_owned(),
    };
    if holder.is_closed {
        words += ", closed";
    }
    if holder.sleeps {
        words += ", asleep";
    }
    if let Some(age) = holder.beat_age {
        let _ = write!(words, ", last heartbeat {:.3} s ago", age.as_secs_f64());
    }
    words
}
