//! The bare frame path: both ends write and read whole Ethernet frames over AF_XDP, without a stack. The floor that a
//! stack in user space is measured against.

mod end;
mod link;
mod packet;

pub(crate) use end::End;
pub(crate) use link::FramesLink;
pub(crate) use packet::{Address, payload, turn_round};

/// UDP port of both ends. A lab's hosts have no other program that could be using it.
pub(crate) const PORT: u16 = 7411;

/// The largest message: an Ethernet frame of 1500 bytes less IPv4 and UDP headers.
pub(crate) const SIZE_MAX: u32 = 1472;
