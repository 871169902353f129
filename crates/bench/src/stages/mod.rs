//! The stages of a round trip over UDP and the kernel, by the stamps that the kernel and the device set (SO_TIMESTAMPING).
//!
//! They are taken in slices of their own: one message in 16 asks for stamps, and while the socket is open the kernel
//! stamps every packet of this host that it receives. A stage is a difference within one clock, the system's (CLOCK_REALTIME) or the
//! device's; what lies between the two clocks is not shown.

mod found;
mod slice;

pub(crate) use found::Found;
pub(crate) use slice::Stamper;

/// How stamps are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamping {
    /// Those that are there.
    AsItIs,
    /// The device's hardware stamps are switched on for the run, and put back afterwards.
    SwitchHardware,
}

/// One message in so many asks for stamps.
pub(crate) const EVERY: u64 = 16;
