//! The other end of a hand-over, for tests: a connection that goes on by nothing but a record, as the kernel's does.

use super::record::{Handover, OwnFin};
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::events::Place;
use crate::tcp::options::Options;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::timers::deadlines::Timer;
use crate::tcp::transmit::output::Output;

impl Tcp {
    /// Goes on with a connection by its record; the tuple must be free.
    pub fn resume(
        &mut self,
        now: Instant,
        record: &Handover,
        options: Options,
        output: &mut dyn Output,
    ) -> Result<ConnectionId, Error> {
        self.vacate(now, &record.flow)?;
        let id = self.open(now, record.flow, options, record.send_start - 1, None, None)?;
        self.step(now, id.index, output, |connection, cx| connection.resume(cx, record));
        self.events.push(Place::Connection(id.index));
        Ok(id)
    }
}

impl Connection {
    fn resume(&mut self, cx: &Context<'_>, record: &Handover) {
        self.state = State::Established;
        self.negotiated.resume(record, cx.now);
        self.mss.set_peer(record.segment_bytes);
        self.follow_segment_size();
        let (bytes, segments) = (self.payload_bytes(), cx.config.initial_window_segments);
        self.congestion = cx.config.controller(&self.options, bytes, segments);
        self.rcv.resume(record);
        self.ack.begin(self.rcv.nxt());
        self.snd.resume(record);
        self.recovery.point = self.snd.una();
        if record.has_peer_fin {
            self.rcv.note_fin(record.receive_end);
            self.rcv.take_finish();
            self.state = self.state.after_fin();
        }
        if record.is_read_shut {
            self.rcv.shut();
        }
        match record.own_fin {
            OwnFin::None => {}
            OwnFin::Queued => self.finish(),
            OwnFin::Sent => {
                self.finish();
                self.snd.resume_fin(record.sent_end(), false);
            }
            OwnFin::Acknowledged => {
                self.finish();
                self.snd.resume_fin(record.sent_end(), true);
                self.state = self.state.after_fin_acknowledged();
            }
        }
        // Both ends are right; the order in which they came tells CLOSING from LAST-ACK.
        if record.state == State::Closing {
            self.state = State::Closing;
        }
        self.note_unacknowledged(cx);
    }

    /// What was sent counts as sent now, our FIN, too: the peer may acknowledge it before it could leave again, and an ACK beyond
    /// SND.NXT would be dropped (RFC 9293 section 3.10.7.4, fifth check).
    fn note_unacknowledged(&mut self, cx: &Context<'_>) {
        let (mut start, end) = (self.snd.una(), self.snd.nxt());
        while start != end {
            let next = end.earlier(start + self.payload_bytes());
            self.recovery.board.push(start, next, cx.now);
            start = next;
        }
        if !self.recovery.board.is_empty() {
            self.liveness.wait_from(cx.now);
            self.arm_retransmit(cx);
            self.deadlines.cancel(Timer::Persist);
        }
    }
}
