//! The timers of one connection. The wheel knows only the earliest. Of a later one it learns when it fires, which makes
//! restarting a timer per ACK one store, or when the connection becomes idle, which leaves nothing in the wheel but its keep-alive.

use crate::tcp::time::Instant;

/// The timers; those that data needs last, so that they share a cache line with what tells the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Keep-alive (RFC 9293 section 3.8.4).
    KeepAlive,
    /// The end of FIN-WAIT-2 and of TIME-WAIT.
    Close,
    /// A corked part of a segment leaves.
    Cork,
    /// Segments leave that had to wait for the pacing rate.
    Pacing,
    /// A probe into a closed window (RFC 9293 section 3.8.6.1).
    Persist,
    /// Segments that may only be reordered count as lost now (RFC 8985 section 6.2).
    Reorder,
    /// A delayed ACK leaves (RFC 9293 section 3.8.6.3).
    DelayedAck,
    /// A probe for a lost tail (RFC 8985 section 7).
    TailProbe,
    /// Retransmission (RFC 6298).
    Retransmit,
}

impl Timer {
    /// In the order in which they are served if they are due together: the probe comes in place of the timeout.
    pub(crate) const ALL: [Self; 9] = [
        Self::TailProbe,
        Self::Retransmit,
        Self::Reorder,
        Self::Persist,
        Self::DelayedAck,
        Self::KeepAlive,
        Self::Close,
        Self::Cork,
        Self::Pacing,
    ];
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Deadlines {
    timers: [Instant; Timer::ALL.len()],
    /// A bit for each that is armed; the deadlines of the others mean nothing.
    armed: u16,
    /// A lower bound of the earliest of them: all that the wheel needs, without a search per segment.
    soonest: Instant,
    /// The deadline that the wheel was told last, so that a segment need not look there.
    told: Instant,
}

/// All but keep-alive and the wait at the end: an idle connection has none of them.
const OF_DATA: u16 = !(1 << Timer::KeepAlive as u8 | 1 << Timer::Close as u8);

impl Default for Deadlines {
    fn default() -> Self {
        let never = Instant::NEVER;
        Self { timers: [never; Timer::ALL.len()], armed: 0, soonest: never, told: never }
    }
}

impl Deadlines {
    #[inline]
    pub(crate) fn arm(&mut self, timer: Timer, deadline: Instant) {
        self.timers[timer as usize] = deadline;
        self.armed |= 1 << timer as u8;
        self.soonest = self.soonest.min(deadline);
    }

    #[inline]
    pub(crate) fn cancel(&mut self, timer: Timer) {
        self.armed &= !(1 << timer as u8);
    }

    /// Loads the first and the last.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        self.timers[0].as_nanos() ^ self.told.as_nanos()
    }

    #[inline]
    pub(crate) fn is_armed(&self, timer: Timer) -> bool {
        self.armed & 1 << timer as u8 != 0
    }

    #[inline]
    pub(crate) fn at(&self, timer: Timer) -> Instant {
        if self.is_armed(timer) { self.timers[timer as usize] } else { Instant::NEVER }
    }

    /// Takes the deadline that the wheel has to be told: one that is earlier than what it knows, or, if the connection is idle,
    /// later. [`Instant::NEVER`]: it can forget what it knows.
    #[inline]
    pub(crate) fn take_change(&mut self) -> Option<Instant> {
        if self.armed & OF_DATA == 0 {
            self.soonest = self.at(Timer::KeepAlive).min(self.at(Timer::Close));
            if self.soonest == self.told {
                return None;
            }
        } else if self.soonest >= self.told {
            return None;
        }
        self.told = self.soonest;
        Some(self.told)
    }

    /// The wheel knows of `deadline`, or of nothing ([`Instant::NEVER`]).
    pub(crate) fn set_told(&mut self, deadline: Instant) {
        self.told = deadline;
    }

    /// The deadline that the wheel knows of.
    #[cfg(feature = "audit")]
    pub(crate) fn told(&self) -> Instant {
        self.told
    }

    /// The same after a search for those that are armed.
    pub(crate) fn search(&mut self) -> Instant {
        self.soonest = self.earliest();
        self.soonest
    }

    /// The earliest of all; [`Instant::NEVER`] if none is armed.
    #[inline]
    pub(crate) fn earliest(&self) -> Instant {
        Timer::ALL.iter().fold(Instant::NEVER, |earliest, &timer| earliest.min(self.at(timer)))
    }

    /// Takes a timer that has expired.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let due = Timer::ALL.into_iter().find(|&timer| self.at(timer) <= now)?;
        self.cancel(due);
        Some(due)
    }

    /// Cancels all. The entry in the wheel stays.
    pub(crate) fn clear(&mut self) {
        *self = Self { told: self.told, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fires_once() {
        let mut deadlines = Deadlines::default();
        deadlines.arm(Timer::Cork, Instant::from_nanos(5));
        deadlines.arm(Timer::Retransmit, Instant::from_nanos(7));
        assert_eq!(deadlines.earliest(), Instant::from_nanos(5));
        assert_eq!(deadlines.take_due(Instant::from_nanos(6)), Some(Timer::Cork));
        assert_eq!(deadlines.take_due(Instant::from_nanos(6)), None);
        deadlines.cancel(Timer::Retransmit);
        assert_eq!(deadlines.earliest(), Instant::NEVER);
    }

    #[test]
    fn the_soonest_is_never_late() {
        let mut deadlines = Deadlines::default();
        assert_eq!(deadlines.soonest, Instant::NEVER);
        deadlines.arm(Timer::Retransmit, Instant::from_nanos(7));
        deadlines.arm(Timer::TailProbe, Instant::from_nanos(3));
        deadlines.arm(Timer::TailProbe, Instant::from_nanos(9));
        assert_eq!((deadlines.soonest, deadlines.earliest()), (Instant::from_nanos(3), Instant::from_nanos(7)));
        assert_eq!((deadlines.search(), deadlines.soonest), (Instant::from_nanos(7), Instant::from_nanos(7)));
        deadlines.clear();
        assert_eq!(deadlines.soonest, Instant::NEVER);
    }

    #[test]
    fn the_wheel_is_told_once_of_what_is_earlier_and_when_it_is_idle() {
        let (mut deadlines, at) = (Deadlines::default(), Instant::from_nanos);
        assert_eq!(deadlines.take_change(), None);
        deadlines.arm(Timer::Retransmit, at(9));
        deadlines.arm(Timer::TailProbe, at(7));
        assert_eq!((deadlines.take_change(), deadlines.take_change()), (Some(at(7)), None));
        deadlines.arm(Timer::TailProbe, at(8));
        assert_eq!(deadlines.take_change(), None, "it wakes at 7, and looks again");
        deadlines.cancel(Timer::TailProbe);
        deadlines.arm(Timer::KeepAlive, at(99));
        assert_eq!(deadlines.take_change(), None);
        deadlines.cancel(Timer::Retransmit);
        assert_eq!((deadlines.take_change(), deadlines.take_change()), (Some(at(99)), None), "it is idle");
        deadlines.arm(Timer::TailProbe, at(8));
        assert_eq!(deadlines.take_change(), Some(at(8)));
        deadlines.clear();
        assert_eq!((deadlines.take_change(), deadlines.take_change()), (Some(Instant::NEVER), None));
        deadlines.arm(Timer::Close, at(8));
        deadlines.set_told(at(8));
        assert_eq!(deadlines.take_change(), None);
        deadlines.set_told(Instant::NEVER);
        assert_eq!(deadlines.take_change(), Some(at(8)));
    }
}
