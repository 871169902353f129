//! The smallest XDP program that redirects frames to AF_XDP sockets, for measurements and tests of the bare path.
//!
//! The program with flows, a heartbeat and counters is another one; this one measures the floor. Closing the descriptor
//! detaches it: a process that dies leaves nothing attached.

mod bpf;
mod code;
mod inject;

pub use inject::{Flood, INJECTED_BYTES_MAX, Injector};

use super::device::device;
use super::errno::explain;
use super::facts::{Downgrade, Mode};
use crate::Problem;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The frames that go to the sockets; all others go to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All frames, ARP included: the kernel receives nothing on these queues.
    Everything,
    /// Unfragmented UDP over IPv4 without options, to this port.
    UdpPort(u16),
}

/// A loaded program and the map of its sockets.
#[derive(Debug)]
pub struct Program {
    program: OwnedFd,
    sockets: OwnedFd,
}

impl Program {
    /// Loads the program, for queues 0 to `queues` - 1. It needs CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN.
    pub fn load(filter: Filter, queues: u32) -> Result<Self, Problem> {
        let failed = |what: &str, why: String| {
            Problem::failed(format!("cannot {what}"), why)
                .next("run as root: it needs CAP_BPF and CAP_NET_ADMIN, and Linux 5.11")
        };
        let sockets = bpf::xsk_map(queues).map_err(|error| failed("make a map of AF_XDP sockets", explain(&error)))?;
        let code = code::redirect(filter, sockets.as_fd());
        let program = bpf::load(&code).map_err(|(error, log)| {
            // The log's last line only counts instructions.
            let said = log.lines().rfind(|line| !line.starts_with("processed"));
            let said = said.map_or_else(String::new, |line| format!("; the verifier says: {line}"));
            failed("load an XDP program", format!("{}{said}", explain(&error)))
        })?;
        Ok(Self { program, sockets })
    }

    /// Redirects frames of `queue` to `socket`, which must be bound to it. The kernel removes the socket from the map
    /// when it is closed.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Problem> {
        bpf::update(self.sockets.as_fd(), queue, socket).map_err(|error| {
            Problem::failed(format!("cannot send frames of queue {queue} to an AF_XDP socket"), explain(&error))
                .next("load the program for more queues, and give it a bound socket")
        })
    }

    /// Attaches the program to an interface of the calling thread's namespace: in the driver or, if that is not
    /// supported and `least` allows it, in generic mode.
    pub fn attach(&self, interface: &str, least: Mode) -> Result<Attachment, Problem> {
        let found = device(interface)?;
        let attach = |mode| bpf::link(self.program.as_fd(), found.index, mode);
        let native = match attach(bpf::Attach::Native) {
            Ok(link) => return Ok(Attachment { _link: link, downgrade: None }),
            Err(error) => error,
        };
        if least != Mode::Generic || native.raw_os_error() == Some(libc::EBUSY) {
            return Err(not_attached(interface, &native));
        }
        let link = attach(bpf::Attach::Generic).map_err(|error| not_attached(interface, &error))?;
        let reason = format!("the driver of {interface} does not run XDP programs ({})", explain(&native));
        Ok(Attachment { _link: link, downgrade: Some(Downgrade { from: Mode::Copy, to: Mode::Generic, reason }) })
    }
}

/// An attached program, detached on drop.
#[derive(Debug)]
pub struct Attachment {
    _link: OwnedFd,
    downgrade: Option<Downgrade>,
}

impl Attachment {
    /// The reason why it runs in generic mode, if it does. Sockets must then be bound with [`Mode::Generic`] as the
    /// best.
    pub fn downgrade(&self) -> Option<&Downgrade> {
        self.downgrade.as_ref()
    }
}

fn not_attached(interface: &str, error: &io::Error) -> Problem {
    let what = format!("cannot attach an XDP program to {interface}");
    match (error.raw_os_error(), device(interface).ok().and_then(|device| device.xdp_program)) {
        (Some(libc::EBUSY | libc::EEXIST), Some(id)) => {
            Problem::failed(what, format!("{}: program {id} is attached to it", explain(error)))
                .next(format!("see whose it is with: bpftool prog show id {id}, and end that process"))
        }
        (Some(libc::EPERM), _) => {
            Problem::failed(what, explain(error)).next("run as root: it needs CAP_BPF and CAP_NET_ADMIN")
        }
        _ => Problem::failed(what, explain(error))
            .next("see what the driver says about it: dmesg | tail (MTU and queue counts are common reasons)"),
    }
}
