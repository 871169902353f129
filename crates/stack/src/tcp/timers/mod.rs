//! Time: the timers of each connection, the wheel that holds all connections, and what an expired timer does.

pub(crate) mod deadlines;
mod expiry;
mod keepalive;
pub(crate) mod liveness;
mod persist;
mod retransmission;
pub(crate) mod rto;
mod user_timeout;
pub(crate) mod wheel;
