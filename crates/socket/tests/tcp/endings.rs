//! How connections end: half-closed, aborted, reset, by a reader that does not read, by processes that are killed.

use crate::peer::{accept, connect, heard, join, kernel_connect, kernel_listen, listen, poll_until, serving};
use crate::support::{Control, address, engine, lab, wait};
use sidestep_lab::Side;
use sidestep_lab::{Host, Lab};
use sidestep_socket::Engine;
use sidestep_socket::tcp::{TcpError, TcpStream};
use sidestep_stack::tcp::{Error, Readiness, Shutdown};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream as KernelStream};

/// An engine on A, connected to Linux on B.
struct Pair {
    engine: Engine,
    stream: TcpStream,
    peer: KernelStream,
    _control: Control,
}

fn pair(lab: &Lab) -> Pair {
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let mut engine = engine(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let stream = connect(a, &mut engine, server.local_addr().unwrap());
    let peer = server.accept().unwrap().0;
    peer.set_read_timeout(Some(crate::support::WATCHDOG)).unwrap();
    Pair { engine, stream, peer, _control: control }
}

/// Reads until there is something, or an error.
fn read(engine: &mut Engine, stream: TcpStream) -> Result<Vec<u8>, TcpError> {
    let mut buffer = [0; 4096];
    wait("something to read", || {
        engine.poll().unwrap();
        match engine.tcp().read(stream, &mut buffer) {
            Err(error) if error.is_would_block() => None,
            read => Some(read.map(|count| buffer[..count].to_vec())),
        }
    })
}

#[test]
fn half_closed_streams_still_carry_the_other_direction() {
    let Some(lab) = lab() else { return };
    let Pair { mut engine, stream, mut peer, _control } = pair(&lab);
    engine.tcp().send(stream, b"last words").unwrap();
    engine.tcp().shutdown(stream, Shutdown::Write).unwrap();
    assert_eq!(engine.tcp().send(stream, b"more"), Err(TcpError::Stack(Error::BrokenPipe)));
    let reading = std::thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        peer.write_all(b"heard").unwrap();
        got
    });
    assert_eq!(read(&mut engine, stream).unwrap(), b"heard");
    assert_eq!(poll_until(&mut engine, reading), b"last words");
    assert_eq!(read(&mut engine, stream).unwrap(), b"");
    engine.tcp().close(stream).unwrap();
}

#[test]
fn an_abort_is_a_reset_there() {
    let Some(lab) = lab() else { return };
    let Pair { mut engine, stream, mut peer, _control } = pair(&lab);
    engine.tcp().abort(stream).unwrap();
    assert_eq!(heard(&mut engine, &mut peer, &mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(engine.tcp().read(stream, &mut [0; 8]).is_err_and(|error| !error.is_would_block()));
}

#[test]
fn a_reset_there_is_an_error_here() {
    let Some(lab) = lab() else { return };
    let Pair { mut engine, stream, peer, _control } = pair(&lab);
    socket2::SockRef::from(&peer).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(peer);
    assert_eq!(read(&mut engine, stream), Err(TcpError::Stack(Error::Reset)));
    assert!(engine.tcp().readiness(stream).unwrap().has(Readiness::HANGUP));
}

#[test]
fn nobody_listening_there_is_a_refusal() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    let options = engine.tcp().defaults();
    let at = SocketAddr::new(address(b, false), 7000);
    let stream = a.within(|| engine.tcp().connect(at, None, options)).unwrap();
    wait("a refusal", || {
        engine.poll().unwrap();
        engine.tcp().readiness(stream).unwrap().has(Readiness::ERROR).then_some(())
    });
    assert_eq!(engine.tcp().take_error(stream), Ok(Some(TcpError::Stack(Error::Refused))));
    engine.tcp().close(stream).unwrap();
}

/// The window goes to nothing and opens again; every byte arrives.
#[test]
fn a_reader_that_is_slow_stops_the_sender_until_it_reads() {
    let Some(lab) = lab() else { return };
    let Pair { mut engine, stream, mut peer, _control } = pair(&lab);
    let piece = vec![7; 100_000];
    let mut sent = 0;
    wait("a full window", || {
        engine.poll().unwrap();
        match engine.tcp().send(stream, &piece) {
            Ok(count) => sent += count,
            Err(error) => assert!(error.is_would_block(), "{error}"),
        }
        let facts = engine.tcp().facts(stream).unwrap().unwrap();
        (facts.send_window < 2000 && facts.unsent > 100_000).then_some(())
    });
    engine.tcp().shutdown(stream, Shutdown::Write).unwrap();
    let reading = std::thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).map(|_| got.iter().filter(|byte| **byte == 7).count())
    });
    assert_eq!(poll_until(&mut engine, reading).unwrap(), sent);
}

#[test]
fn a_peer_that_is_killed_ends_the_connection() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let script = format!("exec 3<>/dev/tcp/{}/{}; echo here >&3; read -r line <&3", at.ip(), at.port());
    let mut child = a.spawn(a.command("bash").unwrap().arg("-c").arg(script)).unwrap();
    let stream = accept(&mut engine, listener);
    assert_eq!(read(&mut engine, stream).unwrap(), b"here\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(read(&mut engine, stream), Ok(Vec::new()), "the kernel finishes for it");
}

/// What was accepted goes on when its listener is closed, and new ones are refused by the kernel.
#[test]
fn closing_a_listener_leaves_what_was_accepted() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    engine.tcp().close_listener(listener).unwrap();
    refused(a, at);
    peer.write_all(b"still here").unwrap();
    assert_eq!(read(&mut engine, stream).unwrap(), b"still here");
    engine.tcp().send(stream, b"yes").unwrap();
    let mut answer = [0; 3];
    heard(&mut engine, &mut peer, &mut answer).unwrap();
    assert_eq!(&answer, b"yes");
    // The port can be listened on again.
    let again = listen(b, &mut engine, at);
    let peer = kernel_connect(a, at);
    let stream = accept(&mut engine, again);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    poll_until(&mut engine, peer);
}

fn refused(host: &Host, at: SocketAddr) {
    let error = host.within(|| Ok(KernelStream::connect(at).unwrap_err())).unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

/// As a kernel's socket does when its process ends: in order.
#[test]
fn an_engine_that_ends_finishes_what_is_open() {
    let Some(lab) = lab() else { return };
    let Pair { engine, mut peer, _control, .. } = pair(&lab);
    drop(engine);
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
}

/// RFC 9293 section 3.6.1: what was not read is a reset.
#[test]
fn an_engine_that_ends_with_unread_data_resets() {
    let Some(lab) = lab() else { return };
    let Pair { mut engine, stream, mut peer, _control } = pair(&lab);
    peer.write_all(b"unread").unwrap();
    wait("something to read", || {
        engine.poll().unwrap();
        engine.tcp().readiness(stream).unwrap().has(Readiness::READABLE).then_some(())
    });
    drop(engine);
    assert_eq!(peer.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}
