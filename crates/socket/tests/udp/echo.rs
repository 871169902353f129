//! Messages there and back, every role, both families, every byte compared.

use crate::support::{Control, address, bind, engine, engine_with, heard, ip, kernel, lab, message, receive, wait};
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions, Handle, Kick, Path, Reason, SendError, UdpOptions};
use sidestep_sys::idle::IdleStrategy;
use std::net::SocketAddr;

/// From an empty datagram to what an Ethernet frame holds.
fn sizes(is_v6: bool) -> Vec<usize> {
    let most = if is_v6 { 1452 } else { 1472 };
    vec![0, 1, 17, 18, 19, 64, 512, most - 1, most]
}

/// Sends until the neighbour is known and the datagrams go past the kernel.
fn warm_up(engine: &mut Engine, socket: Handle, peer: SocketAddr) {
    wait("the fast path", || {
        engine.poll().expect("it is ours");
        engine.path_to(socket, peer).expect("it is open").is_accelerated().then_some(())
    });
}

#[test]
fn a_server_past_the_kernel_answers_a_kernel_client() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let at = SocketAddr::new(address(b, is_v6), 7000);
        let socket = bind(b, &mut engine, at);
        assert!(engine.path(socket).unwrap().is_accelerated(), "{}", engine.path(socket).unwrap());
        let client = kernel(a, SocketAddr::new(address(a, is_v6), 0));
        warm_up(&mut engine, socket, client.local_addr().unwrap());
        for (number, size) in sizes(is_v6).into_iter().enumerate() {
            let sent = message(number as u32, size);
            client.send_to(&sent, at).unwrap();
            let datagram = receive(&mut engine, socket);
            assert!(!datagram.by_kernel(), "{size}");
            assert_eq!(engine.payload(&datagram), sent);
            assert_eq!((datagram.source(), datagram.destination()), (client.local_addr().unwrap(), at));
            assert!(datagram.software_ns() > 0 && datagram.time_to_live() == 64);
            engine.reply(socket, datagram).unwrap();
            let mut answer = [0; 2048];
            let (count, from) = client.recv_from(&mut answer).unwrap();
            assert_eq!((&answer[..count], from), (&sent[..], at));
        }
        let seen = engine.statistics(socket).unwrap();
        assert_eq!((seen.received, seen.sent, seen.received_by_kernel, seen.sent_by_kernel), (9, 9, 0, 0));
        engine.close(socket).unwrap();
        assert!(engine.receive(socket).is_err(), "a closed socket is closed");
    }
}

#[test]
fn a_client_past_the_kernel_asks_a_kernel_server() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    for is_v6 in [false, true] {
        let server = kernel(b, SocketAddr::new(address(b, is_v6), 0));
        let peer = server.local_addr().unwrap();
        let socket = bind(a, &mut engine, SocketAddr::new(address(a, is_v6), 0));
        a.within(|| engine.connect(socket, peer)).unwrap();
        // The first one finds no neighbour: the kernel sends it meanwhile, and it is not lost.
        engine.send(socket, b"first").unwrap();
        let mut buffer = [0; 2048];
        let (count, from) = heard(&mut engine, &server, &mut buffer);
        assert_eq!((&buffer[..count], from), (&b"first"[..], engine.local(socket).unwrap()));
        warm_up(&mut engine, socket, peer);
        assert!(engine.path(socket).unwrap().is_accelerated());
        let before = engine.statistics(socket).unwrap();
        for (number, size) in sizes(is_v6).into_iter().enumerate() {
            let sent = message(number as u32, size);
            let mut reserved = engine.reserve(socket, 1500.min(size + 7).min(sizes(is_v6)[8]), None).unwrap();
            engine.reserved(&reserved)[..size].copy_from_slice(&sent);
            engine.send_reserved(socket, reserved, size).unwrap();
            let (count, from) = heard(&mut engine, &server, &mut buffer);
            assert_eq!(buffer[..count], sent);
            server.send_to(&buffer[..count], from).unwrap();
            let datagram = receive(&mut engine, socket);
            assert_eq!((engine.payload(&datagram), datagram.by_kernel()), (&sent[..], false));
            engine.release(datagram);
            reserved = engine.reserve(socket, 8, None).unwrap();
            engine.discard(reserved);
        }
        let seen = engine.statistics(socket).unwrap();
        assert_eq!((seen.sent - before.sent, seen.received - before.received), (9, 9));
        engine.close(socket).unwrap();
    }
}

#[test]
fn both_ends_past_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_one, _two) = (Control::start(a), Control::start(b));
    let (mut client, mut server) = (engine(a), engine(b));
    for is_v6 in [false, true] {
        let at = SocketAddr::new(address(b, is_v6), 7000);
        let serving = bind(b, &mut server, at);
        let asking = bind(a, &mut client, SocketAddr::new(address(a, is_v6), 7001));
        a.within(|| client.connect(asking, at)).unwrap();
        client.send(asking, b"who are you").unwrap();
        let first = receive(&mut server, serving);
        let from = first.source();
        server.release(first);
        warm_up(&mut client, asking, at);
        warm_up(&mut server, serving, from);
        for number in 0..2000_u32 {
            let sent = message(number, 8 + number as usize % 1400);
            client.send(asking, &sent).unwrap();
            let datagram = receive(&mut server, serving);
            assert_eq!(server.payload(&datagram), sent);
            server.reply(serving, datagram).unwrap();
            let answer = receive(&mut client, asking);
            assert_eq!((client.payload(&answer), answer.by_kernel()), (&sent[..], false));
            client.release(answer);
        }
        client.close(asking).unwrap();
        server.close(serving).unwrap();
    }
}

#[test]
fn without_a_control_plane_everything_goes_by_the_kernel_and_says_so() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let open = || Engine::open(&EngineOptions::on(&a.interface));
    let mut engine = a.within(open).unwrap();
    let (reason, text) = engine.refusal().map(|(reason, text)| (reason, text.to_owned())).unwrap();
    assert_eq!(reason, Reason::ControlAbsent);
    assert!(text.contains("control.sock"), "{text}");
    let server = kernel(b, SocketAddr::new(address(b, false), 0));
    let socket = bind(a, &mut engine, SocketAddr::new(address(a, false), 0));
    assert_eq!(engine.path(socket), Ok(Path::Kernel(Reason::ControlAbsent)));
    a.within(|| engine.connect(socket, server.local_addr().unwrap())).unwrap();
    let sent = message(1, 9000);
    engine.send(socket, &sent).unwrap();
    let mut buffer = vec![0; 10_000];
    let (count, from) = heard(&mut engine, &server, &mut buffer);
    server.send_to(&buffer[..count], from).unwrap();
    let datagram = receive(&mut engine, socket);
    assert_eq!((engine.payload(&datagram), datagram.by_kernel()), (&sent[..], true));
    engine.reply(socket, datagram).unwrap();
    assert_eq!(heard(&mut engine, &server, &mut buffer).0, 9000);
}

#[test]
fn a_sender_beside_the_owner_spares_it_every_call() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let kick = Kick::Thread { idle: IdleStrategy::SPIN, cpu: None };
    let options = EngineOptions { ring_entries: 512, frames: 1024, kick, ..EngineOptions::on(&a.interface) };
    let mut engine = a.within(|| Engine::open(&options)).unwrap();
    let server = kernel(b, SocketAddr::new(address(b, false), 0));
    let peer = server.local_addr().unwrap();
    let socket = bind(a, &mut engine, SocketAddr::new(address(a, false), 0));
    a.within(|| engine.connect(socket, peer)).unwrap();
    warm_up(&mut engine, socket, peer);
    let calls = engine.calls();
    let mut buffer = [0; 64];
    for number in 0..300 {
        let sent = message(number, 60);
        engine.send(socket, &sent).unwrap();
        let (count, from) = heard(&mut engine, &server, &mut buffer);
        server.send_to(&buffer[..count], from).unwrap();
        let datagram = receive(&mut engine, socket);
        assert_eq!(engine.payload(&datagram), sent);
        engine.release(datagram);
    }
    assert_eq!(engine.calls(), calls, "neither sending nor receiving called the kernel");
}

/// The path may take more than a frame of ours holds, where jumbo frames are not wanted or cannot be had: the kernel sends and receives that, and nothing is cut or lost.
#[test]
fn datagrams_longer_than_a_frame_go_by_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| ip(host, &format!("link set {} mtu 3000", host.interface)));
    let _control = Control::start(b);
    let mut engine = engine_with(b, |options| EngineOptions { jumbo_frames: false, ..options });
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    let to = client.local_addr().unwrap();
    let at = SocketAddr::new(address(b, false), 7000);
    let bind = |engine: &mut Engine, port, may_fragment| {
        let options = UdpOptions { may_fragment, ..UdpOptions::default() };
        b.within(|| engine.bind(SocketAddr::new(at.ip(), port), &options)).unwrap()
    };
    let whole = bind(&mut engine, 7000, false);
    let cut = bind(&mut engine, 7001, true);
    for socket in [whole, cut] {
        warm_up(&mut engine, socket, to);
        for (number, size) in [1900, 2005, 2006, 2007, 2500, 2972].into_iter().enumerate() {
            let sent = message(number as u32, size);
            let by_kernel = engine.statistics(socket).unwrap().sent_by_kernel;
            let mut answer = [0; 4096];
            engine.send_to(socket, &sent, to).unwrap();
            let (count, _) = heard(&mut engine, &client, &mut answer);
            assert!(answer[..count] == sent, "sent {size}, heard {count}");
            engine.put(socket, &sent, Some(to)).unwrap();
            engine.flush().unwrap();
            let (count, _) = heard(&mut engine, &client, &mut answer);
            assert!(answer[..count] == sent, "put {size}, heard {count}");
            let reserved = engine.reserve(socket, size, Some(to)).unwrap();
            engine.reserved(&reserved).copy_from_slice(&sent);
            engine.send_reserved(socket, reserved, size).unwrap();
            let (count, _) = heard(&mut engine, &client, &mut answer);
            assert!(answer[..count] == sent, "reserved {size}, heard {count}");
            let by_kernel = engine.statistics(socket).unwrap().sent_by_kernel - by_kernel;
            assert_eq!(
                by_kernel,
                if size <= 2006 { 0 } else { 3 },
                "a frame of 2048 bytes holds 2006 beside its headers"
            );
        }
    }
    assert!(matches!(engine.send_to(whole, &[0; 2973], to), Err(SendError::TooLong { payload_max: 2972 })));
    for (number, size) in [1700, 1751, 2500, 2972].into_iter().enumerate() {
        let sent = message(number as u32, size);
        client.send_to(&sent, at).unwrap();
        let datagram = receive(&mut engine, whole);
        assert_eq!(engine.payload(&datagram), sent);
        engine.release(datagram);
    }
}

/// Bound and connected in one step, from a port that nobody has named.
#[test]
fn a_socket_toward_a_peer_asks_past_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    for is_v6 in [false, true] {
        let server = kernel(b, SocketAddr::new(address(b, is_v6), 7000));
        let at = server.local_addr().unwrap();
        let socket = a.within(|| engine.bind_toward(at, &UdpOptions::default())).unwrap();
        warm_up(&mut engine, socket, at);
        assert!(engine.path(socket).unwrap().is_accelerated());
        engine.send(socket, b"ask").unwrap();
        let mut asked = [0; 8];
        let (count, from) = heard(&mut engine, &server, &mut asked);
        assert_eq!((&asked[..count], from), (&b"ask"[..], engine.local(socket).unwrap()));
        server.send_to(b"answer", from).unwrap();
        let datagram = receive(&mut engine, socket);
        assert_eq!((engine.payload(&datagram), datagram.by_kernel()), (&b"answer"[..], false));
        engine.release(datagram);
        engine.close(socket).unwrap();
    }
}
