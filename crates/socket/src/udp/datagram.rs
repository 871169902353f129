//! A received datagram: a token that stands for its bytes.

use sidestep_frame::Received;
use std::net::SocketAddr;

/// The memory of a datagram's bytes.
#[derive(Debug)]
pub(crate) enum Storage {
    /// In a frame of the link.
    Frame(Received),
    /// In a buffer, as the kernel's socket delivered them or because several sockets get them.
    Buffer(u16),
    /// In memory of its own: for a program's own socket, whose receive buffer may hold more than the link.
    Copy(Box<[u8]>),
}

/// A datagram that came. It must be given back to its engine: [`crate::Engine::release`] or [`crate::Engine::reply`].
#[derive(Debug)]
#[must_use = "a datagram that is not released keeps its frame for ever"]
pub struct Datagram {
    pub(crate) storage: Storage,
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) interface: u32,
    pub(crate) time_to_live: u8,
    pub(crate) type_of_service: u8,
    pub(crate) software_ns: u64,
    pub(crate) hardware_ns: Option<u64>,
}

/// Bytes beside its payload that a datagram counts for in a receive buffer: about as many as in the kernel (`struct sk_buff`, headers).
pub(crate) const OVERHEAD_BYTES: usize = 512;

impl Datagram {
    /// Bytes that it counts for in a receive buffer.
    #[inline]
    pub(crate) fn cost(&self) -> usize {
        self.len as usize + OVERHEAD_BYTES
    }

    /// The sender's address and port.
    #[inline]
    pub fn source(&self) -> SocketAddr {
        self.source
    }

    /// The address and port that it was sent to; of a datagram by the kernel, those that the socket is bound to.
    #[inline]
    pub fn destination(&self) -> SocketAddr {
        self.destination
    }

    /// Bytes of payload.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // An empty datagram is a datagram.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Number of the interface that it came by; 0 where the kernel delivered it.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// TTL or hop limit; 0 where the kernel delivered it.
    pub fn time_to_live(&self) -> u8 {
        self.time_to_live
    }

    /// DSCP and ECN; 0 where the kernel delivered it.
    pub fn type_of_service(&self) -> u8 {
        self.type_of_service
    }

    /// The time at which it was taken from the ring or from the kernel: CLOCK_REALTIME, ns; 0 if timestamps are off.
    pub fn software_ns(&self) -> u64 {
        self.software_ns
    }

    /// The time at which the device received it, ns on the device's clock; `None` where the device does not tell.
    pub fn hardware_ns(&self) -> Option<u64> {
        self.hardware_ns
    }

    /// Returns whether it came by the kernel.
    pub fn by_kernel(&self) -> bool {
        self.interface == 0
    }
}
