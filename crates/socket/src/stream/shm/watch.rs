//! The Unix socket beside the rings: it tells that the other end is gone, carries the doorbell, and is where this end sleeps.

use super::hello::{BELL, REFUSAL_BYTES, Refusal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::Socket;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Turns between two looks at the clock, for an end that never sleeps: about a microsecond of spinning.
const TURNS: u32 = 128;
/// The weight of a send, in turns, so that an end that only sends checks soon, too.
const TURNS_OF_A_SEND: u32 = 8;
/// Time between two looks at the socket.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Messages looked through for a refusal. An honest end has sent two bells before it at the most.
const BELLS_MAX: usize = 16;

/// Watches the other end.
pub(super) struct Watch {
    socket: Arc<Socket>,
    /// Turns between two looks at the clock.
    turns_max: u32,
    turns: u32,
    /// True if the other end was heard since the last look.
    heard: bool,
    looked: Instant,
    gone: bool,
    refusal: Option<Refusal>,
}

/// The event that ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// A doorbell, perhaps an old one, or the other end's end.
    Called,
    /// The time.
    TimedOut,
}

impl Watch {
    /// Over the connected socket, for an end that never sleeps.
    pub(super) fn over(socket: Socket) -> Self {
        let (socket, looked) = (Arc::new(socket), Instant::now());
        Self { socket, turns_max: TURNS, turns: 0, heard: false, looked, gone: false, refusal: None }
    }

    /// An end that sleeps looks at the clock in each turn, which is slow anyway.
    pub(super) fn set_sleeping(&mut self, sleeps: bool) {
        self.turns_max = if sleeps { 1 } else { TURNS };
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the call that wakes the other end.
    pub(super) fn doorbell(&self) -> impl Fn() + Send + Sync + use<> {
        let socket = Arc::clone(&self.socket);
        move || {
            // A buffer that is full is readable, and an end that is gone needs no waking.
            let _ = send(&*socket, &BELL, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Notes that the other end has sent something, and so need not be looked for.
    #[inline]
    pub(super) fn heard(&mut self) {
        self.heard = true;
    }

    /// Counts a receive that found nothing, and returns whether the other end is known to be gone.
    #[inline]
    pub(super) fn waited(&mut self) -> bool {
        self.turn(1)
    }

    /// Counts a send, and returns whether the other end is known to be gone.
    #[inline]
    pub(super) fn sends(&mut self) -> bool {
        self.turn(TURNS_OF_A_SEND)
    }

    #[inline]
    fn turn(&mut self, turns: u32) -> bool {
        self.turns += turns;
        if self.turns >= self.turns_max {
            self.look_at_clock();
        }
        self.gone
    }

    #[cold]
    fn look_at_clock(&mut self) {
        self.turns = 0;
        let now = Instant::now();
        if std::mem::take(&mut self.heard) {
            self.looked = now;
        } else if now.duration_since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            self.look();
        }
    }

    /// Looks at the socket, by one system call, and returns whether the other end is gone.
    pub(super) fn look(&mut self) -> bool {
        let mut socket = [PollFd::new(&*self.socket, PollFlags::empty())];
        if !self.gone && poll(&mut socket, Some(&Timespec::default())).is_ok() {
            self.note(socket[0].revents());
        }
        self.gone
    }

    /// Sleeps until the doorbell rings or the other end ends, for at most `timeout`. The doorbell stays: the socket is readable.
    pub(super) fn sleep_beside(&mut self, timeout: Option<Duration>) -> io::Result<Woken> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut socket = [PollFd::new(&*self.socket, PollFlags::IN)];
        let count = poll(&mut socket, timeout.as_ref())?;
        self.note(socket[0].revents());
        Ok(if count == 0 { Woken::TimedOut } else { Woken::Called })
    }

    /// As [`Watch::sleep_beside`], and takes the doorbell out: one system call less. For as long as SO_RCVTIMEO says.
    pub(super) fn sleep_within(&mut self) -> io::Result<Woken> {
        self.hear(RecvFlags::empty())
    }

    /// Takes out a doorbell that has rung, if one has. Called before it is asked for again, so that none is lost.
    pub(super) fn quieten(&mut self) {
        // An error is one that the sleep that follows will have, too.
        let _ = self.hear(RecvFlags::DONTWAIT);
    }

    /// Takes one message of the other end.
    fn hear(&mut self, flags: RecvFlags) -> io::Result<Woken> {
        let mut message = [0; REFUSAL_BYTES + 1];
        match recv(&*self.socket, &mut message, flags) {
            Ok((0, _)) => self.gone = true,
            Ok((length, _)) => self.refusal = self.refusal.or(Refusal::decode(&message[..length.min(message.len())])),
            // The end left something of ours unread. What it said before that is still there.
            Err(Errno::CONNRESET) => self.gone = true,
            Err(Errno::AGAIN) => return Ok(Woken::TimedOut),
            Err(error) => return Err(error.into()),
        }
        Ok(Woken::Called)
    }

    /// Returns whether the other end is known to be gone.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Returns the error for an end that is gone: its refusal, or else `otherwise`.
    #[cold]
    pub(super) fn last_words(&mut self, otherwise: io::ErrorKind) -> io::Error {
        for _ in 0..BELLS_MAX {
            if self.refusal.is_some() || !matches!(self.hear(RecvFlags::DONTWAIT), Ok(Woken::Called)) {
                break;
            }
        }
        match self.refusal {
            Some(refusal) => io::Error::new(io::ErrorKind::ConnectionRefused, refusal.to_string()),
            None => otherwise.into(),
        }
    }

    fn note(&mut self, events: PollFlags) {
        self.gone |= events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
    }
}
