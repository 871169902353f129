//! Protection of others: their connections, their groups, their notices.

use super::*;
use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, accept, bind, getsockname, listen};
use std::net::{SocketAddr, TcpStream};

/// Two stacks listen on the same port, on one interface each.
#[test]
fn all_who_listen_on_a_port_are_told_of_icmp_errors_but_a_flow_is_one_stacks() {
    use sidestep_control_api::message::IcmpErrorKind;
    let mut case = Case::new();
    let clients = [case.client(7), case.client(8)];
    let stacks = clients.map(|client| case.open(client));
    let at = |text: &str| text.parse().unwrap();
    let listener = Entry::Listener { protocol: Protocol::Tcp, local: at("0.0.0.0:7"), vlan: None };
    for stack in stacks {
        case.registry.stacks.get_mut(&stack).unwrap().entries.insert(listener, None);
    }
    let kind = IcmpErrorKind::TooBig { mtu: 1300 };
    let (local, remote) = (at("198.18.0.1:7"), at("198.18.9.2:8"));
    let error = IcmpError { protocol: Protocol::Tcp, local, remote, sequence: Some(1), kind };
    let told =
        |case: &Case| case.registry.owners_of_error(error).into_iter().map(|(client, _)| client).collect::<Vec<_>>();
    assert_eq!(told(&case), clients);
    let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan: None };
    case.registry.stacks.get_mut(&stacks[1]).unwrap().entries.insert(flow, None);
    assert_eq!(told(&case), [clients[1]]);
}

/// A TCP socket that shares its address.
fn reusable(at: SocketAddr) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &at).unwrap();
    socket
}

/// Any user may bind the port of a connection whose socket allows it, as that of every restartable server does.
#[test]
fn a_connection_of_the_kernel_is_not_taken_from_it() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let server = reusable("127.0.0.1:0".parse().unwrap());
    listen(&server, 4).unwrap();
    let local = SocketAddr::try_from(getsockname(&server).unwrap()).unwrap();
    let peer = TcpStream::connect(local).unwrap();
    let accepted = accept(&server).unwrap();
    drop(server);
    let twin = reusable(local);
    let remote = SocketAddr::from(([198, 18, 0, 2], peer.local_addr().unwrap().port()));
    let flow = |remote| Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan: None };
    let listener = Entry::Listener { protocol: Protocol::Tcp, local, vlan: None };
    assert_eq!(case.steer(id, stack, flow(remote), &twin), Some(Code::KernelConnections));
    let other = SocketAddr::new(remote.ip(), remote.port() ^ 1);
    assert_eq!(case.steer(id, stack, flow(other), &twin), None, "another connection, which the kernel has not");
    assert_eq!(case.code(id, Request::Unsteer { stack, entry: flow(other) }), None);
    listen(&twin, 4).unwrap();
    assert_eq!(case.steer(id, stack, listener, &twin), Some(Code::KernelConnections));
    assert!(case.registry.dataplane.steered.is_empty());
    // Connections that the kernel accepts later do not take the port from its owner.
    set_socket_linger(&accepted, Some(Duration::ZERO)).unwrap();
    drop((accepted, peer));
    assert_eq!(case.steer(id, stack, listener, &twin), None, "they are over");
    let _peer = TcpStream::connect(local).unwrap();
    assert_eq!(case.steer(id, stack, listener, &twin), None, "again changes nothing");
}

/// A UDP socket that shares its address.
fn shared(at: SocketAddr) -> UdpSocket {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &at).unwrap();
    socket.into()
}

/// In the kernel a group has any number of receivers; steered, it has one.
#[test]
fn a_group_is_not_taken_from_another_user() {
    let socket = shared("0.0.0.0:0".parse().unwrap());
    let port = socket.local_addr().unwrap().port();
    let group = Entry::Multicast { group: (Ipv4Addr::new(239, 1, 1, 1), port).into(), source: None, vlan: None };
    let mut case = Case::new();
    let own = rustix::process::geteuid().as_raw();
    let (other, same) = (case.client(own + 1), case.client(own));
    let (theirs, ours) = (case.open(other), case.open(same));
    let beside = shared(socket.local_addr().unwrap());
    assert_eq!(case.steer(other, theirs, group, &socket), Some(Code::Taken));
    assert_eq!(case.steer(same, ours, group, &socket), None);
    assert_eq!(case.code(same, Request::Unsteer { stack: ours, entry: group }), None);
    drop(beside);
    assert_eq!(case.steer(other, theirs, group, &socket), None, "nobody has it but the socket that was shown");
}

/// Of two sockets on one port, the kernel delivers datagrams to the one bound more specifically; steering would bypass
/// that.
#[test]
fn a_port_that_is_shared_is_not_taken_from_another_user() {
    let mut case = Case::new();
    let own = rustix::process::geteuid().as_raw();
    let (other, root) = (case.client(own + 1), case.client(0));
    let (theirs, roots) = (case.open(other), case.open(root));
    let twin = shared("0.0.0.0:0".parse().unwrap());
    let port = twin.local_addr().unwrap().port();
    let at = |address: &str| SocketAddr::new(address.parse().unwrap(), port);
    let port = |address| Entry::Listener { protocol: Protocol::Udp, local: at(address), vlan: None };
    let remote = "198.18.0.2:8".parse().unwrap();
    let flow = Entry::Flow { protocol: Protocol::Udp, local: at("127.0.0.1"), remote, vlan: None };
    let beside = shared(at("127.0.0.1"));
    for entry in [port("127.0.0.1"), flow] {
        assert_eq!(case.steer(other, theirs, entry, &twin), Some(Code::Taken));
        assert!(case.registry.dataplane.steered.is_empty());
    }
    assert_eq!(case.steer(root, roots, port("127.0.0.1"), &twin), None, "root may");
    assert_eq!(case.code(root, Request::Unsteer { stack: roots, entry: port("127.0.0.1") }), None);
    drop(beside);
    assert_eq!(case.steer(other, theirs, port("127.0.0.1"), &twin), None);
    assert_eq!(case.registry.check_twins(&case.host, case.now), []);
    // A later one gets them, too: the kernel would deliver to it.
    let _beside = shared(at("127.0.0.1"));
    let told = case.registry.check_twins(&case.host, case.now);
    assert_eq!(told, [(other, Reply::GivenBack { stack: theirs, entry: port("127.0.0.1") })]);
    assert!(case.registry.dataplane.steered.is_empty());
}

/// A port that its owner only holds may be listened on by another, if both allow that.
#[test]
fn who_stops_listening_loses_the_port() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let chosen = reusable("127.0.0.1:0".parse().unwrap());
    let local = SocketAddr::try_from(getsockname(&chosen).unwrap()).unwrap();
    // A port that was chosen explicitly is kept when listening ends.
    let twin = reusable(local);
    drop(chosen);
    listen(&twin, 1).unwrap();
    let entry = Entry::Listener { protocol: Protocol::Tcp, local, vlan: None };
    assert_eq!(case.steer(id, stack, entry, &twin), None);
    assert_eq!(case.registry.check_twins(&case.host, case.now), []);
    rustix::net::shutdown(&twin, rustix::net::Shutdown::Both).unwrap();
    let told = case.registry.check_twins(&case.host, case.now);
    assert_eq!(told, [(id, Reply::GivenBack { stack, entry })]);
    assert_eq!(case.steer(id, stack, entry, &twin), Some(Code::TwinMismatch));
    listen(&twin, 1).unwrap();
    assert_eq!(case.steer(id, stack, entry, &twin), None);
}

/// Every user may have sockets by the hundred thousand; control serves all with one thread.
#[test]
fn a_crowd_of_sockets_is_looked_at_no_more_than_the_rules_need() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let (twin, entry) = port();
    assert_eq!(case.steer(id, stack, entry, &twin), None);
    let at = |address: [u8; 4], port| SocketAddr::from((address, port));
    let socket = |protocol, local, uid| KernelSocket::sample(protocol, local, SocketAddr::from(([0; 4], 0)), uid);
    let (own, addresses) = (entry.local().port(), (0..100_000_u32).map(|number| number.to_be_bytes()));
    let elsewhere = addresses.clone().map(|address| socket(Protocol::Udp, at(address, own ^ 1), 8));
    let of_its_user = addresses.clone().map(|address| socket(Protocol::Udp, at(address, own), 7));
    let of_tcp = addresses.map(|address| socket(Protocol::Tcp, at(address, own), 8));
    case.host.receivers = elsewhere.chain(of_its_user).chain(of_tcp).collect();
    let kept = case.registry.receivers(&case.host);
    // This process's own, too, which is another user's here.
    assert_eq!(kept.beside(&entry).len(), 1);
    assert_eq!(case.registry.check_twins(&case.host, case.now), []);
    case.host.receivers.push(socket(Protocol::Udp, entry.local(), 8));
    let told = case.registry.check_twins(&case.host, case.now);
    assert_eq!(told, [(id, Reply::GivenBack { stack, entry })], "who has come is found among them");
}

/// Sockets at the very port of many entries are compared in parts.
#[test]
fn a_crowd_beside_one_port_takes_several_turns_and_hides_nobody() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let twin = UdpSocket::bind("0.0.0.0:0").unwrap();
    let local = twin.local_addr().unwrap();
    let flow = |port| {
        let remote = SocketAddr::from(([198, 18, 0, 2], port));
        Entry::Flow {
            protocol: Protocol::Udp,
            local: SocketAddr::from(([127, 0, 0, 1], local.port())),
            remote,
            vlan: None,
        }
    };
    for port in 1..=20 {
        assert_eq!(case.steer(id, stack, flow(port), &twin), None);
    }
    let beside = |remote| KernelSocket::sample(Protocol::Udp, flow(1).local(), remote, 8);
    // Connected to others: none of them conflicts.
    case.host.receivers = vec![beside("198.18.0.3:1".parse().unwrap()); 100_000];
    assert_eq!(case.registry.check_twins(&case.host, case.now), []);
    assert!((1..20).contains(&case.registry.twins_seen), "{} at once", case.registry.twins_seen);
    case.host.receivers.push(beside("198.18.0.2:20".parse().unwrap()));
    let told: Vec<_> = (0..20).flat_map(|_| case.registry.check_twins(&case.host, case.now)).collect();
    assert_eq!(told, [(id, Reply::GivenBack { stack, entry: flow(20) })]);
}

/// A table that leads to another queue takes ports and groups from their owner, with the reason; connections choose
/// theirs.
#[test]
fn what_may_come_by_queues_of_others_goes_back() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let twin = shared("127.0.0.1:0".parse().unwrap());
    let local = twin.local_addr().unwrap();
    let listener = Entry::Listener { protocol: Protocol::Udp, local, vlan: None };
    assert_eq!(case.steer(id, stack, listener, &twin), None);
    let flow = Entry::Flow { protocol: Protocol::Udp, local, remote: ([198, 18, 0, 2], 9).into(), vlan: None };
    case.registry.stacks.get_mut(&stack).unwrap().entries.insert(flow, None);
    assert_eq!(case.registry.check_queues(), []);
    case.registry.dataplane.elsewhere.insert(stack);
    assert_eq!(case.registry.check_queues(), [], "it may be so for a moment");
    case.registry.dataplane.elsewhere.clear();
    assert_eq!(case.registry.check_queues(), []);
    case.registry.dataplane.elsewhere.insert(stack);
    assert_eq!(case.registry.check_queues(), []);
    assert_eq!(case.registry.check_queues(), [(id, Reply::GivenBack { stack, entry: listener })]);
    assert!(case.registry.dataplane.steered.is_empty());
    assert_eq!(case.registry.check_queues(), []);
    case.registry.dataplane.elsewhere.clear();
    assert_eq!(case.steer(id, stack, listener, &twin), None, "it comes again");
}

/// The kernel would reset segments for the stack's connections meanwhile, as it does not know them.
#[test]
fn a_listener_whose_rule_goes_hears_nothing_until_its_connections_have_rules() {
    let mut case = Case::new();
    let id = case.client(7);
    let stack = case.open(id);
    let twin = reusable("127.0.0.1:0".parse().unwrap());
    listen(&twin, 4).unwrap();
    let local = SocketAddr::try_from(getsockname(&twin).unwrap()).unwrap();
    let listener = Entry::Listener { protocol: Protocol::Tcp, local, vlan: None };
    assert_eq!(case.steer(id, stack, listener, &twin), None);
    case.registry.dataplane.elsewhere.insert(stack);
    case.registry.check_queues();
    assert_eq!(case.registry.check_queues().len(), 1);
    let is_deaf = || TcpStream::connect_timeout(&local, Duration::from_millis(50)).is_err();
    assert!(is_deaf());
    // Steered again, or not: at the next check it accepts SYNs.
    assert_eq!(case.steer(id, stack, listener, &twin), None);
    case.registry.detach_drop_filters();
    assert!(!is_deaf());
}
