//! The two rings of a connection: sending, receiving and waiting, and what it means for them that the other end is gone.

use super::watch::{Watch, Woken};
use crate::stream::options::TIMEOUT_MIN;
use crate::stream::{Options, Waiting};
use rustix::io::Errno;
use sidestep_ring::spsc::{Consumer, Producer};
use sidestep_ring::{ClaimError, ReadError, WaitError};
use sidestep_sys::idle::IdleStrategy;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The longest sleep of a sender before it looks at the socket: room is told by the ring, an end is not.
const NAP: Duration = Duration::from_millis(5);

/// One end of two rings.
pub(crate) struct Rings {
    consumer: Consumer,
    producer: Producer,
    waiting: Waiting,
    timeout: Duration,
    /// True if this end has finished sending.
    finished: bool,
    // Last: whoever sees the socket close sees what the rings say about it.
    watch: Watch,
}

impl Rings {
    /// Over the two handles of this end; calls never wait.
    pub(super) fn new(consumer: Consumer, mut producer: Producer, watch: Watch) -> Self {
        producer.set_doorbell(watch.doorbell());
        let (waiting, timeout) = (Waiting::Spin, Duration::ZERO);
        Self { consumer, producer, waiting, timeout, finished: false, watch }
    }

    /// Has calls wait as `options` say. Called before the other end can write, or while the bell behind the connector's hello is
    /// in the socket: what was written without a doorbell is told by it.
    pub(crate) fn set_waiting(&mut self, options: &Options) -> io::Result<()> {
        (self.waiting, self.timeout) = (options.waiting, options.timeout);
        let sleeps = options.waiting != Waiting::Spin;
        if sleeps {
            self.consumer.request_doorbell();
        }
        self.watch.set_sleeping(sleeps);
        // Zero would mean for ever.
        self.watch.socket().set_read_timeout(Some(options.timeout.max(TIMEOUT_MIN)))
    }

    /// The longest message that a ring takes, bytes.
    pub(super) fn message_bytes_max(&self) -> usize {
        self.producer.message_bytes_max()
    }

    /// Sends by `push`; where the ring is full, a call that blocks waits for room for `needed` bytes first.
    #[inline]
    pub(crate) fn send(
        &mut self,
        needed: usize,
        mut push: impl FnMut(&mut Producer) -> Result<usize, ClaimError>,
    ) -> io::Result<usize> {
        if self.watch.sends() || self.finished {
            return Err(self.watch.last_words(ErrorKind::BrokenPipe));
        }
        let mut pushed = push(&mut self.producer);
        if self.waiting == Waiting::Block && pushed == Err(ClaimError::Full) {
            pushed = self.wait_for_room(needed).and_then(|()| push(&mut self.producer));
        }
        pushed.map_err(|error| self.cannot_send(error))
    }

    fn cannot_send(&mut self, error: ClaimError) -> io::Error {
        match error {
            ClaimError::Full if !self.watch.waited() => ErrorKind::WouldBlock.into(),
            ClaimError::Full | ClaimError::Closed => self.watch.last_words(ErrorKind::BrokenPipe),
            // As UDP does.
            ClaimError::TooLong => Errno::MSGSIZE.into(),
            ClaimError::Forked => forked(error),
            ClaimError::Faulty(_) => invalid(error),
        }
    }

    /// Sleeps until there is room for so many bytes, for at most the timeout.
    fn wait_for_room(&mut self, length: usize) -> Result<(), ClaimError> {
        let deadline = Instant::now().checked_add(self.timeout);
        loop {
            let nap = Instant::now() + NAP;
            let limit = deadline.map_or(nap, |deadline| deadline.min(nap));
            match self.producer.wait(length, IdleStrategy::SPIN_THEN_PARK, Some(limit)) {
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

    /// Receives by `take`, and waits until there is something for it.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        mut take: impl FnMut(&mut Consumer) -> Result<usize, ReadError>,
    ) -> io::Result<usize> {
        match self.receive_now(&mut take) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other,
        }
        match self.waiting {
            Waiting::Spin if !self.watch.waited() => Err(ErrorKind::WouldBlock.into()),
            Waiting::Spin => self.receive_last(&mut take),
            _ => self.receive_asleep(&mut take),
        }
    }

    /// Does `take`, and translates its errors.
    #[inline]
    fn receive_now(&mut self, take: &mut impl FnMut(&mut Consumer) -> Result<usize, ReadError>) -> io::Result<usize> {
        match take(&mut self.consumer) {
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
    fn receive_last(&mut self, take: &mut impl FnMut(&mut Consumer) -> Result<usize, ReadError>) -> io::Result<usize> {
        match self.receive_now(take) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(self.watch.last_words(ErrorKind::ConnectionReset))
            }
            other => other,
        }
    }

    /// Sleeps until there is something.
    fn receive_asleep(
        &mut self,
        take: &mut impl FnMut(&mut Consumer) -> Result<usize, ReadError>,
    ) -> io::Result<usize> {
        let deadline = Instant::now().checked_add(self.timeout);
        loop {
            if self.sleep(deadline)? == Woken::TimedOut {
                return Err(ErrorKind::WouldBlock.into());
            }
            if self.watch.is_gone() {
                return self.receive_last(take);
            }
            match self.receive_now(take) {
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

    /// Ends this side's sending.
    pub(crate) fn shutdown(&mut self) {
        self.producer.close();
        self.finished = true;
    }

    /// The Unix socket beside the rings. With [`Waiting::Epoll`] it is readable whenever there is something to receive;
    /// nothing is to be read from it.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.watch.socket().as_fd()
    }
}

fn has_passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// A forked child has a copy of the rings, which stay its parent's.
#[cold]
fn forked(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, error)
}

#[cold]
fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
