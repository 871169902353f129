//! The feed: messages with sequence numbers, two lines that carry them, and the server that repeats them.
//!
//! * [`History`]: the last messages. Lines and answers are cut from it.
//! * [`Line`]: the datagrams of one group.
//! * [`Rerequest`]: unicast answers.

mod history;
mod line;
mod rerequest;

pub use history::History;
pub use line::{HEARTBEAT_NS, Line, LineCounters};
pub use rerequest::{
    BURST, BURST_ALL, CLIENTS_MAX, REQUESTS_ALL_PER_SECOND, REQUESTS_PER_SECOND, Rerequest, RerequestCounters,
};
