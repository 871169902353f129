//! Transfers of all sizes in both directions at once, both roles, both families.

use crate::peer::{
    OURS, THEIRS, accept, carry, connect, exchange, join, kernel_connect, kernel_listen, listen, poll_until, serving,
};
use crate::support::{Control, address, engine, ip, lab, wait};
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions, Path, Reason};
use std::net::SocketAddr;

const SIZES: [usize; 4] = [0, 1, 1 << 20, 64 << 20];

/// The large one in one family per role: it is the same code, and takes its time.
fn sizes(is_large: bool) -> &'static [usize] {
    if is_large { &SIZES } else { &SIZES[..3] }
}

#[test]
fn what_we_connect_carries_every_byte_both_ways() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    for is_v6 in [false, true] {
        let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
        for &size in sizes(!is_v6) {
            let stream = connect(a, &mut engine, server.local_addr().unwrap());
            assert!(engine.tcp().path(stream).unwrap().is_accelerated());
            let (peer, from) = server.accept().unwrap();
            assert_eq!(engine.tcp().ends(stream).unwrap(), (from, server.local_addr().unwrap()));
            carry(&mut engine, stream, peer, size);
            engine.tcp().close(stream).unwrap();
        }
    }
}

#[test]
fn what_we_accept_carries_every_byte_both_ways() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let at = SocketAddr::new(address(b, is_v6), 7000);
        let listener = listen(b, &mut engine, at);
        assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
        for &size in sizes(is_v6) {
            let peer = kernel_connect(a, at);
            let stream = accept(&mut engine, listener);
            assert!(engine.tcp().path(stream).unwrap().is_accelerated());
            let peer = poll_until(&mut engine, peer);
            carry(&mut engine, stream, peer, size);
            engine.tcp().close(stream).unwrap();
        }
        engine.tcp().close_listener(listener).unwrap();
    }
}

/// What the interface takes is more than what a frame holds when it is received: the peer must not be asked for that.
#[test]
fn segments_fit_the_frames_however_large_the_mtu() {
    const BYTES: usize = 1 << 20;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    [a, b].into_iter().for_each(|host| ip(host, &format!("link set {} mtu 3000", host.interface)));
    let _control = Control::start(a);
    let options = EngineOptions::on(&a.interface);
    let options = EngineOptions { jumbo_frames: false, ..options };
    let mut engine = a.within(|| Engine::open(&options)).unwrap();
    assert_eq!(engine.refusal(), None);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let stream = connect(a, &mut engine, server.local_addr().unwrap());
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    carry(&mut engine, stream, server.accept().unwrap().0, BYTES);
}

/// By hand: `cargo test --release -p sidestep-socket --test tcp -- --ignored --nocapture`.
#[test]
#[ignore = "takes a minute"]
fn a_gibibyte_both_ways_in_both_roles() {
    const BYTES: usize = 1 << 30;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let server = kernel_listen(a, SocketAddr::new(address(a, false), 0));
    let at = SocketAddr::new(address(b, true), 7000);
    let listener = listen(b, &mut engine, at);
    for is_ours in [true, false] {
        let (stream, peer) = if is_ours {
            (connect(b, &mut engine, server.local_addr().unwrap()), server.accept().unwrap().0)
        } else {
            let peer = kernel_connect(a, at);
            (accept(&mut engine, listener), poll_until(&mut engine, peer))
        };
        let begun = std::time::Instant::now();
        carry(&mut engine, stream, peer, BYTES);
        let role = if is_ours { "connected, IPv4" } else { "accepted, IPv6" };
        println!("1 GiB each way, {role}: {:.1} s, every byte compared", begun.elapsed().as_secs_f64());
    }
}

#[test]
fn payload_is_shown_where_it_stands() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    let sent: Vec<u8> = (0..100_u8).collect();
    std::io::Write::write_all(&mut peer, &sent).unwrap();
    let mut got = Vec::new();
    wait("payload", || {
        // Half of what is shown is taken; the rest waits to be read.
        let take = |of, bytes: &[u8]| {
            assert_eq!(of, stream);
            got.extend_from_slice(&bytes[..bytes.len() / 2]);
            bytes.len() / 2
        };
        engine.tcp().poll_with(take).unwrap();
        (got.len() == 50).then_some(())
    });
    let rest = engine.tcp().read_with(stream, |bytes| {
        got.extend_from_slice(bytes);
        bytes.len()
    });
    assert_eq!((rest, got), (Ok((50, false)), sent));
}

#[test]
fn without_a_control_plane_streams_are_the_kernels_and_say_so() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let open = |host: &sidestep_lab::Host| {
        host.within(|| Engine::open(&EngineOptions::on(&host.interface))).expect("an engine opens")
    };
    let (mut client, mut server) = (open(a), open(b));
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut server, at);
    assert_eq!(server.tcp().listener_path(listener), Ok(Path::Kernel(Reason::ControlAbsent)));
    let stream = connect(a, &mut client, at);
    let accepted = accept(&mut server, listener);
    assert_eq!(client.tcp().path(stream), Ok(Path::Kernel(Reason::ControlAbsent)));
    assert_eq!(server.tcp().path(accepted), Ok(Path::Kernel(Reason::ControlAbsent)));
    let serving = std::thread::spawn(move || exchange(&mut server, accepted, THEIRS, 1 << 20));
    let ours = exchange(&mut client, stream, OURS, 1 << 20);
    let theirs = serving.join().unwrap();
    assert_eq!(ours, (theirs.1, theirs.0));
}

#[test]
fn a_listener_takes_what_comes_by_the_kernel_and_says_so() {
    let Some(lab) = lab() else { return };
    let b = lab.host(Side::B);
    let _control = Control::start(b);
    let mut engine = engine(b);
    let listener = listen(b, &mut engine, "0.0.0.0:7000".parse().unwrap());
    let peer = kernel_connect(b, "127.0.0.1:7000".parse().unwrap());
    let stream = accept(&mut engine, listener);
    assert_eq!(engine.tcp().path(stream), Ok(Path::Kernel(Reason::CameByKernel)));
    let peer = poll_until(&mut engine, peer);
    carry(&mut engine, stream, peer, 1 << 20);
}
