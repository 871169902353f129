//! TIME-WAIT (RFC 9293 section 3.10.7.4, RFC 6191): the wait goes on, begins anew, or ends with a new connection.

use crate::tcp::config::us;
use crate::tcp::counters::Counter;
use crate::tcp::engine::Tcp;
use crate::tcp::flow::Flow;
use crate::tcp::segment_arrives::Received;
use crate::tcp::segment_arrives::seg::Seg;
use crate::tcp::tcb::time_wait::{Response, TimeWait};
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::Output;
use sidestep_wire::tcp::SequenceNumber;

impl Tcp {
    pub(crate) fn segment_in_time_wait(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        mut waiting: TimeWait,
        seg: &Seg<'_>,
        output: &mut dyn Output,
    ) -> Received {
        match waiting.on_segment(seg, now, &self.config) {
            Response::Drop => {}
            Response::Acknowledge { restart } => {
                if restart {
                    self.restart_time_wait(now, index);
                }
                self.send_stateless(flow, waiting.acknowledgement(now), output);
            }
            Response::Reopen { iss_min } => {
                return self.reopen(now, index, flow, seg, (&waiting, iss_min), output);
            }
        }
        self.store_time_wait(index, waiting);
        Received::TimeWait
    }

    /// A SYN begins a new connection out of TIME-WAIT (RFC 6191).
    pub(crate) fn reopen(
        &mut self,
        now: Instant,
        index: u32,
        flow: &Flow,
        syn: &Seg<'_>,
        (waiting, iss_min): (&TimeWait, SequenceNumber),
        output: &mut dyn Output,
    ) -> Received {
        let Some(listener) = self.listeners.find(flow.addresses.source(), flow.local_port) else {
            // Nobody would take the new one: the old one answers.
            self.send_stateless(flow, waiting.acknowledgement(now), output);
            return Received::TimeWait;
        };
        self.counters.count(Counter::TimeWaitReused);
        if self.step(now, index, output, |connection, _| connection.end()).is_none() {
            self.release_time_wait(index);
        }
        let iss = self.isn.choose(flow, now).later(iss_min);
        self.take_syn(now, listener, flow, syn, iss, output);
        self.listeners.at_mut(listener).map_or(Received::TimeWait, |listener| Received::Listener(listener.id))
    }

    /// The wait begins anew.
    pub(crate) fn restart_time_wait(&mut self, now: Instant, index: u32) {
        let deadline = now.after_ns(us(self.config.time_wait_us));
        if let Some(connection) = self.slots.connection_at(index) {
            connection.deadlines.arm(Timer::Close, deadline);
            connection.deadlines.set_told(deadline);
        }
        self.wheel.arm(index, deadline);
    }

    /// Stores what judging has changed.
    pub(crate) fn store_time_wait(&mut self, index: u32, waiting: TimeWait) {
        if let Some(connection) = self.slots.connection_at(index) {
            connection.ack.set_challenge_limit(waiting.challenge);
        } else if let Some(place) = self.slots.time_wait_at(index) {
            *place = waiting;
        }
    }
}
