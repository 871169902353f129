//! A step of one connection, and all that follows from it: segments, timers, events, the end.

use crate::tcp::ack::generation::Need;
use crate::tcp::counters::Counter;
use crate::tcp::engine::Tcp;
use crate::tcp::events::Place;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::tcb::time_wait::TimeWait;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;

impl Tcp {
    /// Runs a step of the connection at `index`, and finishes it.
    #[inline]
    pub(crate) fn step<T>(
        &mut self,
        now: Instant,
        index: u32,
        output: &mut dyn Output,
        step: impl FnOnce(&mut Connection, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let connection = self.slots.connection_at(index)?;
        let mut cx = Context { now, config: &self.config, counters: &mut self.counters, output };
        let result = step(connection, &mut cx);
        self.finish_step(now, index, output, false);
        Some(result)
    }

    /// Sends what may leave, arms the wheel, queues an event, and removes the connection if it has ended.
    #[inline]
    pub(crate) fn finish_step(&mut self, now: Instant, index: u32, output: &mut dyn Output, is_poll: bool) {
        let Some(connection) = self.slots.connection_at(index) else { return };
        let mut cx = Context { now, config: &self.config, counters: &mut self.counters, output };
        let has_room = connection.transmit(&mut cx, is_poll);
        if !has_room {
            self.due.refuse(index, connection.marks.set_due());
        } else if connection.ack.need() == Need::Poll {
            self.due.owe_ack(now, index, connection.marks.set_due());
        }
        debug_assert!(connection.has_needed_timers(), "{} {:?}", connection.flow, connection.state);
        let readiness = connection.current_readiness();
        if connection.notices.update(readiness) && connection.owner.is_held() {
            self.events.push(Place::Connection(index));
        }
        let fast_path = connection.allows_fast_path();
        #[cfg(feature = "audit")]
        let fast_path = fast_path && !self.is_fast_path_off;
        connection.marks.set_fast_path(fast_path);
        let has_change = connection.has_state_change();
        if let Some(deadline) = connection.deadlines.take_change() {
            self.wheel.arm(index, deadline);
        }
        if has_change {
            self.follow_state_change(index);
        }
    }

    /// Follows the beginning and the end of a connection, and the end of its orphan time.
    fn follow_state_change(&mut self, index: u32) {
        self.announce(index);
        let Some(connection) = self.slots.connection_at(index) else { return };
        let (state, is_orphan) = (connection.state, connection.owner.is_orphan());
        if connection.owner.orphan_bytes() != 0 && (state == State::Closed || connection.snd.is_fin_acknowledged()) {
            self.release_orphan(index);
        }
        match state {
            State::Closed => self.retire(index),
            State::TimeWait if is_orphan => self.shrink_to_time_wait(index),
            _ => {}
        }
    }

    /// Tells the listener: a peer's connection is established, or has failed before it was.
    fn announce(&mut self, index: u32) {
        let Some(connection) = self.slots.connection_at(index) else { return };
        let Some(listener) = connection.owner.unannounced() else { return };
        if connection.state == State::SynReceived {
            return;
        }
        let has_failed = connection.state == State::Closed;
        if !has_failed {
            connection.owner.announce();
        }
        let id = connection.id;
        let Some(listener) = self.listeners.held(listener) else { return };
        listener.half_open = listener.half_open.saturating_sub(1);
        if !has_failed {
            listener.push(id);
            self.events.push(Place::Listener(listener.id.index));
        }
    }

    /// Removes a connection that has ended from the demultiplexer, and frees its slot once nobody holds it.
    fn retire(&mut self, index: u32) {
        self.wheel.cancel(index);
        let Some(connection) = self.slots.connection_at(index) else { return };
        connection.deadlines.set_told(Instant::NEVER);
        let (flow, is_over) = (connection.flow, connection.is_over());
        if connection.marks.leave_demux() {
            self.demux.remove(&flow, index);
        }
        if is_over {
            self.slots.release(index);
        }
    }

    /// Keeps only what TIME-WAIT needs of a connection that nobody holds.
    fn shrink_to_time_wait(&mut self, index: u32) {
        let is_full = self.slots.waiting >= self.config.time_wait_max;
        let Some(connection) = self.slots.connection_at(index) else { return };
        if is_full {
            self.counters.count(Counter::TimeWaitFull);
            connection.end();
            return self.retire(index);
        }
        let waiting = TimeWait::of(connection);
        let deadline = connection.deadlines.earliest();
        self.slots.wait(index, waiting);
        self.wheel.arm(index, deadline);
    }

    /// Ends TIME-WAIT of a connection that nobody holds.
    pub(crate) fn release_time_wait(&mut self, index: u32) {
        self.wheel.cancel(index);
        if let Some(waiting) = self.slots.time_wait_at(index) {
            let flow = waiting.flow;
            self.demux.remove(&flow, index);
            self.slots.release(index);
        }
    }
}

impl Connection {
    /// Returns whether [`Tcp::follow_state_change`] has something to do.
    #[inline]
    fn has_state_change(&self) -> bool {
        let is_new = self.owner.unannounced().is_some();
        let is_safe = self.owner.orphan_bytes() != 0 && self.snd.is_fin_acknowledged();
        is_new || is_safe || matches!(self.state, State::Closed | State::TimeWait)
    }
}
