//! `sidestep ring tail`.

use super::dump::{Form, Printer};
use crate::args::{RingStart, RingTail};
use crate::{exit, signal};
use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::{Loss, Peer, ReadError};
use sidestep_sys::problem::{Problem, say};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// Pause before an empty ring is polled again. Tailing is for people: a CPU that spins for them would be
/// taken from the programs.
pub(super) const NAP: Duration = Duration::from_micros(500);
/// Polls of an empty ring between two checks of the writer's process (a system call): a quarter of a second.
const NAPS_PER_PEER: u32 = 500;

pub(super) fn run(args: &RingTail) -> Result<u8, Problem> {
    let segment = super::open(args.file.as_deref().unwrap_or(Path::new("")), args.ring)?;
    let start = match args.from {
        RingStart::Oldest => Start::Oldest,
        RingStart::Newest => Start::Latest,
    };
    let mut tail = Tail {
        subscriber: segment.subscriber(start)?,
        printer: Printer::new(form(args)),
        left: args.count.unwrap_or(u64::MAX),
        seen: 0,
        lost: Loss::default(),
    };
    let read = tail.follow(&*signal::stop_flag()?);
    end(read, &tail.summary())
}

/// The format that the flags ask for.
pub(super) fn form(args: &RingTail) -> Form {
    match (args.raw, args.lines) {
        (true, _) => Form::Raw,
        (_, true) => Form::Lines,
        _ => Form::Hex,
    }
}

/// Tells what was read and why the tail ended; returns the exit code.
pub(super) fn end(end: End, summary: &str) -> Result<u8, Problem> {
    let why = match &end {
        End::Closed => "the ring is closed",
        End::Counted => "--count is reached",
        End::Stopped => "stopped",
        End::PipeClosed => "the reader of the output has closed it",
        End::Failed(_) => "failed",
    };
    say(format!("{summary}: {why}"));
    match end {
        End::Closed | End::Counted | End::PipeClosed => Ok(exit::GOOD),
        End::Stopped => Ok(exit::INTERRUPTED),
        End::Failed(problem) => Err(problem),
    }
}

/// The reason why a tail ended.
pub(super) enum End {
    Closed,
    Counted,
    Stopped,
    /// The reader of the pipe has closed it (`| head`).
    PipeClosed,
    Failed(Problem),
}

struct Tail {
    subscriber: Subscriber,
    printer: Printer,
    left: u64,
    seen: u64,
    lost: Loss,
}

impl Tail {
    fn follow(&mut self, stop: &AtomicBool) -> End {
        let end = self.read(stop);
        match self.printer.flush() {
            Err(error) if !matches!(end, End::Failed(_)) => unprintable(error),
            _ => end,
        }
    }

    fn read(&mut self, stop: &AtomicBool) -> End {
        let mut buffer = vec![0; self.subscriber.message_bytes_max()];
        let (mut naps, mut is_orphan) = (0_u32, false);
        while self.left > 0 {
            if stop.load(Ordering::Relaxed) {
                return End::Stopped;
            }
            let number = self.subscriber.sequence();
            let printed = match self.subscriber.try_read(&mut buffer) {
                Ok(length) => {
                    (self.seen, self.left) = (self.seen + 1, self.left - 1);
                    self.printer.message(number, &buffer[..length])
                }
                Err(ReadError::Lost(loss)) => {
                    self.lost.messages += loss.messages;
                    self.lost.bytes += loss.bytes;
                    self.printer.gap(number, loss)
                }
                Err(ReadError::Empty) => {
                    if naps.is_multiple_of(NAPS_PER_PEER) {
                        self.watch(&mut is_orphan);
                    }
                    naps = naps.wrapping_add(1);
                    let flushed = self.printer.flush();
                    sleep(NAP);
                    flushed
                }
                Err(ReadError::Closed) => return End::Closed,
                Err(error @ (ReadError::Faulty(_) | ReadError::TooShort { .. } | ReadError::Forked)) => {
                    return End::Failed(Problem::failed("cannot follow the ring", error).next("create a new ring"));
                }
            };
            if let Err(error) = printed {
                return unprintable(error);
            }
        }
        End::Counted
    }

    /// Reports once that the writer died without closing. The tail goes on: another writer may take its place.
    fn watch(&mut self, is_orphan: &mut bool) {
        let peer = self.subscriber.peer();
        if let Peer::Gone(process) = peer
            && !*is_orphan
        {
            say(format!(
                "the writer (process {}) ended without closing the ring; waiting for another one",
                process.pid
            ));
        }
        *is_orphan = matches!(peer, Peer::Gone(_));
    }

    fn summary(&self) -> String {
        format!("{} messages, {} lost ({} bytes)", self.seen, self.lost.messages, self.lost.bytes)
    }
}

pub(super) fn unprintable(error: io::Error) -> End {
    match error.kind() {
        ErrorKind::BrokenPipe => End::PipeClosed,
        _ => End::Failed(Problem::failed("cannot print", error).next("check where standard output goes")),
    }
}
