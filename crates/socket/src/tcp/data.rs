//! Data in and out of streams, whatever carries them.

use crate::engine::bypass::Bypass;
use crate::reason::Reason;
use crate::stream::{ReadBuffer, Unread};
use crate::tcp::Tcp;
use crate::tcp::active_open::opening::Opening;
use crate::tcp::error::TcpError;
use crate::tcp::streams::{Stream, StreamState};
use crate::tcp::table::TcpStream;
use rustix::io::Errno;
use rustix::net::SendFlags;
use sidestep_control_api::counters::Counters;
use sidestep_stack::tcp::{ConnectionId, Error};
use std::io::Read;

/// Bytes of a kernel socket that one read by reference shows.
const SHOWN_BYTES: usize = 65_536;

/// A stream with what carries it.
pub(crate) enum Found<'a> {
    Accelerated(&'a mut Bypass, &'a Counters, ConnectionId),
    Kernel(&'a mut socket2::Socket, &'a mut Vec<u8>),
    /// Not yet known which.
    Opening(&'a mut Opening),
}

/// Not now: it has not begun.
const NOT_YET: TcpError = TcpError::Stack(Error::WouldBlock);

impl Tcp<'_> {
    /// The stream of a handle, with what carries it.
    #[inline]
    pub(crate) fn find(&mut self, stream: TcpStream) -> Result<Found<'_>, TcpError> {
        self.check()?;
        let streams = &mut self.engine.streams;
        match &mut streams.streams.at(stream.0)?.state {
            StreamState::Kernel(socket, _) => Ok(Found::Kernel(socket, &mut streams.shown)),
            StreamState::Lost(reason) => Err(TcpError::Lost(*reason)),
            StreamState::Detour(_) => Err(TcpError::Stack(Error::NotConnected)),
            StreamState::Failed(error, _) => Err(*error),
            StreamState::Opening(opening) => Ok(Found::Opening(opening)),
            StreamState::HandingOver => Err(NOT_YET),
            StreamState::Accelerated { id, .. } => match self.engine.bypass.as_mut() {
                Some(bypass) if bypass.lost.is_none() => Ok(Found::Accelerated(bypass, &self.engine.counters, *id)),
                bypass => Err(TcpError::Lost(bypass.and_then(|bypass| bypass.lost).unwrap_or(Reason::Revoked))),
            },
        }
    }

    /// Hands over bytes and gives how many were taken. What the windows and Nagle allow has left when this returns.
    #[inline]
    pub fn send(&mut self, stream: TcpStream, bytes: &[u8]) -> Result<usize, TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, counters, id) => {
                Ok(bypass.with_tcp(counters, |tcp, now, output| tcp.send(now, id, bytes, output))?)
            }
            // A signal is no way to tell a library's caller that the peer has gone.
            Found::Kernel(socket, _) => {
                Ok(rustix::net::send(&*socket, bytes, SendFlags::NOSIGNAL).map_err(std::io::Error::from)?)
            }
            Found::Opening(_) => Err(NOT_YET),
        }
    }

    /// Fetches into the CPU's cache what [`Self::send`] needs for these streams; for who has hundreds, before a message is sent on each of
    /// a few: their cache misses overlap. At most [`LOOK_AHEAD_MAX`] of them are looked at. Streams that are not open, and those of
    /// the kernel, are passed over.
    ///
    /// [`LOOK_AHEAD_MAX`]: sidestep_stack::tcp::LOOK_AHEAD_MAX
    #[inline]
    pub fn look_ahead_to_send(&mut self, streams: &[TcpStream]) {
        let Some(bypass) = &self.engine.bypass else { return };
        let known = &mut self.engine.streams.streams;
        bypass.stack.tcp().look_ahead_to_send(streams.iter().filter_map(
            |stream| match known.at(stream.0).ok()?.state {
                StreamState::Accelerated { id, .. } => Some(id),
                _ => None,
            },
        ));
    }

    /// Reads into `out`; 0: the peer has finished.
    #[inline]
    pub fn read(&mut self, stream: TcpStream, out: &mut [u8]) -> Result<usize, TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, counters, id) => {
                Ok(bypass.with_tcp(counters, |tcp, now, output| tcp.read(now, id, out, output))?)
            }
            Found::Kernel(socket, _) => Ok((&*socket).read(out)?),
            Found::Opening(_) => Err(NOT_YET),
        }
    }

    /// Shows what can be read, in at most two pieces, to `take`, which gives how many bytes it has taken; gives the sum, and
    /// whether the peer has finished and nothing is left.
    pub fn read_with(
        &mut self,
        stream: TcpStream,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> Result<(usize, bool), TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, counters, id) => {
                let [first, second] = bypass.stack.tcp_mut().peek(id)?;
                let is_end = first.is_empty() && second.is_empty();
                let mut count = if first.is_empty() { 0 } else { take(first).min(first.len()) };
                if count == first.len() && !second.is_empty() {
                    count += take(second).min(second.len());
                }
                bypass.with_tcp(counters, |tcp, now, output| tcp.consume(now, id, count, output))?;
                Ok((count, is_end))
            }
            Found::Kernel(socket, shown) => {
                shown.resize(SHOWN_BYTES, 0);
                let there = std::net::TcpStream::from(socket.try_clone()?).peek(shown)?;
                let count = if there == 0 { 0 } else { take(&shown[..there]).min(there) };
                let mut taken = 0;
                while taken < count {
                    taken += (&*socket).read(&mut shown[taken..count])?;
                }
                Ok((count, there == 0))
            }
            Found::Opening(_) => Err(NOT_YET),
        }
    }

    /// Copies what can be read behind the first `skip` bytes, and leaves it to be read; 0: the peer has finished, or nothing is behind
    /// them.
    pub fn peek(&mut self, stream: TcpStream, skip: usize, out: &mut [u8]) -> Result<usize, TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, _, id) => {
                let [first, second] = bypass.stack.tcp_mut().peek(id)?;
                let unread = first.iter().chain(second).skip(skip);
                Ok(out.iter_mut().zip(unread).map(|(out, byte)| *out = *byte).count())
            }
            Found::Kernel(..) => Err(TcpError::Kernel(Errno::OPNOTSUPP.raw_os_error())),
            Found::Opening(_) => Err(NOT_YET),
        }
    }

    /// Shows what can be read to `deliver` and returns the bytes taken; 0 when the peer has finished. `unread` keeps what is not
    /// taken of a connection by the kernel.
    #[inline]
    pub(crate) fn receive_with(
        &mut self,
        stream: TcpStream,
        (unread, buffer): (&mut Unread, &mut ReadBuffer),
        deliver: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, TcpError> {
        if let Found::Kernel(socket, _) = self.find(stream)? {
            return Ok(unread.receive(buffer, |space| (&*socket).read(space), deliver)?);
        }
        match self.read_with(stream, deliver)? {
            (0, true) => Ok(0),
            (0, false) => Err(NOT_YET),
            (count, _) => Ok(count),
        }
    }

    /// Bytes that [`Tcp::send`] would take of a stream past the kernel; of the kernel's it is not known.
    pub fn send_room(&mut self, stream: TcpStream) -> Result<Option<usize>, TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, _, id) => Ok(Some(bypass.stack.tcp_mut().send_room(id)?)),
            Found::Kernel(..) => Ok(None),
            Found::Opening(_) => Err(NOT_YET),
        }
    }

    /// This end and the other; of a connection that has not begun this end has port 0, unless it was named.
    pub fn ends(&mut self, stream: TcpStream) -> Result<(std::net::SocketAddr, std::net::SocketAddr), TcpError> {
        self.check()?;
        let Stream { local, remote, .. } = self.engine.streams.streams.at(stream.0)?;
        Ok((*local, *remote))
    }
}
