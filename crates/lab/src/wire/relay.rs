//! The loop that carries frames between the two ends of an impaired wire.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use sidestep_sys::packet::{FrameBuffer, PacketSocket, wait_readable};
use sidestep_sys::{Problem, process};

use super::{Directions, Impair, Impairment, WireCounters};

/// The longest sleep of an idle relay before it checks its stop flag: short for a user, long for the CPU.
const STOP_POLL_NS: u64 = 50_000_000;

/// The number of frames taken from one side before the other side's turn.
const BATCH_FRAMES: usize = 64;

/// Mixed into the seed of the reverse direction, so that one seed does not impair both directions in the same way.
const SEED_OF_THE_WAY_BACK: u64 = 0x9e37_79b9_7f4a_7c15;

/// A wire between two packet sockets.
#[derive(Debug)]
pub(crate) struct Relay {
    a_to_b: Way,
    b_to_a: Way,
    started: Instant,
    buffer: FrameBuffer,
}

/// One direction: the impairment, and the counters around it. The sockets belong to both directions.
#[derive(Debug)]
struct Way {
    impair: Impair,
    overrun: u64,
    refused: u64,
}

/// The two ends, on interfaces of one namespace.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) a: PacketSocket,
    pub(crate) b: PacketSocket,
}

impl Ends {
    /// Opens the sockets in the namespace of the calling thread.
    pub(crate) fn open(to_a: &str, to_b: &str) -> Result<Self, Problem> {
        Ok(Self { a: PacketSocket::open(to_a)?, b: PacketSocket::open(to_b)? })
    }
}

impl Relay {
    /// Makes an empty wire. A seed is used as it is from `a` to `b`, and changed for the reverse direction.
    pub(crate) fn new(impairment: Directions<Impairment>) -> Result<Self, Problem> {
        let mut back = impairment.b_to_a;
        back.seed ^= SEED_OF_THE_WAY_BACK;
        Ok(Self {
            a_to_b: Way::new(impairment.a_to_b)?,
            b_to_a: Way::new(back)?,
            started: Instant::now(),
            buffer: FrameBuffer::new(),
        })
    }

    /// The counters so far.
    fn counters(&self) -> Directions<WireCounters> {
        Directions { a_to_b: self.a_to_b.counters(), b_to_a: self.b_to_a.counters() }
    }

    /// Carries frames until `stop` is set or `round` breaks, which gets the counters after every round.
    pub(crate) fn run(
        &mut self,
        ends: &Ends,
        stop: &AtomicBool,
        mut round: impl FnMut(Directions<WireCounters>) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        let problem = |error: io::Error| {
            Problem::failed("the impaired wire has stopped", error).next("take the lab down and up again")
        };
        process::minimize_timer_slack().map_err(problem)?;
        while !stop.load(Ordering::Relaxed) {
            let has_moved = self.carry(ends).map_err(problem)?;
            if !round(self.counters())? {
                break;
            }
            if !has_moved {
                self.count_overrun(ends).map_err(problem)?;
                wait_readable([ends.a.as_fd(), ends.b.as_fd()], self.idle_ns()).map_err(problem)?;
            }
        }
        Ok(())
    }

    /// Carries one round of frames in and out. Returns whether any came in.
    fn carry(&mut self, ends: &Ends) -> io::Result<bool> {
        let now = || u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let from_a = self.a_to_b.take_in(&ends.a, &mut self.buffer, now)?;
        let from_b = self.b_to_a.take_in(&ends.b, &mut self.buffer, now)?;
        self.a_to_b.put_out(&ends.b, now());
        self.b_to_a.put_out(&ends.a, now());
        Ok(from_a || from_b)
    }

    fn count_overrun(&mut self, ends: &Ends) -> io::Result<()> {
        self.a_to_b.overrun += u64::from(ends.a.take_dropped()?);
        self.b_to_a.overrun += u64::from(ends.b.take_dropped()?);
        Ok(())
    }

    fn idle_ns(&self) -> u64 {
        let now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let next_due = self.a_to_b.impair.next_due().into_iter().chain(self.b_to_a.impair.next_due()).min();
        next_due.map_or(STOP_POLL_NS, |due_ns| due_ns.saturating_sub(now_ns).min(STOP_POLL_NS))
    }
}

impl Way {
    fn new(impairment: Impairment) -> Result<Self, Problem> {
        Ok(Self { impair: Impair::new(impairment)?, overrun: 0, refused: 0 })
    }

    fn counters(&self) -> WireCounters {
        WireCounters { impaired: self.impair.counters(), overrun: self.overrun, refused: self.refused }
    }

    fn take_in(&mut self, from: &PacketSocket, buffer: &mut FrameBuffer, now: impl Fn() -> u64) -> io::Result<bool> {
        for taken in 0..BATCH_FRAMES {
            match from.receive(buffer) {
                Ok(Some(frame)) => self.impair.offer(now(), frame),
                Ok(None) => return Ok(taken > 0),
                // Reported once when the interface goes down; the wire works again when it is up again.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => return Ok(taken > 0),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends a frame. One that the far interface does not accept (too long, no space, down) is lost as on a real wire,
    /// but counted.
    fn put_out(&mut self, to: &PacketSocket, now_ns: u64) {
        while let Some(frame) = self.impair.due(now_ns) {
            if to.send(&frame).is_err() {
                self.refused += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_for_both_ways_does_not_do_the_same_to_both() {
        let impairment = Impairment::parse("loss=50%,seed=1").unwrap();
        let mut relay = Relay::new(Directions { a_to_b: impairment.clone(), b_to_a: impairment }).unwrap();
        let fate = |way: &mut Way| -> Vec<bool> {
            let mut offer = |_| {
                way.impair.offer(0, &[0; 60]);
                way.impair.due(0).is_some()
            };
            (0..64).map(&mut offer).collect()
        };
        assert_ne!(fate(&mut relay.a_to_b), fate(&mut relay.b_to_a));
    }

    #[test]
    fn an_idle_wire_sleeps_until_its_next_frame_and_no_longer_than_the_stop_flag_may_wait() {
        let delayed = Impairment::parse("delay=1min").unwrap();
        let mut relay = Relay::new(Directions { a_to_b: delayed, b_to_a: Impairment::default() }).unwrap();
        assert_eq!(relay.idle_ns(), STOP_POLL_NS);
        relay.a_to_b.impair.offer(0, &[0; 60]);
        assert_eq!(relay.idle_ns(), STOP_POLL_NS);
        relay.b_to_a.impair.offer(0, &[0; 60]);
        assert_eq!(relay.idle_ns(), 0);
    }
}
