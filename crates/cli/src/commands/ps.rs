//! `sidestep ps`.

mod pages;
mod release;

use crate::args::Ps as Args;
use crate::{exit, output};
use serde::Serialize;
use sidestep_control_api::client::Client;
use sidestep_control_api::message::{ClientLine, DetailLine, ProgramLine, StackLine, ranges};
use sidestep_control_api::place;
use sidestep_control_api::table::{Incomplete, Snapshot};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Everything that `sidestep ps` shows.
#[derive(Serialize)]
struct Listing {
    /// `None` if there is no control plane.
    control_pid: Option<u32>,
    /// The reasons why the mirror leaves routing decisions to the kernel; empty if it does not.
    mirror: Vec<String>,
    /// Interfaces that have the steering program.
    interfaces: Vec<ProgramLine>,
    programs: Vec<Program>,
    /// Programs under `sidestep run`.
    unmodified: Vec<pages::Page>,
}

#[derive(Serialize)]
struct Program {
    #[serde(flatten)]
    line: ClientLine,
    details: Vec<DetailLine>,
    /// Counters of each stack.
    counters: BTreeMap<u32, BTreeMap<String, u64>>,
}

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let path = args.socket.clone().map_or_else(place::socket, Ok)?;
    if let Some(pid) = args.release {
        return release::release(&path, pid, args.json);
    }
    let mut unmodified = pages::pages();
    unmodified.retain(|page| is_wanted(&args.filter, Some(page.pid()), page.name()));
    let listing = match Client::connect_to(&path, OBSERVERS[0]) {
        Ok(mut client) => {
            let mut listing = collect(&mut client, unmodified)?;
            listing.programs.retain(|program| is_wanted(&args.filter, program.line.pid, &program.line.name));
            listing
        }
        Err(error) if unmodified.is_empty() => return Err(error.into()),
        Err(error) => {
            say(Problem::from(error).brief());
            Listing { control_pid: None, mirror: Vec::new(), interfaces: Vec::new(), programs: Vec::new(), unmodified }
        }
    };
    if args.json {
        let text = serde_json::to_string_pretty(&listing);
        let failed = |error| Problem::failed("cannot list programs", error).next("leave --json out");
        output::print(&(text.map_err(failed)? + "\n"))?;
    } else {
        output::print(&describe(&listing, !args.filter.is_empty()))?;
    }
    let is_found = !listing.programs.is_empty() || !listing.unmodified.is_empty();
    Ok(if is_found || args.filter.is_empty() { exit::GOOD } else { exit::FAILED })
}

/// Returns whether a program is asked for: by its number, or by a part of its name.
pub(super) fn is_wanted(filter: &[String], pid: Option<u32>, name: &str) -> bool {
    let is_meant = |wanted: &String| match wanted.parse::<u32>() {
        Ok(number) => pid == Some(number),
        Err(_) => name.contains(wanted.as_str()),
    };
    filter.is_empty() || filter.iter().any(is_meant)
}

/// Names under which this command, `sidestep top` and `sidestep watch` connect to control.
pub(super) const OBSERVERS: [&str; 3] = ["sidestep ps", "sidestep top", "sidestep watch"];

/// Returns whether a client only looks on. Its name alone does not hide a program that has something.
fn is_observer(line: &ClientLine) -> bool {
    let has_nothing = line.stacks.is_empty() && line.feeds.is_empty() && line.refused == 0;
    has_nothing && OBSERVERS.contains(&line.name.as_str())
}

fn collect(client: &mut Client, unmodified: Vec<pages::Page>) -> Result<Listing, Problem> {
    let mirror = mirror(client);
    let interfaces = client.programs()?;
    let mut programs = Vec::new();
    for line in client.clients()?.into_iter().filter(|line| !is_observer(line)) {
        // A client that has ended meanwhile has no details.
        let details = client.details(line.client).unwrap_or_default();
        let mut counters = BTreeMap::new();
        for stack in &line.stacks {
            counters.insert(stack.id, client.counters(stack.id).unwrap_or_default().into_iter().collect());
        }
        programs.push(Program { line, details, counters });
    }
    Ok(Listing { control_pid: Some(client.control_pid()), mirror, interfaces, programs, unmodified })
}

fn mirror(client: &mut Client) -> Vec<String> {
    let mut seen = Snapshot::default();
    let Some(table) = client.take_table() else { return Vec::new() };
    if let Err(unknown) = table.snapshot(&mut seen) {
        return vec![unknown.to_string()];
    }
    let parts = [
        ("interfaces and addresses", seen.hosts_incomplete),
        ("routes", seen.routes_incomplete),
        ("neighbours", seen.neighbours_incomplete),
    ];
    let told = parts.iter().filter(|(_, why)| *why != Incomplete::No);
    told.map(|(what, why)| format!("{what}: {}", why.description())).collect()
}

fn describe(listing: &Listing, is_filtered: bool) -> String {
    let mut text = String::new();
    for line in &listing.mirror {
        let _ = writeln!(text, "left to the kernel: {line}");
    }
    if let Some(pid) = listing.control_pid.filter(|_| listing.programs.is_empty() && listing.unmodified.is_empty()) {
        let asked =
            if is_filtered { "no program that uses sidestep has such a name or process id" } else { "no programs" };
        let _ = writeln!(text, "{asked} (control plane: process {pid})");
    }
    let unused = listing.interfaces.iter().filter(|line| line.stacks == 0 && line.feeds == 0 && !is_filtered);
    unused.for_each(|line| describe_unused(line, &mut text));
    listing.programs.iter().for_each(|program| describe_program(program, &mut text));
    listing.unmodified.iter().for_each(|page| pages::describe(page, &mut text));
    text
}

/// Describes an interface without a stack: its XDP program excludes other programs and, on some devices, large MTUs.
fn describe_unused(line: &ProgramLine, text: &mut String) {
    let (name, mode) = (&line.interface, if line.is_generic { ", generic" } else { "" });
    let _ = writeln!(text, "{name}  no stack (program {}{mode}); detach: sidestep control --release {name}", line.id);
}

fn describe_program(program: &Program, text: &mut String) {
    let line = &program.line;
    let pid = line.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
    let state = if line.is_connected { "" } else { ", not connected" };
    let _ = writeln!(text, "{pid}  {}  (user {}{state})", line.name, line.uid);
    for feed in &line.feeds {
        let named = if feed.name.is_empty() { String::new() } else { format!(" {}", feed.name) };
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "  feed {}{named}  {}, {} ring{}, {} reader{}",
            feed.feed,
            feed.interface,
            feed.rings,
            plural(feed.rings),
            feed.readers,
            plural(feed.readers)
        );
    }
    for stack in &line.stacks {
        let _ = write!(text, "  stack {}  {} {}, {}", stack.id, stack.interface, queues(stack), stack.mode);
        match stack.ports {
            0 => text.push('\n'),
            ports => _ = writeln!(text, ", {ports} local ports"),
        }
        let counters = program.counters.get(&stack.id).into_iter().flatten();
        counters.for_each(|(name, value)| _ = writeln!(text, "    {name} {value}"));
    }
    program.details.iter().for_each(|detail| describe_detail(detail, text));
}

/// Formats the queues: "queue 0", or "queues 0, 2 of 4" if packets may also arrive on other queues.
fn queues(stack: &StackLine) -> String {
    let plural = if stack.queues.len() == 1 { "" } else { "s" };
    let numbers = ranges(stack.queues.iter().copied());
    match stack.elsewhere {
        0 => format!("queue{plural} {numbers}"),
        others => format!("queue{plural} {numbers} of {}", stack.queues.len() + others as usize),
    }
}

fn describe_detail(detail: &DetailLine, text: &mut String) {
    let _ = match detail {
        DetailLine::Accelerated { stack, entry } => writeln!(text, "  accelerated  {entry}  (stack {stack})"),
        DetailLine::Kernel { subject, reason, times, last_s, .. } => {
            let often = if *times > 1 { format!("{times} times, last ") } else { String::new() };
            let ago = humantime::format_duration(Duration::from_secs(*last_s));
            writeln!(text, "  kernel       {subject}: {reason}  ({often}{ago} ago)")
        }
        DetailLine::Fed(told) => {
            let verdict = told.verdict.map_or_else(|| "removed".to_owned(), |verdict| verdict.to_string());
            let reason = told.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            writeln!(text, "  feed         {}  (feed {}, {verdict}{reason})", told.entry, told.feed)
        }
        DetailLine::WithoutQueues { stack, missing } => {
            let queues = ranges(missing.queues.iter().copied());
            writeln!(text, "  fewer        stack {stack}: not queue {queues}: {}", missing.reason)
        }
        DetailLine::Downgraded { stack, downgrade } => {
            writeln!(text, "  slower       stack {stack}: {}", sidestep_sys::xdp::Downgrade::from(downgrade))
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_control_api::message::{Code, Missing, Mode};

    #[test]
    fn commands_that_look_on_are_no_programs() {
        let stack = StackLine {
            id: 1,
            interface: "eth1".into(),
            queues: vec![0],
            elsewhere: 0,
            mode: Mode::Copy,
            entries: 0,
            ports: 0,
        };
        let line = |name: &str, stacks| ClientLine {
            client: 1,
            pid: Some(2),
            uid: 0,
            name: name.into(),
            is_connected: true,
            stacks,
            feeds: Vec::new(),
            refused: 0,
        };
        assert!(is_observer(&line("sidestep top", Vec::new())) && is_observer(&line("sidestep ps", Vec::new())));
        assert!(!is_observer(&line("md-feed", Vec::new())), "a program that has no stack yet");
        assert!(!is_observer(&line("sidestep top", vec![stack])), "a name hides nothing");
    }

    #[test]
    fn queues_are_told_and_those_that_are_somebody_elses() {
        let line = |queues: &[u32], elsewhere| {
            let (queues, interface) = (queues.to_vec(), "eth1".to_owned());
            super::queues(&StackLine { id: 1, interface, queues, elsewhere, mode: Mode::Copy, entries: 0, ports: 0 })
        };
        assert_eq!(line(&[0], 0), "queue 0");
        assert_eq!(line(&[3], 7), "queue 3 of 8");
        assert_eq!(line(&[0, 1, 2, 3], 0), "queues 0-3");
        let kernel = |times| DetailLine::Kernel {
            subject: "udp 198.18.0.1:7".into(),
            code: Code::Taken,
            reason: "taken".into(),
            times,
            last_s: 61,
        };
        let mut text = String::new();
        describe_detail(&kernel(1), &mut text);
        describe_detail(&kernel(3), &mut text);
        let one = "  kernel       udp 198.18.0.1:7: taken  (1m 1s ago)\n";
        assert_eq!(text, format!("{one}{}", one.replace("(1m", "(3 times, last 1m")));
        let mut text = String::new();
        let missing = Missing { queues: vec![1, 2], reason: "another stack has it".into() };
        describe_detail(&DetailLine::WithoutQueues { stack: 1, missing }, &mut text);
        assert_eq!(text, "  fewer        stack 1: not queue 1-2: another stack has it\n");
    }
}
