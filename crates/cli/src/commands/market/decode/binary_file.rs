//! The messages of a capture as a BinaryFILE: once and in order, as a feed handler would have them.

use super::filter::Filter;
use crate::args::MarketDecode as Args;
use crate::commands::market::input::{self, Bytes, faulty};
use crate::commands::market::replay::Lines;
use crate::{exit, output};
use sidestep_market::arbiter::{self, Delivery};
use sidestep_market::capture::{self, BinaryFileWriter, Capture};
use sidestep_market::feed::{Action, Feed, Handler, Join, Policy};
use sidestep_market::mold64::{Mold64, Packet, Session};
use sidestep_market::units::{Nanos, Sequence};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Messages and bytes that wait for an earlier message of another line: a second at high rates.
const HELD: arbiter::Limits = arbiter::Limits { held_messages: 1 << 20, held_bytes: 64 << 20 };
/// How long another line is waited for, by the recorded times, ns. Nobody waits for the file, so it is long.
const GAP_WAIT_NS: u64 = 1_000_000_000;
/// The time behind the last datagram in which open gaps are given up, ns.
const REST_NS: u64 = 2 * GAP_WAIT_NS;
/// Deadlines between two datagrams that are handled.
const POLLS_MAX: usize = 10_000;
/// Gaps that are told one by one.
const GAPS_MAX: usize = 20;

/// Writes the messages of a capture, and tells those that are missing.
pub(super) fn write(args: &Args, filter: &Filter, capture: Capture<Bytes>, path: &Path) -> Result<u8, Problem> {
    input::check_other(&args.file, path)?;
    let file: Box<dyn Write> = if path == Path::new("-") {
        Box::new(BufWriter::new(io::stdout()))
    } else {
        Box::new(BufWriter::new(File::create(path).map_err(|error| output::unwritable(path, error))?))
    };
    let mut writing = Writing { feed: None, now: Nanos(0), out: Messages::new(file) };
    let read = writing.capture(args, filter, capture);
    writing.poll(writing.now.after(REST_NS));
    let has_lost = writing.out.finish().map_err(|error| output::unwritable(path, error))?;
    read?;
    if writing.feed.is_none() {
        let what = format!("cannot decode {}", args.file.display());
        return Err(Problem::failed(what, "there is no packet of MoldUDP64")
            .next("leave --group and --port away, and see what is in it: tcpdump -r FILE"));
    }
    Ok(if has_lost { exit::FINDINGS } else { exit::GOOD })
}

fn policy() -> Policy {
    Policy { join: Join::FirstSeen, gap_wait_ns: GAP_WAIT_NS, ..Policy::default() }
}

struct Writing {
    /// The feed and its lines, from the first packet on.
    feed: Option<(Feed<Mold64>, Lines)>,
    now: Nanos,
    out: Messages,
}

impl Writing {
    fn capture(&mut self, args: &Args, filter: &Filter, mut capture: Capture<Bytes>) -> Result<(), Problem> {
        let mut payload = Vec::new();
        while self.out.error.is_none() {
            let packet = match capture.try_next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(error) => return Err(faulty(&args.file, &error)),
            };
            let Ok(datagram) = capture::datagram(&packet) else { continue };
            let is_feed = filter.wants_datagram(datagram.destination) && Packet::parse(datagram.payload).is_ok();
            if !is_feed {
                continue;
            }
            payload.clear();
            payload.extend_from_slice(datagram.payload);
            let (interface, group) = (packet.interface, datagram.destination);
            self.now = self.now.max(Nanos(packet.time_ns.unwrap_or(0)));
            let name = |number| capture.interface(number).map(|interface| interface.name.as_str());
            if self.feed.is_none() {
                let lines = Lines::of(name);
                self.feed = Some((Feed::new(&lines.kinds(), HELD, policy(), self.now)?, lines));
            }
            self.poll(self.now);
            let Some((feed, lines)) = &mut self.feed else { continue };
            match lines.line(interface, name(interface).unwrap_or_default(), group) {
                Some(line) => feed.datagram(line, self.now, self.now, &payload, &mut self.out),
                None => self.out.others += 1,
            }
        }
        Ok(())
    }

    /// Does what was due before this time, each at its own.
    fn poll(&mut self, until: Nanos) {
        let Some((feed, _)) = &mut self.feed else { return };
        for _ in 0..POLLS_MAX {
            let due = feed.next_poll();
            if due > until {
                return;
            }
            feed.poll(due, &mut self.out);
        }
    }
}

/// Writes what the feed tells.
struct Messages {
    out: BinaryFileWriter<Box<dyn Write>>,
    /// The first message, and their number.
    first: Option<Sequence>,
    written: u64,
    /// What no line brought: the first ones and their counts, and the sum of all.
    gaps: Vec<(Sequence, u64)>,
    lost: u64,
    sessions: Vec<(Session, u64)>,
    /// Datagrams of lines too many.
    others: u64,
    error: Option<io::Error>,
}

impl Messages {
    fn new(out: Box<dyn Write>) -> Self {
        let (gaps, sessions) = (Vec::new(), Vec::new());
        let out = BinaryFileWriter::new(out);
        Self { out, first: None, written: 0, gaps, lost: 0, sessions, others: 0, error: None }
    }

    /// Marks the end and says what there was; returns whether messages are missing.
    fn finish(self) -> io::Result<bool> {
        self.error.map_or(Ok(()), Err)?;
        self.out.finish()?;
        for (first, count) in &self.gaps {
            say(format!("no line brought the {count} messages from {} on", first.0));
        }
        if self.gaps.len() == GAPS_MAX {
            say(format!("{} messages are missing in all", self.lost));
        }
        for (session, written) in self.sessions.iter().skip(1) {
            say(format!("session {} begins behind {written} messages", session.as_str()));
        }
        if self.others > 0 {
            say(format!("{} datagrams of too many lines were left out; choose by --group", self.others));
        }
        let first = self.first.map_or_else(String::new, |first| format!(", the first is number {}", first.0));
        say(format!("{} messages written{first}, {} missing", self.written, self.lost));
        Ok(self.lost > 0)
    }
}

impl Handler<Session> for Messages {
    fn message(&mut self, message: Delivery<'_>) {
        // A message of no bytes means nothing, and would be the end.
        if message.bytes.is_empty() || self.error.is_some() {
            return;
        }
        self.first.get_or_insert(message.sequence);
        self.written += 1;
        self.error = self.out.message(message.bytes).err();
    }

    fn snapshot(&mut self, _: &[u8]) {}

    fn action(&mut self, action: Action<Session>) {
        match action {
            Action::Skipped { first, count } => {
                self.lost += count;
                if self.gaps.len() < GAPS_MAX {
                    self.gaps.push((first, count));
                }
            }
            Action::SessionAdopted { session, .. } if self.sessions.len() < GAPS_MAX => {
                self.sessions.push((session, self.written));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_market::units::{Alpha, LineId};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A packet with messages of one byte each.
    fn packet(first: u64, messages: &[u8]) -> Vec<u8> {
        let mut bytes = b"DAY1      ".to_vec();
        bytes.extend(first.to_be_bytes());
        bytes.extend((messages.len() as u16).to_be_bytes());
        messages.iter().for_each(|message| bytes.extend([0, 1, *message]));
        bytes
    }

    #[test]
    fn messages_of_two_lines_are_written_once_in_their_order_and_gaps_are_counted() {
        let file = Shared::default();
        let lines = Lines::of(|_| None);
        let feed = Feed::new(&lines.kinds(), HELD, policy(), Nanos(1)).unwrap();
        let mut writing =
            Writing { feed: Some((feed, lines)), now: Nanos(1), out: Messages::new(Box::new(file.clone())) };
        for (line, bytes) in [(0, packet(5, b"a")), (0, packet(7, b"c")), (1, packet(5, b"ab")), (0, packet(10, b"f"))]
        {
            let (feed, _) = writing.feed.as_mut().unwrap();
            feed.datagram(LineId(line), Nanos(1), Nanos(1), &bytes, &mut writing.out);
        }
        writing.poll(Nanos(REST_NS));
        let out = writing.out;
        assert_eq!((out.first, out.written, out.lost), (Some(Sequence(5)), 4, 2));
        assert_eq!((&out.gaps, &out.sessions), (&vec![(Sequence(8), 2)], &vec![(Alpha(*b"DAY1      "), 0)]));
        assert!(out.finish().unwrap());
        assert_eq!(*file.0.lock().unwrap(), b"\0\x01a\0\x01b\0\x01c\0\x01f\0\0");
    }

    #[test]
    fn a_full_disk_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut out = Messages::new(Box::new(Full));
        let origin = arbiter::Origin { line: LineId(0), recovered: false };
        out.message(Delivery { sequence: Sequence(1), origin, arrived: Nanos(1), bytes: b"a" });
        assert_eq!(out.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
