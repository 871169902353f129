//! UDP: who gets a datagram, and the prebuilt header of one that goes out.

mod chain;
mod error;
mod header;
mod key;
mod limits;
mod membership;
mod socket;
mod table;

pub use error::TableError;
pub use header::{Flow, FlowHeader, HOP_LIMIT_DEFAULT, SendError};
pub use limits::{GROUPS_MAX, SOCKETS_MAX, SOURCES_MAX};
pub use socket::{Bind, SocketId};
pub use table::Udp;
