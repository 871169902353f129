//! Time: the timers of each connection, the wheel that holds all connections, and what an expired timer does.

pub(crate) mod deadlines;
pub(crate) mod expiry;
pub(crate) mod liveness;
pub(crate) mod probe;
pub(crate) mod rto;
pub(crate) mod user_timeout;
pub(crate) mod wheel;
