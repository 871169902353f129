//! What the peer of a connection that is handed over gets to see on the wire.

use sidestep_lab::Host;
use sidestep_sys::packet::{FrameBuffer, PacketSocket};
use sidestep_wire::ethernet::{self, EtherType};
use sidestep_wire::protocol::TCP;
use sidestep_wire::tcp::{Flags, Timestamps, View};
use sidestep_wire::{ipv4, ipv6};
use std::collections::BTreeMap;

/// The frames that arrive at a host.
pub(super) struct Watch {
    socket: PacketSocket,
    buffer: FrameBuffer,
    /// Segments with RST.
    pub(super) resets: u32,
    /// Segments whose timestamps echo nothing, SYNs apart.
    pub(super) without_echo: u32,
    /// The last timestamps from each port.
    clocks: BTreeMap<u16, Timestamps>,
}

impl Watch {
    pub(super) fn open(host: &Host) -> Self {
        let socket = host.within(|| PacketSocket::open(&host.interface)).unwrap();
        Self { socket, buffer: FrameBuffer::new(), resets: 0, without_echo: 0, clocks: BTreeMap::new() }
    }

    /// Takes note of all that has come.
    pub(super) fn look(&mut self) {
        let Self { socket, buffer, resets, without_echo, clocks } = self;
        while let Some(frame) = socket.receive(buffer).unwrap() {
            let Some(segment) = segment(frame) else { continue };
            *resets += u32::from(segment.flags().has(Flags::RST));
            if let Some(clock) = segment.options().timestamps {
                *without_echo += u32::from(clock.echo == 0 && !segment.flags().has(Flags::SYN));
                clocks.insert(segment.source_port(), clock);
            }
        }
        assert_eq!(socket.take_dropped().unwrap(), 0, "frames were missed");
    }

    /// The last timestamps that have come from a port.
    pub(super) fn clock(&mut self, port: u16) -> Option<Timestamps> {
        self.look();
        self.clocks.get(&port).copied()
    }
}

fn segment(frame: &[u8]) -> Option<View<'_>> {
    let frame = ethernet::View::parse(frame).ok()?;
    let payload = match frame.ether_type() {
        EtherType::IPV4 => ipv4::View::parse(frame.payload()).ok().filter(|view| view.protocol() == TCP)?.payload(),
        EtherType::IPV6 => ipv6::View::parse(frame.payload()).ok().filter(|view| view.protocol() == TCP)?.payload(),
        _ => return None,
    };
    View::parse(payload).ok()
}
