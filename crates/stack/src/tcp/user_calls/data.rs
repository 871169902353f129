//! SEND and RECEIVE (RFC 9293 sections 3.10.2 and 3.10.3).

use crate::tcp::ack::generation::Need;
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::tcb::buffer::copy;
use crate::tcp::tcb::connection::Connection;
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;

impl Tcp {
    /// Hands over bytes and gives how many were taken: as many as the send buffer has room for. What the windows and Nagle
    /// allow leaves at once. [`Error::WouldBlock`]: there is no room, or the connection is still being made.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        id: ConnectionId,
        bytes: &[u8],
        output: &mut dyn Output,
    ) -> Result<usize, Error> {
        if self.send_directly(now, id, bytes, output) {
            return Ok(bytes.len());
        }
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        may_send(connection)?;
        let count = bytes.len().min(connection.room());
        if count == 0 && !bytes.is_empty() {
            return Err(Error::WouldBlock);
        }
        connection.snd.push(&bytes[..count]);
        self.finish_step(now, id.index, output, false);
        Ok(count)
    }

    /// Bytes that [`Tcp::send`] would take.
    pub fn send_room(&mut self, id: ConnectionId) -> Result<usize, Error> {
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        may_send(connection)?;
        Ok(connection.room())
    }

    /// Reads into `out`; 0: the peer has finished. [`Error::WouldBlock`]: nothing is there. Another error: the connection has
    /// failed, and all that came before has been read. May tell the peer that the window has opened.
    pub fn read(
        &mut self,
        now: Instant,
        id: ConnectionId,
        out: &mut [u8],
        output: &mut dyn Output,
    ) -> Result<usize, Error> {
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        may_read(connection)?;
        let [first, second] = connection.rcv.buffer().slices(0, out.len());
        let count = first.len() + second.len();
        copy(first, &mut out[..first.len()]);
        copy(second, &mut out[first.len()..count]);
        self.consume(now, id, count, output)?;
        Ok(count)
    }

    /// The data that can be read, in at most two pieces, both empty when the peer has finished. Errors as [`Tcp::read`].
    pub fn peek(&mut self, id: ConnectionId) -> Result<[&[u8]; 2], Error> {
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        may_read(connection)?;
        Ok(connection.rcv.buffer().slices(0, usize::MAX))
    }

    /// Removes what was read by [`Tcp::peek`]: `count` bytes, at most those that are there.
    pub fn consume(
        &mut self,
        now: Instant,
        id: ConnectionId,
        count: usize,
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        if count == 0 {
            return Ok(());
        }
        connection.rcv.consume(count);
        connection.rcv.grow(now, connection.rtt.srtt_ns());
        // The bits go down with what is read, so that they can come up again.
        connection.notices.set_readiness(connection.current_readiness());
        if connection.state.can_receive() && connection.rcv.is_update_due() {
            connection.ack.request(Need::Now);
            self.finish_step(now, id.index, output, false);
        }
        Ok(())
    }
}

fn may_send(connection: &mut Connection) -> Result<(), Error> {
    if let Some(error) = connection.notices.take_error() {
        return Err(error);
    }
    match connection.state {
        state if state.can_send() => Ok(()),
        State::SynSent | State::SynReceived if !connection.snd.is_fin_queued() => Err(Error::WouldBlock),
        _ => Err(Error::BrokenPipe),
    }
}

fn may_read(connection: &mut Connection) -> Result<(), Error> {
    // As Linux: behind the peer's FIN there is the end of the stream, also after a RST (SOCK_DONE); sending is told the error.
    if !connection.rcv.buffer().is_empty() || connection.rcv.is_finished() {
        return Ok(());
    }
    if let Some(error) = connection.notices.take_error() {
        return Err(error);
    }
    match connection.state {
        _ if connection.rcv.is_shut() => Ok(()),
        State::Closed | State::TimeWait => Ok(()),
        _ => Err(Error::WouldBlock),
    }
}
