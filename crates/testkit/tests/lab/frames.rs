//! Frames between the hosts, captured by a packet socket at the far end.

use std::os::fd::AsFd;

use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Checksums, Host, Lab, Options, Side};
use sidestep_sys::packet::{FrameBuffer, PacketSocket, wait_readable};

use crate::support::{can_run, impaired, udp, wait_until};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: u8 = 17;

/// The ones' complement sum over pseudo-header and UDP datagram, checksum included: 0xffff if it is correct (RFC 768).
fn udp_sum(frame: &[u8]) -> u16 {
    let packet = &frame[ETHERNET..];
    let (addresses, datagram) = match packet[0] >> 4 {
        4 => (&packet[12..20], &packet[IPV4..usize::from(u16::from_be_bytes([packet[2], packet[3]]))]),
        _ => (&packet[8..40], &packet[IPV6..]),
    };
    let pseudo = [&[0, UDP], &(datagram.len() as u16).to_be_bytes()[..]].concat();
    let words = [addresses, &pseudo, datagram].concat();
    let sum: u32 = words.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) as u16 + (folded >> 16) as u16
}

fn is_udp(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame[ETHERNET + 9] == UDP,
        Some([0x86, 0xdd]) => frame[ETHERNET + 6] == UDP,
        _ => false,
    }
}

/// The first UDP frame that arrives at `to` when `from` sends it a datagram.
fn captured(from: &Host, to: &Host, is_ipv6: bool) -> Vec<u8> {
    captured_of(b"an odd number of bytes.", from, to, is_ipv6)
}

fn captured_of(payload: &[u8], from: &Host, to: &Host, is_ipv6: bool) -> Vec<u8> {
    let capture = to.within(|| PacketSocket::open(&to.interface)).unwrap();
    let (sender, _) = udp(from, is_ipv6);
    let (_receiver, address) = udp(to, is_ipv6);
    sender.send_to(payload, address).unwrap();
    let (mut buffer, mut frame) = (FrameBuffer::new(), Vec::new());
    wait_until("the arrival of the frame", || {
        wait_readable([capture.as_fd()], 1_000_000_000).unwrap();
        frame = capture.receive(&mut buffer).unwrap().unwrap_or_default().to_vec();
        is_udp(&frame)
    });
    frame
}

#[test]
fn checksums_are_true_when_asked_for() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options { checksums: Checksums::True, ..Options::default() }).unwrap();
    for (side, is_ipv6) in [(Side::A, false), (Side::B, false), (Side::A, true)] {
        let frame = captured(lab.host(side), lab.host(side.other()), is_ipv6);
        assert_eq!(udp_sum(&frame), 0xffff, "{frame:02x?}");
        assert_eq!((&frame[..6], &frame[6..12]), (&lab.host(side.other()).mac[..], &lab.host(side).mac[..]));
    }
}

#[test]
fn checksums_are_unfinished_on_a_veth_as_it_comes() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    assert_ne!(udp_sum(&captured(lab.host(Side::A), lab.host(Side::B), false)), 0xffff);
}

#[test]
fn checksums_are_true_over_an_impaired_wire() {
    if !can_run() {
        return;
    }
    let lab = impaired("delay=1ms");
    assert_eq!(lab.checksums(), Checksums::True);
    assert_eq!(udp_sum(&captured(lab.host(Side::B), lab.host(Side::A), false)), 0xffff);
}

#[test]
fn a_datagram_as_long_as_the_mtu_is_one_frame() {
    if !can_run() {
        return;
    }
    let wire = Directions::<Impairment>::default();
    for impairment in [None, Some(wire)] {
        let lab = Lab::up(&Options { mtu: 9_000, impairment, ..Options::default() }).unwrap();
        let frame = captured_of(&[7; 9_000 - IPV4 - 8], lab.host(Side::A), lab.host(Side::B), false);
        assert_eq!(frame.len(), ETHERNET + 9_000);
    }
}

#[test]
fn a_vlan_tag_crosses_the_wire() {
    if !can_run() {
        return;
    }
    let lab = impaired("");
    let add = |host: &Host, address: &str| {
        let commands = format!(
            "ip link add link {0} name tagged type vlan id 7 && ip address add {address}/24 dev tagged && ip link set tagged up",
            host.interface
        );
        host.command("sh").unwrap().args(["-c", &commands]).output().unwrap().status.success()
    };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    if !add(a, "198.19.0.1") || !add(b, "198.19.0.2") {
        eprintln!("skipped: needs a kernel with VLAN interfaces");
        return;
    }
    let bind = |host: &Host, address: &str| {
        let socket = host.within(|| Ok(std::net::UdpSocket::bind((address, 4711)).unwrap())).unwrap();
        socket.set_read_timeout(Some(crate::support::WATCHDOG)).unwrap();
        socket
    };
    let (near, far) = (bind(a, "198.19.0.1"), bind(b, "198.19.0.2"));
    near.send_to(b"tagged", "198.19.0.2:4711").unwrap();
    assert_eq!(far.recv_from(&mut [0; 16]).unwrap(), (6, "198.19.0.1:4711".parse().unwrap()));
}
