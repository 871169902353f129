//! The end of streams, and what has to stay until their packets can no longer come.

use crate::engine::Engine;
use crate::tcp::Tcp;
use crate::tcp::data::Found;
use crate::tcp::error::TcpError;
use crate::tcp::streams::{ClosedConnection, Steered, Stream, StreamState};
use crate::tcp::table::{TcpEvent, TcpStream};
use sidestep_stack::tcp::{ConnectionId, Error, Shutdown};
use std::time::Duration;

/// Closed connections looked at in one turn of housekeeping, some twenty turns a millisecond in a loop that spins.
const CLOSED_PER_TURN: usize = 8;

impl Tcp<'_> {
    /// Ends one direction or both; the handle stays.
    pub fn shutdown(&mut self, stream: TcpStream, how: Shutdown) -> Result<(), TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, counters, id) => {
                Ok(bypass.with_tcp(counters, |tcp, now, output| tcp.shutdown(now, id, how, output))?)
            }
            Found::Kernel(socket, _) => Ok(socket.shutdown(match how {
                Shutdown::Read => std::net::Shutdown::Read,
                Shutdown::Write => std::net::Shutdown::Write,
                Shutdown::Both => std::net::Shutdown::Both,
            })?),
            Found::Opening(_) => Err(TcpError::Stack(Error::NotConnected)),
        }
    }

    /// Lets go of a stream. What was handed over is still sent as long as the engine is polled, then a FIN; data that waits
    /// unread makes it a RST, as with the kernel's. The steering entry stays until TIME-WAIT is over.
    pub fn close(&mut self, stream: TcpStream) -> Result<(), TcpError> {
        self.end(stream, false)
    }

    /// Ends a stream at once: the peer gets a RST, what was not acknowledged is lost.
    pub fn abort(&mut self, stream: TcpStream) -> Result<(), TcpError> {
        self.end(stream, true)
    }

    fn end(&mut self, stream: TcpStream, is_abort: bool) -> Result<(), TcpError> {
        self.check()?;
        let Stream { state, twin, .. } = self.engine.streams.streams.remove(stream.0)?;
        // Its descriptor is closed before the connection's.
        twin.into_iter().for_each(|twin| self.engine.streams.hand_overs.forget_twin(&twin));
        self.engine.streams.events.forget(TcpEvent::Stream(stream));
        match state {
            StreamState::Kernel(socket, _) => {
                self.engine.streams.reacceleration.hasten();
                if is_abort {
                    socket.set_linger(Some(Duration::ZERO))?;
                }
            }
            // Control may have answered already: then the entry is removed here.
            StreamState::Opening(opening) => opening.flow().into_iter().for_each(|flow| self.unsteer_later(flow)),
            StreamState::HandingOver => self.engine.streams.hand_overs.close(stream, is_abort),
            StreamState::Lost(_) | StreamState::Detour(_) | StreamState::Failed(..) => {}
            StreamState::Accelerated { id, steered } => self.close_accelerated(id, steered, is_abort),
        }
        Ok(())
    }

    fn close_accelerated(&mut self, id: ConnectionId, steered: Option<Steered>, is_abort: bool) {
        let counters = &self.engine.counters;
        let Some(bypass) = self.engine.bypass.as_mut().filter(|bypass| bypass.lost.is_none()) else { return };
        bypass.handles.remove_stream(id);
        // One that has ended already is as wanted.
        let _ =
            bypass.with_tcp(
                counters,
                |tcp, now, output| {
                    if is_abort { tcp.abort(now, id, output) } else { tcp.close(now, id, output) }
                },
            );
        self.await_end(id, steered);
    }

    pub(crate) fn linger(&mut self, id: ConnectionId, steered: Steered) {
        self.engine.streams.closed.push(ClosedConnection { id, steered });
    }
}

impl Engine {
    /// Gives back what belonged to connections that are over.
    pub(crate) fn reap_closed(&mut self) {
        let Self { streams, bypass: Some(bypass), agent, .. } = self else { return };
        for _ in 0..CLOSED_PER_TURN.min(streams.closed.len()) {
            streams.next_closed =
                if streams.next_closed + 1 < streams.closed.len() { streams.next_closed + 1 } else { 0 };
            if !bypass.stack.tcp().is_over(streams.closed[streams.next_closed].id) {
                continue;
            }
            let over = streams.closed.swap_remove(streams.next_closed);
            streams.released.note(over.steered.flow.local().port());
            if let (Some(entry), Some(agent)) = (over.steered.entry, agent.as_ref()) {
                bypass.entries.cancel(entry);
                agent.unsteer_later(entry);
            }
        }
    }
}
