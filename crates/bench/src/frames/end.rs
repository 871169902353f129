//! One end: AF_XDP sockets on the queues by which its frames come, and a minimal XDP program.

use super::packet::{Flow, payload};
use crate::bypass::link_note;
use sidestep_control_api::message::{Protocol, QUEUES_MAX};
use sidestep_control_api::rss::Spread;
use sidestep_frame::xdp::{XdpLink, XdpOptions, XdpQueue};
use sidestep_frame::{FrameLink, Received};
use sidestep_sys::xdp::program::{Attachment, Filter, Program};
use sidestep_sys::xdp::{self, Geometry, Mode, RingSizes, Umem, Xsk, XskOptions, wait_until_up};
use sidestep_sys::{Problem, interface};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Frames of a queue. One message is in flight at a time; the others are for losses and last messages.
const RINGS: u32 = 64;
/// Frames lent for receiving: few, so that they stay in the cache.
const FILL: u32 = 16;
/// Time for the kernel to restart an interface; a NIC that is reset takes seconds.
const UP_MAX: Duration = Duration::from_secs(10);

/// A UDP port that is this end's at every address of the host: no other program receives what comes to it.
#[derive(Debug)]
pub(crate) struct OwnPort {
    socket: UdpSocket,
    /// Its number.
    pub(crate) number: u16,
}

impl OwnPort {
    /// Takes a port of the kernel's choice.
    pub(crate) fn take() -> Result<Self, Problem> {
        let take = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_nonblocking(true)?;
            let number = socket.local_addr()?.port();
            Ok(Self { socket, number })
        };
        take().map_err(|error: std::io::Error| Problem::failed("cannot take a UDP port", error))
    }

    /// Returns whether something came to it by the kernel.
    pub(super) fn has_heard(&self) -> bool {
        self.socket.recv(&mut [0; 64]).is_ok()
    }
}

/// An end of the bare frame path. While it lives, UDP frames to its port do not reach the kernel on these queues.
#[derive(Debug)]
pub(crate) struct End {
    /// The frames.
    pub(crate) link: XdpLink,
    /// MAC address of the interface.
    pub(crate) mac: [u8; 6],
    pub(super) interface: String,
    pub(super) flow: Flow,
    pub(super) port: OwnPort,
    sender: [u8; 10],
    // Before the program: detached first.
    _attachment: Attachment,
    _program: Program,
}

impl End {
    /// Opens an interface for a conversation.
    pub(crate) fn open(interface: &str, port: OwnPort, flow: Flow) -> Result<Self, Problem> {
        check_interface(interface, &flow)?;
        let queues = queues(interface, &flow)?;
        let most = queues.last().copied().unwrap_or_default() + 1;
        let program = Program::load(Filter::UdpPort(port.number), most)?;
        let attachment = program.attach(interface, Mode::Generic)?;
        let device = wait_until_up(interface, UP_MAX)?;
        let mac = device
            .mac
            .ok_or_else(|| Problem::failed(format!("cannot open frames on {interface}"), "it has no MAC address"))?;
        let frames = (2 * RINGS * queues.len() as u32).next_power_of_two();
        let umem = Umem::create(Geometry { frames, frame_bytes: 2048, headroom: 0 })?;
        let (best, least) = match attachment.downgrade() {
            Some(_) => (Mode::Generic, Mode::Generic),
            None => (Mode::ZeroCopy, Mode::Copy),
        };
        let options = XskOptions { rings: RingSizes::all(RINGS), best, least, ..XskOptions::default() };
        let mut sockets: Vec<Xsk> = Vec::new();
        for &queue in &queues {
            let socket = match sockets.first() {
                None => Xsk::open(&umem, interface, queue, &options)?,
                Some(first) => Xsk::share(&umem, first, interface, queue, &options)?,
            };
            program.insert(queue, socket.socket())?;
            sockets.push(socket);
        }
        // Binding a socket without copying resets some devices.
        wait_until_up(interface, UP_MAX)?;
        let parts = sockets.into_iter().map(|socket| {
            let (socket, mut facts, rings) = socket.into_parts();
            facts.downgrades.splice(0..0, attachment.downgrade().cloned());
            XdpQueue { socket, rings, facts }
        });
        let link = XdpLink::open_all(parts.collect(), umem, &XdpOptions { fill: Some(FILL), ..XdpOptions::default() })?;
        let (sender, interface) = (flow.sender(), interface.to_owned());
        Ok(Self { link, mac, interface, flow, port, sender, _attachment: attachment, _program: program })
    }

    /// Returns the message in a frame, if it comes from the peer.
    #[inline]
    pub(crate) fn message(&self, frame: &Received) -> Option<&[u8]> {
        payload(self.link.bytes(frame), &self.sender)
    }

    /// Returns a note for the report.
    pub(crate) fn note(&self) -> String {
        format!(
            "{}; its XDP program is attached during these slices only, so that the kernel's paths are measured without it",
            link_note(self.link.facts())
        )
    }
}

/// Refuses an interface that does not carry the frames as they are written, and one that has a program already.
fn check_interface(interface: &str, flow: &Flow) -> Result<(), Problem> {
    let (what, local) = (format!("cannot send bare frames by {interface}"), *flow.local.ip());
    match interface::of_address(local.into()) {
        Some(name) if name == interface => {}
        name => {
            let owner = name.unwrap_or_else(|| "no interface".into());
            return Err(Problem::usage(
                what,
                format!("{owner} has {local}; frames carry no VLAN tag and cross no bond"),
            )
            .next(format!("give --interface {owner} on that end, or choose another path")));
        }
    }
    match xdp::device(interface)?.xdp_program {
        None => Ok(()),
        Some(id) => Err(Problem::failed(what, format!("XDP program {id} is attached to it")).next(format!(
            "see whose it is: bpftool prog show id {id}; of a control plane of ours: sidestep control --release {interface}"
        ))),
    }
}

/// Returns the queues by which frames of the peer may come: the one that the device's table names (`ethtool -x`), or all where it
/// does not tell, as on a veth.
fn queues(interface: &str, flow: &Flow) -> Result<Vec<u32>, Problem> {
    let spread = Spread::read(interface);
    if let Ok(queue) = spread.queue_of(Protocol::Udp, flow.remote.into(), flow.local.into()) {
        return Ok(vec![queue]);
    }
    let refused = |why: String| {
        Err(Problem::failed(format!("cannot open frames on {interface}"), why)
            .next(format!("give it fewer queues: ethtool -L {interface} combined 1")))
    };
    match spread.queues() {
        Ok(count @ 1..=QUEUES_MAX) => Ok((0..count).collect()),
        Ok(count) => {
            refused(format!("it does not tell by which of {count} queues frames come; {QUEUES_MAX} can be had"))
        }
        Err(why) => refused(why.to_string()),
    }
}
