//! Sockets of a program beside those past the kernel: never read, written or changed here.

use crate::hub::{Hub, duplicate, with_hub};
use crate::support::{address, message, wait as until};
use sidestep_lab::Host;
use sidestep_socket::shared::{SocketEvent, Waker};
use sidestep_socket::tcp::{Answering, Counter, Readiness, TcpListener};
use sidestep_socket::{Path, Reason, SendError, UdpOptions};
use socket2::{Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream, UdpSocket};
use std::time::Duration;

fn is_untouched(twin: &Socket) {
    assert!(!twin.nonblocking().unwrap(), "its flags are the program's");
    assert_eq!(twin.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
}

#[test]
fn a_connection_takes_the_port_that_the_programs_socket_has_or_one_of_the_pool() {
    with_hub(2, Duration::ZERO, |hub, b| {
        let server = b.within(|| Ok(KernelListener::bind((b.ipv4, 0)).unwrap())).unwrap();
        let at = server.local_addr().unwrap();
        let waker = Waker::new().unwrap();
        let (stream, twin) = hub.connect(&waker, at);
        let (_peer, from) = server.accept().unwrap();
        is_untouched(&twin);
        assert_eq!(hub.with(|engine| engine.tcp().facts(stream)).unwrap().unwrap().flow.local(), from);
        hub.close(stream);

        let twin = hub.socket(Type::STREAM);
        let named = SocketAddr::new(address(&hub.host, false), 7200);
        twin.bind(&named.into()).unwrap();
        let proof = duplicate(&twin);
        let stream = hub.with(|engine| {
            let options = engine.tcp().defaults();
            engine.tcp().connect_beside(proof, at, options).unwrap()
        });
        hub.watched.add(SocketEvent::Stream(stream), &waker);
        hub.wait(&waker, |engine| engine.tcp().readiness(stream).unwrap().has(Readiness::WRITABLE).then_some(()));
        let (mut peer, from) = server.accept().unwrap();
        assert_eq!(from, named);
        is_untouched(&twin);
        peer.write_all(b"to a named port").unwrap();
        assert_eq!(hub.read(&waker, stream, &mut [0; 64]), 15);
        hub.close(stream);
    });
}

/// At once, and after waiting for a neighbour that does not answer.
#[test]
fn a_detour_is_told_and_the_programs_socket_connects_itself() {
    with_hub(1, Duration::ZERO, |hub, b| {
        let waker = Waker::new().unwrap();
        let local = hub.host.within(|| Ok(KernelListener::bind("127.0.0.1:0").unwrap())).unwrap();
        let begin = |to: SocketAddr| {
            let twin = hub.socket(Type::STREAM);
            let proof = duplicate(&twin);
            let stream = hub.with(|engine| {
                let options = engine.tcp().defaults();
                engine.tcp().connect_beside(proof, to, options).unwrap()
            });
            hub.watched.add(SocketEvent::Stream(stream), &waker);
            (stream, twin)
        };
        let (stream, twin) = begin(local.local_addr().unwrap());
        assert_eq!(hub.with(|engine| engine.tcp().detour(stream)), Ok(Some(Reason::LoopbackOrLocal)));
        is_untouched(&twin);
        twin.connect(&local.local_addr().unwrap().into()).unwrap();
        hub.close(stream);

        let mut nobody = b.ipv4.octets();
        nobody[3] = 77;
        let (stream, twin) = begin((nobody, 80).into());
        let reason = hub.wait(&waker, |engine| engine.tcp().detour(stream).unwrap());
        assert!(matches!(reason, Reason::NeighbourPending | Reason::NeighbourFailed), "{reason:?}");
        assert_eq!(hub.with(|engine| engine.tcp().path(stream)), Ok(Path::Kernel(reason)));
        is_untouched(&twin);
        assert_eq!(twin.local_addr().unwrap().as_socket().unwrap().port(), 0, "it was not bound, either");
        hub.close(stream);
    });
}

fn kernel_connect(b: &Host, at: SocketAddr) -> KernelStream {
    b.within(|| Ok(KernelStream::connect(at).unwrap())).unwrap()
}

fn ask(hub: &Hub, waker: &Waker, listener: TcpListener, peer: &mut KernelStream) {
    let stream = hub.accept(waker, listener);
    peer.write_all(b"ask").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(hub.read(waker, stream, &mut buffer), 3);
    hub.write_all(waker, stream, &buffer[..3]);
    peer.read_exact(&mut buffer[..3]).unwrap();
    hub.close(stream);
}

#[test]
fn a_listener_stands_beside_one_that_listens_already_or_later() {
    with_hub(1, Duration::ZERO, |hub, b| {
        let waker = Waker::new().unwrap();
        for (port, listens_before) in [(7300, true), (7301, false)] {
            let twin = hub.socket(Type::STREAM);
            let at = SocketAddr::new(address(&hub.host, false), port);
            twin.bind(&at.into()).unwrap();
            if listens_before {
                twin.listen(5).unwrap();
            }
            let proof = duplicate(&twin);
            let listener = hub.with(|engine| {
                let options = engine.tcp().defaults();
                engine.tcp().listen_beside(proof, 5, options, Answering::AtOnce).unwrap()
            });
            twin.listen(7).unwrap();
            hub.watched.add(SocketEvent::Listener(listener), &waker);
            until("its path", || {
                hub.engine.poll().unwrap();
                hub.with(|engine| engine.tcp().listener_path(listener)).unwrap().is_accelerated().then_some(())
            });
            let mut peer = kernel_connect(b, at);
            ask(hub, &waker, listener, &mut peer);
            // What comes by the kernel is the program's to accept.
            let here = std::thread::spawn({
                let host = hub.host.clone();
                move || host.within(|| Ok(KernelStream::connect(at).unwrap())).unwrap()
            });
            let (_by_kernel, _) = twin.accept().unwrap();
            let _here = here.join().unwrap();
            assert!(!twin.nonblocking().unwrap());
            hub.with(|engine| engine.tcp().close_listener(listener)).unwrap();
        }
    });
}

/// Another process may have it, too.
#[test]
fn a_listener_that_is_left_leaves_the_programs_socket_listening_and_its_connections_open() {
    with_hub(1, Duration::ZERO, |hub, b| {
        let waker = Waker::new().unwrap();
        let (listener, twin) = hub.listen(7400);
        let at = SocketAddr::new(address(&hub.host, false), 7400);
        hub.watched.add(SocketEvent::Listener(listener), &waker);
        let mut peer = kernel_connect(b, at);
        let stream = hub.accept(&waker, listener);
        assert!(hub.with(|engine| engine.tcp().path(stream)).unwrap().is_accelerated());
        hub.with(|engine| engine.tcp().leave_listener(listener)).unwrap();
        // Until control has removed the steering entry SYNs are lost, not reset.
        let mut later = kernel_connect(b, at);
        let (mut accepted, _) = twin.accept().unwrap();
        later.write_all(b"by the kernel").unwrap();
        accepted.read_exact(&mut [0; 13]).unwrap();
        let sent = message(3, 5_000);
        peer.write_all(&sent).unwrap();
        let (mut got, mut at) = (vec![0; sent.len()], 0);
        while at < got.len() {
            at += hub.read(&waker, stream, &mut got[at..]);
        }
        assert_eq!(got, sent);
        hub.close(stream);
    });
}

/// What a program that has not waited for connections may leave to a child: no peer is answered before it does.
#[test]
fn a_listener_answers_once_its_connections_are_awaited_and_one_that_is_left_before_resets_nobody() {
    with_hub(1, Duration::ZERO, |hub, b| {
        let waker = Waker::new().unwrap();
        for (port, is_awaited) in [(7410, true), (7411, false)] {
            let (listener, twin) = hub.listen_answering(port, Answering::OnceAwaited);
            let at = SocketAddr::new(address(&hub.host, false), port);
            hub.watched.add(SocketEvent::Listener(listener), &waker);
            assert!(hub.with(|engine| engine.tcp().listener_path(listener)).unwrap().is_accelerated());
            let segments = |hub: &Hub| {
                hub.engine.poll().unwrap();
                hub.with(|engine| engine.tcp().count(Counter::SegmentsIn))
            };
            let before = segments(hub);
            let there = std::thread::spawn({
                let b = b.clone();
                move || kernel_connect(&b, at)
            });
            until("its SYN", || (segments(hub) > before).then_some(()));
            if is_awaited {
                hub.with(|engine| engine.tcp().begin_answering(listener)).unwrap();
                let mut peer = there.join().unwrap();
                ask(hub, &waker, listener, &mut peer);
                hub.with(|engine| engine.tcp().close_listener(listener)).unwrap();
            } else {
                hub.with(|engine| engine.tcp().leave_listener(listener)).unwrap();
                let (mut accepted, _) = twin.accept().unwrap();
                // By its second SYN.
                let mut peer = there.join().unwrap();
                peer.write_all(b"by the kernel").unwrap();
                accepted.read_exact(&mut [0; 13]).unwrap();
            }
        }
    });
}

#[test]
fn datagrams_come_beside_those_of_the_programs_socket_and_each_is_told() {
    with_hub(2, Duration::ZERO, |hub, b| {
        let waker = Waker::new().unwrap();
        let twin = hub.socket(Type::DGRAM);
        let at = SocketAddr::new(address(&hub.host, false), 7500);
        twin.bind(&at.into()).unwrap();
        let proof = duplicate(&twin);
        let socket = hub.with(|engine| engine.bind_beside(proof, &UdpOptions::default())).unwrap();
        until("its path", || {
            hub.engine.poll().unwrap();
            hub.with(|engine| engine.path(socket)).unwrap().is_accelerated().then_some(())
        });
        hub.watched.add(SocketEvent::Datagrams(socket), &waker);
        let there = b.within(|| Ok(UdpSocket::bind((b.ipv4, 0)).unwrap())).unwrap();
        for number in 0..20 {
            let sent = message(number, 200);
            there.send_to(&sent, at).unwrap();
            // Unread ones stay: each is news all the same.
            hub.wait(&waker, |engine| (engine.unread(socket).unwrap() > number as usize).then_some(()));
        }
        for number in 0..20 {
            let mut buffer = [0; 300];
            let got = hub.with(|engine| engine.receive_into(socket, &mut buffer)).unwrap();
            assert_eq!(got, Some((200, there.local_addr().unwrap())));
            assert_eq!(buffer[..200], message(number, 200)[..]);
        }
        assert_eq!(hub.with(|engine| engine.unread(socket)), Ok(0));
        let mut buffer = [0; 64];
        until("the neighbour", || {
            hub.engine.poll().unwrap();
            match hub.with(|engine| engine.send_to(socket, b"answer", there.local_addr().unwrap())) {
                Ok(()) => Some(()),
                Err(SendError::Beside) => None,
                Err(error) => panic!("{error}"),
            }
        });
        assert_eq!(there.recv_from(&mut buffer).unwrap(), (6, at));
        // Where there is no path past the kernel the program sends by its own socket.
        let here: SocketAddr = "127.0.0.1:9".parse().unwrap();
        assert_eq!(hub.with(|engine| engine.send_to(socket, b"here", here)), Err(SendError::Beside));
        let local = hub.host.within(|| Ok(UdpSocket::bind((hub.host.ipv4, 0)).unwrap())).unwrap();
        local.send_to(b"by the kernel", at).unwrap();
        let mut got = [std::mem::MaybeUninit::uninit(); 64];
        assert_eq!(twin.recv_from(&mut got).unwrap().0, 13);
        assert!(!twin.nonblocking().unwrap());
        hub.with(|engine| engine.close(socket)).unwrap();
    });
}
