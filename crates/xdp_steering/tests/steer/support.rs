//! Helpers of these tests.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use libbpf_rs::{Xdp, XdpFlags};
use sidestep_lab::Side;
use sidestep_lab::{Lab, Options};
use sidestep_sys::interface::name_of_index;
use sidestep_sys::process::is_root;
pub(crate) use sidestep_testkit::{WATCHDOG, wait_until};
use sidestep_xdp_steering::{
    Flow, Group, Listener, MapEntry, Protocol, Rehearsal, StackId, StackOptions, Tables, Vlan, VlanMatch,
};

use crate::frames::OWN_MAC;

/// The longest frame of the stacks in these tests, bytes.
pub(crate) const FRAME_BYTES_MAX: u32 = 1792;

/// Returns whether the test can run; prints the reason if not.
pub(crate) fn can_run() -> bool {
    if !is_root() {
        eprintln!("skipped: needs root");
    }
    is_root()
}

/// Runs a test with forwarding off, whatever this machine's setting.
pub(crate) fn without_forwarding(test: impl FnOnce() + Send) {
    let lab = Lab::up(&Options::default()).unwrap();
    lab.host(Side::A)
        .within(|| {
            set_forwarding(false);
            test();
            Ok(())
        })
        .unwrap();
}

/// Sets forwarding on every interface of the calling thread's namespace.
pub(crate) fn set_forwarding(on: bool) {
    for family in ["ipv4", "ipv6"] {
        fs::write(format!("/proc/sys/net/{family}/conf/all/forwarding"), u8::from(on).to_string()).unwrap();
    }
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn flow(protocol: Protocol, local: &str, remote: &str, vlan: Vlan) -> MapEntry {
    Flow { protocol, local: address(local), remote: address(remote), vlan }.into()
}

pub(crate) fn listener(protocol: Protocol, local: &str, vlan: VlanMatch) -> MapEntry {
    Listener { protocol, local: address(local), vlan }.into()
}

pub(crate) fn group(group: &str, source: Option<&str>, vlan: VlanMatch) -> MapEntry {
    Group { group: address(group), source: source.map(|source| source.parse().unwrap()), vlan }.into()
}

/// The index of an interface of the calling thread's namespace.
pub(crate) fn ifindex(interface: &str) -> u32 {
    let index = (1..1000).find(|index| name_of_index(*index).is_ok_and(|name| name == interface));
    index.unwrap_or_else(|| panic!("no interface {interface}"))
}

/// The XDP program on an interface, from netlink; 0 for none.
pub(crate) fn attached_program(ifindex: u32) -> u32 {
    let any = File::open("/dev/null").unwrap();
    Xdp::new(any.as_fd()).query_id(ifindex.cast_signed(), XdpFlags::NONE).unwrap()
}

/// An unbound AF_XDP socket: enough for the map of sockets.
pub(crate) fn bare_socket() -> OwnedFd {
    let socket = socket2::Socket::new(socket2::Domain::from(libc::AF_XDP), socket2::Type::RAW, None).unwrap();
    socket.into()
}

pub(crate) fn stack(tables: &Tables, label: &str) -> (StackId, OwnedFd) {
    stack_of(tables, label, 60, FRAME_BYTES_MAX)
}

fn stack_of(tables: &Tables, label: &str, tcp_deadlines: u32, frame_bytes_max: u32) -> (StackId, OwnedFd) {
    let label = label.to_owned();
    tables.stack_create(&StackOptions { label, frame_bytes_max, first_queue: 0, tcp_deadlines }).unwrap()
}

/// A rehearsal with one living stack that has a socket on queue 0.
pub(crate) struct Stage {
    pub(crate) rehearsal: Rehearsal,
    pub(crate) stack: StackId,
    _socket: OwnedFd,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::of(60)
    }

    /// A stage whose owner has this many deadlines for TCP.
    pub(crate) fn of(tcp_deadlines: u32) -> Self {
        Self::over(Rehearsal::new(OWN_MAC).unwrap(), tcp_deadlines, FRAME_BYTES_MAX)
    }

    /// A stage of any program, with an owner whose sockets accept frames of this length.
    pub(crate) fn over(rehearsal: Rehearsal, tcp_deadlines: u32, frame_bytes_max: u32) -> Self {
        let (stack, _) = stack_of(rehearsal.tables(), "owner", tcp_deadlines, frame_bytes_max);
        let socket = bare_socket();
        rehearsal.tables().set_socket(stack, 0, socket.as_fd()).unwrap();
        Self { rehearsal, stack, _socket: socket }
    }

    pub(crate) fn tables(&self) -> &Tables {
        self.rehearsal.tables()
    }

    /// Assigns an entry to the stack, and keeps the stack alive.
    pub(crate) fn steer(&self, entry: &MapEntry) {
        self.tables().beat(self.stack).unwrap();
        self.tables().add(self.stack, entry).unwrap();
    }

    /// Removes every entry.
    pub(crate) fn clear(&self) {
        for (entry, owner) in self.tables().entries().unwrap() {
            assert!(self.tables().remove(owner, &entry).unwrap());
        }
    }
}

/// A BPF file system of this test alone, removed afterwards.
pub(crate) struct Pins(PathBuf);

impl Pins {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sidestep-xdp-steering-{}-{number}", std::process::id()));
        assert!(sidestep_xdp_steering::mount(&path).unwrap());
        Self(path)
    }

    /// The directory of pins for one interface.
    pub(crate) fn directory(&self) -> PathBuf {
        self.0.join("lab0")
    }

    /// A second directory.
    pub(crate) fn other_directory(&self) -> PathBuf {
        self.0.join("other")
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let removed = sidestep_xdp_steering::Steering::remove(&self.directory());
        let unmounted = sidestep_xdp_steering::unmount(&self.0);
        if !thread::panicking() {
            removed.unwrap();
            assert!(unmounted.unwrap());
            assert!(!self.0.exists());
        }
    }
}
