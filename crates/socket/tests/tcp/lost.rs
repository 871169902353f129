//! Owners that stop, fork or die, and stacks that go away, with connections open.

use crate::peer::{
    accept, ask, connect, heard, join, kernel_connect, kernel_listen, listen, poll_until, receive, serving,
};
use crate::roles::start;
use crate::support::{Control, address, child, engine, ip, lab, relink, wait, wait_for_control};
use sidestep_control_api::client::Client;
use sidestep_lab::Side;
use sidestep_socket::tcp::TcpError;
use sidestep_socket::{Path, Reason};
use sidestep_stack::tcp::Readiness;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::time::Duration;

#[test]
fn an_owner_that_was_stopped_for_a_while_keeps_its_connections() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"before");
    // Longer than the second after which datagrams go to the kernel. Its TCP would answer this with a reset.
    std::thread::sleep(Duration::from_millis(1300));
    peer.write_all(b"meanwhile ").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let mut buffer = [0; 64];
    let count = receive(&mut engine, stream, &mut buffer);
    assert_eq!(&buffer[..count], b"meanwhile ");
    ask(&mut engine, stream, &mut peer, b"after");
}

#[test]
fn a_connection_outlives_a_neighbour_that_was_forgotten() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"before");
    // Nothing that this host's kernel sends makes it ask for the neighbour again.
    ip(b, &format!("neigh flush dev {}", b.interface));
    assert_eq!(engine.tcp().send(stream, b"hearing"), Ok(7));
    let mut bytes = [0; 7];
    heard(&mut engine, &mut peer, &mut bytes).unwrap();
    assert_eq!(&bytes, b"hearing");
    ask(&mut engine, stream, &mut peer, b"after");
}

#[test]
fn a_connection_outlives_an_address_that_comes_back() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let server = kernel_listen(a, SocketAddr::new(address(a, false), 0));
    let stream = connect(b, &mut engine, server.local_addr().unwrap());
    let mut peer = server.accept().unwrap().0;
    ask(&mut engine, stream, &mut peer, b"before");
    ip(b, &format!("address del {}/24 dev {}", b.ipv4, b.interface));
    peer.write_all(b"meanwhile").unwrap();
    assert_eq!(engine.tcp().send(stream, b"into the dark"), Ok(13));
    let until = std::time::Instant::now() + Duration::from_millis(300);
    while std::time::Instant::now() < until {
        engine.poll().unwrap();
    }
    ip(b, &format!("address add {}/24 dev {}", b.ipv4, b.interface));
    let mut buffer = [0; 64];
    let count = receive(&mut engine, stream, &mut buffer);
    assert_eq!(&buffer[..count], b"meanwhile");
    let mut bytes = [0; 13];
    heard(&mut engine, &mut peer, &mut bytes).unwrap();
    assert_eq!(&bytes, b"into the dark");
    ask(&mut engine, stream, &mut peer, b"after");
}

#[test]
fn a_forked_child_leaves_the_connections_alone() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"before");
    engine = child(engine, |mut engine| {
        let refused = engine.tcp().read(stream, &mut [0; 8]).is_err_and(|error| error.errno() == libc::EPERM)
            && engine.tcp().abort(stream).is_err()
            && engine.tcp().close_listener(listener).is_err();
        drop(engine);
        refused
    });
    ask(&mut engine, stream, &mut peer, b"after");
    let peer = kernel_connect(a, at);
    accept(&mut engine, listener);
    poll_until(&mut engine, peer);
}

#[test]
fn the_peers_of_a_process_that_was_killed_are_reset_and_nothing_stays_attached() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let mut owner = start(b, "stream", Some(at), None);
    assert!(owner.line("path ").contains("Accelerated"));
    let mut peer = poll_join(kernel_connect(a, at));
    peer.write_all(b"hello").unwrap();
    peer.read_exact(&mut [0; 5]).unwrap();
    owner.kill();
    // It goes on sending, as a transfer would.
    let error = wait("a reset", || peer.write_all(&[7; 1000]).and_then(|()| peer.read(&mut [0; 1000])).err());
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    // The kernel's listener ends when control has let go of it, too.
    let connect = || a.within(|| Ok(KernelStream::connect(at).err().map(|error| error.kind()))).unwrap();
    wait("a refusal", || connect().filter(|kind| *kind == ErrorKind::ConnectionRefused));
    let mut asking = b.within(|| Ok(Client::connect("test").unwrap())).unwrap();
    wait("the end of its stack", || {
        asking.clients().unwrap().iter().all(|client| client.stacks.is_empty()).then_some(())
    });
    // The program waits for the next stack, and ends with control.
    let attached = || b.within(|| sidestep_sys::xdp::device("lab0")).unwrap().xdp_program;
    assert!(attached().is_some());
    drop((asking, control));
    assert_eq!(attached(), None);
}

fn poll_join<T>(thread: std::thread::JoinHandle<T>) -> T {
    thread.join().unwrap()
}

/// Streams end with the stack, listeners go on by the kernel, and past it when it is back.
#[test]
fn streams_are_lost_with_the_interface_and_listeners_come_back_with_it() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut engine, "0.0.0.0:7000".parse().unwrap());
    let (accepted, _peer) = join(a, &mut engine, listener, at);
    let server = kernel_listen(a, SocketAddr::new(address(a, false), 0));
    let connected = connect(b, &mut engine, server.local_addr().unwrap());
    relink(a, b, || {
        wait("the loss", || {
            engine.poll().unwrap();
            engine.refusal().filter(|(reason, _)| *reason == Reason::Revoked).map(drop)
        });
        for stream in [accepted, connected] {
            assert_eq!(engine.tcp().read(stream, &mut [0; 8]), Err(TcpError::Lost(Reason::Revoked)));
            assert_eq!(engine.tcp().send(stream, b"more").unwrap_err().errno(), libc::ECONNABORTED);
            assert_eq!(engine.tcp().path(stream), Ok(Path::Kernel(Reason::Revoked)));
            let ready = engine.tcp().readiness(stream).unwrap();
            assert!(ready.has(Readiness::ERROR) && ready.has(Readiness::HANGUP));
            assert_eq!(engine.tcp().take_error(stream), Ok(Some(TcpError::Lost(Reason::Revoked))));
            assert_eq!(engine.tcp().close(stream), Ok(()));
            assert!(engine.tcp().close(stream).is_err(), "its handle is gone");
        }
        assert_eq!(engine.tcp().listener_path(listener), Ok(Path::Kernel(Reason::Revoked)));
        // By the kernel meanwhile, from this host itself.
        let near = kernel_connect(b, "127.0.0.1:7000".parse().unwrap());
        let stream = accept(&mut engine, listener);
        assert_eq!(engine.tcp().path(stream), Ok(Path::Kernel(Reason::Revoked)));
        poll_until(&mut engine, near);
    });
    wait("the way past the kernel", || {
        engine.poll().unwrap();
        engine.tcp().listener_path(listener).unwrap().is_accelerated().then_some(())
    });
    assert_eq!(engine.refusal(), None);
    let peer = kernel_connect(a, at);
    let stream = accept(&mut engine, listener);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    let mut peer = poll_until(&mut engine, peer);
    ask(&mut engine, stream, &mut peer, b"again");
    let again = connect(b, &mut engine, server.local_addr().unwrap());
    assert!(engine.tcp().path(again).unwrap().is_accelerated());
}

/// What a killed control has left was removed, so the next one knows nothing of the stack.
#[test]
fn a_stack_that_control_has_forgotten_is_opened_again() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = start(b, "control", None, None);
    wait_for_control(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut engine, at);
    let peer = kernel_connect(a, at);
    let stream = accept(&mut engine, listener);
    poll_until(&mut engine, peer);
    control.kill();
    assert_eq!(b.within(sidestep_control::cleanup).unwrap(), 1);
    let control = start(b, "control", None, None);
    wait("the loss", || {
        engine.poll().unwrap();
        engine.tcp().read(stream, &mut [0; 8]).is_err_and(|error| matches!(error, TcpError::Lost(_))).then_some(())
    });
    wait("the way past the kernel", || {
        engine.poll().unwrap();
        engine.tcp().listener_path(listener).unwrap().is_accelerated().then_some(())
    });
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"again");
    drop(engine);
    drop(control);
    b.within(sidestep_control::cleanup).unwrap();
}
