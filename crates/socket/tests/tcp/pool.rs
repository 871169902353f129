//! Connections from here take their ports from a pool: nothing of them is left with the kernel or with control, and nothing
//! waits for either.

use crate::alone::{alone, is_alone};
use crate::peer::{ask, connect, established, kernel_listen, poll_until, serving};
use crate::roles::{Process, start};
use crate::support::{Control, address, engine, lab, wait, wait_at_most, wait_for_control};
use sidestep_control_api::client::Client;
use sidestep_control_api::message::StackLine;
use sidestep_control_api::place;
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::tcp::{TcpError, TcpStream};
use sidestep_socket::{Engine, Path, Reason};
use sidestep_stack::tcp::Readiness;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream};
use std::time::Duration;

/// What 10,000 connections may take on a machine that others use, too.
const LONG: Duration = Duration::from_secs(300);

/// No test of the wire's other end: a small range, or none that is forwarded to somebody.
pub(crate) fn set(host: &Host, name: &str, value: &str) {
    let write = || {
        fs::write(format!("/proc/sys/net/{name}"), value).expect("root can");
        Ok(())
    };
    host.within(write).expect("root can enter");
}

/// The one stack that control serves on a host.
pub(crate) fn stack_line(host: &Host) -> StackLine {
    let path = host.within(place::socket).expect("it has a place");
    let clients = Client::connect_to(&path, "test").unwrap().clients().unwrap();
    clients.into_iter().flat_map(|client| client.stacks).next().expect("it has a stack")
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Begins a connection without a wait for anything.
fn begin(host: &Host, engine: &mut Engine, at: SocketAddr) -> TcpStream {
    let options = engine.tcp().defaults();
    host.within(|| engine.tcp().connect(at, None, options)).expect("it can begin")
}

fn failure(engine: &mut Engine, stream: TcpStream) -> i32 {
    wait("a failure", || {
        engine.poll().unwrap();
        engine.tcp().readiness(stream).unwrap().has(Readiness::ERROR).then_some(())
    });
    let error = engine.tcp().take_error(stream).unwrap().expect("it has failed");
    assert_eq!(engine.tcp().take_error(stream), Ok(None), "told once");
    error.errno()
}

/// It counts descriptors, so no other test may have any in its process.
#[test]
fn ten_thousand_connections_in_a_row_leave_nothing_but_time_wait() {
    const CONNECTIONS: usize = 10_000;
    if !is_alone() {
        return alone("pool::ten_thousand_connections_in_a_row_leave_nothing_but_time_wait");
    }
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    for is_v6 in [false, true] {
        let _control = Control::start(a);
        let mut engine = engine(a);
        let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
        let at = server.local_addr().unwrap();
        let first = connect(a, &mut engine, at);
        server.accept().unwrap();
        let before = descriptors();
        let serving = std::thread::spawn(move || {
            for _ in 0..CONNECTIONS {
                let (mut stream, _) = server.accept().unwrap();
                // Ours closes first, and waits in TIME-WAIT.
                assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
            }
        });
        for number in 0..CONNECTIONS {
            let stream = begin(a, &mut engine, at);
            established(&mut engine, stream);
            assert!(engine.tcp().path(stream).unwrap().is_accelerated(), "connection {number}");
            engine.tcp().close(stream).unwrap();
        }
        wait_at_most(LONG, "the peer", || {
            engine.poll().unwrap();
            serving.is_finished().then_some(())
        });
        serving.join().unwrap();
        let line = stack_line(a);
        assert_eq!(line.entries, 0, "no rule for any of them");
        assert!(line.ports <= 4096, "{}", line.ports);
        // Control is in this process: its ports are added. The end of what it was just asked may come later.
        let most = before + line.ports as usize;
        wait(&format!("the end of all but {most} descriptors"), || (descriptors() <= most).then_some(()));
        assert!(engine.tcp().path(first).unwrap().is_accelerated());
    }
}

/// A connect that waits for a neighbour that is not there, then for nothing: others go on meanwhile.
#[test]
fn a_neighbour_that_never_answers_delays_nobody() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let live = connect(a, &mut engine, server.local_addr().unwrap());
    let mut peer = server.accept().unwrap().0;
    let nowhere: Vec<TcpStream> =
        (100..120).map(|last| begin(a, &mut engine, SocketAddr::from(([198, 18, 0, last], 7)))).collect();
    // All of them wait: a connect that blocks would have come to an end.
    for stream in &nowhere {
        assert_eq!(engine.tcp().path(*stream), Ok(Path::Kernel(Reason::Opening)));
        assert_eq!(engine.tcp().readiness(*stream), Ok(Readiness::NONE));
        assert!(engine.tcp().send(*stream, b"x").is_err_and(TcpError::is_would_block));
        assert!(engine.tcp().read(*stream, &mut [0; 8]).is_err_and(TcpError::is_would_block));
        assert_eq!(engine.tcp().ends(*stream).unwrap().0.port(), 0);
    }
    ask(&mut engine, live, &mut peer, b"still here");
    engine.tcp().close(nowhere[0]).unwrap();
    let rest = &nowhere[1..];
    wait("the kernel's turn", || {
        engine.poll().unwrap();
        let is_kernels = |stream: &TcpStream| {
            let pending = [Reason::NeighbourPending, Reason::NeighbourFailed].map(Path::Kernel);
            pending.contains(&engine.tcp().path(*stream).unwrap())
        };
        rest.iter().all(is_kernels).then_some(())
    });
    ask(&mut engine, live, &mut peer, b"and now");
}

/// Control is another process here, which can be stopped and killed.
pub(crate) struct Apart {
    pub(crate) engine: Engine,
    pub(crate) control: Option<Process>,
}

impl Apart {
    pub(crate) fn new(host: &Host) -> Self {
        let control = Some(start(host, "control", None, None));
        wait_for_control(host);
        Self { engine: engine(host), control }
    }
}

pub(crate) fn end(host: &Host, apart: Apart) {
    let Apart { engine, control } = apart;
    drop((engine, control));
    host.within(sidestep_control::cleanup).unwrap();
}

#[test]
fn a_control_that_is_stopped_delays_nobody() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut apart = Apart::new(a);
    let engine = &mut apart.engine;
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let at = server.local_addr().unwrap();
    let live = connect(a, engine, at);
    let mut peer = server.accept().unwrap().0;
    apart.control.as_ref().unwrap().signal(libc::SIGSTOP);
    // From the pool: nobody has to be asked.
    let stream = connect(a, engine, at);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    server.accept().unwrap();
    // From a port that is named: control has to be asked, and the answer is not waited for.
    let options = engine.tcp().defaults();
    let named = SocketAddr::new(address(a, false), 20_000);
    let asking = a.within(|| engine.tcp().connect(at, Some(named), options)).unwrap();
    assert_eq!(engine.tcp().path(asking), Ok(Path::Kernel(Reason::Opening)));
    assert_eq!(engine.tcp().ends(asking).unwrap().0, named);
    ask(engine, live, &mut peer, b"still here");
    apart.control.as_ref().unwrap().signal(libc::SIGCONT);
    established(engine, asking);
    assert!(engine.tcp().path(asking).unwrap().is_accelerated());
    assert_eq!(server.accept().unwrap().1, named);
    end(a, apart);
}

#[test]
fn ports_that_run_out_are_said_to_and_those_that_others_have_are_left_out() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    // The upper half: eight ports.
    set(a, "ipv4/ip_local_port_range", "50000 50015");
    let stranger = a.within(|| Ok(KernelListener::bind("0.0.0.0:50010").unwrap())).unwrap();
    let control = Control::start(a);
    let mut engine = engine(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let at = server.local_addr().unwrap();
    let first = connect(a, &mut engine, at);
    // Control has sockets of its own, which may have one of them.
    let count = stack_line(a).ports as usize;
    assert!((5..8).contains(&count), "{count}");
    let mut all: Vec<TcpStream> = (1..count).map(|_| connect(a, &mut engine, at)).chain([first]).collect();
    let mut ports: Vec<u16> = all.iter().map(|stream| engine.tcp().ends(*stream).unwrap().0.port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), count, "{ports:?}");
    assert!(ports.iter().all(|port| (50_008..=50_015).contains(port) && *port != 50_010), "{ports:?}");
    let bound = a.within(|| Ok(KernelListener::bind(("198.18.0.1", ports[0])))).unwrap();
    assert_eq!(bound.unwrap_err().kind(), ErrorKind::AddrInUse);
    let options = engine.tcp().defaults();
    match a.within(|| Ok(engine.tcp().connect(at, None, options))).unwrap() {
        // More ports had been asked for before.
        Err(problem) => assert_eq!(problem.raw_os_error(), Some(libc::EADDRNOTAVAIL)),
        Ok(one_too_many) => {
            assert_eq!(failure(&mut engine, one_too_many), libc::EADDRNOTAVAIL);
            engine.tcp().close(one_too_many).unwrap();
        }
    }
    // Another peer is another tuple.
    let other = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let elsewhere = connect(a, &mut engine, other.local_addr().unwrap());
    assert!(engine.tcp().path(elsewhere).unwrap().is_accelerated());
    // One that is closed may be followed after a second: a connect waits for it.
    let peers: Vec<KernelStream> = (0..count).map(|_| server.accept().unwrap().0).collect();
    let mut closing = all.swap_remove(3);
    for _ in 0..3 {
        let was = engine.tcp().ends(closing).unwrap().0.port();
        engine.tcp().close(closing).unwrap();
        for mut peer in peers.iter().filter(|peer| peer.peer_addr().is_ok_and(|from| from.port() == was)) {
            peer.set_nonblocking(true).unwrap();
            wait("its end", || {
                engine.poll().unwrap();
                matches!(peer.read(&mut [0; 8]), Ok(0)).then_some(())
            });
            peer.shutdown(std::net::Shutdown::Both).unwrap();
        }
        wait("TIME-WAIT", || {
            engine.poll().unwrap();
            (engine.tcp().connections().1 == 1).then_some(())
        });
        closing = connect(a, &mut engine, at);
        assert_eq!(engine.tcp().ends(closing).unwrap().0.port(), was);
        let (mut peer, _) = server.accept().unwrap();
        ask(&mut engine, closing, &mut peer, b"anew");
        engine.tcp().shutdown(closing, sidestep_socket::tcp::Shutdown::Write).unwrap();
        let reading = std::thread::spawn(move || peer.read(&mut [0; 8]).unwrap());
        assert_eq!(poll_until(&mut engine, reading), 0);
    }
    drop((stranger, engine, control));
}

/// What comes to a port of a host that forwards may be translated back to somebody behind it: each connection gets a rule.
#[test]
fn a_host_that_forwards_has_no_pool_and_connects_all_the_same() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    set(a, &format!("ipv4/conf/{}/forwarding", a.interface), "1");
    let _control = Control::start(a);
    let mut engine = engine(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    for number in 1..=3 {
        let stream = connect(a, &mut engine, server.local_addr().unwrap());
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let mut peer = server.accept().unwrap().0;
        ask(&mut engine, stream, &mut peer, b"past the kernel");
        let line = stack_line(a);
        assert_eq!((line.entries, line.ports), (number, 0));
    }
}

/// Control has answered, and nobody has looked: the rule goes with the connection.
#[test]
fn a_connection_that_is_closed_before_it_begins_leaves_no_rule() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    set(a, &format!("ipv4/conf/{}/forwarding", a.interface), "1");
    let _control = Control::start(a);
    let mut engine = engine(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    // By it the engine learns that it has no pool, and the neighbour.
    let first = connect(a, &mut engine, server.local_addr().unwrap());
    engine.tcp().abort(first).unwrap();
    wait("the end of the first one", || {
        engine.poll().unwrap();
        (stack_line(a).entries == 0).then_some(())
    });
    for _ in 0..3 {
        let stream = begin(a, &mut engine, server.local_addr().unwrap());
        wait("the rule", || (stack_line(a).entries == 1).then_some(()));
        assert_eq!(engine.tcp().path(stream), Ok(Path::Kernel(Reason::Opening)));
        engine.tcp().close(stream).unwrap();
        wait("no rule", || (stack_line(a).entries == 0).then_some(()));
    }
}

/// Stops while connections wait for a port: they go on by the kernel.
#[test]
fn connections_that_have_not_begun_outlive_their_stack() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (control, mut engine, _, _) = serving(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let at = server.local_addr().unwrap();
    let waiting: Vec<TcpStream> = (0..20).map(|_| begin(a, &mut engine, at)).collect();
    assert_eq!(engine.tcp().path(waiting[0]), Ok(Path::Kernel(Reason::Opening)), "the first one asks for ports");
    drop(control);
    let mut accelerated = 0;
    for stream in waiting {
        wait("an end or a connection", || {
            engine.poll().unwrap();
            let ready = engine.tcp().readiness(stream).unwrap();
            (ready != Readiness::NONE).then_some(())
        });
        if engine.tcp().readiness(stream).unwrap().has(Readiness::ERROR) {
            // It had begun, and went with the stack.
            let error = engine.tcp().take_error(stream);
            assert!(matches!(error, Ok(Some(TcpError::Lost(_)))), "{error:?}");
            accelerated += 1;
            continue;
        }
        let (mut peer, _) = server.accept().unwrap();
        assert_eq!(engine.tcp().send(stream, b"hello"), Ok(5));
        let mut heard = [0; 5];
        peer.read_exact(&mut heard).unwrap();
        peer.write_all(&heard).unwrap();
    }
    assert!(accelerated < 20);
}

/// Listening, too: control's answer comes as an event.
#[test]
fn a_listener_begins_while_control_is_stopped() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut apart = Apart::new(b);
    let engine = &mut apart.engine;
    let at = SocketAddr::new(address(b, false), 7000);
    let options = engine.tcp().defaults();
    apart.control.as_ref().unwrap().signal(libc::SIGSTOP);
    let listener = b.within(|| engine.tcp().begin_listening(at, 16, options)).unwrap();
    assert_eq!(engine.tcp().listener_path(listener), Ok(Path::Kernel(Reason::Opening)));
    apart.control.as_ref().unwrap().signal(libc::SIGCONT);
    wait("control's answer", || {
        engine.poll().unwrap();
        engine.tcp().listener_path(listener).unwrap().is_accelerated().then_some(())
    });
    assert!(engine.tcp().next_event().is_some());
    let (stream, mut peer) = crate::peer::join(a, engine, listener, at);
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    ask(engine, stream, &mut peer, b"past the kernel");
    // Closing asks control for nothing that it would have to wait for, once the connection is closed.
    engine.tcp().close(stream).unwrap();
    drop(peer);
    end(b, apart);
}
