//! UDP: who gets a datagram, and the prebuilt header of one that goes out.

mod chain;
mod header;
mod key;
mod membership;
mod socket;
mod table;

pub use header::{Flow, FlowHeader, HOP_LIMIT_DEFAULT, SendError};
pub use membership::{GROUPS_MAX, SOURCES_MAX};
pub use socket::{Bind, SocketId};
pub use table::{SOCKETS_MAX, TableError, Udp};
