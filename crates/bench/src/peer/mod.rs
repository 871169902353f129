//! The peer: its messages (`protocol`), its control connection (`control`), its work (`session`, `echo`, `sink`, `bulk`,
//! `accept`), and its limits (`watch`).
//!
//! The same peer serves every place: a child process in the lab's second namespace or on loopback, controlled over an inherited
//! socket, and `sidestep bench serve` on another machine, controlled over TCP. Measured messages never travel on the control
//! connection.

mod accept;
mod allowed;
mod bulk;
mod control;
mod echo;
mod frames;
pub mod protocol;
mod sequence;
pub mod serve;
mod session;
mod sink;
mod trade;
pub(crate) mod watch;

pub use crate::bypass::Keeper;
pub use allowed::Allowed;
pub use control::{Control, Greeting};
pub use session::{Origin, run};
