//! `sidestep fix decode`.

use crate::args_fix::Decode as Args;
use crate::{exit, output};
use serde_json::json;
use sidestep_fix::names::Names;
use sidestep_fix::store::journal::{Kind, needed_segments, read_segment};
use sidestep_fix::transcript::{Skipped, damage, fields, messages};
use sidestep_report::terminal::clean;
use sidestep_sys::problem::say;
use sidestep_sys::{Problem, file};
use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes per read.
const CHUNK: usize = 256 << 10;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let names = match &args.dictionary {
        Some(path) => Names::read(path)?,
        None => Names::default(),
    };
    let mut printer = Printer { names, json: args.json, messages: 0, damaged: 0, skipped: Skipped::default() };
    if args.files.is_empty() {
        printer.stream("standard input", io::stdin().lock())?;
    }
    for path in &args.files {
        printer.path(path)?;
    }
    let code = printer.report();
    if printer.messages == 0 {
        return Err(Problem::failed("cannot decode", "there is no FIX message")
            .next("give input with messages that begin with 8=FIX"));
    }
    Ok(code)
}

struct Printer {
    names: Names,
    json: bool,
    messages: u64,
    /// Messages with a wrong BodyLength or CheckSum, and segments with a damaged end.
    damaged: u64,
    skipped: Skipped,
}

/// `1 line`, `2 lines`.
fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl Printer {
    /// Reports what was skipped or damaged, and returns the exit code.
    fn report(&self) -> u8 {
        let Skipped { lines, cut, .. } = self.skipped;
        if lines > 0 {
            say(format!("{} without a message skipped", count(lines, "line")));
        }
        if cut > 0 {
            say(format!("{} without an end skipped", count(cut, "message")));
        }
        if self.damaged > 0 {
            say(format!("{} found, marked with !", count(self.damaged, "damaged message or segment")));
        }
        if cut + self.damaged > 0 { exit::FAILED } else { exit::GOOD }
    }

    fn path(&mut self, path: &Path) -> Result<(), Problem> {
        let fail = |error: io::Error| {
            Problem::failed(format!("cannot read {}", path.display()), error)
                .next("name a log, a journal or its folder that you may read; without a name, standard input is read")
        };
        if path.is_dir() {
            return self.folder(path);
        }
        if path.extension().is_some_and(|ending| ending == "journal") {
            return self.journal(path);
        }
        self.stream(&path.display().to_string(), file::open(path).map_err(fail)?)
    }

    /// Prints every segment of every journal in the folder, in order.
    fn folder(&mut self, folder: &Path) -> Result<(), Problem> {
        let entries = std::fs::read_dir(folder);
        let entries = entries.map_err(|error| Problem::failed(format!("cannot read {}", folder.display()), error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let needed = needed_segments(folder);
        paths.extend(needed.iter().filter(|path| !path.exists()).cloned());
        paths.sort();
        for path in paths {
            if path.is_dir() {
                self.folder(&path)?;
            } else if path.extension().is_some_and(|ending| ending == "journal")
                && (needed.contains(&path) || !is_unused(&path))
                && let Err(problem) = self.journal(&path)
            {
                self.damaged += 1;
                self.error(&problem.brief())?;
            }
        }
        Ok(())
    }

    fn journal(&mut self, path: &Path) -> Result<(), Problem> {
        let mut result = Ok(());
        let segment = read_segment(path, &mut |entry| {
            let printed = match entry.kind {
                Kind::Outbound => self.message("sent", entry.payload),
                Kind::NextInbound => self.event("next inbound", entry.number),
                Kind::NextOutbound => self.event("next outbound set", entry.number),
                Kind::Reset => self.event("reset, generation", entry.number),
            };
            if result.is_ok() {
                result = printed;
            }
        })?;
        result?;
        if segment.rest_bytes > 0 {
            self.damaged += 1;
            let words = format!("{} bytes after the last intact record of {}", segment.rest_bytes, path.display());
            return self.error(&words);
        }
        Ok(())
    }

    fn error(&self, words: &str) -> Result<(), Problem> {
        if self.json {
            return output::print(&format!("{}\n", json!({ "error": words })));
        }
        output::print(&format!("  ! {words}\n"))
    }

    fn stream(&mut self, name: &str, mut source: impl Read) -> Result<(), Problem> {
        let (mut text, mut chunk) = (Vec::new(), vec![0; CHUNK]);
        loop {
            let count =
                source.read(&mut chunk).map_err(|error| Problem::failed(format!("cannot read {name}"), error))?;
            text.extend_from_slice(&chunk[..count]);
            let mut result = Ok(());
            let mut skipped = self.skipped;
            let decided = messages(&text, count == 0, &mut skipped, &mut |prefix, message| {
                let printed = self.message(prefix, message);
                if result.is_ok() {
                    result = printed;
                }
            });
            self.skipped = skipped;
            result?;
            text.drain(..decided);
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Prints a journal record that is not a message.
    fn event(&mut self, what: &str, number: u64) -> Result<(), Problem> {
        if self.json {
            return output::print(&format!("{}\n", json!({ "event": what, "number": number })));
        }
        output::print(&format!("-- {what} {number}\n"))
    }

    fn message(&mut self, prefix: &str, message: &[u8]) -> Result<(), Problem> {
        self.messages += 1;
        let field = |wanted: u32| fields(message).find(|(tag, _)| *tag == wanted).map(|(_, value)| value);
        let begin = field(8).unwrap_or_default().to_vec();
        let msg_type = field(35).unwrap_or_default().to_vec();
        self.names.prepare(&begin);
        let errors = damage(message);
        self.damaged += u64::from(!errors.is_empty());
        if self.json {
            return self.as_json(prefix, message, &begin, &msg_type, &errors);
        }
        // A counterparty's message may hold escape sequences. --json prints the bytes themselves.
        let text = |value: &[u8]| clean(&String::from_utf8_lossy(value));
        let show = |tag| field(tag).map_or_else(|| "?".to_owned(), &text);
        let name = self.names.message(&begin, &msg_type);
        let mut out = String::new();
        let space = if prefix.is_empty() { "" } else { " " };
        let _ = writeln!(
            out,
            "{prefix}{space}{} ({}) {} -> {}, {}",
            name.unwrap_or("message"),
            text(&msg_type),
            show(49),
            show(56),
            show(34)
        );
        for (tag, value) in fields(message) {
            let name = self.names.field(&begin, tag).unwrap_or("?");
            let meaning = self.meaning(&begin, tag, value).map_or_else(String::new, |words| format!(" ({words})"));
            let _ = writeln!(out, "  {tag:>5} {name:<24} {}{}", text(value), clean(&meaning));
        }
        for error in errors {
            let _ = writeln!(out, "  ! {}", clean(&error));
        }
        output::print(&out)
    }

    /// Returns the meaning of a value, or of each of several values separated by blanks.
    fn meaning(&self, begin: &[u8], tag: u32, value: &[u8]) -> Option<String> {
        if let Some(name) = self.names.value(begin, tag, value) {
            return Some(name.to_owned());
        }
        let parts = value.split(|byte| *byte == b' ').map(|part| self.names.value(begin, tag, part));
        Some(parts.collect::<Option<Vec<_>>>()?.join(", "))
    }

    fn as_json(
        &self,
        prefix: &str,
        message: &[u8],
        begin: &[u8],
        msg_type: &[u8],
        errors: &[String],
    ) -> Result<(), Problem> {
        let name = self.names.message(begin, msg_type).map(str::to_owned);
        let list: Vec<_> = fields(message)
            .map(|(tag, value)| {
                let name = self.names.field(begin, tag);
                let meaning = self.meaning(begin, tag, value);
                json!({ "tag": tag, "name": name, "value": String::from_utf8_lossy(value), "meaning": meaning })
            })
            .collect();
        let msg_type = String::from_utf8_lossy(msg_type);
        let line = json!({ "prefix": prefix, "msg_type": msg_type, "name": name, "fields": list, "errors": errors });
        output::print(&format!("{line}\n"))
    }
}

/// Returns whether a segment is only preallocated.
fn is_unused(path: &Path) -> bool {
    let mut first = [0; 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_err() || first == [0; 8]
}
