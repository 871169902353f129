//! RSS changes: connections whose packets come by queues of others now.
//!
//! Their packets are dropped and counted (`drop-queue`), and both ends would wait for minutes. So such a connection ends at once
//! with that reason, and its peer is reset. A connection whose SYN has not been answered begins again.

use crate::engine::Engine;
use crate::reason::Reason;
use crate::tcp::Tcp;
use crate::tcp::active_open::opening::{Opening, now_ns};
use crate::tcp::streams::{Steered, Stream, StreamState};
use crate::tcp::table::{TcpEvent, TcpStream};
use sidestep_control_api::message::Protocol;
use sidestep_stack::tcp::{Options, State};
use std::net::SocketAddr;
use std::sync::Arc;

impl Tcp<'_> {
    /// Returns whether what comes from there to a local end is not ours any more.
    pub(crate) fn comes_by_other_queue(&self, remote: SocketAddr, local: SocketAddr) -> bool {
        self.engine.bypass.as_ref().is_some_and(|bypass| bypass.queues.misses(Protocol::Tcp, remote, local))
    }

    /// Ends the connections that are lost to us; those that only ask for one begin again.
    pub(crate) fn abort_misdirected(&mut self) {
        let Engine { streams, bypass: Some(bypass), counters, agent, .. } = &mut *self.engine else { return };
        let now_ns = now_ns();
        for (key, stream) in streams.streams.iter_mut() {
            let StreamState::Accelerated { id, .. } = stream.state else { continue };
            if !bypass.queues.misses(Protocol::Tcp, stream.remote, stream.local) {
                continue;
            }
            let is_asking = match bypass.stack.tcp().facts(id).map(|facts| facts.state) {
                // No segment comes to it any more.
                Err(_) | Ok(State::Closed | State::TimeWait) => continue,
                Ok(state) => state == State::SynSent,
            };
            let options = bypass.stack.tcp().options(id).ok().filter(|_| is_asking);
            bypass.handles.remove_stream(id);
            // An error means that it has ended already.
            let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.abort(now, id, output));
            let before = std::mem::replace(&mut stream.state, StreamState::Lost(Reason::QueueElsewhere));
            let steered = if let StreamState::Accelerated { steered, .. } = before { steered } else { None };
            let entry = steered.as_ref().and_then(|steered| steered.entry);
            entry.into_iter().for_each(|entry| bypass.entries.cancel(entry));
            if let Some(agent) = &*agent {
                entry.into_iter().for_each(|entry| agent.unsteer_later(entry));
                agent.report(format!("tcp {} to {}", stream.local, stream.remote), Reason::QueueElsewhere.code());
            }
            if let Some(options) = options {
                stream.state = StreamState::Opening(Box::new(anew(stream, options, steered, now_ns)));
                streams.opening.push_back(TcpStream(key));
            } else {
                entry.into_iter().for_each(|entry| streams.released.note(entry.local().port()));
                streams.events.push(TcpEvent::Stream(TcpStream(key)));
            }
        }
    }
}

/// The begin of a connection whose SYN nobody has answered, with the socket that holds its port where the program has named one.
pub(super) fn anew(stream: &Stream, options: Options, steered: Option<Steered>, now_ns: u64) -> Opening {
    let mut opening = Opening::new(stream.asked, options, now_ns);
    opening.is_beside = stream.is_beside;
    let is_named = stream.asked.is_some_and(|asked| asked.port() != 0);
    let twin = steered.filter(|_| is_named).and_then(|steered| Arc::into_inner(steered.twin));
    twin.into_iter().for_each(|twin| opening.hold(twin));
    opening
}
