//! Streams of programs that wait in the call, past the kernel: the engine is polled meanwhile; the peer is Linux.

use crate::peer::{kernel_connect, kernel_listen};
use crate::support::{Control, address, engine, lab, reach};
use sidestep_lab::{Host, Side};
use sidestep_socket::Path;
use sidestep_socket::stream::{Endpoint, Io, Listener, Options, Stream, Waiting, connect, is_retry};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::time::{Duration, Instant};

/// The time after which the peer answers.
const LATER: Duration = Duration::from_millis(30);
/// The timeout of calls.
const TIMEOUT: Duration = Duration::from_millis(500);
/// More than the buffers of both ends hold.
const BYTES: usize = 32 << 20;

fn at(address: SocketAddr) -> Endpoint {
    Endpoint::Xdp { interface: String::new(), host: address.ip().to_string(), port: address.port() }
}

fn options(waiting: Waiting) -> Options {
    Options { waiting, timeout: TIMEOUT, ..Options::default() }
}

/// A stream past the kernel from `a` to `b`, and Linux's end of it.
fn pair(io: &mut Io, a: &Host, b: &Host, options: &Options) -> (Stream, KernelStream) {
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let to = server.local_addr().unwrap();
    let stream = a.within(|| connect(io, &at(to), options)).expect("it listens");
    assert!(stream.path(io).is_some_and(Path::is_accelerated));
    (stream, server.accept().unwrap().0)
}

/// Calls `check` with an accelerated stream and Linux's end of it, once for each kind of waiting.
fn for_each_waiting(check: impl Fn(Waiting, &mut Io, Stream, KernelStream)) {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    reach(a, address(b, false));
    let mut io = Io::over(engine(a));
    for waiting in [Waiting::Block, Waiting::Epoll, Waiting::Spin] {
        let (stream, peer) = pair(&mut io, a, b, &options(waiting));
        check(waiting, &mut io, stream, peer);
    }
}

#[test]
fn a_read_waits_for_an_answer_and_for_no_longer_than_its_timeout() {
    for_each_waiting(|waiting, io, mut stream, mut peer| {
        let echo = std::thread::spawn(move || {
            let mut message = [0; 4];
            peer.read_exact(&mut message).unwrap();
            std::thread::sleep(LATER);
            peer.write_all(&message).unwrap();
            peer
        });
        stream.write_all(io, b"ping").unwrap();
        let (begin, mut buffer) = (Instant::now(), [0; 64]);
        let first = stream.read(io, &mut buffer);
        if waiting == Waiting::Spin {
            assert!(is_retry(&first.unwrap_err()) && begin.elapsed() < LATER);
            let mut polls = || stream.read(io, &mut buffer);
            assert_eq!(std::iter::repeat_with(&mut polls).find(Result::is_ok).unwrap().unwrap(), 4);
        } else {
            assert_eq!(first.unwrap(), 4, "one call has waited for it");
        }
        let mut peer = echo.join().unwrap();

        let begin = Instant::now();
        let nothing = stream.read(io, &mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(begin.elapsed() >= TIMEOUT, waiting != Waiting::Spin);
        // What is shown and not taken ends the call at once.
        peer.write_all(b"35=D").unwrap();
        let (begin, mut shown) = (Instant::now(), 0);
        while shown == 0 {
            let refused = stream.receive_with(io, &mut |bytes| {
                shown = bytes.len();
                0
            });
            assert!(is_retry(&refused.unwrap_err()));
        }
        assert!(shown == 4 && begin.elapsed() < TIMEOUT);
        assert_eq!(stream.read(io, &mut buffer).unwrap(), 4);
        stream.close(io).unwrap();
    });
}

#[test]
fn a_write_waits_for_room() {
    for_each_waiting(|waiting, io, mut stream, mut peer| {
        let chunk = vec![7; 64 << 10];
        let mut written = 0;
        let (full, waited) = loop {
            let begin = Instant::now();
            match stream.write(io, &chunk) {
                Ok(count) => written += count,
                Err(error) => break (error, begin.elapsed()),
            }
        };
        // The peer reads nothing as yet.
        assert!(is_retry(&full), "{full}");
        assert_eq!(waited >= TIMEOUT, waiting == Waiting::Block);
        let reader = std::thread::spawn(move || {
            std::thread::sleep(LATER);
            io::copy(&mut peer, &mut io::sink()).unwrap()
        });
        stream.write_all(io, &vec![7; BYTES]).unwrap();
        stream.close(io).unwrap();
        while !reader.is_finished() {
            io.poll().unwrap();
        }
        assert_eq!(reader.join().unwrap(), (written + BYTES) as u64);
    });
}

#[test]
fn an_accept_waits_for_a_connection() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    reach(b, address(a, false));
    let mut io = Io::over(engine(b));
    let at_b = SocketAddr::new(address(b, false), 7000);
    let mut listener = b.within(|| Listener::bind(&mut io, &at(at_b), &options(Waiting::Block))).unwrap();
    let begin = Instant::now();
    let nobody = listener.accept_within(&mut io, LATER).err().expect("nobody connects");
    assert!(nobody.kind() == io::ErrorKind::WouldBlock && begin.elapsed() >= LATER);
    let peer = kernel_connect(a, at_b);
    let mut accepted = listener.accept_from(&mut io, Duration::from_secs(10), Some(address(a, false))).unwrap();
    assert_eq!(accepted.peer.map(|peer| peer.ip()), Some(address(a, false)));
    let peer = std::thread::spawn(move || {
        let mut peer = peer.join().unwrap();
        std::thread::sleep(LATER);
        peer.write_all(b"ping").unwrap();
        peer
    });
    let mut buffer = [0; 64];
    assert_eq!(accepted.stream.read(&mut io, &mut buffer).unwrap(), 4, "it waits as the listener's options say");
    accepted.stream.close(&mut io).unwrap();
    drop(peer.join().unwrap());
}
