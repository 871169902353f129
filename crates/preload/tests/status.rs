//! The status page of a program under the library: each socket with its path or the reason, also of a stopped program.

#[path = "support/host.rs"]
mod host;
mod support;

use host::{Hosts, Running};
use sidestep_unmodified::status::{EngineFigure, Figure, PathNow, Snapshot, Socket, SocketKind, processes};
use std::time::{Duration, Instant};

/// A watchdog, not a measurement.
const WATCHDOG: Duration = Duration::from_secs(30);

fn page(pid: u32) -> Snapshot {
    let found = processes().into_iter().find(|found| found.pid == pid);
    found.unwrap_or_else(|| panic!("process {pid} has a page")).view.snapshot()
}

/// The page, once it shows what it is to show: figures are copied by the next poll of the engine.
fn page_with(pid: u32, is_shown: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let deadline = Instant::now() + WATCHDOG;
    loop {
        let seen = page(pid);
        if is_shown(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "{seen:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn socket(page: &Snapshot, descriptor: u32) -> Socket {
    let found = page.sockets.iter().find(|socket| socket.descriptor == descriptor);
    found.unwrap_or_else(|| panic!("{descriptor} is shown: {page:#?}")).clone()
}

fn reason(socket: &Socket) -> &str {
    match &socket.path {
        PathNow::Kernel { name, .. } => name,
        path => panic!("{path:?}"),
    }
}

fn is_accelerated(socket: &Socket) -> bool {
    matches!(socket.path, PathNow::Accelerated { .. })
}

fn numbers(line: &str) -> Vec<u32> {
    line.split(' ').map(|number| number.parse().expect("a number")).collect()
}

#[test]
fn each_socket_is_shown_with_its_path_or_the_reason() {
    let Some(hosts) = Hosts::up() else { return };
    let (ours, theirs) = (hosts.ours().ipv4.to_string(), hosts.linux().ipv4.to_string());
    let _server = hosts.start_linux("echo_server.py", &[&theirs, "9000", "1"]);
    let mut program = hosts.start_ours("shown.py", &[&ours, &theirs, "9000"]);
    let all = numbers(&program.line());
    let [listener, client, copy, datagrams, loopback] = all[..] else { panic!("{all:?}") };

    page_with(program.pid(), |seen| socket(seen, client).value(Figure::ReceivedBytes) == 1000);
    program.stop();
    let seen = page(program.pid());
    let stream = socket(&seen, client);
    assert!(is_accelerated(&stream) && is_accelerated(&socket(&seen, listener)), "{seen:#?}");
    assert_eq!((stream.value(Figure::ReceivedBytes), stream.descriptors), (1000, 2));
    assert_eq!(stream.remote, Some(format!("{theirs}:9000").parse().unwrap()));
    assert!(stream.value(Figure::RttNs) > 0 && stream.state.is_some_and(|state| state.name() == "ESTABLISHED"));
    let listening = socket(&seen, listener);
    assert_eq!(
        (listening.kind, listening.local),
        (SocketKind::TcpListener, Some(format!("{ours}:7001").parse().unwrap()))
    );
    assert_eq!(reason(&socket(&seen, loopback)), "loopback_or_local");
    let udp = socket(&seen, datagrams);
    assert!(is_accelerated(&udp) && udp.kind == SocketKind::UdpSocket, "{udp:?}");
    assert_eq!(udp.local, Some(format!("{ours}:7002").parse().unwrap()));
    let [engine] = &seen.engines[..] else { panic!("{seen:#?}") };
    assert_eq!(engine.interface, hosts.ours().interface);
    assert!(engine.value(EngineFigure::Polls) > 0 && engine.value(EngineFigure::SentFrames) > 0);
    program.go_on();

    program.say("");
    assert_eq!(program.line(), "one number is left");
    let seen = page(program.pid());
    assert_eq!((socket(&seen, copy).descriptors, is_accelerated(&socket(&seen, copy))), (1, true));

    program.say("");
    let child: u32 = program.line().parse().expect("the child says its number");
    let inherited = page(child);
    assert_eq!(inherited.pid, u64::from(child));
    assert_eq!(reason(&socket(&inherited, loopback)), "loopback_or_local");
    assert!(inherited.sockets.iter().all(|socket| !is_accelerated(socket)), "{inherited:#?}");

    program.say("");
    assert_eq!(program.line(), "closed");
    let seen = page(program.pid());
    assert_eq!(seen.sockets.iter().map(|socket| socket.descriptor).collect::<Vec<_>>(), [listener], "{seen:#?}");
    let pid = program.pid();
    drop(program);
    assert!(processes().iter().all(|found| found.pid != pid), "killed, it has no page");
}

#[test]
fn a_program_without_sockets_has_no_page() {
    let Some(hosts) = Hosts::up() else { return };
    let mut program: Running = hosts.start_ours("none.py", &[]);
    assert_eq!(program.line(), "ready");
    assert!(processes().iter().all(|found| found.pid != program.pid()));
}

#[test]
fn threads_that_make_the_first_sockets_of_a_process_make_one_page() {
    let Some(hosts) = Hosts::up() else { return };
    let (well, told) = hosts.start_ours("first_sockets.c", &["200", "8"]).finish();
    assert_eq!(well, "200\n", "{told}");
}
