//! Messages as the steering program writes them, and rings.

use sidestep_control_api::message::{FeedFacts, Mode};
use sidestep_ring::kernel_header;
use sidestep_sys::memory;
use sidestep_wire::udp::Checksum;
use sidestep_wire::{Addresses, ipv6, protocol, udp};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// A datagram from port 4321 to port 5000 of 239.1.1.1.
pub(super) fn message_v4(payload: &[u8], received_ns: u64, vlan: u16) -> Vec<u8> {
    let (source, destination) = ([198, 18, 0, 2].into(), [239, 1, 1, 1].into());
    let datagram = datagram(&Addresses::V4 { source, destination }, payload);
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 1, protocol::UDP, 0, 0];
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&destination.octets());
    packet[2..4].copy_from_slice(&((20 + datagram.len()) as u16).to_be_bytes());
    let sum = sidestep_wire::checksum::Sum::ZERO.with(&packet).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&datagram);
    message(4, 20, payload.len(), received_ns, vlan, &packet)
}

/// The same to a group of IPv6.
pub(super) fn message_v6(payload: &[u8], received_ns: u64, vlan: u16) -> Vec<u8> {
    let (source, destination) = ("2001:2::2".parse().unwrap(), "ff02::1:3".parse().unwrap());
    let datagram = datagram(&Addresses::V6 { source, destination }, payload);
    let header =
        ipv6::Header { source, destination, protocol: protocol::UDP, hop_limit: 1, traffic_class: 0, flow_label: 0 };
    let mut packet = vec![0; ipv6::HEADER_BYTES];
    header.write(datagram.len(), &mut packet).unwrap();
    packet.extend_from_slice(&datagram);
    message(6, 40, payload.len(), received_ns, vlan, &packet)
}

fn datagram(addresses: &Addresses, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER_BYTES];
    bytes.extend_from_slice(payload);
    let header = udp::Header { source_port: 4321, destination_port: 5000 };
    header.write(addresses, payload.len(), Checksum::Computed, &mut bytes).unwrap();
    bytes
}

fn message(family: u8, header: usize, payload_bytes: usize, received_ns: u64, vlan: u16, packet: &[u8]) -> Vec<u8> {
    let mut message = received_ns.to_ne_bytes().to_vec();
    message.extend_from_slice(&((16 + header + 8) as u16).to_ne_bytes());
    message.extend_from_slice(&(payload_bytes as u16).to_ne_bytes());
    message.extend_from_slice(&vlan.to_ne_bytes());
    message.extend_from_slice(&[family, protocol::UDP]);
    message.extend_from_slice(packet);
    message
}

/// Cells of a ring of a test.
pub(super) const CELLS: u64 = 256;

/// Bytes of a ring and what is behind it, as of an element of a map.
pub(super) const ELEMENT_BYTES: u64 = 4096 + CELLS * 64 + 4096;

/// A memfd with rings, and the state of their writers (`include/sidestep/ring_producer.h`).
pub(super) struct Feed {
    file: File,
    writers: Vec<Writer>,
}

#[derive(Clone, Copy, Default)]
struct Writer {
    next: u64,
    sequence: u64,
    bytes: u64,
    horizon: u64,
}

impl Feed {
    pub(super) fn new(rings: u32) -> Self {
        let file = memory::memfd("sidestep-feed", false).unwrap();
        memory::allocate(file.as_fd(), (ELEMENT_BYTES * u64::from(rings)) as usize).unwrap();
        memory::seal_size(file.as_fd()).unwrap();
        let feed = Self { file: file.into(), writers: vec![Writer::default(); rings as usize] };
        for ring in 0..rings {
            feed.file.write_all_at(&kernel_header(CELLS).unwrap(), u64::from(ring) * ELEMENT_BYTES).unwrap();
        }
        feed
    }

    pub(super) fn file(&self) -> OwnedFd {
        self.file.as_fd().try_clone_to_owned().unwrap()
    }

    pub(super) fn facts(&self, feed: u32) -> FeedFacts {
        FeedFacts {
            feed,
            interface: "lo".into(),
            index: 1,
            rings: self.writers.len() as u32,
            cells: CELLS,
            element_bytes: ELEMENT_BYTES,
            mode: Mode::Copy,
        }
    }

    pub(super) fn publish(&mut self, ring: usize, message: &[u8]) {
        let mut writer = self.writers[ring];
        let base = ring as u64 * ELEMENT_BYTES;
        let put = |at: u64, value: u64| self.file.write_all_at(&value.to_ne_bytes(), base + at).unwrap();
        let at = |position: u64| 4096 + position % CELLS * 64;
        let word = |position: u64, kind: u64, length: u64| (position << 32) | (1 << 31) | (kind << 29) | length;
        let cells = (message.len() as u64 + 8).div_ceil(64);
        let to_end = CELLS - writer.next % CELLS;
        let padding = if cells > to_end { to_end } else { 0 };
        let position = writer.next + padding;
        if position + cells + 1 > writer.horizon {
            writer.horizon = position + cells + 1 + CELLS / 16;
            put(0x200, writer.horizon);
        }
        self.file.write_all_at(message, base + at(position) + 8).unwrap();
        put(at(position + cells), 0);
        put(at(position), word(position, 0, message.len() as u64));
        if padding != 0 {
            put(at(writer.next), word(writer.next, 1, 0));
        }
        let begin = writer.next;
        writer.next = position + cells;
        writer.sequence += 1;
        writer.bytes += message.len() as u64;
        let checkpoint = |from: u64| {
            let copy = from + writer.sequence % 2 * 24;
            put(copy + 8, writer.next);
            put(copy + 16, writer.bytes);
            put(copy, writer.sequence);
        };
        checkpoint(0x180);
        if (begin ^ writer.next) & (CELLS / 2) != 0 {
            checkpoint(0x280);
        }
        self.writers[ring] = writer;
    }
}
