//! What others keep: their connections, their groups, their news.

use super::*;
use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketType, accept, bind, getsockname, listen};
use std::net::{SocketAddr, TcpStream};

/// The same port is listened on by two stacks, of one interface each.
#[test]
fn all_who_listen_on_a_port_are_told_of_trouble_but_a_flow_is_one_stacks() {
    use sidestep_plane::message::TroubleKind;
    let mut case = Case::new();
    let clients = [case.client(7), case.client(8)];
    let stacks = clients.map(|client| case.open(client));
    let at = |text: &str| text.parse().unwrap();
    let listener = Entry::Listener { protocol: Protocol::Tcp, local: at("0.0.0.0:7"), vlan: None };
    for stack in stacks {
        case.registry.stacks.get_mut(&stack).unwrap().entries.insert(listener, None);
    }
    let kind = TroubleKind::TooBig { mtu: 1300 };
    let (local, remote) = (at("198.18.0.1:7"), at("198.18.9.2:8"));
    let trouble = Trouble { protocol: Protocol::Tcp, local, remote, sequence: Some(1), kind };
    let told = |case: &Case| case.registry.troubled(trouble).into_iter().map(|(client, _)| client).collect::<Vec<_>>();
    assert_eq!(told(&case), clients);
    let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan: None };
    case.registry.stacks.get_mut(&stacks[1]).unwrap().entries.insert(flow, None);
    assert_eq!(told(&case), [clients[1]]);
}

/// Anybody may bind a port beside a connection whose socket allows it, as that of every server that can be restarted does.
#[test]
fn a_connection_of_the_kernel_is_not_taken_from_it() {
    let reusable = |at: SocketAddr| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        set_socket_reuseaddr(&socket, true).unwrap();
        bind(&socket, &at).unwrap();
        socket
    };
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
    assert_eq!(case.steer(id, stack, listener, &twin), Some(Code::KernelConnections));
    assert!(case.registry.dataplane.steered.is_empty());
    let other = SocketAddr::new(remote.ip(), remote.port() ^ 1);
    assert_eq!(case.steer(id, stack, flow(other), &twin), None, "another connection, which the kernel has not");
    // Connections that the kernel takes up later do not take the port from its owner.
    set_socket_linger(&accepted, Some(Duration::ZERO)).unwrap();
    drop((accepted, peer));
    assert_eq!(case.steer(id, stack, listener, &twin), None, "they are over");
    listen(&twin, 4).unwrap();
    let _peer = TcpStream::connect(local).unwrap();
    assert_eq!(case.steer(id, stack, listener, &twin), None, "again changes nothing");
}

/// In the kernel a group is everybody's; steered, it is one stack's.
#[test]
fn a_group_is_not_taken_from_another_user() {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let group = Entry::Multicast { group: (Ipv4Addr::new(239, 1, 1, 1), port).into(), source: None, vlan: None };
    let mut case = Case::new();
    let own = rustix::process::geteuid().as_raw();
    let (other, same) = (case.client(own + 1), case.client(own));
    let (theirs, ours) = (case.open(other), case.open(same));
    assert_eq!(case.steer(other, theirs, group, &socket), Some(Code::Taken));
    assert_eq!(case.steer(same, ours, group, &socket), None);
}
