//! Groups: joined by the kernel, received past it, from everyone and from one source.

use crate::support::{Control, address, bind, engine, heard, ip, join_group, kernel, lab, message, receive, wait};
use sidestep_control_api::client::Client;
use sidestep_lab::Side;
use sidestep_socket::{Engine, Handle, Path, Reason, UdpOptions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

fn group(is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0x8000, 7).into() } else { Ipv4Addr::new(232, 7, 7, 7).into() }
}

fn any(is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// A kernel socket that sends to groups out of the wire.
fn sender(host: &sidestep_lab::Host, is_v6: bool) -> UdpSocket {
    let socket = kernel(host, SocketAddr::new(address(host, is_v6), 0));
    leave_by_wire(host, &socket);
    socket
}

/// IPv4 leaves by the route.
fn leave_by_wire(host: &sidestep_lab::Host, socket: &UdpSocket) {
    if socket.local_addr().unwrap().is_ipv6() {
        let interface = host.within(|| Ok(sidestep_sys::xdp::device(&host.interface).unwrap().index)).unwrap();
        socket2::SockRef::from(socket).set_multicast_if_v6(interface).unwrap();
    }
}

fn expect(engine: &mut Engine, socket: Handle, sent: &[u8]) {
    let datagram = receive(engine, socket);
    assert_eq!((engine.payload(&datagram), datagram.by_kernel()), (sent, false));
    engine.release(datagram);
}

#[test]
fn a_group_comes_past_the_kernel_from_everyone_or_from_one_source() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let sender = sender(a, is_v6);
        for source in [None, Some(address(a, is_v6))] {
            let socket = bind(b, &mut engine, SocketAddr::new(any(is_v6), 7100));
            let path = join_group(b, &mut engine, socket, group(is_v6), source);
            assert!(path.is_accelerated(), "{path}");
            let to = SocketAddr::new(group(is_v6), 7100);
            for number in 0..100 {
                let sent = message(number, 200);
                sender.send_to(&sent, to).unwrap();
                expect(&mut engine, socket, &sent);
            }
            b.within(|| engine.leave(socket, group(is_v6), 0, source)).unwrap();
            sender.send_to(b"after", to).unwrap();
            engine.poll().unwrap();
            assert!(engine.receive(socket).unwrap().is_none(), "the group has been left");
            engine.close(socket).unwrap();
        }
        // A source that does not send: what others send is nobody's.
        let socket = bind(b, &mut engine, SocketAddr::new(any(is_v6), 7101));
        let other = if is_v6 { "2001:2::99".parse().unwrap() } else { IpAddr::from([198, 18, 0, 99]) };
        b.within(|| engine.join(socket, group(is_v6), 0, Some(other))).unwrap();
        sender.send_to(b"not for you", SocketAddr::new(group(is_v6), 7101)).unwrap();
        engine.poll().unwrap();
        assert!(engine.receive(socket).unwrap().is_none());
        engine.close(socket).unwrap();
    }
}

#[test]
fn every_member_of_one_program_gets_each_datagram() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let options = UdpOptions { reuse_address: true, ..UdpOptions::default() };
    let at = SocketAddr::new(any(false), 7102);
    let members: Vec<Handle> = (0..3).map(|_| b.within(|| engine.bind(at, &options)).unwrap()).collect();
    for member in &members {
        assert!(join_group(b, &mut engine, *member, group(false), None).is_accelerated());
    }
    let sender = sender(a, false);
    for number in 0..200 {
        let sent = message(number, 100);
        sender.send_to(&sent, SocketAddr::new(group(false), 7102)).unwrap();
        members.iter().for_each(|member| expect(&mut engine, *member, &sent));
    }
    engine.close(members[0]).unwrap();
    sender.send_to(b"two are left", SocketAddr::new(group(false), 7102)).unwrap();
    members[1..].iter().for_each(|member| expect(&mut engine, *member, b"two are left"));
}

#[test]
fn groups_are_sent_to_past_the_kernel_unless_this_host_wants_them_too() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    let member = kernel(b, SocketAddr::new(any(false), 7103));
    let IpAddr::V4(to) = group(false) else { return };
    member.join_multicast_v4(&to, &b.ipv4).unwrap();
    let at = SocketAddr::new(group(false), 7103);
    let socket = bind(a, &mut engine, SocketAddr::new(address(a, false), 0));
    wait("the fast path", || {
        engine.poll().unwrap();
        engine.path_to(socket, at).unwrap().is_accelerated().then_some(())
    });
    let mut buffer = [0; 64];
    engine.send_to(socket, b"tick", at).unwrap();
    assert_eq!(heard(&mut engine, &member, &mut buffer).0, 4);
    assert_eq!(engine.statistics(socket).unwrap().sent, 1);
    let options = UdpOptions { multicast_loop: true, ..UdpOptions::default() };
    let looping = a.within(|| engine.bind(SocketAddr::new(address(a, false), 0), &options)).unwrap();
    assert_eq!(engine.path_to(looping, at), Ok(Path::Kernel(Reason::MulticastLoop)));
    engine.send_to(looping, b"tock", at).unwrap();
    assert_eq!(heard(&mut engine, &member, &mut buffer).0, 4);
    assert_eq!(engine.statistics(looping).unwrap().sent_by_kernel, 1);
}

/// Include filters (IGMPv3, MLDv2): each source that is joined is heard, and no other, as they come and go.
#[test]
fn sources_are_joined_and_left_one_by_one() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let to = SocketAddr::new(group(is_v6), 7104);
        let senders = [11, 12, 13].map(|number| sender_at(a, is_v6, number));
        let sources = senders.each_ref().map(|sender| sender.local_addr().unwrap().ip());
        let socket = bind(b, &mut engine, SocketAddr::new(any(is_v6), 7104));
        let mut joined = [false; 3];
        // Each number changes one of them; all combinations come about, each several times.
        for (step, change) in [0, 1, 2, 1, 0, 2, 0, 1, 0, 2, 0, 1].into_iter().cycle().take(60).enumerate() {
            joined[change] = !joined[change];
            let turn = match joined[change] {
                true => join_group(b, &mut engine, socket, to.ip(), Some(sources[change])).is_accelerated(),
                false => b.within(|| engine.leave(socket, to.ip(), 0, Some(sources[change]))).is_ok(),
            };
            assert!(turn);
            for (number, sender) in senders.iter().enumerate() {
                sender.send_to(&[step as u8, number as u8], to).unwrap();
            }
            for number in (0..3).filter(|number| joined[*number]) {
                expect(&mut engine, socket, &[step as u8, number as u8]);
            }
            engine.poll().unwrap();
            assert!(engine.receive(socket).unwrap().is_none(), "step {step}, {joined:?}");
        }
        engine.close(socket).unwrap();
    }
}

/// A sender with an address of its own.
fn sender_at(host: &sidestep_lab::Host, is_v6: bool, number: u8) -> UdpSocket {
    let (address, rest): (IpAddr, _) = match is_v6 {
        false => (Ipv4Addr::new(198, 18, 0, number).into(), "/24"),
        true => (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, number.into()).into(), "/64 nodad"),
    };
    ip(host, &format!("address add dev {} {address}{rest}", host.interface));
    let socket = kernel(host, SocketAddr::new(address, 0));
    leave_by_wire(host, &socket);
    socket
}

/// Joined and left without end, with and without something coming in between: nothing of it is left, with the kernel or control.
#[test]
fn joining_and_leaving_leaves_nothing() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let to = SocketAddr::new(group(is_v6), 7105);
        let sender = sender(a, is_v6);
        let socket = bind(b, &mut engine, SocketAddr::new(any(is_v6), 7105));
        let before = (memberships(b), entries(b));
        for round in 0..150_u32 {
            let source = (round % 3 == 1).then(|| address(a, is_v6));
            assert!(join_group(b, &mut engine, socket, to.ip(), source).is_accelerated());
            if round % 2 == 0 {
                let sent = message(round, 64);
                sender.send_to(&sent, to).unwrap();
                expect(&mut engine, socket, &sent);
            }
            b.within(|| engine.leave(socket, to.ip(), 0, source)).unwrap();
        }
        wait("the end of the last", || {
            engine.poll().unwrap();
            ((memberships(b), entries(b)) == before).then_some(())
        });
        sender.send_to(b"after", to).unwrap();
        engine.poll().unwrap();
        assert!(engine.receive(socket).unwrap().is_none());
        engine.close(socket).unwrap();
    }
}

/// Groups that the kernel of a host is a member of.
fn memberships(host: &sidestep_lab::Host) -> Vec<String> {
    let read = || {
        let lines =
            ["igmp", "igmp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap());
        Ok(lines.iter().flat_map(|text| text.lines()).filter_map(group_of).collect())
    };
    let mut groups: Vec<String> = host.within(read).unwrap();
    groups.sort_unstable();
    groups
}

/// Of a line of these files; users and timers change by themselves.
fn group_of(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_group =
        |word: &&&str| (word.len() == 8 || word.len() == 32) && word.chars().all(|digit| digit.is_ascii_hexdigit());
    words.iter().find(is_group).map(|word| (*word).to_owned())
}

/// Entries that control keeps for the one stack of a host.
fn entries(host: &sidestep_lab::Host) -> u32 {
    let clients = host.within(|| Ok(Client::connect("test").unwrap().clients().unwrap())).unwrap();
    clients.into_iter().flat_map(|client| client.stacks).map(|stack| stack.entries).sum()
}
