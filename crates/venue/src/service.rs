//! What a server over SoupBinTCP is to whoever owns its sockets.

use crate::core::Core;
use crate::soup::End;

/// One moment, as the owner of the sockets has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// A clock that never goes back, ns: heartbeats and time-outs.
    pub mono_ns: u64,
    /// The time of day, ns since midnight: timestamps.
    pub day_ns: u64,
}

/// A server of connections, which are numbered by it. It never blocks and does no input or output.
pub trait Service {
    /// A connection has come. `None`: it is one too many, and is to be closed.
    fn accept(&mut self, time: Time) -> Option<usize>;

    /// Bytes that a connection takes now.
    fn room(&self, connection: usize) -> usize;

    /// Bytes have come, at most as many as there was room for.
    fn receive(&mut self, time: Time, connection: usize, bytes: &[u8], core: &mut Core);

    /// What is to be sent on a connection.
    fn output(&mut self, connection: usize) -> &[u8];

    /// So many bytes of it were sent.
    fn sent(&mut self, time: Time, connection: usize, count: usize);

    /// Time passes for a connection. Answers why it is to be closed now, once it is.
    fn poll(&mut self, time: Time, connection: usize) -> Option<End>;

    /// A connection is closed.
    fn close(&mut self, time: Time, connection: usize, core: &mut Core);

    /// The session ends: every connection is told so, and then closed.
    fn end(&mut self, time: Time);
}
