//! SoupBinTCP 3.00: the session protocol under OUCH and GLIMPSE, client side. Source: Nasdaq SoupBinTCP, version 3.00.
//!
//! ```text
//!  0        2      3
//!  | length | type | payload (length - 1) |      length: u16, big-endian, with the type and without itself
//! ```
//!
//! | type | from | payload |
//! |---|---|---|
//! | `L` | client | login request: user 6, password 10, session 10, sequence number 20 |
//! | `A` `J` | server | login accepted: session 10, next sequence number 20; login rejected: reason 1 |
//! | `S` | server | one sequenced message; neither side sends its number, both count |
//! | `U` | client | one unsequenced message: lost if the connection is |
//! | `H` `R` | server, client | heartbeat: nothing else was sent for a second |
//! | `Z` `O` | server, client | end of session; logout |
//! | `+` | both | debug text, ignored |
//!
//! [`Client`] is the session: bytes and time in, bytes and events out. It outlives its connections: after a reconnect it asks for
//! the session and the number that it expects next, and all that was missed comes again.
//!
//! | concern | file |
//! |---|---|
//! | one packet in a stream of bytes | `packet.rs` |
//! | login packets | `login.rs` |
//! | settings and their check | `settings.rs` |
//! | packets that came in pieces | `input.rs` |
//! | what leaves | `output.rs` |
//! | the session's states, timers and events | `client/` |

mod client;
mod input;
mod login;
mod output;
mod packet;
mod settings;

pub use client::{Client, Counters, End, Event, State};
pub use login::{LoginAccepted, LoginRequest, Password, Rejection, SessionName, UserName};
pub use output::{Outbox, SendError};
pub use packet::{Malformed, PACKET_BYTES_MAX, PAYLOAD_BYTES_MAX, Packet};
pub use settings::Settings;

pub(crate) use login::number;
