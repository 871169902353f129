//! A cable between a machine and this host's kernel: a tap with several queues, in an unnamed network namespace.
//!
//! ```text
//!  this host's kernel, in a namespace of its own            the machine
//!   peer (a thread) ── vm0 (tap, one queue per pair) ── QEMU ── virtio-net, vmxnet3 ... ── eth0
//!   198.18.0.1, 2001:2::1                                       198.18.0.2, 2001:2::2
//! ```
//!
//! Nothing of it outlives this process: only descriptors hold the namespace, QEMU dies with the thread that waits for
//! it, and the tap goes with the namespace.

use super::libraries;
use sidestep_sys::Problem;
use sidestep_sys::netns::Namespace;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The tap's name, in its namespace.
const TAP: &str = "vm0";
/// The name of this end in QEMU.
const NETDEV: &str = "cable";
/// The device that creates taps.
const TUN: &str = "/dev/net/tun";

/// This host's addresses on the cable, from those for tests of devices (RFC 2544, RFC 5180).
pub const PEER: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1))];
/// The machine's addresses.
pub const MACHINE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)), IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2))];

/// This host's Ethernet address, locally administered.
pub const PEER_MAC: &str = "02:00:00:00:00:01";
/// The machine's Ethernet address, locally administered.
pub(crate) const MACHINE_MAC: &str = "02:00:00:00:00:02";

/// A network device of the machine, and the peer at the other end.
#[derive(Debug)]
pub struct Cable {
    /// The device in the form of QEMU's `-device`, without `netdev` and `mac`.
    pub device: &'static str,
    /// The number of queue pairs.
    pub queues: u32,
    /// The work of this host's end, in the namespace, on its own thread, until [`Peer::is_over`].
    pub peer: fn(&Peer),
}

/// The state that a peer sees.
#[derive(Clone, Debug, Default)]
pub struct Peer(Arc<AtomicBool>);

impl Peer {
    /// Returns whether the machine has ended.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Gives the device of a machine its addresses and sets it up. For tests inside.
///
/// # Panics
/// Panics if `ip` fails.
pub fn plug(interface: &str) {
    let [v4, v6] = MACHINE;
    for line in lines(interface, v4, v6) {
        let status = Command::new("ip").args(line.split(' ')).status();
        assert!(status.as_ref().is_ok_and(|status| status.success()), "ip {line}: {status:?}");
    }
}

fn lines(interface: &str, v4: IpAddr, v6: IpAddr) -> [String; 4] {
    [
        "link set lo up".to_owned(),
        format!("address replace {v4}/24 dev {interface}"),
        format!("address replace {v6}/64 dev {interface} nodad"),
        format!("link set {interface} up"),
    ]
}

/// A connected cable, with a peer at this end.
#[derive(Debug)]
pub(super) struct Laid {
    namespace: Namespace,
    peer: Peer,
    thread: Option<JoinHandle<()>>,
}

/// The reason why this host cannot have one; `None` if it can.
pub(super) fn unavailable() -> Option<Problem> {
    (!Path::new(TUN).exists()).then(|| {
        Problem::failed("cannot connect a cable to a machine", format!("there is no {TUN}"))
            .next("load it: modprobe tun")
    })
}

impl Cable {
    /// Makes the tap, and starts the peer.
    pub(super) fn lay(&'static self) -> Result<Laid, Problem> {
        let namespace = Namespace::unnamed()?;
        let [v4, v6] = PEER;
        let kind = if self.queues > 1 { " multi_queue" } else { "" };
        ip(&namespace, &format!("tuntap add mode tap name {TAP} vnet_hdr{kind}"))?;
        ip(&namespace, &format!("link set {TAP} address {PEER_MAC}"))?;
        lines(TAP, v4, v6).iter().try_for_each(|line| ip(&namespace, line))?;
        // A test may keep all frames from the machine's kernel, which then answers no neighbour request.
        for address in MACHINE {
            ip(&namespace, &format!("neigh add {address} dev {TAP} lladdr {MACHINE_MAC} nud permanent"))?;
        }
        let peer = Peer::default();
        let thread = self.start(&peer, &namespace)?;
        Ok(Laid { namespace, peer, thread: Some(thread) })
    }

    fn start(&'static self, peer: &Peer, namespace: &Namespace) -> Result<JoinHandle<()>, Problem> {
        let (peer, namespace) = (peer.clone(), namespace.try_clone()?);
        let work = move || match namespace.enter() {
            Ok(()) => (self.peer)(&peer),
            Err(problem) => sidestep_sys::problem::say(problem),
        };
        let named = thread::Builder::new().name("vm peer".into());
        named.spawn(work).map_err(|error| Problem::failed("cannot start the peer of a machine", error))
    }

    /// The arguments for QEMU.
    pub(super) fn arguments(&self) -> [String; 4] {
        let queues = if self.queues > 1 { format!(",queues={}", self.queues) } else { String::new() };
        let netdev = format!("tap,id={NETDEV},ifname={TAP},script=no,downscript=no,vhost=off{queues}");
        ["-netdev".into(), netdev, "-device".into(), format!("{},netdev={NETDEV},mac={MACHINE_MAC}", self.device)]
    }
}

impl Laid {
    /// Makes the command start in the tap's namespace.
    pub(super) fn apply_to(&self, command: &mut Command) -> Result<(), Problem> {
        self.namespace.apply_to(command)
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        self.peer.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A peer that panicked has printed that; the tests in the machine fail without it.
            let _ = thread.join();
        }
    }
}

fn ip(namespace: &Namespace, line: &str) -> Result<(), Problem> {
    let failed = |why: String| Problem::failed(format!("ip {line}, for a machine's cable, failed"), why);
    let mut command = Command::new(libraries::find("ip")?);
    command.args(line.split(' '));
    namespace.apply_to(&mut command)?;
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(failed(said.trim().to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn looks(peer: &Peer) {
        // The address exists: the cable is connected before its peer starts.
        drop(UdpSocket::bind((PEER[0], 0)).unwrap());
        drop(UdpSocket::bind((PEER[1], 0)).unwrap());
        while !peer.is_over() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_cable_is_laid_and_leaves_nothing() {
        static CABLES: [Cable; 2] = [
            Cable { device: "virtio-net-pci", queues: 1, peer: looks },
            Cable { device: "virtio-net-pci", queues: 4, peer: looks },
        ];
        if !sidestep_sys::process::is_root() {
            return eprintln!("skipped: needs root");
        }
        if let Some(problem) = unavailable() {
            return eprintln!("skipped: {problem}");
        }
        for cable in &CABLES {
            let laid = cable.lay().unwrap();
            assert!(UdpSocket::bind((PEER[0], 0)).is_err(), "it is not in our namespace");
            drop(laid);
        }
        let [_, netdev, _, device] = CABLES[1].arguments();
        assert!(
            netdev.ends_with(",queues=4") && device.starts_with("virtio-net-pci,netdev=cable,mac="),
            "{netdev} {device}"
        );
    }
}
