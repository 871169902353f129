//! Whoever takes part in a hand-over is killed in the middle of it, each time a little later: the program, and control. Or control is
//! stopped. The peer is Linux; it gets no wrong byte, and is not left without an end.

use crate::peer::{OURS, THEIRS, ask, connect, exchange, kernel_connect, kernel_exchange, kernel_listen, poll_until};
use crate::roles::{AT, ROLE, start, start_test};
use crate::support::{Control, WATCHDOG, address, engine, lab, reach, wait, wait_for_control};
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions, Path, Reason};
use sidestep_sys::socket::{TcpState, tcp_state};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// Deaths of each; `SIDESTEP_HAND_OVERS` has more.
const DEATHS: u32 = 10;

/// They come at even distances within this time: the last ones come after the hand-over.
const SPAN: Duration = Duration::from_micros(600);

/// Bytes of a stream.
const BYTES: usize = 256 << 10;

fn deaths() -> u32 {
    std::env::var("SIDESTEP_HAND_OVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(DEATHS)
}

/// How long after the begin of its hand-over a death comes.
fn moment(number: u32) -> Duration {
    SPAN * number / deaths()
}

/// No test of its own: a program that hands its connection over in the middle.
#[test]
fn a_program_that_hands_over() {
    if std::env::var(ROLE).as_deref() != Ok("surrender") {
        return;
    }
    let at: SocketAddr = std::env::var(AT).unwrap().parse().unwrap();
    let options = EngineOptions { frames: 1024, ring_entries: 512, ..EngineOptions::on("lab0") };
    let mut engine = Engine::open(&options).unwrap();
    let defaults = engine.tcp().defaults();
    let listener = engine.tcp().listen(at, 16, defaults).unwrap();
    println!("ready {:?}", engine.tcp().listener_path(listener).unwrap());
    let stream = wait("a connection", || {
        engine.poll().unwrap();
        engine.tcp().accept(listener).unwrap()
    });
    let (mut buffer, mut has_begun) = ([0; 2048], false);
    loop {
        engine.poll().unwrap();
        if let Ok(count @ 1..) = engine.tcp().read(stream, &mut buffer) {
            // What there is no room for is not sent back: the peer sends little.
            assert_eq!(engine.tcp().send(stream, &buffer[..count]), Ok(count));
            if !std::mem::replace(&mut has_begun, true) {
                let socket = engine.tcp().socket_for(stream).unwrap();
                println!("begins");
                engine.tcp().begin_hand_over(stream, socket).unwrap();
            }
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_is_killed_while_it_hands_over_leaves_its_peer_an_end() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..deaths() {
        let at = SocketAddr::new(address(a, number % 2 == 1), 7000);
        let mut program = start_test(a, "hand_over_deaths::a_program_that_hands_over", "surrender", Some(at), None);
        program.line("Accelerated");
        let mut peer = kernel_connect(b, at).join().unwrap();
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        peer.write_all(b"hello").unwrap();
        program.line("begins");
        std::thread::sleep(moment(number));
        program.kill();
        // It goes on talking, as the peer of a program that has just died does.
        let mut got = Vec::new();
        let end = wait("the peer's end", || {
            let said = peer.write_all(b"?").err().map(|error| error.kind());
            peer.set_nonblocking(true).unwrap();
            let mut buffer = [0; 64];
            let end = match peer.read(&mut buffer) {
                Ok(0) => Some("in order".to_owned()),
                Ok(count) => {
                    got.extend_from_slice(&buffer[..count]);
                    None
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => None,
                Err(error) => Some(error.kind().to_string()),
            };
            peer.set_nonblocking(false).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            end.or_else(|| said.map(|kind| kind.to_string()))
        });
        assert!(
            b"hello".starts_with(&got)
                || got.strip_prefix(b"hello").is_some_and(|rest| rest.iter().all(|byte| *byte == b'?'))
        );
        *ends.entry(end).or_default() += 1;
    }
    println!("{ends:?}");
}

#[test]
fn a_connection_survives_a_control_that_is_killed_while_it_takes_it_over() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut paths: BTreeMap<String, u32> = BTreeMap::new();
    [false, true].into_iter().for_each(|is_v6| reach(a, address(b, is_v6)));
    for number in 0..deaths() {
        let mut control = start(a, "control", None, None);
        wait_for_control(a);
        let mut engine = engine(a);
        let server = kernel_listen(b, SocketAddr::new(address(b, number % 2 == 1), 0));
        let stream = connect(a, &mut engine, server.local_addr().unwrap());
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let theirs = kernel_exchange(server.accept().unwrap().0, THEIRS, BYTES);
        let socket = a.within(|| Ok(engine.tcp().socket_for(stream).unwrap())).unwrap();
        engine.tcp().begin_hand_over(stream, socket).unwrap();
        std::thread::sleep(moment(number));
        control.kill();
        let next = Control::start(a);
        assert_eq!(exchange(&mut engine, stream, OURS, BYTES), (BYTES, BYTES), "killed after {:?}", moment(number));
        assert_eq!(poll_until(&mut engine, theirs), (BYTES, BYTES));
        let path = engine.tcp().path(stream).unwrap();
        assert!(path.is_accelerated() || path == Path::Kernel(Reason::HandedOver), "{path}");
        *paths.entry(path.to_string()).or_default() += 1;
        engine.tcp().close(stream).unwrap();
        drop(engine);
        drop(next);
    }
    println!("{paths:?}");
}

/// The request waits in control's queue, with numbers that are old when control goes on.
#[test]
fn what_a_stopped_control_has_not_begun_it_does_not_do_later() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    reach(a, address(b, false));
    let control = start(a, "control", None, None);
    wait_for_control(a);
    let mut engine = engine(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let stream = connect(a, &mut engine, server.local_addr().unwrap());
    let mut peer = server.accept().unwrap().0;
    let socket = a.within(|| Ok(engine.tcp().socket_for(stream).unwrap())).unwrap();
    let twin = socket.try_clone().unwrap();
    control.signal(libc::SIGSTOP);
    engine.tcp().begin_hand_over(stream, socket).unwrap();
    wait("the end of the attempt", || {
        engine.poll().unwrap();
        (!engine.tcp().is_handing_over(stream)).then_some(())
    });
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    ask(&mut engine, stream, &mut peer, b"past the kernel, beside a stopped control");
    control.signal(libc::SIGCONT);
    // It has read the request when it welcomes another program.
    wait_for_control(a);
    assert_eq!(tcp_state(twin.as_fd()).unwrap(), TcpState::Closed);
    ask(&mut engine, stream, &mut peer, b"and afterwards");
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    engine.tcp().close(stream).unwrap();
}
