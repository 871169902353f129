//! Ports of the pool while no control holds them: the kernel gives them to other programs, too, and each gets what is its own.

use crate::peer::{ask, connect, kernel_connect, kernel_listen, poll_until};
use crate::pool::{Apart, end, set, stack_line};
use crate::roles::start;
use crate::support::{address, wait, wait_for_control};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::Engine;
use sidestep_socket::tcp::TcpStream;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream};
use std::thread::JoinHandle;

/// Connections of other programs, and how many of them are open at a time.
const STRANGERS: usize = 1_000;
const AT_A_TIME: usize = 100;

/// A counter of the kernel's on a host (`TcpExt` of /proc/net/netstat).
fn counted(host: &Host, name: &str) -> u64 {
    let text = host.within(|| Ok(fs::read_to_string("/proc/thread-self/net/netstat").unwrap())).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(found, _)| *found == name).expect("the kernel counts it").1.parse().unwrap()
}

/// Echoes a byte of each, and closes first, so that TIME-WAIT is here.
fn echo(server: KernelListener) {
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_ok() {
                let _ = stream.write_all(&byte);
            }
        }
    });
}

/// Another program's connections; gives the ports that the kernel chose.
fn strangers(host: &Host, at: SocketAddr, refusing: SocketAddr) -> JoinHandle<Vec<u16>> {
    let there = host.clone();
    std::thread::spawn(move || {
        let all = || {
            let mut ports = Vec::new();
            for _ in 0..STRANGERS / AT_A_TIME {
                let mut open: Vec<_> = (0..AT_A_TIME).map(|_| KernelStream::connect(at).expect("it listens")).collect();
                let refused = KernelStream::connect(refusing).expect_err("nobody listens");
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
                for stream in &mut open {
                    stream.write_all(b"x").expect("it is open");
                    let mut heard = Vec::new();
                    stream.read_to_end(&mut heard).expect("it is open");
                    assert_eq!(heard, b"x");
                    ports.push(stream.local_addr().unwrap().port());
                }
            }
            Ok(ports)
        };
        there.within(all).expect("root can enter")
    })
}

fn port(engine: &mut Engine, stream: TcpStream) -> u16 {
    engine.tcp().ends(stream).unwrap().0.port()
}

fn descriptors(of: u32) -> usize {
    fs::read_dir(format!("/proc/{of}/fd")).unwrap().count()
}

fn killed_and_replaced(is_v6: bool) {
    let Some(lab) = crate::support::lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    // 512 ports, of which the upper 256 are the pool's, in one block.
    set(a, "ipv4/ip_local_port_range", "50176 50687");
    let mut apart = Apart::new(a);
    let control = apart.control.as_ref().unwrap().0.id();
    let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
    let at = server.local_addr().unwrap();
    let refusing = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0)).local_addr().unwrap();
    let mut pairs: Vec<_> = (0..40).map(|_| (connect(a, &mut apart.engine, at), server.accept().unwrap().0)).collect();
    let others = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
    let there = others.local_addr().unwrap();
    echo(others);
    let held = stack_line(a).ports;
    let before = descriptors(control);
    let retransmitted = counted(a, "TCPSynRetrans");
    let mut pass = |engine: &mut Engine, is_control_there: bool| {
        let ports = poll_until(engine, strangers(a, there, refusing));
        assert_eq!(ports.len(), STRANGERS);
        let of_pool = ports.iter().filter(|port| **port >= 50_432).count();
        assert!(if is_control_there { of_pool < STRANGERS / 20 } else { of_pool > STRANGERS / 4 }, "{of_pool}");
        assert_eq!(counted(a, "TCPSynRetrans"), retransmitted, "each was answered");
        pairs.push((connect(a, engine, at), server.accept().unwrap().0));
        for (stream, peer) in &mut pairs {
            assert!(engine.tcp().path(*stream).unwrap().is_accelerated());
            ask(engine, *stream, peer, b"as if nothing had been");
        }
    };
    pass(&mut apart.engine, true);
    apart.control.take().unwrap().kill();
    pass(&mut apart.engine, false);
    pass(&mut apart.engine, false);
    let again = start(a, "control", None, None);
    wait_for_control(a);
    let control = again.0.id();
    apart.control = Some(again);
    // One or the other may be taken by somebody who does not belong to the test.
    wait("the ports", || {
        apart.engine.poll().unwrap();
        (stack_line(a).ports + 4 >= held).then_some(())
    });
    pass(&mut apart.engine, true);
    let after = descriptors(control);
    assert!(after.abs_diff(before) < 8, "{before} descriptors before, {after} after");
    end(a, apart);
}

/// A program's own ports go on to be its own, and those of all others are theirs.
#[test]
fn connections_of_others_live_while_control_is_killed() {
    killed_and_replaced(false);
    killed_and_replaced(true);
}

/// Streams that are open, and ports in TIME-WAIT, outlive a control that is killed; what a stranger binds meanwhile is the
/// stranger's, too, until it is let go.
#[test]
fn a_control_that_is_killed_holds_the_ports_again() {
    let Some(lab) = crate::support::lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut apart = Apart::new(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let at = server.local_addr().unwrap();
    let [live, shared, closed] = [(); 3].map(|()| connect(a, &mut apart.engine, at));
    let [mut peer, mut shared_peer, closed_peer] = [(); 3].map(|()| server.accept().unwrap().0);
    let [kept, taken] = [live, shared].map(|stream| port(&mut apart.engine, stream));
    apart.engine.tcp().close(closed).unwrap();
    drop(closed_peer);
    wait("TIME-WAIT", || {
        apart.engine.poll().unwrap();
        (apart.engine.tcp().connections().1 == 1).then_some(())
    });
    let ports = stack_line(a).ports;
    let bind = |port| a.within(|| Ok(KernelListener::bind(("0.0.0.0", port)))).unwrap();
    assert_eq!(bind(taken).unwrap_err().kind(), ErrorKind::AddrInUse, "control holds it");
    apart.control.take().unwrap().kill();
    let stranger = wait("a port that nobody holds", || bind(taken).ok());
    let visit = |engine: &mut Engine| {
        let mut guest = poll_until(engine, kernel_connect(b, SocketAddr::new(address(a, false), taken)));
        let mut host = stranger.accept().unwrap().0;
        guest.write_all(b"hello").unwrap();
        // It closes first, so that TIME-WAIT is there.
        drop(guest);
        let mut heard = Vec::new();
        let reading = std::thread::spawn(move || host.read_to_end(&mut heard).map(|_| heard).unwrap());
        assert_eq!(poll_until(engine, reading), b"hello");
    };
    visit(&mut apart.engine);
    let again = start(a, "control", None, None);
    wait_for_control(a);
    apart.control = Some(again);
    assert_eq!(bind(kept).unwrap_err().kind(), ErrorKind::AddrInUse, "held again");
    visit(&mut apart.engine);
    assert_eq!(stack_line(a).ports, ports - 1);
    ask(&mut apart.engine, live, &mut peer, b"as if nothing had been");
    ask(&mut apart.engine, shared, &mut shared_peer, b"and beside another's");
    let next = connect(a, &mut apart.engine, at);
    assert!(apart.engine.tcp().path(next).unwrap().is_accelerated());
    assert_eq!(apart.engine.tcp().connections().1, 1, "TIME-WAIT is ours");
    drop(stranger);
    wait("the port", || {
        apart.engine.poll().unwrap();
        (stack_line(a).ports == ports).then_some(())
    });
    ask(&mut apart.engine, shared, &mut shared_peer, b"and alone again");
    end(a, apart);
}
