//! The timers of one connection. The wheel knows only the earliest, and learns of a later one when it fires: that makes
//! restarting a timer per ACK one store.

use crate::tcp::time::Instant;

/// The timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Retransmission (RFC 6298).
    Retransmit,
    /// Segments that may only be reordered count as lost now (RFC 8985 section 6.2).
    Reorder,
    /// A probe for a lost tail (RFC 8985 section 7).
    TailProbe,
    /// A probe into a closed window (RFC 9293 section 3.8.6.1).
    Persist,
    /// A delayed ACK leaves (RFC 9293 section 3.8.6.3).
    DelayedAck,
    /// Keep-alive (RFC 9293 section 3.8.4).
    KeepAlive,
    /// The end of FIN-WAIT-2 and of TIME-WAIT.
    Close,
    /// A corked part of a segment leaves.
    Cork,
    /// Segments leave that had to wait for the pacing rate.
    Pacing,
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
pub(crate) struct Deadlines {
    timers: [Instant; Timer::ALL.len()],
    /// A lower bound of the earliest of them: all that the wheel needs, without a search per segment.
    soonest: Instant,
    /// The deadline that the wheel was told last, so that a segment need not look there.
    told: Instant,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { timers: [Instant::NEVER; Timer::ALL.len()], soonest: Instant::NEVER, told: Instant::NEVER }
    }
}

impl Deadlines {
    #[inline]
    pub(crate) fn arm(&mut self, timer: Timer, deadline: Instant) {
        self.timers[timer as usize] = deadline;
        self.soonest = self.soonest.min(deadline);
    }

    #[inline]
    pub(crate) fn cancel(&mut self, timer: Timer) {
        self.timers[timer as usize] = Instant::NEVER;
    }

    /// Loads the first and the last.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        self.timers[0].as_nanos() ^ self.told.as_nanos()
    }

    #[inline]
    pub(crate) fn is_armed(&self, timer: Timer) -> bool {
        self.timers[timer as usize] != Instant::NEVER
    }

    #[inline]
    pub(crate) fn at(&self, timer: Timer) -> Instant {
        self.timers[timer as usize]
    }

    /// Takes the deadline that the wheel has to be told, if it knows of none as early.
    #[inline]
    pub(crate) fn take_earlier(&mut self) -> Option<Instant> {
        if self.soonest >= self.told {
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
        self.timers.iter().copied().fold(Instant::NEVER, Instant::min)
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
    fn the_wheel_is_told_once_and_only_of_what_is_earlier() {
        let (mut deadlines, at) = (Deadlines::default(), Instant::from_nanos);
        assert_eq!(deadlines.take_earlier(), None);
        deadlines.arm(Timer::Retransmit, at(7));
        assert_eq!((deadlines.take_earlier(), deadlines.take_earlier()), (Some(at(7)), None));
        deadlines.arm(Timer::Retransmit, at(9));
        deadlines.clear();
        deadlines.arm(Timer::Close, at(8));
        assert_eq!(deadlines.take_earlier(), None, "it wakes at 7, and looks again");
        deadlines.set_told(Instant::NEVER);
        assert_eq!(deadlines.take_earlier(), Some(at(8)));
    }
}
