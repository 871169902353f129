//! What happens seldom: both ends begin at once, windows of a few bytes, a peer that is gone without a word, a program that has two
//! engines or never polls; the peer is Linux.

use crate::peer::{
    accept, ask, carry, connect, heard, join, kernel_connect, kernel_listen, listen, poll_until, serving,
};
use crate::support::{Control, address, bind, engine, ip, is_root_or_say, kernel, lab, reach, wait};
use sidestep_lab::Side;
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Host, Lab};
use sidestep_socket::tcp::{Options, TcpError, TcpStream};
use sidestep_socket::{Engine, Path, Reason};
use sidestep_stack::tcp::{Error, KeepAlive, Readiness};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::time::Duration;

/// Linux begins to connect from an address of its own, and does not wait for the end.
fn begin_there(host: &Host, from: SocketAddr, to: SocketAddr) -> Socket {
    let begin = || -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(from), Type::STREAM, None)?;
        socket.bind(&from.into())?;
        socket.set_nonblocking(true)?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    };
    host.within(|| Ok(begin().expect("the port is free"))).expect("root can")
}

/// Whether a connection from here comes about.
fn comes_about(engine: &mut Engine, stream: TcpStream) -> bool {
    wait("an end or a connection", || {
        engine.poll().unwrap();
        let ready = engine.tcp().readiness(stream).unwrap();
        (ready != Readiness::NONE).then_some(!ready.has(Readiness::ERROR))
    })
}

/// RFC 9293 section 3.5, figure 7, the other end being Linux. Nobody listens: a connection comes about only if both SYNs were under
/// way at once.
#[test]
fn a_simultaneous_open_with_linux() {
    if !is_root_or_say() {
        return;
    }
    let slow = Impairment::parse("delay=100ms").unwrap();
    let impairment = Some(Directions { a_to_b: slow.clone(), b_to_a: slow });
    let lab = Lab::up(&sidestep_lab::Options { impairment, ..Default::default() }).expect("root can make a lab");
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        reach(b, address(a, is_v6));
        let mut ports = 7000..7100;
        let (stream, peer) = wait("two SYNs that cross", || {
            let port = ports.next().expect("one of them comes about");
            let [here, there] = [b, a].map(|host| SocketAddr::new(address(host, is_v6), port));
            let options = engine.tcp().defaults();
            let peer = begin_there(a, there, here);
            let stream = b.within(|| engine.tcp().connect(there, Some(here), options)).unwrap();
            let is_open = comes_about(&mut engine, stream);
            if is_open && engine.tcp().path(stream).unwrap().is_accelerated() {
                return Some((stream, peer));
            }
            engine.tcp().close(stream).unwrap();
            None
        });
        let peer = KernelStream::from(peer);
        peer.set_nonblocking(false).unwrap();
        carry(&mut engine, stream, peer, 100_000);
        engine.tcp().close(stream).unwrap();
    }
}

/// A reader that takes a byte at a time, with the smallest buffer that Linux gives: no segment for each byte, and every byte
/// arrives.
#[test]
fn linux_reads_a_byte_at_a_time() {
    const BYTES: usize = 20_000;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        reach(b, address(a, is_v6));
        let server = kernel_listen(a, SocketAddr::new(address(a, is_v6), 0));
        // What is accepted has the listener's.
        socket2::SockRef::from(&server).set_recv_buffer_size(1).unwrap();
        let stream = connect(b, &mut engine, server.local_addr().unwrap());
        let mut peer = server.accept().unwrap().0;
        let reading = std::thread::spawn(move || {
            let (mut sum, mut byte) = (0_usize, [0]);
            while peer.read(&mut byte).unwrap() == 1 {
                assert_eq!(byte[0], sum as u8);
                sum += 1;
            }
            sum
        });
        let sent: Vec<u8> = (0..BYTES).map(|number| number as u8).collect();
        assert_eq!(engine.tcp().send(stream, &sent), Ok(BYTES));
        engine.tcp().shutdown(stream, sidestep_stack::tcp::Shutdown::Write).unwrap();
        assert_eq!(poll_until(&mut engine, reading), BYTES);
        let facts = engine.tcp().facts(stream).unwrap().expect("it is past the kernel");
        assert!(facts.segments_out < BYTES as u64 / 10, "{facts:?}");
        engine.tcp().close(stream).unwrap();
    }
}

/// The other way round: the window is not opened by a byte, so Linux does not send by the byte.
#[test]
fn we_read_a_byte_at_a_time() {
    const BYTES: usize = 200_000;
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let at = SocketAddr::new(address(b, is_v6), 7000);
        let options = Options { receive_buffer_bytes: 8192, ..engine.tcp().defaults() };
        let listener = b.within(|| engine.tcp().listen(at, 16, options)).unwrap();
        let (stream, mut peer) = join(a, &mut engine, listener, at);
        let writing = std::thread::spawn(move || {
            let sent: Vec<u8> = (0..BYTES).map(|number| number as u8).collect();
            peer.write_all(&sent).unwrap();
        });
        let (mut sum, mut byte) = (0_usize, [0]);
        wait("the end", || {
            engine.poll().unwrap();
            match engine.tcp().read(stream, &mut byte) {
                Ok(0) => return Some(()),
                Ok(_) => {
                    assert_eq!(byte[0], sum as u8);
                    sum += 1;
                }
                Err(error) => assert!(error.is_would_block(), "{error}"),
            }
            None
        });
        assert_eq!(sum, BYTES);
        poll_until(&mut engine, writing);
        let facts = engine.tcp().facts(stream).unwrap().expect("it is past the kernel");
        assert!(facts.segments_in < BYTES as u64 / 100, "{facts:?}");
        engine.tcp().close(stream).unwrap();
        engine.tcp().close_listener(listener).unwrap();
    }
}

/// The peer's address is nobody's any more: nothing is answered, and its probes say that it is gone.
#[test]
fn keep_alive_finds_a_peer_that_has_vanished() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for is_v6 in [false, true] {
        let listener = listen(b, &mut engine, SocketAddr::new(address(b, is_v6), 7000));
        let (stream, mut peer) = join(a, &mut engine, listener, SocketAddr::new(address(b, is_v6), 7000));
        ask(&mut engine, stream, &mut peer, b"hello");
        let options = engine.tcp().options(stream).unwrap().unwrap();
        let soon = KeepAlive { idle_ns: 100_000_000, interval_ns: 100_000_000, probes_max: 5 };
        engine.tcp().set_options(stream, Options { keepalive: Some(soon), ..options }).unwrap();
        let prefix = if is_v6 { 64 } else { 24 };
        ip(a, &format!("address del {}/{prefix} dev {}", address(a, is_v6), a.interface));
        let error = wait("the end", || {
            engine.poll().unwrap();
            engine.tcp().read(stream, &mut [0; 8]).err().filter(|error| !error.is_would_block())
        });
        assert_eq!(error, TcpError::Stack(Error::TimedOut));
        engine.tcp().close(stream).unwrap();
    }
}

/// In one thread, at both ends of a wire, and a third that finds no queue: each does its own, and goes without harm to the others.
#[test]
fn engines_of_one_program() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _controls = [Control::start(a), Control::start(b)];
    let (mut client, mut server) = (engine(a), engine(b));
    let mut third = b.within(|| Engine::open(&sidestep_socket::EngineOptions::on(&b.interface))).unwrap();
    assert_eq!(third.refusal().unwrap().0, Reason::NoFreeQueue);
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut server, at);
    let beside = listen(b, &mut third, SocketAddr::new(at.ip(), 7001));
    let options = client.tcp().defaults();
    let ends = [at, SocketAddr::new(at.ip(), 7001)].map(|to| {
        let ours = a.within(|| client.tcp().connect(to, None, options)).unwrap();
        wait("both ends", || {
            client.poll().unwrap();
            let (engine, listener) = if to == at { (&mut server, listener) } else { (&mut third, beside) };
            engine.poll().unwrap();
            Some((ours, engine.tcp().accept(listener).unwrap()?))
        })
    });
    assert!(client.tcp().path(ends[0].0).unwrap().is_accelerated());
    assert!(server.tcp().path(ends[0].1).unwrap().is_accelerated());
    assert_eq!(third.tcp().path(ends[1].1), Ok(Path::Kernel(Reason::NoFreeQueue)));
    let talk = |client: &mut Engine, other: &mut Engine, (ours, theirs): (TcpStream, TcpStream)| {
        for number in 0..100_u32 {
            let mut buffer = [0; 8];
            wait("the question", || {
                client.poll().unwrap();
                (client.tcp().send(ours, &number.to_le_bytes()) == Ok(4)).then_some(())
            });
            wait("the answer", || {
                client.poll().unwrap();
                other.poll().unwrap();
                if let Ok(count) = other.tcp().read(theirs, &mut buffer) {
                    assert_eq!(other.tcp().send(theirs, &buffer[..count]), Ok(count));
                }
                client.tcp().read(ours, &mut buffer).is_ok().then_some(())
            });
            assert_eq!(buffer[..4], number.to_le_bytes());
        }
    };
    talk(&mut client, &mut server, ends[0]);
    talk(&mut client, &mut third, ends[1]);
    drop(server);
    talk(&mut client, &mut third, ends[1]);
    wait("the end of the other", || {
        client.poll().unwrap();
        matches!(client.tcp().read(ends[0].0, &mut [0; 8]), Ok(0)).then_some(())
    });
}

/// It opens, binds, listens, and is busy with something else: its datagrams are with the kernel, whoever connects waits, nobody
/// else is disturbed, and the first poll takes everything up.
#[test]
fn a_program_that_never_polls() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let socket = bind(b, &mut engine, at);
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    let twin: std::net::UdpSocket = engine.twin(socket).unwrap().try_clone_to_owned().unwrap().into();
    twin.set_nonblocking(true).unwrap();
    // An owner that is silent for a second is taken for stopped.
    wait("a datagram with the kernel", || {
        client.send_to(b"anybody?", at).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        match twin.recv(&mut [0; 16]) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                None
            }
            Ok(count) => (count == 8).then_some(()),
        }
    });
    let waiting = kernel_connect(a, at);
    // The kernel's own go on meanwhile.
    let neighbour = kernel_listen(b, SocketAddr::new(at.ip(), 0));
    let mut near = a.within(|| Ok(KernelStream::connect(neighbour.local_addr().unwrap()).unwrap())).unwrap();
    near.write_all(b"hello").unwrap();
    let mut heard_there = [0; 5];
    neighbour.accept().unwrap().0.read_exact(&mut heard_there).unwrap();
    assert_eq!(&heard_there, b"hello");
    let stream = accept(&mut engine, listener);
    let mut peer = poll_until(&mut engine, waiting);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    engine.tcp().send(stream, b"at last").unwrap();
    let mut words = [0; 7];
    heard(&mut engine, &mut peer, &mut words).unwrap();
    assert_eq!(&words, b"at last");
    wait("datagrams past the kernel", || {
        client.send_to(b"anybody?", at).unwrap();
        let datagram = engine.receive(socket).unwrap()?;
        let is_past = !datagram.by_kernel();
        engine.release(datagram);
        is_past.then_some(())
    });
}

/// It neither polls nor ends in order: what it held is given back, and its peers are told.
#[test]
fn one_that_never_polls_and_is_dropped() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut first, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut first, listener, at);
    peer.write_all(b"unread").unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    drop((stream, first));
    // What came is unread in the ring, or was read and by nobody: a reset, as the kernel would.
    let error = wait("the end", || match peer.read(&mut [0; 8]) {
        Err(error) => Some(error.kind()),
        Ok(count) => panic!("{count} bytes of nobody"),
    });
    assert_eq!(error, ErrorKind::ConnectionReset);
    // The queue is free again.
    let _next = engine(b);
}
