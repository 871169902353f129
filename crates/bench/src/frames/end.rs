//! One end: an AF_XDP socket on the first queue of an interface, and a minimal XDP program.

use super::PORT;
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{XdpLink, XdpOptions};
use sidestep_sys::xdp::program::{Attachment, Filter, Program};
use sidestep_sys::xdp::{Geometry, Mode, RingSizes, Umem, Xsk, XskOptions, wait_until_up};
use sidestep_sys::{Problem, interface};
use std::net::IpAddr;
use std::time::Duration;

/// Frames of an end. One message is in flight at a time; the others are for losses and last messages.
const RINGS: u32 = 64;
/// Frames lent for receiving: few, so that they stay in the cache.
const FILL: u32 = 16;
/// Time for the kernel to restart an interface.
const UP_MAX: Duration = Duration::from_secs(5);

/// An end of the bare frame path. While it lives, UDP frames to [`PORT`] do not reach the kernel on this interface.
#[derive(Debug)]
pub(crate) struct End {
    /// The frames.
    pub(crate) link: XdpLink,
    /// MAC address of the interface.
    pub(crate) mac: [u8; 6],
    interface: String,
    // Before the program: detached first.
    _attachment: Attachment,
    _program: Program,
}

impl End {
    /// Opens the interface that has `address`.
    pub(crate) fn open(address: IpAddr) -> Result<Self, Problem> {
        let no_interface = || Problem::failed(format!("cannot open frames at {address}"), "no interface has it");
        let interface = interface::of_address(address).ok_or_else(no_interface)?;
        let umem = Umem::create(Geometry { frames: 2 * RINGS, frame_bytes: 2048, headroom: 0 })?;
        let options = XskOptions { rings: RingSizes::all(RINGS), least: Mode::Copy, ..XskOptions::default() };
        let xsk = Xsk::open(&umem, &interface, 0, &options)?;
        let program = Program::load(Filter::UdpPort(PORT), 1)?;
        program.insert(0, xsk.socket())?;
        let attachment = program.attach(&interface, Mode::Copy)?;
        let device = wait_until_up(&interface, UP_MAX)?;
        let mac = device
            .mac
            .ok_or_else(|| Problem::failed(format!("cannot open frames on {interface}"), "it has no MAC address"))?;
        let link = XdpLink::over(xsk, umem, &XdpOptions { fill: Some(FILL), ..XdpOptions::default() })?;
        Ok(Self { link, mac, interface, _attachment: attachment, _program: program })
    }

    /// Waits until the interface carries frames again, after the other end of its wire was opened.
    pub(crate) fn wait_until_up(&self) -> Result<(), Problem> {
        wait_until_up(&self.interface, UP_MAX).map(drop)
    }

    /// Returns a note for the report.
    pub(crate) fn note(&self) -> String {
        let xsk = self.link.facts().xsks.first();
        let mode = xsk.map_or("", |xsk| xsk.mode.name());
        let why = xsk.and_then(|xsk| xsk.downgrades.first()).map_or_else(String::new, |it| format!(" ({it})"));
        format!(
            "AF_XDP in {mode} mode{why}; a native XDP program is on both interfaces during these slices only, so that the \
             kernel's paths are measured without it"
        )
    }
}
