//! Listeners while their rule is being asked for: of a control that answers, that is stopped, that dies.

use crate::peer::{accept, ask, join, kernel_connect, listen, poll_until, receive};
use crate::roles::{Process, ROLE, start};
use crate::support::{Control, WATCHDOG, address, bind, engine, lab, wait, wait_for_control};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::tcp::TcpError;
use sidestep_socket::{Path, Reason};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream as KernelStream};
use std::time::{Duration, Instant};

/// Its twin listens before the rule stands, to prove the port. A connection that the kernel took up meanwhile would keep the
/// port from being steered until it ends: a day, for a session of FIX.
#[test]
fn who_connects_before_the_rule_stands_comes_past_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    for port in 7000..7010 {
        let at = SocketAddr::new(address(b, false), port);
        let there = a.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let insisting = std::thread::spawn(move || {
            let connect = || {
                let begin = Instant::now();
                loop {
                    match KernelStream::connect(at) {
                        Ok(stream) => return Ok(stream),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
                    }
                    let _ = tell.send(());
                    assert!(begin.elapsed() < WATCHDOG);
                }
            };
            there.within(connect).unwrap()
        });
        told.recv_timeout(WATCHDOG).expect("it is refused at first");
        let listener = listen(b, &mut engine, at);
        assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
        let stream = accept(&mut engine, listener);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let mut peer = poll_until(&mut engine, insisting);
        ask(&mut engine, stream, &mut peer, b"hello");
    }
}

/// The kernel gives up a port that it chose itself when listening ends; with it the proof for what was accepted would go.
#[test]
fn connections_outlive_a_listener_whose_port_the_kernel_chose() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let listener = listen(b, &mut engine, SocketAddr::new(address(b, false), 0));
    let at = engine.tcp().local(listener).unwrap();
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    engine.tcp().close_listener(listener).unwrap();
    // Control looks at the proofs once a second.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        ask(&mut engine, stream, &mut peer, b"still here");
    }
}

/// A rule that control makes after its asker has given up brings connections all the same: they are answered.
#[test]
fn a_rule_that_comes_late_resets_nobody() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = start(b, "control", None, None);
    wait_for_control(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    control.signal(libc::SIGSTOP);
    let listener = listen(b, &mut engine, at);
    assert_eq!(engine.tcp().listener_path(listener), Ok(Path::Kernel(Reason::ControlSilent)));
    control.signal(libc::SIGCONT);
    wait("a connection past the kernel", || {
        let mut peer = poll_until(&mut engine, kernel_connect(a, at));
        let stream = accept(&mut engine, listener);
        ask(&mut engine, stream, &mut peer, b"hello");
        let is_past = engine.tcp().path(stream).unwrap().is_accelerated();
        engine.tcp().abort(stream).unwrap();
        is_past.then_some(())
    });
    assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
    drop(engine);
    control.kill();
    b.within(sidestep_control::cleanup).unwrap();
}

/// A control plane in a mount namespace of its own, where its pins end with it.
fn private_control(host: &Host) -> Process {
    let mut command = host.command(std::env::current_exe().unwrap().to_str().unwrap()).unwrap();
    command.args(["roles::a_role_of_another_process", "--exact", "--nocapture"]).env(ROLE, "control");
    sidestep_sys::process::die_with_parent(&mut command);
    let control = Process(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    wait_for_control(host);
    control
}

/// With control its program goes, and the kernel resets the connections that it does not know. Nobody but the engine itself is
/// there to tell the program.
#[test]
fn what_ends_with_a_killed_control_is_told_without_another() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut control = private_control(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let listener = listen(b, &mut engine, at);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"before");
    let socket = bind(b, &mut engine, at);
    assert!(engine.path(socket).unwrap().is_accelerated());
    control.kill();
    wait("the news", || {
        engine.poll().unwrap();
        engine
            .tcp()
            .read(stream, &mut [0; 8])
            .is_err_and(|error| error == TcpError::Lost(Reason::Revoked))
            .then_some(())
    });
    assert_eq!(engine.path(socket), Ok(Path::Kernel(Reason::Revoked)));
    assert!(engine.refusal().is_some_and(|(_, text)| text.contains("was detached")), "{:?}", engine.refusal());
    // Whoever connects is served, by the kernel.
    let peer = kernel_connect(a, at);
    let stream = accept(&mut engine, listener);
    std::io::Write::write_all(&mut poll_until(&mut engine, peer), b"after").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(receive(&mut engine, stream, &mut buffer), 5);
    // And past it again once there is a control.
    let control = private_control(b);
    wait("the way past the kernel", || {
        engine.poll().unwrap();
        engine.path(socket).unwrap().is_accelerated().then_some(())
    });
    drop((engine, control));
}
