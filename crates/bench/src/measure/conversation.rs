//! The measured loop: reads the clock, sends a message, receives its answer, reads the clock.

use crate::link::{Link, send_all};
use crate::message::{Header, filled};
use sidestep_socket::stream::is_retry;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// A datagram without an answer for this time counts as lost. Far above the latency of any path.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// A stream whose answer takes longer is broken.
const BROKEN_AFTER: Duration = Duration::from_secs(3);
/// Losses in a row after which the peer counts as gone.
const LOSSES_MAX: u32 = 15;
/// Empty receives of a spinning path between two readings of the clock.
const POLLS: u32 = 4096;
/// Answers at the start of each slice that are compared byte by byte; of the later ones only the header is.
const CHECKED: u64 = 16;

/// One connection of a slice.
pub(crate) struct Conversation<'a> {
    link: Box<dyn Link>,
    clock: &'a Clock,
    is_datagram: bool,
    spins: bool,
    message: Vec<u8>,
    answer: Vec<u8>,
    sequence: u64,
    losses_in_a_row: u32,
    /// The reading of the clock before the last message.
    begun: u64,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(link: Box<dyn Link>, clock: &'a Clock, size: u32, is_datagram: bool, spins: bool) -> Self {
        let message = filled(size);
        let answer = vec![0; size as usize];
        Self { link, clock, is_datagram, spins, message, answer, sequence: 0, losses_in_a_row: 0, begun: 0 }
    }

    /// Measures one message and its answer: returns the ticks, or none if it was lost.
    #[inline]
    pub(super) fn round_trip(&mut self) -> Result<Option<u64>, Problem> {
        let header = Header { sequence: self.sequence, last: false };
        header.write(&mut self.message);
        let begin = self.clock.start();
        if let Err(error) = send_all(self.link.as_mut(), &self.message) {
            return self.lose(error);
        }
        if !self.receive(begin)? {
            return Ok(None);
        }
        let ticks = self.clock.stop() - begin;
        self.check()?;
        self.losses_in_a_row = 0;
        self.sequence += 1;
        self.begun = begin;
        Ok(Some(ticks))
    }

    /// The reading of the clock before the last message that was answered.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Receives the answer to the message sent at `begin`; false if it is lost.
    #[inline]
    fn receive(&mut self, begin: u64) -> Result<bool, Problem> {
        let (mut filled, mut polls) = (0, 0);
        while filled < self.answer.len() {
            match self.link.receive(&mut self.answer[filled..]) {
                Ok(0) if !self.is_datagram => return Err(broken("it closed the connection")),
                Ok(count) if self.is_datagram && self.is_stale(count) => {}
                Ok(count) => filled += count,
                Err(error) if is_retry(&error) => {
                    polls += 1;
                    if (polls >= POLLS || !self.spins) && self.is_overdue(begin)? {
                        return Ok(false);
                    }
                    polls %= POLLS;
                }
                Err(error) => return self.lose(error).map(|_| false),
            }
        }
        Ok(true)
    }

    /// Counts a late answer to an earlier message.
    fn is_stale(&self, count: usize) -> bool {
        Header::read(&self.answer[..count]).is_none_or(|header| header.sequence != self.sequence)
    }

    /// Returns whether the answer to the message sent at `begin` is lost.
    #[cold]
    fn is_overdue(&mut self, begin: u64) -> Result<bool, Problem> {
        let waited = Duration::from_nanos(self.clock.ns(self.clock.stop() - begin));
        if !self.is_datagram {
            let silent = || broken(format!("no answer for {} s", BROKEN_AFTER.as_secs()));
            return if waited > BROKEN_AFTER { Err(silent()) } else { Ok(false) };
        }
        if waited < LOST_AFTER {
            return Ok(false);
        }
        self.lose(ErrorKind::TimedOut.into()).map(|_| true)
    }

    /// Counts a loss of a datagram; on a stream, or after too many in a row, it is an error.
    #[cold]
    fn lose(&mut self, error: io::Error) -> Result<Option<u64>, Problem> {
        self.losses_in_a_row += 1;
        if !self.is_datagram {
            return Err(broken(error));
        }
        if self.losses_in_a_row >= LOSSES_MAX {
            return Err(broken(format!("{LOSSES_MAX} messages in a row were not answered")));
        }
        self.sequence += 1;
        Ok(None)
    }

    /// Compares the answer with what was sent.
    #[inline]
    fn check(&self) -> Result<(), Problem> {
        let length = if self.sequence < CHECKED { self.answer.len() } else { size_of::<u64>() };
        if self.answer[..length] == self.message[..length] { Ok(()) } else { Err(broken("it answered other bytes")) }
    }

    /// Ends the slice on the peer's side.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if !self.is_datagram {
            return self.link.shutdown();
        }
        Header { sequence: self.sequence, last: true }.write(&mut self.message);
        send_all(self.link.as_mut(), &self.message)?;
        self.link.flush()
    }
}

fn broken(why: impl std::fmt::Display) -> Problem {
    Problem::failed("the peer stopped answering", why).next("see what the peer printed, and whether its host is up")
}
