//! The wire of events at XDP: a lab, the program on its one end, a sender on the other.

use rustix::net::netdevice;
use sidestep_kernel_ring::source::EVENT_BYTES;
use sidestep_lab::{Lab, Options, Side};
use sidestep_sys::bpf::{XdpMode, link_xdp};
use sidestep_sys::clock::monotonic_ns;
use sidestep_sys::{Problem, cpu, process};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The port of the datagrams: the interface is the lab's own.
pub(super) const PORT: u16 = 7412;
/// The most datagrams that one call passes over before a slice: more than a socket holds.
const STALE_MAX: u32 = 100_000;

/// A lab whose end a has the program.
pub(super) struct Wire {
    lab: Lab,
    sender: UdpSocket,
    number: AtomicU64,
    /// The program is detached when it is closed.
    _link: OwnedFd,
}

impl Wire {
    /// Makes the lab, and attaches the program to the interface of its end a in native mode.
    pub(super) fn up(program: &OwnedFd) -> Result<Self, Problem> {
        let lab = Lab::up(&Options::default())?;
        let (a, b) = (lab.host(Side::A), lab.host(Side::B));
        let name = a.interface.clone();
        let link = a.within(|| {
            let attach = || {
                let socket = UdpSocket::bind((a.ipv4, 0))?;
                let index = netdevice::name_to_index(&socket, &name)?;
                link_xdp(program.as_fd(), index, XdpMode::Native)
            };
            attach().map_err(|error| Problem::failed(format!("cannot attach the source of events to {name}"), error))
        })?;
        let to = (a.ipv4, PORT);
        let sender = b.within(|| {
            let open = || {
                let socket = UdpSocket::bind((b.ipv4, 0))?;
                socket.connect(to)?;
                Ok(socket)
            };
            open().map_err(cannot_open)
        })?;
        Ok(Self { lab, sender, number: AtomicU64::new(0), _link: link })
    }

    /// The interface of the receiving end.
    pub(super) fn interface(&self) -> &str {
        &self.lab.host(Side::A).interface
    }

    /// A socket that receives the datagrams.
    pub(super) fn receiver(&self) -> Result<UdpSocket, Problem> {
        let a = self.lab.host(Side::A);
        a.within(|| UdpSocket::bind((a.ipv4, PORT)).map_err(cannot_open))
    }

    /// Sends a datagram in each interval until `stop`, from this CPU, which it leaves between them.
    pub(super) fn send(&self, interval: Duration, on: u32, stop: &AtomicBool) -> Result<(), Problem> {
        cpu::restrict(&[on])?;
        // Else the kernel adds 50 us to each sleep. Without it the pace is slower, and no sample changes.
        let _ = process::minimize_timer_slack();
        let interval_ns = interval.as_nanos() as u64;
        let mut datagram = [0; EVENT_BYTES];
        let mut due = monotonic_ns();
        while !stop.load(Ordering::Relaxed) {
            // One that is late is not made up for: events must not come in bursts.
            let now = monotonic_ns();
            due = if now > due + interval_ns { now } else { due + interval_ns };
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(now)));
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            datagram[8..16].copy_from_slice(&number.to_ne_bytes());
            match self.sender.send(&datagram) {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                Err(error) => return Err(Problem::failed("cannot send an event", error)),
            }
        }
        Ok(())
    }
}

/// Passes over the datagrams that wait in a non-blocking socket.
pub(super) fn drain(socket: &UdpSocket) {
    let mut buffer = [0; EVENT_BYTES];
    for _ in 0..STALE_MAX {
        if socket.recv(&mut buffer).is_err() {
            return;
        }
    }
}

fn cannot_open(error: std::io::Error) -> Problem {
    Problem::failed("cannot open a socket for events", error)
}
