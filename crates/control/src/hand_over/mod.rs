//! The kernel's end of a hand-over: a socket of an application becomes a live connection (TCP_REPAIR; decision 0031).
//!
//! While the connection is made, steering keeps its segments from the kernel, as a firewall does for CRIU. The caller changes steering
//! between [`Made::of`] and [`Made::begin`]: segments find the connection in the kernel's table from then on, and none is reset.

mod made;
mod segment;
mod socket;

pub(crate) use made::{Made, Making};
pub(crate) use segment::Wire;
pub(crate) use socket::ShownSocket;

use sidestep_control_api::message::{Code, HandOver, Refusal};
use std::fmt::Display;

fn refuse(connection: &HandOver, code: Code, reason: impl Display) -> Refusal {
    Refusal::new(code, format!("cannot hand over tcp {} from {}", connection.local, connection.remote), reason)
}
