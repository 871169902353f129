//! Segments of the peer that the kernel must have seen: its FIN, and its clock. They are put into the interface's receive path.

use sidestep_control_api::message::HandOver;
use sidestep_control_api::table::Link;
use sidestep_sys::tcp_repair::MARK;
use sidestep_sys::xdp::program::Injector;
use sidestep_wire::ethernet::EtherType;
use sidestep_wire::tcp::{Flags, Options, Segment, SequenceNumber, Timestamps, build};
use sidestep_wire::{Addresses, MacAddress, ethernet, ipv4, ipv6, protocol, vlan};
use std::io;

/// Ethernet, IPv6, TCP with timestamps.
const FRAME_BYTES_MAX: usize = 14 + 40 + 32;

/// Hops that are left: as those of a peer nearby, whatever a socket asks for at the least (IP_MINTTL).
const HOPS: u8 = 255;

/// A locally administered address: the sender of such frames.
const SENDER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// The receive path of an interface.
pub(crate) struct Wire<'a> {
    pub(crate) injector: &'a Injector,
    /// The interface that the kernel receives the connection's frames by: of a VLAN, its own.
    pub(crate) link: &'a Link,
}

impl Wire<'_> {
    /// The peer's FIN arrives. It acknowledges nothing new.
    pub(super) fn finish(&self, connection: &HandOver) -> io::Result<()> {
        self.arrive(connection, Flags::ACK | Flags::FIN)
    }

    /// An ACK of the peer's arrives, which brings its clock.
    pub(super) fn acknowledge(&self, connection: &HandOver) -> io::Result<()> {
        self.arrive(connection, Flags::ACK)
    }

    fn arrive(&self, connection: &HandOver, flags: Flags) -> io::Result<()> {
        let mut frame = [0; FRAME_BYTES_MAX];
        let bytes =
            write(connection, flags, MacAddress(self.link.mac), &mut frame).ok_or(io::ErrorKind::InvalidInput)?;
        self.injector.receive(self.link.index, &frame[..bytes])
    }
}

/// Writes a frame of the peer's; `None` if the ends are of two families.
fn write(connection: &HandOver, flags: Flags, to: MacAddress, frame: &mut [u8]) -> Option<usize> {
    let HandOver { local, remote, .. } = *connection;
    let addresses = Addresses::new(remote.ip(), local.ip())?;
    let window = connection.send_window >> connection.send_shift;
    let clock = connection.timestamps.map(|(ours, theirs)| Timestamps { value: theirs, echo: ours });
    let segment = Segment {
        source_port: remote.port(),
        destination_port: local.port(),
        sequence: SequenceNumber(connection.receive_end),
        acknowledgement: SequenceNumber(connection.send_start.wrapping_sub(connection.sampled())),
        flags,
        window: window.min(u32::from(u16::MAX)) as u16,
        urgent_pointer: MARK,
        options: Options { timestamps: clock, ..Options::NONE },
    };
    let ether_type = if local.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let header = ethernet::Header { destination: to, source: SENDER, tags: vlan::Tags::NONE, ether_type };
    let at = header.write(frame).ok()?;
    let at = at + write_ip(&addresses, segment.header_bytes(), frame.get_mut(at..)?)?;
    let bytes = build(&segment, &addresses, 0, frame.get_mut(at..)?).ok()?;
    Some(at + bytes)
}

fn write_ip(addresses: &Addresses, payload_bytes: usize, packet: &mut [u8]) -> Option<usize> {
    match *addresses {
        Addresses::V4 { source, destination } => {
            let header = ipv4::Header {
                source,
                destination,
                protocol: protocol::TCP,
                time_to_live: HOPS,
                type_of_service: 0,
                identification: 0,
                do_not_fragment: true,
            };
            header.write(payload_bytes, packet).ok()
        }
        Addresses::V6 { source, destination } => {
            let header = ipv6::Header {
                source,
                destination,
                protocol: protocol::TCP,
                hop_limit: HOPS,
                traffic_class: 0,
                flow_label: 0,
            };
            header.write(payload_bytes, packet).ok()
        }
    }
}
