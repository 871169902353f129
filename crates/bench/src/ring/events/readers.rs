//! The readers: of a ring, of a BPF ring buffer, of a socket, of the module's device.

use super::reader::{Reader, SLEEP_MAX, Seen};
use rustix::event::{PollFd, PollFlags, poll};
use sidestep_kernel_ring::source::{EVENT_BYTES, Ringbuf, Source};
use sidestep_ring::broadcast::Subscriber;
use sidestep_ring::{Doorbell, ReadError, WaitError};
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

/// The longest event that is read, bytes: the module's may be longer than those of the BPF programs.
const MESSAGE_BYTES_MAX: usize = 2048;
/// The longest backlog that one call takes over from a BPF ring buffer: all that it holds.
const BACKLOG_MAX: usize = 8192;

/// Polls a ring.
pub(super) struct RingReader {
    subscriber: Subscriber,
    buffer: Vec<u8>,
}

impl RingReader {
    pub(super) fn of(subscriber: Subscriber) -> Self {
        Self { subscriber, buffer: vec![0; MESSAGE_BYTES_MAX] }
    }
}

impl Reader for RingReader {
    const TURNS_PER_LOOK: u32 = 1 << 14;

    #[inline(always)]
    fn next(&mut self) -> Result<Option<Seen>, Problem> {
        match self.subscriber.try_read(&mut self.buffer) {
            Ok(length) => Ok(Seen::now(&self.buffer[..length])),
            // What is lost shows in the number of the next one.
            Err(ReadError::Empty | ReadError::Lost(_)) => Ok(None),
            Err(error) => Err(cannot_read("the ring", error)),
        }
    }
}

/// Sleeps until the ring's doorbell rings.
pub(super) struct DoorbellReader(RingReader);

impl DoorbellReader {
    pub(super) fn of(mut subscriber: Subscriber, doorbell: Doorbell) -> Self {
        subscriber.set_doorbell(doorbell);
        Self(RingReader::of(subscriber))
    }
}

impl Reader for DoorbellReader {
    const TURNS_PER_LOOK: u32 = 1;

    fn next(&mut self) -> Result<Option<Seen>, Problem> {
        match self.0.subscriber.wait(IdleStrategy::PARK, Some(Instant::now() + SLEEP_MAX)) {
            Ok(()) => self.0.next(),
            Err(WaitError::TimedOut) => Ok(None),
            Err(error) => Err(cannot_read("the ring", error)),
        }
    }
}

/// Reads a BPF ring buffer with libbpf, in one of two ways.
pub(super) struct RingbufReader<const SLEEPS: bool> {
    ringbuf: Ringbuf,
    seen: Rc<RefCell<VecDeque<Seen>>>,
}

impl<const SLEEPS: bool> RingbufReader<SLEEPS> {
    /// Opens it, and passes over what is in it.
    pub(super) fn open(source: &Source) -> Result<Self, Problem> {
        let seen = Rc::new(RefCell::new(VecDeque::with_capacity(BACKLOG_MAX)));
        let found = Rc::clone(&seen);
        let mut copy = [0; EVENT_BYTES];
        let ringbuf = source.ringbuf(move |record| {
            if record.len() == copy.len() {
                copy.copy_from_slice(record);
                found.borrow_mut().extend(Seen::now(&copy));
            }
        })?;
        ringbuf.consume()?;
        seen.borrow_mut().clear();
        Ok(Self { ringbuf, seen })
    }
}

impl<const SLEEPS: bool> Reader for RingbufReader<SLEEPS> {
    const TURNS_PER_LOOK: u32 = if SLEEPS { 1 } else { 1 << 13 };

    #[inline(always)]
    fn next(&mut self) -> Result<Option<Seen>, Problem> {
        if let Some(seen) = self.seen.borrow_mut().pop_front() {
            return Ok(Some(seen));
        }
        if SLEEPS {
            self.ringbuf.poll(SLEEP_MAX)?;
        } else {
            self.ringbuf.consume()?;
        }
        Ok(self.seen.borrow_mut().pop_front())
    }
}

/// Anything that a system call reads: a socket, or a device.
pub(super) trait Input: AsFd {
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Input for UdpSocket {
    #[inline(always)]
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer)
    }
}

impl Input for std::fs::File {
    #[inline(always)]
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }
}

/// Reads by system calls. A descriptor that spins or is polled is non-blocking; one that blocks has a time limit, or ends
/// with its source.
pub(super) struct CallReader<I, const POLLS: bool, const SPINS: bool> {
    input: I,
    what: &'static str,
    /// Bytes in front of each message.
    header: usize,
    buffer: Vec<u8>,
}

impl<I: Input, const POLLS: bool, const SPINS: bool> CallReader<I, POLLS, SPINS> {
    pub(super) fn of(input: I, what: &'static str, header: usize) -> Self {
        Self { input, what, header, buffer: vec![0; MESSAGE_BYTES_MAX] }
    }
}

impl<I: Input, const POLLS: bool, const SPINS: bool> Reader for CallReader<I, POLLS, SPINS> {
    const TURNS_PER_LOOK: u32 = if SPINS { 1 << 10 } else { 1 };

    #[inline(always)]
    fn next(&mut self) -> Result<Option<Seen>, Problem> {
        if POLLS {
            let limit = rustix::event::Timespec { tv_sec: 0, tv_nsec: i64::from(SLEEP_MAX.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], Some(&limit)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(cannot_read(self.what, error)),
            }
        }
        match self.input.take(&mut self.buffer) {
            Ok(length) => Ok(Seen::now(self.buffer[..length].get(self.header..).unwrap_or_default())),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => Err(cannot_read(self.what, error)),
        }
    }
}

pub(super) fn cannot_read(what: &str, why: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot read {what}"), why)
}
