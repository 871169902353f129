//! Some queues are ours and some are not: nothing is steered that may come by another, and everybody is told.

use crate::peer::{accept, ask, connect, kernel_connect, kernel_listen, listen, poll_until};
use crate::roles::{Process, start, start_test};
use crate::support::{Control, address, bind, heard, join_group, kernel, receive, settled, wait, wait_for_control};
use crate::{engine, lab, told};
use sidestep_control_api::message::Code;
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions, Path, Queues, Reason, UdpOptions};
use sidestep_sys::xdp::{Geometry, Umem, Xsk, XskOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const ELSEWHERE: Path = Path::Kernel(Reason::QueueElsewhere);

/// Everything works, by the kernel, and says why.
fn works_by_the_kernel(a: &Host, b: &Host, engine: &mut Engine, port: u16) {
    let any = |port| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let stream = connect(a, engine, server.local_addr().unwrap());
    assert_eq!(engine.tcp().path(stream).unwrap(), ELSEWHERE);
    let at = SocketAddr::new(address(a, false), port);
    let listener = listen(a, engine, at);
    assert_eq!(engine.tcp().listener_path(listener).unwrap(), ELSEWHERE);
    for _ in 0..8 {
        let peer = kernel_connect(b, at);
        let stream = accept(engine, listener);
        let mut peer = poll_until(engine, peer);
        ask(engine, stream, &mut peer, b"by the kernel");
    }
    let bound = bind(a, engine, any(port));
    assert_eq!(engine.path(bound).unwrap(), ELSEWHERE);
    for _ in 0..8 {
        let sender = kernel(b, SocketAddr::new(address(b, false), 0));
        sender.send_to(b"by the kernel", at).unwrap();
        let datagram = receive(engine, bound);
        assert!(datagram.by_kernel());
        engine.release(datagram);
    }
    let group: IpAddr = Ipv4Addr::new(232, 7, 7, 7).into();
    let member = a.within(|| engine.bind(any(port + 1), &UdpOptions::default())).unwrap();
    assert_eq!(join_group(a, engine, member, group, None), ELSEWHERE);
    kernel(b, any(0)).send_to(b"to all", SocketAddr::new(group, port + 1)).unwrap();
    let datagram = receive(engine, member);
    assert_eq!(engine.payload(&datagram), b"to all");
    engine.release(datagram);
    let peer = kernel(b, SocketAddr::new(address(b, false), 0));
    let pair = bind(a, engine, SocketAddr::new(address(a, false), 0));
    a.within(|| engine.connect(pair, peer.local_addr().unwrap())).unwrap();
    assert_eq!(settled(engine, pair), ELSEWHERE);
    engine.send(pair, b"of two").unwrap();
    let (len, from) = heard(engine, &peer, &mut [0; 64]);
    peer.send_to(b"of two", from).unwrap();
    let datagram = receive(engine, pair);
    assert_eq!(datagram.len(), len);
    engine.release(datagram);
}

#[test]
fn two_programs_with_two_of_four_queues_each_are_served_and_told() {
    let Some(lab) = lab(4) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut one = engine(a, Queues::These(vec![0, 1]));
    let mut two = engine(a, Queues::These(vec![3, 2]));
    assert_eq!((one.queues().len(), two.queues().len()), (2, 2));
    for (engine, port) in [(&mut one, 7000), (&mut two, 7010)] {
        assert!(!engine.has_every_queue() && engine.queues_missing().is_empty());
        works_by_the_kernel(a, b, engine, port);
    }
    let told = told(a);
    let why: Vec<&String> =
        told.reasons.iter().filter(|(code, _)| *code == Code::QueueElsewhere).map(|(_, why)| why).collect();
    assert!(why.iter().any(|why| why.contains("2-3") && why.contains("ethtool -L")), "{why:?}");
    assert!(why.iter().any(|why| why.contains("0-1")), "{why:?}");
    assert!(!told.counters.contains("drop-queue"), "{:?}", told.counters);
    // A third finds no queue.
    let options = EngineOptions::on(&a.interface);
    let third = a.within(|| Engine::open(&options)).unwrap();
    assert_eq!(third.refusal().unwrap().0, Reason::NoFreeQueue);
}

#[test]
fn queues_that_are_taken_are_missed_by_name() {
    let Some(lab) = lab(4) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let one = engine(a, Queues::These(vec![1]));
    // Somebody who has not asked control.
    let stranger = || {
        let umem = Umem::create(Geometry { frames: 64, frame_bytes: 2048, headroom: 0 })?;
        Xsk::open(&umem, &a.interface, 2, &XskOptions::default())
    };
    let stranger = a.within(stranger).unwrap();
    let mut rest = engine(a, Queues::Every);
    assert_eq!(rest.queues(), [0, 3]);
    let missing = rest.queues_missing().to_vec();
    assert_eq!(missing.iter().map(|one| &one.queues[..]).collect::<Vec<_>>(), [&[1][..], &[2][..]]);
    assert!(missing[0].reason.contains("another stack") && missing[1].reason.contains("EBUSY"), "{missing:?}");
    assert_eq!(told(a).missing.iter().map(|(queues, _)| queues[0]).collect::<Vec<_>>(), [1, 2]);
    works_by_the_kernel(a, b, &mut rest, 7000);
    // Asked for alone, such a queue is refused; so is one that there is not.
    for (queue, reason) in [(1, Reason::NoFreeQueue), (2, Reason::NoFreeQueue), (4, Reason::NoFreeQueue)] {
        let options = EngineOptions { queues: Queues::These(vec![queue]), ..EngineOptions::on(&a.interface) };
        assert_eq!(a.within(|| Engine::open(&options)).unwrap().refusal().unwrap().0, reason, "{queue}");
    }
    drop((one, stranger, rest));
    assert_eq!(opened_again(a).queues(), [0, 1, 2, 3]);
}

/// All queues, as soon as they are free: the kernel lets go of a closed socket's queue a little later.
fn opened_again(host: &Host) -> Engine {
    wait("all queues", || {
        let engine = engine(host, Queues::Every);
        engine.has_every_queue().then_some(engine)
    })
}

#[test]
fn closed_and_opened_again_it_has_all_queues_again() {
    let Some(lab) = lab(4) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    for port in 7000..7003 {
        let mut engine = opened_again(a);
        let listener = listen(a, &mut engine, SocketAddr::new(address(a, false), port));
        for _ in 0..8 {
            let peer = kernel_connect(b, SocketAddr::new(address(a, false), port));
            let stream = accept(&mut engine, listener);
            let mut peer = poll_until(&mut engine, peer);
            ask(&mut engine, stream, &mut peer, b"there and back");
        }
    }
}

/// What control refuses when set-up no longer waits is told by the same name, and the kernel has it all the time.
#[test]
fn a_refusal_that_comes_late_has_its_name() {
    let Some(lab) = lab(2) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = start(a, "control", None, None);
    wait_for_control(a);
    let mut engine = engine(a, Queues::These(vec![0]));
    control.signal(libc::SIGSTOP);
    let (any, group) = (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(232, 7, 7, 7).into());
    let bound = a.within(|| engine.bind(SocketAddr::new(any, 7000), &UdpOptions::default())).unwrap();
    let member = a.within(|| engine.bind(SocketAddr::new(any, 7001), &UdpOptions::default())).unwrap();
    let path = a.within(|| engine.join(member, group, 0, None)).unwrap();
    assert_eq!((path, engine.path(bound).unwrap()), (Path::Kernel(Reason::Opening), path));
    control.signal(libc::SIGCONT);
    for (socket, at) in [(bound, SocketAddr::new(address(a, false), 7000)), (member, SocketAddr::new(group, 7001))] {
        kernel(b, SocketAddr::new(any, 0)).send_to(b"meanwhile", at).unwrap();
        assert_eq!(settled(&mut engine, socket), ELSEWHERE);
        let datagram = receive(&mut engine, socket);
        assert!(datagram.by_kernel());
        engine.release(datagram);
    }
    drop(engine);
    control.kill();
    a.within(sidestep_control::cleanup).unwrap();
}

/// No test of its own: the other process of the one below, which serves until it is killed.
#[test]
fn a_server_on_every_queue() {
    let Ok(at) = std::env::var(crate::roles::AT) else { return };
    let options = EngineOptions { queues: Queues::Every, frames: 1024, ring_entries: 512, ..EngineOptions::on("lab0") };
    let mut engine = Engine::open(&options).unwrap();
    let defaults = engine.tcp().defaults();
    let listener = engine.tcp().listen(at.parse().unwrap(), 64, defaults).unwrap();
    println!("listens: {}", engine.tcp().listener_path(listener).unwrap());
    let (mut streams, mut buffer) = (Vec::new(), [0; 64]);
    loop {
        engine.poll().unwrap();
        streams.extend(engine.tcp().accept(listener).unwrap());
        for stream in &streams {
            if let Ok(count @ 1..) = engine.tcp().read(*stream, &mut buffer) {
                engine.tcp().send(*stream, &buffer[..count]).unwrap();
            }
        }
    }
}

#[test]
fn a_program_that_is_killed_frees_its_queues_and_its_peers_are_told() {
    let Some(lab) = lab(4) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let at = SocketAddr::new(address(a, false), 7000);
    let mut server: Process = start_test(a, "partly::a_server_on_every_queue", "server", Some(at), None);
    let line = server.line("listens");
    assert!(line.contains("accelerated"), "{line}");
    let mut peers: Vec<_> = (0..16).map(|_| kernel_connect(b, at).join().unwrap()).collect();
    server.kill();
    for peer in &mut peers {
        // The kernel, which gets its segments now by whatever queue, resets the connection.
        wait("a reset", || peer.write_all(b"is anybody there").is_err().then_some(()));
    }
    let again = opened_again(a);
    assert!(again.has_every_queue());
}
