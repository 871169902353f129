//! Control ends in order: all connections of an engine become the kernel's, however many, accepted or not.

use crate::peer::{
    OURS, THEIRS, accept, carry, connect, established, exchange, kernel_connect, kernel_exchange, kernel_listen,
    listen, poll_until, receive,
};
use crate::roles::start;
use crate::support::{Control, address, engine, ip, is_root_or_say, lab, reach, wait, wait_for_control};
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Host, Lab, Side};
use sidestep_socket::tcp::TcpStream;
use sidestep_socket::{Engine, Path, Reason};
use sidestep_stack::tcp::State;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener};
use std::sync::mpsc::channel;

/// More than are out of service at a time.
const CONNECTIONS: usize = 500;

const HANDED_OVER: Path = Path::Kernel(Reason::HandedOver);

/// Ends control, and polls meanwhile: on the engine's host, where the sockets of the connections are made.
fn end(host: &Host, control: Control, engine: &mut Engine) {
    let poll = || {
        poll_until(engine, std::thread::spawn(move || drop(control)));
        wait("the end of the stack", || {
            engine.poll().unwrap();
            engine.refusal().is_some().then_some(())
        });
        Ok(())
    };
    host.within(poll).unwrap();
    assert_eq!(engine.refusal().map(|(reason, _)| reason), Some(Reason::Released));
}

fn send_all(engine: &mut Engine, stream: TcpStream, bytes: &[u8]) {
    let mut sent = 0;
    wait("room", || {
        engine.poll().unwrap();
        match engine.tcp().send(stream, &bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) => assert!(error.is_would_block(), "{error}"),
        }
        (sent == bytes.len()).then_some(())
    });
}

/// A listener of Linux, with places for all.
fn listen_with_room(local: SocketAddr) -> std::io::Result<KernelListener> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, None)?;
    socket.bind(&local.into())?;
    socket.listen(CONNECTIONS as i32)?;
    Ok(socket.into())
}

#[test]
fn hundreds_of_connections_go_on_when_control_ends() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let mut engine = engine(a);
    let server = b.within(|| Ok(listen_with_room(SocketAddr::new(address(b, false), 0)).unwrap())).unwrap();
    let at = server.local_addr().unwrap();
    let (ended, has_ended) = channel();
    let serving = std::thread::spawn(move || {
        let mut all: Vec<_> = (0..CONNECTIONS).map(|_| server.accept().unwrap().0).collect();
        // Bytes on the way to the program.
        all.iter_mut().for_each(|stream| stream.write_all(b"early").unwrap());
        has_ended.recv().unwrap();
        let mut bytes = [0; 16];
        for stream in &mut all {
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        }
        all.iter_mut().for_each(|stream| assert_eq!(stream.read(&mut bytes).unwrap(), 0));
    });
    let options = engine.tcp().defaults();
    let begin = |_| a.within(|| engine.tcp().connect(at, None, options)).expect("it can begin");
    let all: Vec<_> = (0..CONNECTIONS).map(begin).collect();
    for (number, stream) in all.iter().enumerate() {
        established(&mut engine, *stream);
        assert!(engine.tcp().path(*stream).unwrap().is_accelerated());
        send_all(&mut engine, *stream, &number.to_le_bytes());
    }
    end(a, control, &mut engine);
    ended.send(()).unwrap();
    for (number, stream) in all.iter().enumerate() {
        assert_eq!(engine.tcp().path(*stream).unwrap(), HANDED_OVER, "connection {number}");
        send_all(&mut engine, *stream, &number.to_le_bytes());
    }
    for (number, stream) in all.iter().enumerate() {
        let expected = [&b"early"[..], &number.to_le_bytes(), &number.to_le_bytes()].concat();
        let (mut came, mut buffer) = (Vec::new(), [0; 64]);
        while came.len() < expected.len() {
            let count = receive(&mut engine, *stream, &mut buffer);
            assert!(count > 0, "connection {number} has ended");
            came.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(came, expected);
        engine.tcp().close(*stream).unwrap();
    }
    poll_until(&mut engine, serving);
}

/// Transfers go on, connections that nobody has accepted yet are accepted, and a new control serves new ones.
#[test]
fn everything_goes_on_without_control_and_new_connections_with_the_next_one() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let mut engine = engine(a);
    let ats = [false, true].map(|is_v6| SocketAddr::new(address(a, is_v6), 7000));
    let listeners = ats.map(|at| listen(a, &mut engine, at));
    let mut waiting = Vec::new();
    let mut busy = Vec::new();
    for (at, listener) in ats.into_iter().zip(listeners) {
        let peer = poll_until(&mut engine, kernel_connect(b, at));
        busy.push((accept(&mut engine, listener), kernel_exchange(peer, THEIRS, 1 << 20)));
        waiting.push((listener, poll_until(&mut engine, kernel_connect(b, at))));
    }
    end(a, control, &mut engine);
    for (stream, theirs) in busy {
        assert_eq!(exchange(&mut engine, stream, OURS, 1 << 20), (1 << 20, 1 << 20));
        assert_eq!(poll_until(&mut engine, theirs), (1 << 20, 1 << 20));
        assert_eq!(engine.tcp().path(stream).unwrap(), HANDED_OVER);
    }
    for (listener, peer) in waiting {
        let stream = accept(&mut engine, listener);
        assert_eq!(engine.tcp().path(stream).unwrap(), HANDED_OVER);
        carry(&mut engine, stream, peer, 1 << 20);
    }
    let _control = Control::start(a);
    wait("a stack of the next control", || {
        engine.poll().unwrap();
        engine.refusal().is_none().then_some(())
    });
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let stream = connect(a, &mut engine, server.local_addr().unwrap());
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    carry(&mut engine, stream, server.accept().unwrap().0, 1 << 20);
}

/// Our SYN-ACK has come, so the peer takes the connection for established and sends; its ACK is under way while control ends.
#[test]
fn a_handshake_that_was_answered_is_completed_before_the_stack_ends() {
    if !is_root_or_say() {
        return;
    }
    let [fast, slow] = ["delay=0ms", "delay=300ms"].map(|text| Impairment::parse(text).unwrap());
    let impairment = Some(Directions { a_to_b: fast, b_to_a: slow });
    let lab = Lab::up(&sidestep_lab::Options { impairment, ..Default::default() }).expect("root can make a lab");
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    for is_v6 in [false, true] {
        let control = Control::start(a);
        let mut engine = engine(a);
        let at = SocketAddr::new(address(a, is_v6), 7000);
        let listener = listen(a, &mut engine, at);
        reach(b, address(a, is_v6));
        let mut peer = poll_until(&mut engine, kernel_connect(b, at));
        peer.write_all(b"early").unwrap();
        assert!(engine.tcp().accept(listener).unwrap().is_none(), "its ACK is under way");
        end(a, control, &mut engine);
        let stream = accept(&mut engine, listener);
        assert_eq!(engine.tcp().path(stream).unwrap(), HANDED_OVER);
        let mut buffer = [0; 16];
        assert_eq!(receive(&mut engine, stream, &mut buffer), 5);
        drop(engine);
    }
}

/// Nobody has answered its SYN: the kernel sends one of its own, and the connection is made.
#[test]
fn a_connection_that_is_not_answered_yet_is_made_by_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    for is_v6 in [false, true] {
        for is_named in [false, true] {
            let control = Control::start(a);
            let mut engine = engine(a);
            reach(a, address(b, is_v6));
            let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
            let local = is_named.then(|| SocketAddr::new(address(a, is_v6), 7000));
            let way = format!("{}/{}", address(a, is_v6), if is_v6 { 128 } else { 32 });
            let family = if is_v6 { "-6" } else { "-4" };
            ip(b, &format!("{family} route add blackhole {way}"));
            let options = engine.tcp().defaults();
            let stream = a.within(|| engine.tcp().connect(server.local_addr().unwrap(), local, options)).unwrap();
            wait("a SYN", || {
                engine.poll().unwrap();
                let facts = engine.tcp().facts(stream).unwrap()?;
                (facts.state == State::SynSent && facts.segments_out > 0).then_some(())
            });
            end(a, control, &mut engine);
            ip(b, &format!("{family} route del blackhole {way}"));
            a.within(|| {
                established(&mut engine, stream);
                Ok(())
            })
            .unwrap();
            assert_eq!(engine.tcp().path(stream).unwrap(), Path::Kernel(Reason::Released));
            assert!(local.is_none_or(|local| engine.tcp().ends(stream).unwrap().0 == local));
            carry(&mut engine, stream, server.accept().unwrap().0, 1 << 16);
            engine.tcp().close(stream).unwrap();
        }
    }
}

/// A program that is stopped hands nothing over: control ends all the same, and leaves nothing attached.
#[test]
fn a_stopped_program_does_not_keep_control() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(a);
    let at = SocketAddr::new(address(a, false), 7000);
    let mut program = start(a, "stream", Some(at), None);
    program.line("Accelerated");
    let mut peer = kernel_connect(b, at).join().unwrap();
    peer.write_all(b"hello").unwrap();
    peer.read_exact(&mut [0; 5]).unwrap();
    program.signal(libc::SIGSTOP);
    drop(control);
    // The next one starts on a clean host.
    let _control = Control::start(a);
    wait_for_control(a);
}
