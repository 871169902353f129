//! Frames put into an interface's receive path, as if they had come by the wire, or sent by it in great numbers (BPF_F_TEST_XDP_LIVE_FRAMES, Linux 5.18).

use super::{bpf, code};
use std::io;
use std::os::fd::OwnedFd;

/// The longest frame: a page without the room that the kernel keeps around a frame (256 bytes in front, 320 behind).
pub const INJECTED_BYTES_MAX: usize = 4096 - 256 - 320;

/// A program that passes every frame. It is attached nowhere.
#[derive(Debug)]
pub struct Injector(OwnedFd);

impl Injector {
    /// Loads the program; needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load() -> io::Result<Self> {
        bpf::load(&code::pass()).map(Self).map_err(|(error, _)| error)
    }

    /// Has the kernel receive a frame on an interface of the calling thread's network namespace. Unless the host steers received
    /// packets to other CPUs (RPS), the kernel's sockets have it when this returns.
    pub fn receive(&self, interface: u32, frame: &[u8]) -> io::Result<()> {
        bpf::run_live(&self.0, interface, frame, 1)
    }
}

/// A program that sends every frame back by its interface: a source of frames faster than any socket, for tests and
/// measurements. It is attached nowhere.
#[derive(Debug)]
pub struct Flood(OwnedFd);

impl Flood {
    /// Loads the program; needs CAP_BPF and CAP_NET_ADMIN.
    pub fn load() -> io::Result<Self> {
        bpf::load(&code::transmit()).map(Self).map_err(|(error, _)| error)
    }

    /// Sends a frame so many times by an interface of the calling thread's network namespace, as fast as the kernel can
    /// (ndo_xdp_xmit). The peer of a veth must have an XDP program or GRO. What does not fit its queue is lost.
    pub fn send(&self, interface: u32, frame: &[u8], count: u32) -> io::Result<()> {
        bpf::run_live(&self.0, interface, frame, count)
    }
}
