//! What is asked of each TCP: two hosts of it, joined by a wire in memory, on a virtual clock. Bytes are counted, not looked at: whether
//! they are right is for the tests of each stack.

/// The message of a round trip.
pub const MESSAGE: [u8; 64] = [7; 64];
/// What a sender of a stream hands over at a time.
pub const BLOCK: [u8; 16 << 10] = [7; 16 << 10];
/// Of each connection, for sending and for receiving. The same for all, and enough for the wire.
pub const BUFFER_BYTES: usize = 64 << 10;
/// Virtual time of a round trip, or of an iteration of a stream: as in a fast network, ns.
pub const ROUND_NS: u64 = 10_000;
/// Where the listener is.
pub const PORT: u16 = 80;
/// The client's first port.
pub const FIRST_PORT: u16 = 10_000;
/// The hosts' addresses.
pub const ADDRESSES: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
/// The hosts' Ethernet addresses.
pub const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Two hosts with connections between them.
pub trait Contestant {
    /// [`MESSAGE`] there and back on one of them: two segments, each carrying the ACK of the one before.
    fn ping(&mut self, connection: usize);
    /// So many bytes there, on the first connection, in segments as full as its stack makes them. All have arrived and are acknowledged when it returns.
    fn stream(&mut self, bytes: usize);
    /// Frames sent so far, and those of them with data.
    fn frames(&self) -> (u64, u64);
}
