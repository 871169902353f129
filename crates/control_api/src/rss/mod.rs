//! By which receive queue of a device a packet comes (receive side scaling).
//!
//! A device hashes addresses and ports of what it receives, and takes the queue from a table by the low bits of the hash. Key,
//! table and fields are the kernel's to tell ([`Spread::read`], which takes no capability), so the queue of an answer can be
//! computed before the question is sent, and a local port be chosen whose answers come by a queue that is ours. Whatever is
//! not certain is a [`WhyUnknown`] by name.
//!
//! Anybody with CAP_NET_ADMIN may change all of it at any time, of which the kernel tells nobody before Linux 6.17: who relies
//! on it reads it again every few seconds, and compares.

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

/// How a device spreads what it receives over its queues, at the time it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    queues: Result<u32, WhyUnknown>,
    rules: Result<Vec<FlowRule>, WhyUnknown>,
    table: Result<Table, WhyUnknown>,
    hash: Result<(Toeplitz, Transform), WhyUnknown>,
    /// In the order of [`FlowKind::ALL`].
    fields: [Result<Fields, WhyUnknown>; 4],
}

/// What of a packet is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fields {
    Addresses,
    AddressesAndPorts,
}

/// The queue of each hash, by its low bits: a power of two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table(Vec<u32>);

impl Table {
    fn queue_of(&self, hash: u32) -> u32 {
        // The length is a power of two, and not zero.
        self.0[hash as usize & (self.0.len() - 1)]
    }
}

impl Spread {
    /// Asks the kernel about a device of the calling thread's namespace: some ten system calls.
    pub fn read(interface: &str) -> Self {
        device::read(interface)
    }

    /// A device with so many queues that tells all of this, hashes addresses and ports, and has no flow rules.
    pub fn of(queues: u32, rss: Rss) -> Self {
        device::plain(queues, rss)
    }

    /// The receive queues that are in use, numbered from 0.
    pub fn queues(&self) -> Result<u32, WhyUnknown> {
        self.queues
    }

    /// Whether the device has answered every question, if only that it has no such thing. One that is busy or being reset has
    /// not (EIO, EBUSY), nor one whose flow rules were changed while they were read: nothing is known to have changed.
    pub fn is_answer(&self) -> bool {
        let failed = [self.queues.as_ref().err(), self.rules.as_ref().err(), self.table.as_ref().err()];
        let fields = self.fields.iter().filter_map(|fields| fields.as_ref().err());
        failed.into_iter().flatten().chain(fields).all(WhyUnknown::is_answer)
    }

    /// The queue by which a packet comes from `remote` for `local`.
    pub fn queue_of(&self, protocol: Protocol, remote: SocketAddr, local: SocketAddr) -> Result<u32, WhyUnknown> {
        self.toward(protocol, remote, local.ip())?.queue_of(local.port())
    }

    /// The same for many local ports, one after another.
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

    /// The queues by which TCP and UDP may come at all, in order: those in the table and those that flow rules name; all of them
    /// where something else may choose.
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
            // What is not hashed comes by the first.
            receiving.push(0);
        }
        receiving.sort_unstable();
        receiving.dedup();
        Ok(receiving)
    }
}

/// The place in [`FlowKind::ALL`].
fn kind(is_tcp: bool, addresses: &Addresses) -> usize {
    let kind = match (is_tcp, addresses) {
        (true, Addresses::V4 { .. }) => FlowKind::Tcp4,
        (false, Addresses::V4 { .. }) => FlowKind::Udp4,
        (true, Addresses::V6 { .. }) => FlowKind::Tcp6,
        (false, Addresses::V6 { .. }) => FlowKind::Udp6,
    };
    kind as usize
}

/// What the hash says.
#[derive(Clone, Copy, Debug)]
enum Target<'a> {
    /// The same for all ports.
    Known(u32),
    ByPort(&'a Table, Ports<'a>),
}

/// From one remote address and port to one address of this host.
#[derive(Clone, Copy, Debug)]
pub struct Toward<'a> {
    target: Target<'a>,
    rules: &'a [FlowRule],
    is_tcp: bool,
    remote: SocketAddr,
    local: IpAddr,
}

impl Toward<'_> {
    /// The queue by which a packet comes for this local port.
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

    /// Whether another local port may have another queue. Where not, trying is of no use.
    pub fn depends_on_port(&self) -> bool {
        matches!(self.target, Target::ByPort(..)) || !self.rules.is_empty()
    }
}
