//! sidestep's stack as the engine uses it: frames in, segments out behind a prebuilt header. ACKs are delayed as
//! the others' are, so that all send the same segments; the profile for low latency would not delay them.

use crate::contestant::{ADDRESSES, BLOCK, BUFFER_BYTES, Contestant, FIRST_PORT, MACS, MESSAGE, PORT, ROUND_NS};
use crate::wire::{FRAMES, Wire};
use sidestep_stack::route::Resolved;
use sidestep_stack::tcp::{Config, Congestion, ConnectionId, Error, Instant, NoRoom, Outgoing, Secret, Tcp};
use sidestep_stack::{Checksums, Host, Interface, PacketHeader, Stack};
use sidestep_wire::{Addresses, MacAddress, protocol};
use std::net::{IpAddr, SocketAddr};

/// What a host has received: the connection of the last bytes, and how many there were.
#[derive(Default)]
struct Got {
    id: Option<ConnectionId>,
    bytes: usize,
}

struct Side {
    stack: Stack,
    header: PacketHeader,
    connections: Vec<ConnectionId>,
    got: Got,
}

/// Both hosts.
pub struct SidestepPair {
    now: Instant,
    client: Side,
    server: Side,
    there: Wire,
    back: Wire,
}

fn address(host: usize) -> IpAddr {
    ADDRESSES[host].into()
}

#[inline]
fn put(wire: &mut Wire, header: &PacketHeader, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
    let frame = wire.place().ok_or(NoRoom)?;
    let bytes = segment.write(&mut frame[header.bytes()..]).expect("a frame is large enough");
    let bytes = header.write(frame, bytes).expect("a frame is large enough");
    wire.sent(bytes);
    Ok(())
}

impl Side {
    fn new(host: usize) -> Self {
        let buffer = BUFFER_BYTES as u32;
        let config = Config {
            send_buffer_bytes: buffer,
            send_buffer_initial_bytes: buffer,
            receive_buffer_bytes: buffer,
            receive_window_initial_bytes: buffer,
            congestion: Congestion::Cubic,
            quickack: false,
            delayed_ack_us: 10_000,
            ..Config::latency()
        };
        let tcp = Tcp::new(config, Secret([host as u64, 7, 8, 9]), Instant::default());
        let interface = Interface { index: 2, mac: MacAddress(MACS[host]), vlan: None };
        let stack = Stack::new(Host::new(&[interface], &[address(host)]).expect("one of each"), tcp);
        let way = Resolved {
            interface: 2,
            device: 2,
            vlan: None,
            source: address(host),
            next_hop: address(1 - host),
            next_hop_mac: MacAddress(MACS[1 - host]),
            source_mac: MacAddress(MACS[host]),
            mtu: 1500,
        };
        let addresses = Addresses::new(address(host), address(1 - host)).expect("one family");
        let header = PacketHeader::along(&way, addresses, protocol::TCP).expect("a legal header");
        Self { stack, header, connections: Vec::new(), got: Got::default() }
    }

    #[inline]
    fn send(&mut self, now: Instant, id: ConnectionId, bytes: &[u8], wire: &mut Wire) -> Result<usize, Error> {
        let Self { stack, header, .. } = self;
        stack.tcp_mut().send(now, id, bytes, &mut |segment: &Outgoing<'_>| put(wire, header, segment))
    }

    /// Takes what is on the wire.
    #[inline]
    fn receive(&mut self, now: Instant, from: &mut Wire, into: &mut Wire) {
        let Self { stack, header, got, .. } = self;
        while let Some(frame) = from.front() {
            let mut output = |segment: &Outgoing<'_>| put(into, header, segment);
            stack.receive(|| now, frame, Checksums::Verify, &mut output, &mut |id, bytes| {
                *got = Got { id: Some(id), bytes: got.bytes + bytes.len() };
                debug_assert!(bytes.iter().all(|byte| *byte == 7));
                bytes.len()
            });
            from.pop();
        }
    }

    #[inline]
    fn poll(&mut self, now: Instant, into: &mut Wire) {
        let Self { stack, header, .. } = self;
        stack.poll(now, &mut |segment: &Outgoing<'_>| put(into, header, segment));
        while stack.tcp_mut().next_event().is_some() {}
    }
}

impl SidestepPair {
    /// With so many connections, all of them made.
    pub fn connected(connections: usize) -> Self {
        let (client, server) = (Side::new(0), Side::new(1));
        let now = Instant::from_nanos(1_000_000_000);
        let mut pair = Self { now, client, server, there: Wire::new(), back: Wire::new() };
        let options = pair.client.stack.tcp().config().options();
        let to = SocketAddr::new(address(1), PORT);
        let listener = pair.server.stack.tcp_mut().listen(to, 16, options).expect("the port is free");
        for number in 0..connections {
            let from = SocketAddr::new(address(0), FIRST_PORT + number as u16);
            let Side { stack, header, .. } = &mut pair.client;
            let mut sink = |segment: &Outgoing<'_>| put(&mut pair.there, header, segment);
            let id = stack.tcp_mut().connect(pair.now, from, to, None, options, &mut sink).expect("there is room");
            pair.client.connections.push(id);
            (0..2).for_each(|_| pair.pass_frames());
            pair.server.connections.push(pair.server.stack.tcp_mut().accept(listener).expect("the handshake is over"));
        }
        pair
    }

    fn pass_frames(&mut self) {
        self.server.receive(self.now, &mut self.there, &mut self.back);
        self.client.receive(self.now, &mut self.back, &mut self.there);
    }
}

impl Contestant for SidestepPair {
    #[inline]
    fn ping(&mut self, connection: usize) {
        self.now = self.now.after_ns(ROUND_NS);
        let Self { now, client, server, there, back } = self;
        client.send(*now, client.connections[connection], &MESSAGE, there).expect("there is room");
        server.poll(*now, back);
        server.receive(*now, there, back);
        assert_eq!(std::mem::take(&mut server.got.bytes), MESSAGE.len());
        let id = server.got.id.expect("it has just got bytes");
        server.send(*now, id, &MESSAGE, back).expect("there is room");
        client.poll(*now, there);
        client.receive(*now, back, there);
        assert_eq!(std::mem::take(&mut client.got.bytes), MESSAGE.len());
    }

    fn stream(&mut self, bytes: usize) {
        let id = self.client.connections[0];
        let (mut given, mut arrived) = (0, 0);
        while arrived < bytes || self.client.stack.tcp_mut().send_room(id) != Ok(BUFFER_BYTES) {
            self.now = self.now.after_ns(ROUND_NS);
            let Self { now, client, server, there, back } = self;
            while given < bytes {
                let block = &BLOCK[..BLOCK.len().min(bytes - given)];
                match client.send(*now, id, block, there) {
                    Ok(count) => given += count,
                    Err(Error::WouldBlock) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
            client.poll(*now, there);
            server.receive(*now, there, back);
            arrived += std::mem::take(&mut server.got.bytes);
            server.poll(*now, back);
            client.receive(*now, back, there);
        }
    }

    fn frames(&self) -> (u64, u64) {
        const { assert!(FRAMES >= 16) };
        (self.there.carried + self.back.carried, self.there.with_data + self.back.with_data)
    }
}
