//! The bare frame path: both ends write and read whole Ethernet frames over AF_XDP, without a stack. The floor that a
//! stack in user space is measured against.

mod end;
mod link;
mod next_hop;
mod packet;

pub(crate) use end::{End, OwnPort};
pub(crate) use link::FramesLink;
pub(crate) use packet::{Flow, turn_round};

/// The longest packet whose frame one buffer holds, and the largest MTU that goes with it: a driver may refuse a program that
/// does not take several buffers at a larger one.
pub(crate) const MTU_MAX: u32 = 1500;
/// The largest message: such a packet less IPv4 and UDP headers.
pub(crate) const SIZE_MAX: u32 = MTU_MAX - 28;
