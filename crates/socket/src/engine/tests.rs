//! Open sockets whose device changes its RSS table. A veth reports no table, so the engine is given one; all that
//! the peer sends comes by the first queue.

use crate::control_agent::spread_over;
use crate::tcp::{Readiness, TcpError, TcpStream};
use crate::{Engine, EngineOptions, Path, Queues, Reason, UdpOptions};
use sidestep_control::permit::Permit;
use sidestep_control_api::client::Client;
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Side};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A watchdog, not a measurement.
const WATCHDOG: Duration = Duration::from_secs(60);
const ELSEWHERE: Path = Path::Kernel(Reason::QueueElsewhere);

fn wait<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WATCHDOG;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn command(host: &Host, program: &str, words: &str) {
    let mut command = Command::new(program);
    let done = host.spawn(command.args(words.split(' '))).unwrap().wait().unwrap();
    assert!(done.success(), "{program} {words}");
}

/// Two hosts, one with a control plane and an engine that has the first of its two queues.
fn with_engine(test: impl FnOnce(&Host, &Host, &mut Engine)) {
    with_first_queue_of(2, test);
}

/// The same of so many queues.
fn with_first_queue_of(queues: u32, test: impl FnOnce(&Host, &Host, &mut Engine)) {
    if !sidestep_sys::process::is_root() {
        return eprintln!("skipped: needs root");
    }
    let lab = Lab::up(&sidestep_lab::Options { queues, ..Default::default() }).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    if queues > 1 {
        command(b, "ethtool", "-L lab0 tx 1");
    }
    let stop = AtomicBool::new(false);
    let serve = || {
        a.enter().unwrap();
        let permit = Permit::new(&[], &[]);
        let options =
            sidestep_control::Options { interfaces: Vec::new(), permit, socket: None, detaches_unused: false };
        sidestep_control::run(&options, &stop).unwrap();
    };
    std::thread::scope(|scope| {
        let control = scope.spawn(serve);
        let path = a.within(place::socket).unwrap();
        wait("a control plane", || Client::connect_to(&path, "test").and_then(Client::bye).ok());
        let options = EngineOptions {
            queues: Queues::These(vec![0]),
            ring_entries: 512,
            frames: 1024,
            ..EngineOptions::on(&a.interface)
        };
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut engine = a.within(|| Engine::open(&options)).unwrap();
            assert_eq!((engine.refusal(), engine.has_every_queue()), (None, queues == 1));
            test(a, b, &mut engine);
        }));
        stop.store(true, Ordering::Relaxed);
        control.join().unwrap();
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn spread(engine: &mut Engine, queues: &[u32]) {
    engine.apply_rss_change(Box::new(spread_over(queues)));
}

fn connect(a: &Host, engine: &mut Engine, to: SocketAddr, local: Option<SocketAddr>) -> TcpStream {
    let options = engine.tcp().defaults();
    a.within(|| engine.tcp().connect(to, local, options)).unwrap()
}

fn established(engine: &mut Engine, stream: TcpStream) {
    wait("a connection", || {
        engine.poll().unwrap();
        let readiness = engine.tcp().readiness(stream).unwrap();
        assert!(!readiness.has(Readiness::ERROR), "{:?}", engine.tcp().take_error(stream));
        readiness.has(Readiness::WRITABLE).then_some(())
    });
}

/// The handshake of the other side's kernel has ended, too.
fn pair(a: &Host, engine: &mut Engine, server: &TcpListener) -> (TcpStream, std::net::TcpStream) {
    let stream = connect(a, engine, server.local_addr().unwrap(), None);
    established(engine, stream);
    let (mut peer, _) = wait("its peer", || {
        engine.poll().unwrap();
        server.accept().ok()
    });
    peer.set_nonblocking(true).unwrap();
    assert_eq!(engine.tcp().send(stream, b"there"), Ok(5));
    wait("its bytes", || {
        engine.poll().unwrap();
        peer.read(&mut [0; 8]).ok()
    });
    (stream, peer)
}

fn server(b: &Host) -> TcpListener {
    let server = b.within(|| Ok(TcpListener::bind((b.ipv4, 0)).unwrap())).unwrap();
    server.set_nonblocking(true).unwrap();
    server
}

#[test]
fn what_comes_by_other_queues_ends_or_goes_back_by_name_and_returns() {
    with_engine(|a, b, engine| {
        spread(engine, &[0]);
        assert!(engine.has_every_queue());
        let server = server(b);
        let (stream, mut peer) = pair(a, engine, &server);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        let there = b.within(|| Ok(UdpSocket::bind((b.ipv4, 0)).unwrap())).unwrap();
        there.set_nonblocking(true).unwrap();
        let datagrams = a.within(|| engine.bind_toward(there.local_addr().unwrap(), &UdpOptions::default())).unwrap();
        let here = engine.local(datagrams).unwrap();
        let heard = |engine: &mut Engine| {
            engine.send(datagrams, b"question").unwrap();
            wait("a question", || {
                engine.poll().unwrap();
                there.recv(&mut [0; 16]).ok()
            });
            there.send_to(b"answer", here).unwrap();
            wait("an answer", || {
                engine.poll().unwrap();
                let datagram = engine.receive(datagrams).unwrap()?;
                let by_kernel = datagram.by_kernel();
                engine.release(datagram);
                Some(by_kernel)
            })
        };
        assert!(engine.path(datagrams).unwrap().is_accelerated() && !heard(engine));
        // The same again is no change.
        spread(engine, &[0]);
        assert_eq!(engine.tcp().send(stream, b"still"), Ok(5));
        wait("its bytes", || {
            engine.poll().unwrap();
            peer.read(&mut [0; 8]).ok()
        });
        spread(engine, &[1]);
        assert_eq!(engine.tcp().read(stream, &mut [0; 8]), Err(TcpError::Lost(Reason::QueueElsewhere)));
        assert_eq!(engine.tcp().path(stream).unwrap(), ELSEWHERE);
        let told = wait("a reset", || {
            engine.poll().unwrap();
            let read = peer.read(&mut [0; 8]).map_err(|error| error.kind());
            (read != Err(ErrorKind::WouldBlock)).then_some(read)
        });
        assert_eq!(told, Err(ErrorKind::ConnectionReset));
        assert_eq!(engine.path(datagrams).unwrap(), ELSEWHERE);
        wait("answers by the kernel", || heard(engine).then_some(()));
        let (by_kernel, _peer) = pair(a, engine, &server);
        assert_eq!(engine.tcp().path(by_kernel).unwrap(), ELSEWHERE);
        spread(engine, &[0]);
        assert_eq!(engine.path(datagrams).unwrap(), Path::Kernel(Reason::Opening), "nothing is waited for");
        wait("control's answer", || {
            engine.poll().unwrap();
            engine.path(datagrams).unwrap().is_accelerated().then_some(())
        });
        assert!(!heard(engine));
        let (stream, _peer) = pair(a, engine, &server);
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        assert_eq!(engine.tcp().path(by_kernel).unwrap(), ELSEWHERE, "it stays what it is");
    });
}

/// Nobody has heard of it yet; the port that it has chosen will not do any more. One that the program named is all that it has.
#[test]
fn a_connection_that_is_not_answered_yet_begins_again() {
    with_engine(|a, b, engine| {
        spread(engine, &[0]);
        let server = server(b);
        let there = server.local_addr().unwrap();
        // Both know each other's Ethernet address from now on.
        let first = pair(a, engine, &server);
        command(b, "ip", &format!("route add blackhole {}/32", a.ipv4));
        let named = SocketAddr::new(a.ipv4.into(), 7000);
        let mut asking: Vec<TcpStream> = (0..16).map(|_| connect(a, engine, there, None)).collect();
        asking.push(connect(a, engine, there, Some(named)));
        wait("all on their way", || {
            engine.poll().unwrap();
            asking.iter().all(|stream| engine.tcp().path(*stream).unwrap().is_accelerated()).then_some(())
        });
        spread(engine, &[1, 1, 1, 0]);
        let again = asking.iter().filter(|stream| !engine.tcp().path(**stream).unwrap().is_accelerated()).count();
        assert!(again > 4, "{again}");
        command(b, "ip", &format!("route del blackhole {}/32", a.ipv4));
        for stream in &asking {
            established(engine, *stream);
        }
        for stream in &asking[..16] {
            assert!(engine.tcp().path(*stream).unwrap().is_accelerated());
            let flow = engine.tcp().facts(*stream).unwrap().unwrap().flow;
            let bypass = engine.bypass.as_ref().unwrap();
            assert!(bypass.queues.receives(Protocol::Tcp, flow.remote(), flow.local()));
        }
        let bypass = engine.bypass.as_ref().unwrap();
        let is_ours = bypass.queues.receives(Protocol::Tcp, there, named);
        assert_eq!(engine.tcp().path(asking[16]).unwrap().is_accelerated(), is_ours);
        drop(first);
    });
}

/// Control has withdrawn the entry of a listener: it is asked for one for each connection, and nothing waits for its answers.
#[test]
fn connections_that_lose_their_listeners_rule_ask_for_rules_of_their_own() {
    with_first_queue_of(1, |a, b, engine| {
        let at = SocketAddr::new(a.ipv4.into(), 7000);
        let options = engine.tcp().defaults();
        let listener = a.within(|| engine.tcp().listen(at, 16, options)).unwrap();
        assert!(engine.tcp().listener_path(listener).unwrap().is_accelerated());
        let there = b.clone();
        let connecting =
            std::thread::spawn(move || there.within(|| Ok(std::net::TcpStream::connect(at).unwrap())).unwrap());
        let stream = wait("a connection", || {
            engine.poll().unwrap();
            engine.tcp().accept(listener).unwrap()
        });
        let mut peer = connecting.join().unwrap();
        peer.set_nonblocking(true).unwrap();
        let flow = Entry::Flow { protocol: Protocol::Tcp, local: at, remote: peer.local_addr().unwrap(), vlan: None };
        let is_asked = |engine: &Engine| engine.bypass.as_ref().unwrap().entries.is_asked(flow);
        engine.fall_back(Entry::Listener { protocol: Protocol::Tcp, local: at, vlan: None }, Reason::Refused);
        assert!(is_asked(engine));
        assert_eq!(engine.tcp().listener_path(listener).unwrap(), Path::Kernel(Reason::Refused));
        wait("control's answer", || {
            engine.poll().unwrap();
            (!is_asked(engine)).then_some(())
        });
        assert!(engine.tcp().path(stream).unwrap().is_accelerated());
        assert_eq!(engine.tcp().send(stream, b"still"), Ok(5));
        wait("its bytes", || {
            engine.poll().unwrap();
            peer.read(&mut [0; 8]).ok()
        });
        // As where it is refused.
        engine.fall_back(flow, Reason::Taken);
        assert_eq!(engine.tcp().read(stream, &mut [0; 8]), Err(TcpError::Lost(Reason::Taken)));
    });
}
