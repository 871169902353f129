//! Acceptors of ours behind a wire: each in a lab of its own, reached by the kernel's TCP or past it.
//!
//! A lab for each, because an XDP program slows the kernel's own path on that interface, and a queue has one stack.

use super::passage::{Passage, Stack};
use crate::bypass::{self, Consent, ControlPlaneThread, Device, Load, connect_past_kernel};
use crate::link::StreamLink;
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Side};
use sidestep_socket::stream::{Endpoint, Options};
use sidestep_sys::{Problem, cpu};
use std::net::SocketAddr;

/// The accelerated ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Neither: `veth`.
    None,
    /// The acceptor's: `xdp-one-end`.
    Acceptor,
    /// Both: `xdp`.
    Both,
}

impl Ends {
    /// By the name of the transport of an acceptor of ours.
    pub(super) fn named(transport: &str) -> Option<Self> {
        match transport.strip_suffix("-tls").unwrap_or(transport) {
            "veth" => Some(Self::None),
            "xdp-one-end" => Some(Self::Acceptor),
            "xdp" => Some(Self::Both),
            _ => None,
        }
    }
}

/// A lab with an acceptor at side B, and the control planes that it needs.
pub(super) struct Wire {
    // Dropped before the namespaces that they serve.
    _planes: Vec<ControlPlaneThread>,
    lab: Lab,
    ends: Ends,
    cpus: Vec<u32>,
}

impl Wire {
    /// Makes the lab; the calling thread may still use all CPUs.
    pub(super) fn up(ends: Ends) -> Result<Self, Problem> {
        let (lab, cpus) = (Lab::up(&sidestep_lab::Options::default())?, cpu::allowed());
        let sides: &[Side] = match ends {
            Ends::None => &[],
            Ends::Acceptor => &[Side::B],
            Ends::Both => &[Side::A, Side::B],
        };
        let planes = sides.iter().map(|side| lab.host(*side).within(|| ControlPlaneThread::start(&cpus)));
        Ok(Self { _planes: planes.collect::<Result<_, _>>()?, lab, ends, cpus })
    }

    /// The acceptor's host.
    pub(super) fn host(&self) -> &Host {
        self.lab.host(Side::B)
    }

    /// Returns the address for `sidestep fix exchange --listen`.
    pub(super) fn listen(&self) -> String {
        let Host { interface, ipv4, .. } = self.host();
        if self.ends == Ends::None { format!("{ipv4}:0") } else { format!("xdp:{interface}:{ipv4}:0") }
    }

    /// The way to the acceptor, process `pid`, that says it listens at `address`.
    pub(super) fn way(&self, address: &str, pid: u32, is_tls: bool) -> Result<Way, Problem> {
        let strange = || Problem::failed("cannot reach our own acceptor", format!("it says it listens on {address:?}"));
        let parts: Vec<&str> = address.rsplitn(3, ':').collect();
        let [port, host, ..] = parts[..] else { return Err(strange()) };
        let address: SocketAddr = format!("{host}:{port}").parse().map_err(|_| strange())?;
        let find = || Stack::of(self.host().within(place::socket)?, pid);
        let stack = if self.ends == Ends::None { None } else { Some(find()?) };
        let (from, ends, cpus) = (self.lab.host(Side::A).clone(), self.ends, self.cpus.clone());
        Ok(Way { from, address, ends, cpus, stack, is_tls })
    }
}

/// The way to an acceptor behind a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    from: Host,
    address: SocketAddr,
    ends: Ends,
    cpus: Vec<u32>,
    stack: Option<Stack>,
    /// Set if records of TLS travel over it.
    pub(super) is_tls: bool,
}

impl Way {
    /// The acceptor's address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects, with the client's end where it belongs.
    pub(super) fn connect(&self, options: &Options) -> Result<StreamLink, Problem> {
        self.from.within(|| {
            if self.ends != Ends::Both {
                return StreamLink::connect(&Endpoint::from(self.address), options);
            }
            // The threads of an engine shall not be where the client spins.
            cpu::restrict(&self.cpus)?;
            let device = Device::toward(&Consent::Lab, self.from.ipv4.into(), self.address.ip())?;
            let engine = bypass::engine(&device, Load::RoundTrips)?;
            connect_past_kernel(engine, self.address)
        })
    }

    /// Sessions at a time that the client can have over it: one engine has the queue of its interface.
    pub(super) fn sessions_max(&self) -> u32 {
        if self.ends == Ends::Both { 1 } else { u32::MAX }
    }

    /// Waits until the acceptor, which was stopped, can be reached past the kernel.
    pub(super) fn awake(&self) -> Result<Option<Passage>, Problem> {
        self.stack.as_ref().map(Stack::awake).transpose()
    }
}
