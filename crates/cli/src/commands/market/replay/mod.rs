//! `sidestep market replay`.
//!
//! `lines` finds the lines of a capture, `log` is what a replay tells, `send` sends datagrams again.

mod lines;
mod log;
mod send;

use super::input::{self, Bytes, Input, faulty};
use crate::args::{MarketReplay as Args, Speed};
use crate::{exit, output, signal};
pub(super) use lines::Lines;
use log::Log;
use send::Senders;
use sidestep_feed_handler::{Channel, ChannelOptions};
use sidestep_market::book::Refusal;
use sidestep_market::capture::{self, Capture};
use sidestep_market::feed::{Join, State};
use sidestep_market::mold64;
use sidestep_market::units::{LineId, Nanos};
use sidestep_sys::Problem;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Deadlines between two datagrams that are handled: a feed that never comes to rest is left alone.
const POLLS_MAX: usize = 10_000;
/// The time behind the last datagram in which open gaps are given up.
const REST: Duration = Duration::from_secs(2);
/// Longest delay until Ctrl-C is noticed.
const NAP: Duration = Duration::from_millis(50);

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    if let Some(parquet) = &args.parquet {
        input::check_other(&args.file, parquet)?;
        return Err(to_parquet(&args.file, parquet));
    }
    let Input::Capture(capture) = input::open(&args.file)? else {
        return Err(Problem::usage(
            format!("cannot replay {}", args.file.display()),
            "it has messages without datagrams and times",
        )
        .next("sidestep market decode prints them"));
    };
    let stop = signal::stop_flag()?;
    let pace = Pace { speed: args.speed, begin: None };
    if !args.to.is_empty() {
        return send(args, capture, pace, &stop);
    }
    let mut replay = Replay::new(args)?;
    let read = replay.read(capture, pace, args, &stop);
    replay.end();
    replay.log.flush().map_err(|error| unwritable(args, error))?;
    output::print(&replay.text())?;
    read?;
    Ok(match replay.channel.as_ref().map(|(channel, _)| channel.feed().counters().skipped) {
        _ if stop.load(Ordering::Relaxed) => exit::INTERRUPTED,
        Some(0) => exit::GOOD,
        Some(_) => exit::FINDINGS,
        None => {
            return Err(Problem::failed(
                format!("cannot replay {}", args.file.display()),
                "there is no packet of MoldUDP64",
            )
            .next("see what is in it: sidestep market decode --summary FILE"));
        }
    })
}

fn unwritable(args: &Args, error: io::Error) -> Problem {
    output::unwritable(args.log.as_deref().unwrap_or(Path::new("-")), error)
}

/// Waits for the recorded times.
struct Pace {
    speed: Speed,
    /// The time of the first datagram, and when it was replayed.
    begin: Option<(u64, Instant)>,
}

impl Pace {
    /// Waits until a datagram of this time is due; returns false when told to stop.
    fn wait(&mut self, time_ns: u64, stop: &AtomicBool) -> bool {
        let Speed::Times(factor) = self.speed else { return !stop.load(Ordering::Relaxed) };
        let (first, begin) = *self.begin.get_or_insert((time_ns, Instant::now()));
        let due = begin + Duration::from_nanos((time_ns.saturating_sub(first) as f64 / factor) as u64);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if stop.load(Ordering::Relaxed) || left.is_zero() {
                return !stop.load(Ordering::Relaxed);
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

/// Calls `each` with each datagram: interface, its name, time, destination, payload. It ends when `each` returns false.
fn datagrams(
    args: &Args,
    mut capture: Capture<Bytes>,
    mut each: impl FnMut(&Capture<Bytes>, &Arrived) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    let mut payload = Vec::new();
    loop {
        let packet = match capture.try_next() {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(()),
            Err(error) => return Err(faulty(&args.file, &error)),
        };
        let Ok(datagram) = capture::datagram(&packet) else { continue };
        if args.port.is_some_and(|port| port != datagram.destination.port()) {
            continue;
        }
        payload.clear();
        payload.extend_from_slice(datagram.payload);
        let (interface, time_ns, group) = (packet.interface, packet.time_ns, datagram.destination);
        let arrived = Arrived { interface, time_ns, group, payload: std::mem::take(&mut payload) };
        if !each(&capture, &arrived)? {
            return Ok(());
        }
        payload = arrived.payload;
    }
}

struct Arrived {
    interface: u32,
    time_ns: Option<u64>,
    group: SocketAddr,
    payload: Vec<u8>,
}

struct Replay {
    channel: Option<(Channel, Lines)>,
    log: Log,
    gap_wait_ns: u64,
    now: Nanos,
    datagrams: u64,
    /// Datagrams that are none of the feed, or of lines too many.
    others: u64,
}

impl Replay {
    fn new(args: &Args) -> Result<Self, Problem> {
        args.log.iter().try_for_each(|log| input::check_other(&args.file, log))?;
        let out: Option<Box<dyn Write>> = match &args.log {
            None => None,
            Some(path) if path == Path::new("-") => Some(Box::new(BufWriter::new(io::stdout()))),
            Some(path) => Some(Box::new(BufWriter::new(File::create(path).map_err(|error| unwritable(args, error))?))),
        };
        let (log, gap_wait_ns) = (Log::new(out), args.gap_wait.as_nanos() as u64);
        Ok(Self { channel: None, log, gap_wait_ns, now: Nanos(0), datagrams: 0, others: 0 })
    }

    fn read(&mut self, capture: Capture<Bytes>, mut pace: Pace, args: &Args, stop: &AtomicBool) -> Result<(), Problem> {
        datagrams(args, capture, |capture, arrived| {
            if mold64::Packet::parse(&arrived.payload).is_err() {
                self.others += 1;
                return Ok(true);
            }
            self.now = self.now.max(Nanos(arrived.time_ns.unwrap_or(0)));
            if !pace.wait(self.now.0, stop) || self.log.error.is_some() {
                return Ok(false);
            }
            self.datagram(capture, arrived)?;
            Ok(true)
        })
    }

    fn datagram(&mut self, capture: &Capture<Bytes>, arrived: &Arrived) -> Result<(), Problem> {
        let name = |number| capture.interface(number).map(|interface| interface.name.as_str());
        if self.channel.is_none() {
            let lines = Lines::of(name);
            let mut options = ChannelOptions::default();
            options.policy.join = Join::FirstSeen;
            options.policy.gap_wait_ns = self.gap_wait_ns;
            self.channel = Some((Channel::new(&lines.kinds(), &options, self.now)?, lines));
        }
        self.poll(self.now);
        let Some((channel, lines)) = &mut self.channel else { return Ok(()) };
        match lines.line(arrived.interface, name(arrived.interface).unwrap_or_default(), arrived.group) {
            Some(line) => {
                self.datagrams += 1;
                channel.datagram(line, self.now, self.now, &arrived.payload, &mut self.log);
            }
            None => self.others += 1,
        }
        Ok(())
    }

    /// Does what was due before this time, each at its own.
    fn poll(&mut self, until: Nanos) {
        let Some((channel, _)) = &mut self.channel else { return };
        for _ in 0..POLLS_MAX {
            let due = channel.next_poll();
            if due > until {
                return;
            }
            channel.poll(due, &mut self.log);
        }
    }

    /// The time goes on a little, so that what is missing at the end is told as lost.
    fn end(&mut self) {
        self.poll(self.now.after(REST.as_nanos() as u64));
    }

    fn text(&self) -> String {
        let Some((channel, _)) = &self.channel else { return String::new() };
        let (feed, counters) = (channel.feed(), channel.feed().counters());
        let state = match feed.state() {
            State::Live => "live",
            State::Recovering { .. } => "recovering",
            State::Stale { .. } => "stale",
        };
        let mut text = format!(
            "{} datagrams, {} messages, next {}, {state} at the end\ngaps {}, filled by another line {}, messages lost {}\n",
            self.datagrams,
            self.log.messages,
            feed.next().0,
            counters.gaps,
            counters.filled_by_line,
            counters.skipped
        );
        for line in 0..=u8::MAX {
            let Some(one) = feed.line(LineId(line)) else { break };
            if one.packets + one.malformed > 0 {
                text += &format!(
                    "line {line}: packets {}, messages {}, first {}, duplicate {}, lost {}\n",
                    one.packets, one.messages, one.first, one.duplicates, one.lost
                );
            }
        }
        let books = channel.books();
        for (why, count) in Refusal::ALL.iter().map(|why| (why, books.refused(*why))).filter(|(_, count)| *count > 0) {
            text += &format!("refused by the books: {why} {count}\n");
        }
        if books.all().any(|book| book.suspect().is_some()) {
            text +=
                "the books are incomplete: they begin in the middle of a session, or messages were refused or lost\n";
        }
        if self.others > 0 {
            text += &format!("{} datagrams are none of the feed\n", self.others);
        }
        text + &format!("log {:016x} (FNV-1a)\n", self.log.hash())
    }
}

/// Sends the datagrams again.
fn send(args: &Args, capture: Capture<Bytes>, mut pace: Pace, stop: &AtomicBool) -> Result<u8, Problem> {
    let mut senders = Senders::open(&args.to)?;
    let mut lines: Option<Lines> = None;
    let (mut sent, mut left_out, mut now) = (0_u64, 0_u64, 0);
    datagrams(args, capture, |capture, arrived| {
        let name = |number| capture.interface(number).map(|interface| interface.name.as_str());
        now = arrived.time_ns.unwrap_or(now).max(now);
        if !pace.wait(now, stop) {
            return Ok(false);
        }
        let lines = lines.get_or_insert_with(|| Lines::of(name));
        let line = lines.line(arrived.interface, name(arrived.interface).unwrap_or_default(), arrived.group);
        // What came by the kernel's twin belongs to its line.
        let line = line.map(|line| usize::from(line.0) % lines.len().max(1));
        match line.map(|line| senders.send(line, &arrived.payload)).transpose()? {
            Some(true) => sent += 1,
            _ => left_out += 1,
        }
        Ok(true)
    })?;
    output::print(&format!("{sent} datagrams sent, {left_out} of lines without --to left out\n"))?;
    Ok(if stop.load(Ordering::Relaxed) { exit::INTERRUPTED } else { exit::GOOD })
}

/// Becomes the program that writes Parquet; returns the reason why that was not possible.
fn to_parquet(file: &Path, parquet: &Path) -> Problem {
    let mut command = Command::new("sidestep-parquet");
    let error = sidestep_sys::broken_pipe::inherit(command.arg(file).arg(parquet)).exec();
    Problem::failed("cannot run sidestep-parquet", error)
        .next("build it, and put it into a folder of PATH: cargo build --release --manifest-path parquet/Cargo.toml")
}
