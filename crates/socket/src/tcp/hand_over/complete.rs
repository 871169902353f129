//! The end of a hand-over: the stream goes on by the kernel, or as before.

use super::pending::Pending;
use crate::engine::Engine;
use crate::reason::Reason;
use crate::tcp::streams::{ClosedConnection, StreamState};
use crate::tcp::table::TcpEvent;
use sidestep_control_api::message::Entry;
use std::net::SocketAddr;
use std::time::Duration;

impl Engine {
    /// Completes what control has answered.
    pub(crate) fn poll_hand_overs(&mut self) {
        if self.streams.hand_overs.is_idle() {
            return;
        }
        let all = std::mem::take(&mut self.streams.hand_overs.pending);
        for pending in all {
            match pending.answer.take() {
                None => self.streams.hand_overs.pending.push(pending),
                Some(Ok(())) => self.complete_hand_over(pending),
                Some(Err(reason)) => self.undo_hand_over(pending, reason),
            }
        }
        self.advance_release();
    }

    fn complete_hand_over(&mut self, pending: Pending) {
        let Pending { id, stream, flow, steered, socket, is_read_shut, is_aborted, .. } = pending;
        let Self { streams, bypass, counters, .. } = self;
        let bypass = bypass.as_mut().filter(|bypass| bypass.lost.is_none());
        if let (Some(bypass), Entry::Flow { local, remote, .. }) = (bypass, flow) {
            bypass.handles.remove_stream(id);
            // It is frozen. What is still in the ring is dropped, and nothing of it answered.
            if bypass.with_tcp(counters, |tcp, now, output| tcp.forget(now, id, output)).is_ok() {
                // The stack has given an earlier one back by itself, whose end was not told.
                let _ = streams.hand_overs.take_tuple(local, remote);
                streams.hand_overs.done.push((id, local, remote));
            }
        }
        drop(steered);
        if is_read_shut {
            // One that has ended already reads no more, either.
            let _ = socket.shutdown(std::net::Shutdown::Read);
        }
        let open = stream.and_then(|stream| Some((stream, self.streams.streams.at(stream.0).ok()?)));
        match open {
            Some((stream, open)) => {
                open.state = StreamState::Kernel(socket, Reason::HandedOver);
                self.streams.events.push(TcpEvent::Stream(stream));
            }
            None if is_aborted => _ = socket.set_linger(Some(Duration::ZERO)),
            // The kernel goes on with what is unsent.
            None => {}
        }
    }

    /// The connection goes on past the kernel.
    fn undo_hand_over(&mut self, pending: Pending, reason: Reason) {
        let Pending { id, stream, steered, is_aborted, cookie, .. } = pending;
        if let (Some(cookie), Some(agent)) = (cookie, &self.agent) {
            agent.keep_twin(cookie, reason.code());
        }
        let Self { streams, bypass, counters, .. } = self;
        let bypass = bypass.as_mut().filter(|bypass| bypass.lost.is_none());
        let lost = bypass.is_none();
        if let Some(bypass) = bypass {
            // It is frozen.
            let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.thaw(now, id, output));
            if stream.is_none() {
                bypass.handles.remove_stream(id);
                // One that has ended already is as wanted.
                let _ = bypass.with_tcp(counters, |tcp, now, output| {
                    if is_aborted { tcp.abort(now, id, output) } else { tcp.close(now, id, output) }
                });
                streams.closed.extend(steered.map(|steered| ClosedConnection { id, steered }));
                return;
            }
        }
        let Some((stream, open)) = stream.and_then(|stream| Some((stream, streams.streams.at(stream.0).ok()?))) else {
            return;
        };
        open.state = if lost { StreamState::Lost(reason) } else { StreamState::Accelerated { id, steered } };
        streams.events.push(TcpEvent::Stream(stream));
    }

    /// A connection has ended in the kernel: its tuple may be used again.
    pub(crate) fn end_handed_over(&mut self, local: SocketAddr, remote: SocketAddr) {
        let Some(id) = self.streams.hand_overs.take_tuple(local, remote) else { return };
        if let Some(bypass) = self.bypass() {
            bypass.stack.tcp_mut().release(id);
        }
        self.streams.ports.invalidate();
    }
}
