//! A writer of pcapng: what was received, with its time in nanoseconds and its line as interface.
//!
//! A datagram that came by a socket has lost its headers. It is written with IP and UDP headers of its addresses, as link type
//! RAW: Wireshark, tcpdump and every library read that without a plug-in and follow it up to the payload. An Ethernet header would need MAC addresses
//! that nobody has seen, and a link type for users (147 to 162) a setting in each Wireshark. Frames that came by AF_XDP are whole, and
//! written as they are, as Ethernet.

use super::{INTERFACES_MAX, LinkType, PACKET_BYTES_MAX};
use sidestep_wire::{Addresses, BuildError, ipv4, ipv6, protocol, udp};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

/// The longest IP packet with a UDP datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = ipv6::HEADER_BYTES + u16::MAX as usize;
/// An enhanced packet without its packet, bytes.
const ENHANCED_BYTES: usize = 32;
/// The longest name, bytes.
const NAME_BYTES_MAX: usize = 255;
/// The time to live that is written: the original is not known.
const TIME_TO_LIVE: u8 = 64;

/// An interface of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// Packets of an interface since the beginning of the capture, as the interface statistics block of pcapng has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received by the interface (`isb_ifrecv`).
    pub received: u64,
    /// Dropped by the interface (`isb_ifdrop`).
    pub dropped_by_interface: u64,
    /// Dropped by the operating system (`isb_osdrop`).
    pub dropped_by_system: u64,
    /// Given to the capturing program (`isb_usrdeliv`).
    pub delivered: u64,
}

/// A writer. It allocates only in [`Writer::new`] and makes one call of `write_all` per packet.
pub struct Writer<W> {
    write: W,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a capture, little-endian. `application` is named in it.
    pub fn new(write: W, application: &str) -> io::Result<Self> {
        let block = Vec::with_capacity(ENHANCED_BYTES + PACKET_BYTES_MAX + 4);
        let mut writer = Self { write, interfaces: 0, block };
        writer.begin(0x0a0d_0d0a);
        writer.put(&0x1a2b_3c4d_u32.to_le_bytes());
        // Version 1.0; the length of the section is not known.
        writer.put(&[1, 0, 0, 0]);
        writer.put(&u64::MAX.to_le_bytes());
        writer.option(4, application.as_bytes());
        writer.put(&[0; 4]);
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface: a line, by its name. Its times are in nanoseconds.
    pub fn interface(&mut self, name: &str, link: LinkType) -> io::Result<InterfaceId> {
        if self.interfaces as usize == INTERFACES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a capture has at most 1024 interfaces"));
        }
        self.begin(1);
        self.put(&u32::from(link.0).to_le_bytes());
        self.put(&[0; 4]);
        self.option(2, name.as_bytes());
        self.option(9, &[9]);
        self.put(&[0; 4]);
        self.end()?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Appends a packet as it was received, at most [`PACKET_BYTES_MAX`], with its time, ns since 1970.
    pub fn packet(&mut self, interface: InterfaceId, time_ns: u64, packet: &[u8]) -> io::Result<()> {
        if packet.len() > PACKET_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a packet of a capture has at most 262,144 bytes"));
        }
        self.enhanced(interface, time_ns, packet.len());
        self.put(packet);
        self.end()
    }

    /// Appends a datagram that was received on an interface of link type [`LinkType::RAW`].
    pub fn datagram(
        &mut self,
        interface: InterfaceId,
        time_ns: u64,
        source: SocketAddr,
        destination: SocketAddr,
        payload: &[u8],
    ) -> io::Result<()> {
        let refused = |error: BuildError| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
        let addresses = match (source.ip(), destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
            (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
            _ => return Err(refused(BuildError::OtherVersion)),
        };
        let header = match addresses {
            Addresses::V4 { .. } => ipv4::HEADER_BYTES,
            Addresses::V6 { .. } => ipv6::HEADER_BYTES,
        };
        let bytes = header + udp::HEADER_BYTES + payload.len();
        if bytes > DATAGRAM_BYTES_MAX {
            return Err(refused(BuildError::TooLong));
        }
        self.enhanced(interface, time_ns, bytes);
        let begin = self.block.len();
        self.block.resize(begin + header + udp::HEADER_BYTES, 0);
        self.put(payload);
        let ports = udp::Header { source_port: source.port(), destination_port: destination.port() };
        let packet = &mut self.block[begin..];
        let checksum = udp::Checksum::Computed;
        let datagram = ports.write(&addresses, payload.len(), checksum, &mut packet[header..]).map_err(refused)?;
        write_ip(&addresses, datagram, packet).map_err(refused)?;
        self.end()
    }

    /// Appends what was counted of an interface up to now (interface statistics block, type 5).
    pub fn statistics(&mut self, interface: InterfaceId, time_ns: u64, counts: &Counts) -> io::Result<()> {
        self.begin(5);
        for word in [interface.0, (time_ns >> 32) as u32, time_ns as u32] {
            self.put(&word.to_le_bytes());
        }
        let Counts { received, dropped_by_interface, dropped_by_system, delivered } = *counts;
        for (code, count) in [(4, received), (5, dropped_by_interface), (7, dropped_by_system), (8, delivered)] {
            self.option(code, &count.to_le_bytes());
        }
        self.put(&[0; 4]);
        self.end()
    }

    /// Flushes, and gives back what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.write.flush()?;
        Ok(self.write)
    }

    /// What is written to, for instance to flush it.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.write
    }

    fn enhanced(&mut self, interface: InterfaceId, time_ns: u64, bytes: usize) {
        self.begin(6);
        let (high, low) = ((time_ns >> 32) as u32, time_ns as u32);
        for word in [interface.0, high, low, bytes as u32, bytes as u32] {
            self.put(&word.to_le_bytes());
        }
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(NAME_BYTES_MAX)];
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Pads the block, puts its length to both ends and writes it.
    fn end(&mut self) -> io::Result<()> {
        self.pad();
        let total = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&total);
        self.put(&total);
        self.write.write_all(&self.block)
    }
}

fn write_ip(addresses: &Addresses, datagram: usize, packet: &mut [u8]) -> Result<(), BuildError> {
    match *addresses {
        Addresses::V4 { source, destination } => {
            let header = ipv4::Header {
                source,
                destination,
                protocol: protocol::UDP,
                time_to_live: TIME_TO_LIVE,
                type_of_service: 0,
                identification: 0,
                do_not_fragment: true,
            };
            header.write(datagram, packet).map(|_| ())
        }
        Addresses::V6 { source, destination } => {
            let header = ipv6::Header {
                source,
                destination,
                protocol: protocol::UDP,
                hop_limit: TIME_TO_LIVE,
                traffic_class: 0,
                flow_label: 0,
            };
            header.write(datagram, packet).map(|_| ())
        }
    }
}
