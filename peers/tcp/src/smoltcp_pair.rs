//! smoltcp, driven the cheapest way its interface has: what is sent leaves by one `poll_egress`, what comes is taken by
//! `poll_ingress_single`, and the answering side gets the sockets to serve.
//!
//! Settings so that all send the same segments: timestamps (smoltcp has them with a generator only), CUBIC, Nagle's algorithm
//! off, ACKs delayed (by 10 ms, its default) so that they ride on answers.

use crate::contestant::{ADDRESSES, BLOCK, BUFFER_BYTES, Contestant, FIRST_PORT, MACS, MESSAGE, PORT, ROUND_NS};
use crate::wire::Wire;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address};
use std::sync::atomic::{AtomicU32, Ordering};

/// The virtual time in ms, for timestamps: smoltcp asks a function without arguments.
static NOW_MS: AtomicU32 = AtomicU32::new(0);

fn timestamp() -> u32 {
    NOW_MS.load(Ordering::Relaxed)
}

/// Both directions of the wire, as one host sees them.
struct Card<'w> {
    from: &'w mut Wire,
    into: &'w mut Wire,
}

struct Arrived<'w>(&'w mut Wire);
struct Leaving<'w>(&'w mut Wire);

impl RxToken for Arrived<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let result = read(self.0.front().unwrap_or_default());
        self.0.pop();
        result
    }
}

impl TxToken for Leaving<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, write: F) -> R {
        let frame = self.0.place().expect("there was room when the token was given");
        let result = write(&mut frame[..bytes]);
        self.0.sent(bytes);
        result
    }
}

impl Device for Card<'_> {
    type RxToken<'a>
        = Arrived<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Leaving<'a>
    where
        Self: 'a;

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<(Arrived<'_>, Leaving<'_>)> {
        let has_frame = self.from.front().is_some();
        (has_frame && self.into.has_room()).then(|| (Arrived(self.from), Leaving(self.into)))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        self.into.has_room().then(|| Leaving(self.into))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ethernet, 1514);
        capabilities
    }
}

struct Side {
    interface: Interface,
    sockets: SocketSet<'static>,
    handles: Vec<SocketHandle>,
}

/// Both hosts.
pub struct SmoltcpPair {
    now_ns: u64,
    client: Side,
    server: Side,
    there: Wire,
    back: Wire,
}

fn ip(host: usize) -> Ipv4Address {
    ADDRESSES[host].into()
}

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER_BYTES]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket.set_tsval_generator(Some(timestamp));
    socket.set_congestion_control(tcp::CongestionControl::Cubic);
    socket
}

impl Side {
    fn new(host: usize, wires: (&mut Wire, &mut Wire)) -> Self {
        let mut config = Config::new(EthernetAddress(MACS[host]).into());
        config.random_seed = host as u64;
        let mut card = Card { from: wires.0, into: wires.1 };
        let mut interface = Interface::new(config, &mut card, Instant::ZERO);
        interface.update_ip_addrs(|all| all.push(IpCidr::new(IpAddress::Ipv4(ip(host)), 24)).expect("one fits"));
        Self { interface, sockets: SocketSet::new(Vec::new()), handles: Vec::new() }
    }

    #[inline]
    fn socket(&mut self, connection: usize) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handles[connection])
    }

    /// One segment of each socket that has something to send; false if there was none.
    #[inline]
    fn send(&mut self, now: Instant, from: &mut Wire, into: &mut Wire) -> bool {
        self.interface.poll_egress(now, &mut Card { from, into }, &mut self.sockets) == PollResult::SocketStateChanged
    }

    /// Takes what is on the wire.
    #[inline]
    fn receive(&mut self, now: Instant, from: &mut Wire, into: &mut Wire) {
        let mut card = Card { from, into };
        while self.interface.poll_ingress_single(now, &mut card, &mut self.sockets) != PollIngressSingleResult::None {}
    }

    /// Reads all that a socket has; how much that was.
    #[inline]
    fn read(&mut self, connection: usize) -> usize {
        let mut count = 0;
        let socket = self.socket(connection);
        while socket.can_recv() {
            count += socket.recv(|bytes| (bytes.len(), bytes.len())).expect("it can receive");
        }
        count
    }
}

impl SmoltcpPair {
    /// With so many connections, all of them made.
    pub fn connected(connections: usize) -> Self {
        let (mut there, mut back) = (Wire::new(), Wire::new());
        let client = Side::new(0, (&mut back, &mut there));
        let server = Side::new(1, (&mut there, &mut back));
        let mut pair = Self { now_ns: 1_000_000_000, client, server, there, back };
        for number in 0..connections {
            let mut listening = socket();
            listening.listen(PORT).expect("a new socket");
            pair.server.handles.push(pair.server.sockets.add(listening));
            let mut connecting = socket();
            let to = (IpAddress::Ipv4(ip(1)), PORT);
            let port = FIRST_PORT + number as u16;
            connecting.connect(pair.client.interface.context(), to, port).expect("a new socket");
            pair.client.handles.push(pair.client.sockets.add(connecting));
            // The first iterations resolve the neighbour.
            let mut turns = 0;
            while !(pair.client.socket(number).may_send() && pair.server.socket(number).may_send()) {
                pair.pass_frames();
                turns += 1;
                assert!(turns < 1_000_000, "no connection comes about");
            }
        }
        pair
    }

    #[inline]
    fn advance(&mut self) -> Instant {
        self.now_ns += ROUND_NS;
        NOW_MS.store((self.now_ns / 1_000_000) as u32, Ordering::Relaxed);
        Instant::from_micros((self.now_ns / 1000) as i64)
    }

    fn pass_frames(&mut self) {
        let now = self.advance();
        let Self { client, server, there, back, .. } = self;
        while client.send(now, back, there) {}
        server.receive(now, there, back);
        while server.send(now, there, back) {}
        client.receive(now, back, there);
    }
}

impl Contestant for SmoltcpPair {
    #[inline]
    fn ping(&mut self, connection: usize) {
        let now = self.advance();
        let Self { client, server, there, back, .. } = self;
        assert_eq!(client.socket(connection).send_slice(&MESSAGE), Ok(MESSAGE.len()));
        client.send(now, back, there);
        server.receive(now, there, back);
        assert_eq!(server.read(connection), MESSAGE.len());
        assert_eq!(server.socket(connection).send_slice(&MESSAGE), Ok(MESSAGE.len()));
        server.send(now, there, back);
        client.receive(now, back, there);
        assert_eq!(client.read(connection), MESSAGE.len());
    }

    fn stream(&mut self, bytes: usize) {
        let (mut given, mut arrived) = (0, 0);
        while arrived < bytes || self.client.socket(0).send_queue() != 0 {
            let now = self.advance();
            let Self { client, server, there, back, .. } = self;
            while given < bytes && client.socket(0).can_send() {
                let block = &BLOCK[..BLOCK.len().min(bytes - given)];
                given += client.socket(0).send_slice(block).expect("it can send");
            }
            while client.send(now, back, there) {}
            server.receive(now, there, back);
            arrived += server.read(0);
            while server.send(now, there, back) {}
            client.receive(now, back, there);
        }
    }

    fn frames(&self) -> (u64, u64) {
        (self.there.carried + self.back.carried, self.there.with_data + self.back.with_data)
    }
}
