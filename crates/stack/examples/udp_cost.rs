//! What a datagram of 64 bytes costs in the stack alone: nanoseconds, caches warm, no link.
//!
//! `cargo run --release -p sidestep-stack --example udp_cost`

use sidestep_stack::tcp::{self, Config, NoRoom, Outgoing, Secret, Tcp};
use sidestep_stack::udp::{Bind, Flow, FlowHeader};
use sidestep_stack::{Checksums, Host, Interface, Stack, Verdict};
use sidestep_wire::checksum::{Sum, udp_form, update};
use sidestep_wire::udp::Checksum;
use sidestep_wire::vlan::{Tag, Tags, VlanId};
use sidestep_wire::{Addresses, MacAddress};
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

const PAYLOAD_BYTES: usize = 64;
const ROUNDS: usize = 15;
const TURNS: usize = 200_000;
const FIRST_PORT: u16 = 10_000;
const MANY: u16 = 10_000;
const FRAMES: usize = 64;

fn main() {
    println!("{:<44} {:>8} {:>8}", "ns per datagram of 64 B", "median", "least");
    for checksums in [Checksums::Verify, Checksums::Trusted] {
        for (name, v6) in [("IPv4", false), ("IPv6", true)] {
            for (sockets, connected) in [(1, false), (MANY, false), (1, true), (MANY, true)] {
                let kind = if connected { "connected" } else { "bound" };
                let name = format!("receive {name}, {sockets} {kind}, {checksums:?}");
                report(&name, receive(v6, sockets, connected, checksums));
            }
        }
    }
    report("send IPv4", send(&flow(false, Checksum::Computed, Tags::NONE), 1));
    report("send IPv4, no checksum", send(&flow(false, Checksum::Elided, Tags::NONE), 1));
    let tag = VlanId::new(70).map_or(Tags::NONE, |vlan| Tags::one(Tag::customer(vlan)));
    report("send IPv4, VLAN", send(&flow(false, Checksum::Computed, tag), 1));
    report("send IPv6", send(&flow(true, Checksum::Computed, Tags::NONE), 1));
    report("send IPv4, 10000 flows", send(&flow(false, Checksum::Computed, Tags::NONE), MANY));
    for bytes in [64, 256, 1472] {
        let data = vec![0x5a; bytes];
        report(&format!("checksum of {bytes} B"), measure(|_| black_box(Sum::ZERO.with(black_box(&data)).checksum())));
    }
}

fn report(name: &str, (median, least): (f64, f64)) {
    println!("{name:<44} {median:>8.1} {least:>8.1}");
}

/// Nanoseconds per turn: the median of the rounds, and the least.
fn measure<T>(mut turn: impl FnMut(usize) -> T) -> (f64, f64) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for number in 0..TURNS {
                black_box(turn(number));
            }
            start.elapsed().as_nanos() as f64 / TURNS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[ROUNDS / 2], rounds[0])
}

fn ends(v6: bool) -> (IpAddr, IpAddr) {
    if v6 {
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    }
}

fn flow(v6: bool, checksum: Checksum, tags: Tags) -> Flow {
    let (source, destination) = ends(v6);
    Flow {
        addresses: Addresses::new(source, destination).expect("one family"),
        source_port: 9_000,
        destination_port: FIRST_PORT,
        source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
        next_hop_mac: MacAddress([2, 0, 0, 0, 0, 2]),
        tags,
        mtu: 1500,
        hop_limit: 64,
        type_of_service: 0,
        checksum,
        do_not_fragment: true,
    }
}

fn send(flow: &Flow, flows: u16) -> (f64, f64) {
    let build = |number| FlowHeader::new(&Flow { destination_port: FIRST_PORT + number, ..*flow });
    let mut headers: Vec<FlowHeader> = (0..flows).map(|number| build(number).expect("a legal flow")).collect();
    let mut frame = [0x5a; 256];
    measure(|number| {
        let header = &mut headers[scattered(number, flows)];
        let length = header.write(black_box(&mut frame), black_box(PAYLOAD_BYTES));
        black_box(&frame);
        length
    })
}

/// One socket per port. At every turn one of the frames is rewritten for another port, checksum included: long before it is
/// received, so that the processor does not wait for its own writes (the cost of rewriting is in the figure).
fn receive(v6: bool, sockets: u16, connected: bool, checksums: Checksums) -> (f64, f64) {
    let (peer, own) = ends(v6);
    let interface = Interface { index: 2, mac: MacAddress([2, 0, 0, 0, 0, 2]), vlan: None };
    let tcp = Tcp::new(Config::latency(), Secret([1, 2, 3, 4]), tcp::Instant::default());
    let mut stack = Stack::new(Host::new(&[interface], &[own]).expect("few"), tcp);
    let mut output = |_: &Outgoing<'_>| -> Result<(), NoRoom> { Err(NoRoom) };
    for number in 0..sockets {
        let bind = Bind::new(SocketAddr::new(own, FIRST_PORT + number));
        let socket = stack.udp().bind(&bind).expect("a free place");
        if connected {
            stack.udp().connect(socket, own, SocketAddr::new(peer, 9_000)).expect("one family");
        }
    }
    let mut header = FlowHeader::new(&flow(v6, Checksum::Computed, Tags::NONE)).expect("a legal flow");
    let mut frame = vec![0x5a; header.bytes() + PAYLOAD_BYTES];
    header.write(&mut frame, PAYLOAD_BYTES).expect("it fits");
    let udp_at = header.bytes() - 8;
    let mut frames = vec![frame; FRAMES];
    let mut delivered = 0_usize;
    let cost = measure(|number| {
        readdress(
            &mut frames[(number + FRAMES / 2) % FRAMES][udp_at..],
            FIRST_PORT + scattered(number, sockets) as u16,
        );
        let frame = black_box(&frames[number % FRAMES]);
        let verdict = stack.receive(tcp::Instant::default, frame, checksums, &mut output, &mut |_, _| 0);
        delivered += usize::from(matches!(verdict, Verdict::Deliver(_)));
    });
    assert_eq!(delivered, ROUNDS * TURNS, "every datagram is delivered");
    cost
}

/// An order that no prefetcher guesses.
fn scattered(number: usize, of: u16) -> usize {
    let hash = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((hash * u64::from(of)) >> 32) as usize
}

fn readdress(udp: &mut [u8], port: u16) {
    let old = u16::from_be_bytes([udp[2], udp[3]]);
    let checksum = update(u16::from_be_bytes([udp[6], udp[7]]), old, port);
    udp[2..4].copy_from_slice(&port.to_be_bytes());
    udp[6..8].copy_from_slice(&udp_form(checksum).to_be_bytes());
}
