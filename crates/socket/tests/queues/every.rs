//! Every queue is ours: whatever Linux chooses, it comes here.

use crate::peer::{accept, ask, connect, kernel_connect, kernel_listen, listen, poll_until, receive as receive_stream};
use crate::support::{Control, address, bind, heard, join_group, kernel, message, receive, settled, wait};
use crate::{engine, lab, told};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::{Engine, Queues, UdpOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// As many of each kind: by chance some come by each of eight queues.
const COUNT: usize = 32;

fn any(is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

fn on(queues: u32) {
    let Some(lab) = lab(queues) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a, Queues::Every);
    assert_eq!(engine.queues(), (0..queues).collect::<Vec<_>>());
    assert!(engine.has_every_queue() && engine.queues_missing().is_empty());
    for is_v6 in [false, true] {
        connections_from_here(a, b, &mut engine, is_v6);
        connections_to_here(a, b, &mut engine, is_v6);
        datagrams_to_a_port(a, b, &mut engine, is_v6);
        datagrams_of_pairs(a, b, &mut engine, is_v6);
        datagrams_to_a_group(a, b, &mut engine, is_v6);
    }
    let counters = told(a).counters;
    for never in ["drop-queue", "pass-no-socket", "pass-queue", "rx_no_socket"] {
        assert!(!counters.contains(never), "{counters:?}");
    }
    let facts = engine.link().unwrap();
    assert_eq!(facts.xsks.len(), queues as usize);
}

fn connections_from_here(a: &Host, b: &Host, engine: &mut Engine, is_v6: bool) {
    let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
    let at = server.local_addr().unwrap();
    // The kernel asks for a neighbour once a second, and the engine waits a fifth of one.
    let asking = bind(a, engine, SocketAddr::new(address(a, is_v6), 0));
    wait("the neighbour", || {
        engine.poll().unwrap();
        engine.path_to(asking, at).unwrap().is_accelerated().then_some(())
    });
    engine.close(asking).unwrap();
    for number in 0..COUNT {
        let stream = connect(a, engine, at);
        let path = engine.tcp().path(stream).unwrap();
        assert!(path.is_accelerated(), "{path}, number {number}, is_v6 {is_v6}");
        let (mut there, _) = server.accept().unwrap();
        let sent = message(number as u32, 100);
        there.write_all(&sent).unwrap();
        let mut buffer = [0; 200];
        let count = receive_stream(engine, stream, &mut buffer);
        assert_eq!(&buffer[..count], sent);
        engine.tcp().close(stream).unwrap();
        let reading = std::thread::spawn(move || there.read(&mut [0; 8]).expect("it is not reset"));
        assert_eq!(poll_until(engine, reading), 0);
    }
}

fn connections_to_here(a: &Host, b: &Host, engine: &mut Engine, is_v6: bool) {
    let at = SocketAddr::new(address(a, is_v6), 7000);
    let listener = listen(a, engine, at);
    assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
    for _ in 0..COUNT {
        let peer = kernel_connect(b, at);
        let stream = accept(engine, listener);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let mut peer = poll_until(engine, peer);
        ask(engine, stream, &mut peer, b"there and back");
        engine.tcp().close(stream).unwrap();
    }
    engine.tcp().close_listener(listener).unwrap();
}

fn datagrams_to_a_port(a: &Host, b: &Host, engine: &mut Engine, is_v6: bool) {
    let socket = bind(a, engine, SocketAddr::new(any(is_v6), 7001));
    assert!(engine.path(socket).unwrap().is_accelerated());
    let at = SocketAddr::new(address(a, is_v6), 7001);
    for number in 0..COUNT {
        let sender = kernel(b, SocketAddr::new(address(b, is_v6), 0));
        let sent = message(number as u32, 100);
        sender.send_to(&sent, at).unwrap();
        let datagram = receive(engine, socket);
        assert_eq!((engine.payload(&datagram), datagram.by_kernel()), (&sent[..], false));
        engine.reply(socket, datagram).unwrap();
        let mut buffer = [0; 200];
        let (len, from) = heard(engine, &sender, &mut buffer);
        assert_eq!((&buffer[..len], from), (&sent[..], at));
    }
    engine.close(socket).unwrap();
}

fn datagrams_of_pairs(a: &Host, b: &Host, engine: &mut Engine, is_v6: bool) {
    for number in 0..COUNT {
        let peer = kernel(b, SocketAddr::new(address(b, is_v6), 0));
        let socket = bind(a, engine, SocketAddr::new(address(a, is_v6), 0));
        a.within(|| engine.connect(socket, peer.local_addr().unwrap())).unwrap();
        assert!(settled(engine, socket).is_accelerated());
        let sent = message(number as u32, 100);
        engine.send(socket, &sent).unwrap();
        let mut buffer = [0; 200];
        let (len, from) = heard(engine, &peer, &mut buffer);
        assert_eq!(&buffer[..len], sent);
        peer.send_to(&sent, from).unwrap();
        let datagram = receive(engine, socket);
        assert_eq!((engine.payload(&datagram), datagram.by_kernel()), (&sent[..], false));
        engine.release(datagram);
        engine.close(socket).unwrap();
    }
}

fn datagrams_to_a_group(a: &Host, b: &Host, engine: &mut Engine, is_v6: bool) {
    let group: IpAddr = if is_v6 { "ff35::8000:7".parse().unwrap() } else { Ipv4Addr::new(232, 7, 7, 7).into() };
    let socket = a.within(|| engine.bind(SocketAddr::new(any(is_v6), 7002), &UdpOptions::default())).unwrap();
    let path = join_group(a, engine, socket, group, None);
    assert!(path.is_accelerated(), "{path}");
    for number in 0..COUNT {
        let sender = kernel(b, SocketAddr::new(address(b, is_v6), 0));
        if is_v6 {
            let interface = b.within(|| Ok(sidestep_sys::xdp::device(&b.interface).unwrap().index)).unwrap();
            socket2::SockRef::from(&sender).set_multicast_if_v6(interface).unwrap();
        }
        let sent = message(number as u32, 100);
        sender.send_to(&sent, SocketAddr::new(group, 7002)).unwrap();
        let datagram = receive(engine, socket);
        assert_eq!((engine.payload(&datagram), datagram.by_kernel()), (&sent[..], false));
        engine.release(datagram);
    }
    engine.close(socket).unwrap();
}

#[test]
fn everything_comes_on_a_device_with_one_queue() {
    on(1);
}

#[test]
fn everything_comes_on_a_device_with_two_queues() {
    on(2);
}

#[test]
fn everything_comes_on_a_device_with_four_queues() {
    on(4);
}

#[test]
fn everything_comes_on_a_device_with_eight_queues() {
    on(8);
}
