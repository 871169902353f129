//! A bound socket, and its options.

use super::bind::Sharing;
use super::facts::XskFacts;
use super::rings::Rings;
use super::umem::Umem;
use super::unbound::{Unbound, XskOptions};
use crate::Problem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A bound AF_XDP socket with its rings.
#[derive(Debug)]
pub struct Xsk {
    socket: OwnedFd,
    facts: XskFacts,
    rings: Rings,
}

impl Xsk {
    /// Makes a socket with `umem`, maps its rings, and binds it to a queue of an interface of the calling thread's
    /// namespace. Needs CAP_NET_RAW, and CAP_IPC_LOCK or an RLIMIT_MEMLOCK that holds the UMEM.
    pub fn open(umem: &Umem, interface: &str, queue: u32, options: &XskOptions) -> Result<Self, Problem> {
        let unbound = Unbound::new(umem, options.rings)?;
        let rings = Rings::map(unbound.socket(), options.rings)?;
        let facts = unbound.bind(interface, queue, options)?;
        Ok(Self { socket: unbound.into_socket(), facts, rings })
    }

    /// Makes a socket that shares `umem` with its first socket, `owner`. On the queue of `owner` it must have neither a
    /// FILL nor a COMPLETION ring; on any other it must have both (Linux 5.10).
    pub fn share(
        umem: &Umem,
        owner: &Self,
        interface: &str,
        queue: u32,
        options: &XskOptions,
    ) -> Result<Self, Problem> {
        let unbound = Unbound::without_frames(umem, options.rings)?;
        let rings = Rings::map(unbound.socket(), options.rings)?;
        let sharing = Sharing { owner: owner.socket(), mode: owner.facts.mode };
        let facts = unbound.bind_as(interface, queue, options, Some(sharing))?;
        Ok(Self { socket: unbound.into_socket(), facts, rings })
    }

    /// The descriptor: to poll, to put into an XSKMAP.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The facts about it.
    pub fn facts(&self) -> &XskFacts {
        &self.facts
    }

    /// Returns the parts.
    pub fn into_parts(self) -> (OwnedFd, XskFacts, Rings) {
        (self.socket, self.facts, self.rings)
    }
}
