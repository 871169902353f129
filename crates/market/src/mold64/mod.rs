//! MoldUDP64 1.00: datagrams of numbered messages, and requests for them. All numbers are big-endian.
//!
//! ```text
//!  downstream packet                                                     request packet
//!  0            10              18        20                             0            10              18        20
//!  | session 10 | sequence u64 | count u16 | count x { length u16, bytes } | session 10 | sequence u64 | count u16 |
//! ```
//!
//! Count 0 is a heartbeat, 0xFFFF the end of the session; the sequence of both is that of the next message. A request goes by
//! unicast to a re-request server; the answer is a usual downstream packet with as many of the messages as fit one datagram.

mod packet;
mod request;
mod writer;

pub use packet::{Malformed, Messages, Mold64, Packet};
pub use request::{Request, ShortRequest};
pub use writer::{NoRoom, PacketWriter};

use crate::units::Alpha;

/// Bytes of a header, and of a request packet.
pub const HEADER_BYTES: usize = 20;
/// Bytes before each message: its length.
pub const LENGTH_BYTES: usize = 2;
/// The most messages that one packet can have: one more is the mark of the end of the session.
pub const MESSAGES_MAX: u16 = 0xFFFE;
/// The count that marks the end of the session.
const END_OF_SESSION: u16 = 0xFFFF;

/// The name of a session: ten ASCII letters or digits.
pub type Session = Alpha<10>;
