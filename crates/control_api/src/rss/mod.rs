//! The receive queue of a device by which a packet comes (receive side scaling).
//!
//! A device hashes addresses and ports of a received packet, and looks the queue up in a table by the low bits of the
//! hash. The kernel reports key, table and fields ([`Spread::read`], which takes no capability). So the queue of an
//! answer can be computed before the request is sent, and a local port chosen whose answers come by an own queue. Any
//! uncertainty is reported as a [`WhyUnknown`].
//!
//! With CAP_NET_ADMIN all of it can be changed at any time, and the kernel notifies nobody before Linux 6.17: a user
//! must read it again every few seconds, and compare.

mod device;
mod unknown;

#[cfg(test)]
mod tests;

pub use unknown::WhyUnknown;

use crate::message::Protocol;
use sidestep_sys::ethtool::{FlowKind, FlowRule, Match, Rss};
use sidestep_wire::Addresses;
use sidestep_wire::toeplitz::{Ports, Toeplitz, Transform};
use std::net::{IpAddr, SocketAddr};

/// The spreading of received packets over a device's queues, at the time of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    queues: Result<u32, WhyUnknown>,
    rules: Result<Vec<FlowRule>, WhyUnknown>,
    table: Result<Table, WhyUnknown>,
    hash: Result<(Toeplitz, Transform), WhyUnknown>,
    /// The hashed fields, in the order of [`FlowKind::ALL`].
    fields: [Result<Fields, WhyUnknown>; 4],
}

/// The hashed fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fields {
    Addresses,
    AddressesAndPorts,
}

/// The queue for each value of the hash's low bits: the length is a power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table(Vec<u32>);

impl Table {
    fn queue_of(&self, hash: u32) -> u32 {
        // The length is a power of two, and not zero.
        self.0[hash as usize & (self.0.len() - 1)]
    }
}

impl Spread {
    /// Reads the facts of a device in the calling thread's namespace: some ten system calls.
    pub fn read(interface: &str) -> Self {
        device::read(interface)
    }

    /// A device with this many queues and these settings, which hashes addresses and ports, and has no flow rules.
    pub fn of(queues: u32, rss: Rss) -> Self {
        device::plain(queues, rss)
    }

    /// The number of receive queues in use, numbered from 0.
    pub fn queues(&self) -> Result<u32, WhyUnknown> {
        self.queues
    }

    /// Returns whether the device has answered every question, even if only "not supported". A busy or resetting device
    /// has not (EIO, EBUSY), nor one whose flow rules changed during the reading: then no change is known.
    pub fn is_answer(&self) -> bool {
        let failed = [self.queues.as_ref().err(), self.rules.as_ref().err(), self.table.as_ref().err()];
        let fields = self.fields.iter().filter_map(|fields| fields.as_ref().err());
        failed.into_iter().flatten().chain(fields).all(WhyUnknown::is_answer)
    }

    /// The queue by which a packet from `remote` to `local` comes.
    pub fn queue_of(&self, protocol: Protocol, remote: SocketAddr, local: SocketAddr) -> Result<u32, WhyUnknown> {
        self.toward(protocol, remote, local.ip())?.queue_of(local.port())
    }

    /// Prepares the same lookup for many local ports.
    pub fn toward(&self, protocol: Protocol, remote: SocketAddr, local: IpAddr) -> Result<Toward<'_>, WhyUnknown> {
        let (from, to) = (remote.ip().to_canonical(), local.to_canonical());
        let addresses = Addresses::new(from, to).ok_or(WhyUnknown::Families)?;
        let is_tcp = protocol == Protocol::Tcp;
        let target = match self.queues? {
            1 => Target::Known(0),
            _ => self.target(kind(is_tcp, &addresses), &addresses)?,
        };
        let is_rule = self.queues? > 1;
        let rules = if is_rule { self.rules.as_deref().map_err(|why| *why)? } else { &[] };
        Ok(Toward { target, rules, is_tcp, remote: SocketAddr::new(from, remote.port()), local: to })
    }

    fn target(&self, kind: usize, addresses: &Addresses) -> Result<Target<'_>, WhyUnknown> {
        let (toeplitz, transform) = self.hash.as_ref().map_err(|why| *why)?;
        let table = self.table.as_ref().map_err(|why| *why)?;
        Ok(match self.fields[kind]? {
            Fields::Addresses => Target::Known(table.queue_of(toeplitz.addresses(addresses, *transform))),
            Fields::AddressesAndPorts => Target::ByPort(table, toeplitz.ports(addresses, *transform)),
        })
    }

    /// The queues by which TCP and UDP may come at all, in order: those in the table and those of flow rules; all
    /// queues if something else may choose.
    pub fn receiving(&self) -> Result<Vec<u32>, WhyUnknown> {
        let queues = self.queues?;
        let is_told = !matches!(self.hash, Err(WhyUnknown::Driver(_)));
        let named = || -> Option<Vec<u32>> {
            let table = self.table.as_ref().ok().filter(|_| is_told)?;
            let rules = self.rules.as_ref().ok()?.iter().map(FlowRule::target);
            let ruled: Vec<Option<u32>> = rules.collect::<Option<_>>()?;
            let ruled = ruled.into_iter().flatten();
            Some(table.0.iter().copied().chain(ruled).collect())
        };
        let mut receiving = named().unwrap_or_else(|| (0..queues).collect());
        if self.fields.iter().any(Result::is_err) {
            // Unhashed packets come by the first queue.
            receiving.push(0);
        }
        receiving.sort_unstable();
        receiving.dedup();
        Ok(receiving)
    }
}

/// The index in [`FlowKind::ALL`].
fn kind(is_tcp: bool, addresses: &Addresses) -> usize {
    let kind = match (is_tcp, addresses) {
        (true, Addresses::V4 { .. }) => FlowKind::Tcp4,
        (false, Addresses::V4 { .. }) => FlowKind::Udp4,
        (true, Addresses::V6 { .. }) => FlowKind::Tcp6,
        (false, Addresses::V6 { .. }) => FlowKind::Udp6,
    };
    kind as usize
}

/// The result of the hash.
#[derive(Clone, Copy, Debug)]
enum Target<'a> {
    /// The same queue for all ports.
    Known(u32),
    ByPort(&'a Table, Ports<'a>),
}

/// Packets from one remote address and port to one address of this host.
#[derive(Clone, Copy, Debug)]
pub struct Toward<'a> {
    target: Target<'a>,
    rules: &'a [FlowRule],
    is_tcp: bool,
    remote: SocketAddr,
    local: IpAddr,
}

impl Toward<'_> {
    /// The queue by which a packet to this local port comes.
    pub fn queue_of(&self, port: u16) -> Result<u32, WhyUnknown> {
        for rule in self.rules {
            match rule.matches(self.is_tcp, self.remote, SocketAddr::new(self.local, port)) {
                Match::No => {}
                Match::Queue(queue) => return Ok(queue),
                Match::Perhaps => return Err(WhyUnknown::Rule(rule.location())),
            }
        }
        Ok(match &self.target {
            Target::Known(queue) => *queue,
            Target::ByPort(table, ports) => table.queue_of(ports.hash(self.remote.port(), port)),
        })
    }

    /// Returns whether another local port may have another queue. If not, trying others is useless.
    pub fn depends_on_port(&self) -> bool {
        matches!(self.target, Target::ByPort(..)) || !self.rules.is_empty()
    }
}
