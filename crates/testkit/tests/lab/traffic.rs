//! Traffic between the two hosts over a perfect wire.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use sidestep_lab::{Lab, Options, Side};

use crate::support::{can_run, udp};

#[test]
fn both_families_reach_the_other_host() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    for is_ipv6 in [false, true] {
        let (near, _) = udp(lab.host(Side::A), is_ipv6);
        let (far, address) = udp(lab.host(Side::B), is_ipv6);
        near.send_to(b"request", address).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = far.recv_from(&mut buffer).unwrap();
        far.send_to(&buffer[..length], from).unwrap();
        assert_eq!(near.recv_from(&mut buffer).unwrap(), (7, address));
    }
}

#[test]
fn each_host_reaches_itself() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let (socket, address) = udp(lab.host(Side::A), false);
    socket.send_to(b"self", address).unwrap();
    assert_eq!(socket.recv_from(&mut [0; 16]).unwrap(), (4, address));
}

#[test]
fn a_group_is_joined_and_sent_to_without_naming_an_interface() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let join = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).unwrap();
        Ok(socket)
    };
    let receiver = lab.host(Side::B).within(join).unwrap();
    receiver.set_read_timeout(Some(crate::support::WATCHDOG)).unwrap();
    let (sender, from) = udp(lab.host(Side::A), false);
    sender.send_to(b"tick", (group, receiver.local_addr().unwrap().port())).unwrap();
    assert_eq!(receiver.recv_from(&mut [0; 16]).unwrap(), (4, from));
}

#[test]
fn an_ipv6_group_is_joined_and_sent_to() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let group: Ipv6Addr = "ff05::1:3".parse().unwrap();
    let join = || {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
        socket.join_multicast_v6(&group, 0).unwrap();
        Ok(socket)
    };
    let receiver = lab.host(Side::B).within(join).unwrap();
    receiver.set_read_timeout(Some(crate::support::WATCHDOG)).unwrap();
    let (sender, _) = udp(lab.host(Side::A), true);
    sender.send_to(b"tick", SocketAddr::new(group.into(), receiver.local_addr().unwrap().port())).unwrap();
    assert_eq!(receiver.recv_from(&mut [0; 16]).unwrap().0, 4);
}
