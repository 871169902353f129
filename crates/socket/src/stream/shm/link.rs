//! The link: bytes and datagrams in and out of the rings, and what they mean when the other end is gone.

use super::Kind;
use super::watch::{Watch, Woken};
use crate::stream::unread::{Unread, copy_to};
use crate::stream::{Link, Waiting};
use rustix::io::Errno;
use sidestep_ring::spsc::{Consumer, Producer};
use sidestep_ring::{ClaimError, Fault, ReadError, WaitError};
use sidestep_sys::idle::IdleStrategy;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A stream's send is cut into pieces of this part of the longest message, so that a long one is read while it is still
/// written, and a nearly full ring still takes some of it.
const PIECES: usize = 4;
/// The longest sleep of a sender before it looks at the socket: room is told by the ring, an end is not.
const NAP: Duration = Duration::from_millis(5);

/// One end of two rings.
pub struct ShmLink {
    consumer: Consumer,
    producer: Producer,
    /// Bytes of the message in front that a stream has already given.
    given: usize,
    kind: Kind,
    waiting: Waiting,
    timeout: Duration,
    /// The longest message that is sent.
    piece_max: usize,
    /// True if this end has finished sending.
    finished: bool,
    unread: Unread,
    // Last: whoever sees the socket close sees what the rings say about it.
    watch: Watch,
}

impl ShmLink {
    /// Over the two handles of this end. One that sleeps has asked for the doorbell, or there is one in the socket.
    pub(super) fn new(
        consumer: Consumer,
        mut producer: Producer,
        watch: Watch,
        kind: Kind,
        (waiting, timeout): (Waiting, Duration),
    ) -> Self {
        producer.set_doorbell(watch.doorbell());
        let longest = producer.message_bytes_max();
        let piece_max = if kind == Kind::Stream { longest / PIECES } else { longest };
        let unread = Unread::default();
        Self { consumer, producer, given: 0, kind, waiting, timeout, piece_max, finished: false, unread, watch }
    }

    /// Whatever is there.
    #[inline]
    fn take(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        match self.kind {
            Kind::Stream => self.take_bytes(buffer),
            Kind::Datagram => self.take_datagram(buffer),
        }
    }

    #[inline]
    fn take_bytes(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let message = match self.consumer.front() {
                Ok(message) => message,
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            };
            let rest = rest_of(message, self.given)?;
            let count = rest.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&rest[..count]);
            filled += count;
            let is_all = count == rest.len();
            self.advance(count, is_all);
        }
        Ok(filled)
    }

    /// So many bytes more of the message in front were taken, perhaps all.
    #[inline]
    fn advance(&mut self, count: usize, is_all: bool) {
        if is_all {
            self.given = 0;
            self.consumer.release();
        } else {
            self.given += count;
        }
    }

    #[inline]
    fn take_datagram(&mut self, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let message = self.consumer.front()?;
        let count = message.len().min(buffer.len());
        if message.is_empty() {
            return Err(ReadError::Faulty(Fault::RecordLength));
        }
        buffer[..count].copy_from_slice(&message[..count]);
        self.consumer.release();
        Ok(count)
    }

    /// Does `take`, and says what it means that there is nothing.
    #[inline]
    fn recv_now(&mut self, take: &mut impl FnMut(&mut Self) -> Result<usize, ReadError>) -> io::Result<usize> {
        match take(self) {
            Ok(count) => {
                self.watch.heard();
                Ok(count)
            }
            Err(ReadError::Empty) => Err(ErrorKind::WouldBlock.into()),
            Err(ReadError::Closed) => Ok(0),
            Err(error @ ReadError::Forked) => Err(forked(error)),
            Err(error) => Err(invalid(error)),
        }
    }

    /// Reads what was published before the end, and then reports the end.
    #[cold]
    fn recv_last(&mut self, take: &mut impl FnMut(&mut Self) -> Result<usize, ReadError>) -> io::Result<usize> {
        match self.recv_now(take) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(self.watch.last_words(ErrorKind::ConnectionReset))
            }
            other => other,
        }
    }

    /// Sleeps until there is something.
    fn recv_asleep(&mut self, take: &mut impl FnMut(&mut Self) -> Result<usize, ReadError>) -> io::Result<usize> {
        let deadline = Instant::now().checked_add(self.timeout);
        loop {
            if self.sleep(deadline)? == Woken::TimedOut {
                return Err(ErrorKind::WouldBlock.into());
            }
            if self.watch.is_gone() {
                return self.recv_last(take);
            }
            match self.recv_now(take) {
                // A doorbell for nothing. They are not to keep an end up for longer than it wants, however many there are.
                Err(error) if error.kind() == ErrorKind::WouldBlock && !has_passed(deadline) => {}
                other => return other,
            }
        }
    }

    /// Sleeps unless something is there. The doorbell is asked for before the last look: what comes then rings or is seen.
    fn sleep(&mut self, deadline: Option<Instant>) -> io::Result<Woken> {
        if self.waiting == Waiting::Block {
            return if self.consumer.request_doorbell() { self.watch.sleep_within() } else { Ok(Woken::Called) };
        }
        self.watch.quieten();
        if !self.consumer.request_doorbell() || self.watch.is_gone() {
            return Ok(Woken::Called);
        }
        self.watch.sleep_beside(deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Result<usize, ClaimError> {
        if self.kind == Kind::Datagram {
            return self.producer.try_send(bytes).map(|()| bytes.len());
        }
        let mut taken = 0;
        while taken < bytes.len() {
            let piece = (bytes.len() - taken).min(self.piece_max);
            match self.producer.try_send(&bytes[taken..taken + piece]) {
                Ok(()) => taken += piece,
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Returns whether something is in the way of every send, or of this one.
    #[inline]
    fn check_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.watch.sends() || self.finished {
            return Err(self.watch.last_words(ErrorKind::BrokenPipe));
        }
        if self.kind == Kind::Datagram && bytes.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "an empty datagram cannot be told from the end"));
        }
        Ok(())
    }

    fn cannot_send(&mut self, error: ClaimError) -> io::Error {
        match error {
            ClaimError::Full if !self.watch.waited() => ErrorKind::WouldBlock.into(),
            ClaimError::Full | ClaimError::Closed => self.watch.last_words(ErrorKind::BrokenPipe),
            // What UDP says.
            ClaimError::TooLong => Errno::MSGSIZE.into(),
            ClaimError::Forked => forked(error),
            ClaimError::Faulty(_) => invalid(error),
        }
    }

    /// Sleeps until there is room for some of so many bytes, for at most the timeout.
    fn wait_for_room(&mut self, length: usize) -> Result<(), ClaimError> {
        let deadline = Instant::now().checked_add(self.timeout);
        loop {
            let nap = Instant::now() + NAP;
            let limit = deadline.map_or(nap, |deadline| deadline.min(nap));
            match self.producer.wait(length.min(self.piece_max), IdleStrategy::SPIN_THEN_PARK, Some(limit)) {
                Ok(()) => return Ok(()),
                Err(WaitError::TimedOut) if self.watch.look() => return Err(ClaimError::Closed),
                Err(WaitError::TimedOut) if has_passed(deadline) => return Err(ClaimError::Full),
                Err(WaitError::TimedOut) => {}
                Err(WaitError::Closed | WaitError::PeerGone) => return Err(ClaimError::Closed),
                Err(WaitError::TooLong) => return Err(ClaimError::TooLong),
                Err(WaitError::Forked) => return Err(ClaimError::Forked),
                Err(WaitError::Faulty(fault)) => return Err(ClaimError::Faulty(fault)),
            }
        }
    }
}

impl ShmLink {
    /// Shows bytes of a stream in a buffer of this end: the other process could change them in the ring while they are read.
    #[inline]
    pub(in crate::stream) fn receive_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        let mut unread = std::mem::take(&mut self.unread);
        let taken = unread.receive(|space| self.recv_by(|link| link.take_bytes(space)), deliver);
        self.unread = unread;
        taken
    }

    #[inline]
    fn recv_by(&mut self, mut take: impl FnMut(&mut Self) -> Result<usize, ReadError>) -> io::Result<usize> {
        match self.recv_now(&mut take) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
        match self.waiting {
            Waiting::Spin if !self.watch.waited() => Err(ErrorKind::WouldBlock.into()),
            Waiting::Spin => self.recv_last(&mut take),
            _ => self.recv_asleep(&mut take),
        }
    }
}

impl Link for ShmLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check_send(bytes)?;
        let mut pushed = self.push(bytes);
        if self.waiting == Waiting::Block && pushed == Err(ClaimError::Full) {
            pushed = self.wait_for_room(bytes.len()).and_then(|()| self.push(bytes));
        }
        pushed.map_err(|error| self.cannot_send(error))
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.unread.is_empty() {
            return self.receive_with(&mut copy_to(buffer));
        }
        self.recv_by(|link| link.take(buffer))
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.producer.close();
        self.finished = true;
        Ok(())
    }

    /// The Unix socket beside the rings. With [`Waiting::Epoll`] it is readable whenever there is something to receive;
    /// nothing is to be read from it.
    fn socket(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// The bytes of a message behind those given already. Whoever wrote it can have shortened it since the last look, and an honest
/// one is never empty.
#[inline]
fn rest_of(message: &[u8], given: usize) -> Result<&[u8], ReadError> {
    message.get(given..).filter(|rest| !rest.is_empty()).ok_or(ReadError::Faulty(Fault::RecordLength))
}

fn has_passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// A forked child has a copy of the link, which stays its parent's.
#[cold]
fn forked(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, error)
}

#[cold]
fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
