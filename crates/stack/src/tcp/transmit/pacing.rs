//! Pacing: segments wait for their time of departure, and a timer ends the wait (draft-ietf-ccwg-bbr-04 section 5.6.2).
//!
//! The first segment of a connection with nothing in flight never waits, nor does one that no congestion control paces.

use crate::tcp::tcb::connection::Connection;
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;

impl Connection {
    /// Arms the timer for segments that wait for their departure.
    #[inline]
    pub(crate) fn arm_pacing(&mut self, now: Instant) {
        let departure = self.congestion.departure(now);
        match departure.filter(|_| self.recovery.board.lost() > 0 || self.snd.unsent() > 0) {
            // Most often it is armed for this very time.
            Some(departure) => self.deadlines.arm(Timer::Pacing, departure),
            None => self.deadlines.cancel(Timer::Pacing),
        }
    }
}
