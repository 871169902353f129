//! The poll: expired timers, and connections that have something to send in the next poll.

use crate::tcp::config::us;
use crate::tcp::demux::slots::Slot;
use crate::tcp::engine::Tcp;
use crate::tcp::tcb::connection::Context;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;

impl Tcp {
    /// Does what is due: timers, ACKs that waited for data to ride on until a burst was over, segments that the sink had no room
    /// for. Gives how many connections had something to do. To be called after each burst of segments, and not later than
    /// [`Tcp::next_poll`].
    #[inline]
    pub fn poll(&mut self, now: Instant, output: &mut dyn Output) -> usize {
        let mut work = 0;
        while let Some(index) = self.wheel.pop_due(now) {
            self.expire(now, index, output);
            work += 1;
        }
        if self.due.is_empty() || self.is_due_done() {
            return work;
        }
        if self.due.at(us(self.config.burst_gap_us)).is_none_or(|at| at > now) {
            return work;
        }
        self.due.begin();
        while let Some(index) = self.due.next() {
            work += 1;
            if let Some(connection) = self.slots.connection_at(index) {
                connection.marks.clear_due();
                if connection.has_to_send() {
                    self.finish_step(now, index, output, true);
                }
            }
        }
        work
    }

    /// Clears the list if the only connection on it has nothing to send any more: its ACK has left with data, as it does
    /// most often. The polls until the end of the burst then need no clock.
    #[inline]
    fn is_due_done(&mut self) -> bool {
        let Some(index) = self.due.only() else { return false };
        if let Some(connection) = self.slots.connection_at(index) {
            if connection.has_to_send() {
                return false;
            }
            connection.marks.clear_due();
        }
        self.due.clear();
        true
    }

    fn expire(&mut self, now: Instant, index: u32, output: &mut dyn Output) {
        if matches!(self.slots.slot(index), Slot::TimeWait(_)) {
            return self.release_time_wait(index);
        }
        let Some(connection) = self.slots.connection_at(index) else { return };
        let earliest = connection.deadlines.search();
        connection.deadlines.set_told(Instant::NEVER);
        if earliest > now {
            // The timers were restarted or cancelled meanwhile. Of an idle connection nothing else is touched.
            if let Some(deadline) = connection.deadlines.take_change() {
                self.wheel.arm(index, deadline);
            }
            return;
        }
        let mut cx = Context { now, config: &self.config, counters: &mut self.counters, output };
        while let Some(timer) = connection.deadlines.take_due(now) {
            connection.expire(&mut cx, timer);
        }
        connection.deadlines.search();
        self.finish_step(now, index, output, false);
    }

    /// Returns whether ACKs or segments wait for a [`Tcp::poll`]: the next, or the one behind the burst.
    #[inline]
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The time of the next [`Tcp::poll`] that has something to do, if nothing else happens: the earliest timer,
    /// the end of a burst that an ACK waits for, or the clock's beginning if segments wait for it now. `None`: never. May be
    /// early, never late. Costs a walk; for a caller that wants to sleep.
    pub fn next_poll(&self) -> Option<Instant> {
        let due = self.due.at(us(self.config.burst_gap_us));
        [due, self.wheel.earliest()].into_iter().flatten().min()
    }
}
