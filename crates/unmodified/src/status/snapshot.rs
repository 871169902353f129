//! The contents of a status page at one moment, checked.

use super::figure::{EngineFigure, Figure};
use super::layout::SocketKind;
use super::tcp_state::TcpState;
use sidestep_control_api::message::Mode;
use std::net::SocketAddr;

/// A status page at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The process, as it sees itself.
    pub pid: u64,
    /// Its start, clock ticks since boot.
    pub start_ticks: u64,
    /// The name of the program.
    pub program: String,
    /// The name of its profile.
    pub profile: String,
    /// Its engines.
    pub engines: Vec<Engine>,
    /// Its sockets, in the order of their descriptors.
    pub sockets: Vec<Socket>,
    /// The number of sockets for which the page has no row.
    pub beyond: u64,
    /// The number of sockets opened so far.
    pub opened: u64,
    /// The number of rows that make no sense: the process has overwritten them.
    pub spoilt: u32,
}

/// An engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its number in the page.
    pub number: u32,
    /// Its interface.
    pub interface: String,
    /// Its mode.
    pub mode: Option<Mode>,
    /// Its queues.
    pub queues: Vec<u32>,
    pub(super) figures: Vec<u64>,
}

impl Engine {
    /// Returns one of its numbers.
    pub fn value(&self, figure: EngineFigure) -> u64 {
        self.figures.get(figure as usize).copied().unwrap_or(0)
    }
}

/// The path of a socket's traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathNow {
    /// Not decided yet.
    Undecided,
    /// Past the kernel.
    Accelerated {
        /// The number of its engine in the page.
        engine: u32,
        /// The mode of its queue.
        mode: Option<Mode>,
        /// The queue, if it is one.
        queue: Option<u32>,
    },
    /// By the kernel.
    Kernel {
        /// The name of the reason.
        name: String,
        /// Its description.
        description: String,
    },
}

/// A socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The descriptor.
    pub descriptor: u32,
    /// The kind.
    pub kind: SocketKind,
    /// The path.
    pub path: PathNow,
    /// The state of a connection.
    pub state: Option<TcpState>,
    /// The local address.
    pub local: Option<SocketAddr>,
    /// The remote address.
    pub remote: Option<SocketAddr>,
    /// The number of descriptors that share it.
    pub descriptors: u32,
    /// The time of its opening, CLOCK_MONOTONIC, nanoseconds.
    pub since_ns: u64,
    /// True if its row was being changed: the process was stopped, or ended, in the middle of it.
    pub is_torn: bool,
    /// The row, which stays the same while the socket is open; `None` of a socket that the page does not have.
    pub row: Option<u32>,
    pub(super) figures: Vec<u64>,
}

impl Socket {
    /// A socket that the page does not have.
    pub(super) fn of_kernel(descriptor: u32, kind: SocketKind, path: PathNow) -> Self {
        Self {
            descriptor,
            kind,
            path,
            state: None,
            local: None,
            remote: None,
            descriptors: 1,
            since_ns: 0,
            is_torn: false,
            row: None,
            figures: vec![0; Figure::ALL.len()],
        }
    }

    pub(super) fn set(&mut self, figure: Figure, value: u64) {
        if let Some(place) = self.figures.get_mut(figure as usize) {
            *place = value;
        }
    }

    /// Returns one of its numbers.
    pub fn value(&self, figure: Figure) -> u64 {
        self.figures.get(figure as usize).copied().unwrap_or(0)
    }
}
