//! Status pages: what a program writes is read, whatever state it is in; what it spoils does no harm.

use proptest::prelude::*;
use sidestep_control_api::message::Mode;
use sidestep_sys::process::{Process, die_with_parent};
use sidestep_sys::words::{Words, Writers};
use sidestep_unmodified::status::{
    EngineFigure, Figure, Path, PathNow, SOCKETS_MIN, SocketKind, SocketRow, StatusPage, StatusView, TcpState,
    processes,
};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

const REASONS: &[(&str, &str)] = &[("control_absent", "the control plane is not running"), ("fork", "a child has it")];
const ROWS: u32 = 64;

fn page() -> (StatusPage, StatusView) {
    let page = StatusPage::create("redis-server", "latency", ROWS, REASONS).unwrap();
    let view = StatusView::open(page.as_fd()).unwrap();
    (page, view)
}

#[test]
fn what_is_written_is_read() {
    let (page, view) = page();
    let engine = page.open_engine("eth1", Mode::Copy, &[0, 63]).unwrap();
    page.add_engine(engine, EngineFigure::Polls, 40);
    page.set_engine(engine, EngineFigure::WakeUps, 2);
    let stream = page.open_socket(9, SocketKind::TcpStream).unwrap();
    let (local, remote) = ("198.18.0.1:6379".parse().unwrap(), "[2001:db8::2]:40000".parse().unwrap());
    page.set_addresses(stream, Some(local), Some(remote));
    page.set_tcp_state(stream, TcpState::Established);
    page.set_path(stream, Path::Accelerated { engine, mode: Mode::Copy, queue: Some(63) });
    page.add(stream, Figure::ReceivedBytes, 5);
    page.set(stream, Figure::RttNs, 12_000);
    let other = page.open_socket(3, SocketKind::TcpStream).unwrap();
    page.set_kind(other, SocketKind::UdpSocket);
    page.set_path(other, Path::Kernel { reason: 1 });

    let seen = view.snapshot();
    assert_eq!(
        (seen.pid, seen.program.as_str(), seen.profile.as_str()),
        (std::process::id().into(), "redis-server", "latency")
    );
    let [one] = &seen.engines[..] else { panic!("{seen:?}") };
    assert_eq!((one.interface.as_str(), &one.queues[..], one.mode), ("eth1", &[0, 63][..], Some(Mode::Copy)));
    assert_eq!((one.value(EngineFigure::Polls), one.value(EngineFigure::WakeUps)), (40, 2));
    let [udp, tcp] = &seen.sockets[..] else { panic!("{seen:?}") };
    assert_eq!((udp.descriptor, udp.kind, udp.local), (3, SocketKind::UdpSocket, None));
    assert_eq!(udp.path, PathNow::Kernel { name: "fork".into(), description: "a child has it".into() });
    assert_eq!((tcp.descriptor, tcp.local, tcp.remote, tcp.descriptors), (9, Some(local), Some(remote), 1));
    assert_eq!(tcp.state.map(TcpState::name), Some("ESTABLISHED"));
    assert_eq!(tcp.path, PathNow::Accelerated { engine: 0, mode: Some(Mode::Copy), queue: Some(63) });
    assert_eq!((tcp.value(Figure::ReceivedBytes), tcp.value(Figure::RttNs), tcp.is_torn), (5, 12_000, false));
    assert_eq!((seen.beyond, seen.opened, seen.spoilt), (0, 2, 0));

    page.set_descriptor(stream, 4, 2);
    page.close_socket(other);
    page.close_engine(engine);
    let seen = view.snapshot();
    assert!(
        seen.engines.is_empty()
            && seen.sockets.len() == 1
            && (seen.sockets[0].descriptor, seen.sockets[0].descriptors) == (4, 2)
    );
    let reused = page.open_socket(11, SocketKind::TcpListener).unwrap();
    page.set_tcp_state(reused, TcpState::Listen);
    let seen = view.snapshot();
    let listener = &seen.sockets[1];
    assert_eq!((listener.kind, listener.value(Figure::ReceivedBytes)), (SocketKind::TcpListener, 0));
    assert_eq!((listener.path.clone(), listener.local), (PathNow::Undecided, None), "nothing of the row's last use");
}

#[test]
fn sockets_without_a_row_are_counted() {
    let (page, view) = page();
    let rows: Vec<_> = (0..ROWS as i32).map(|fd| page.open_socket(fd, SocketKind::UdpSocket).unwrap()).collect();
    assert_eq!(rows.iter().map(|row| format!("{row:?}")).collect::<BTreeSet<_>>().len(), ROWS as usize);
    assert!(page.open_socket(1000, SocketKind::UdpSocket).is_none());
    assert_eq!((view.snapshot().sockets.len(), view.snapshot().beyond), (ROWS as usize, 1));
    page.close_beyond();
    page.close_socket(rows[17]);
    page.close_socket(rows[17]);
    let again = page.open_socket(1001, SocketKind::UdpSocket).unwrap();
    assert!(
        again.place() == rows[17].place() && again != rows[17] && SocketRow::from_bits(again.to_bits()) == Some(again)
    );
    page.set_descriptor(rows[17], 5, 1);
    page.set(rows[17], Figure::RttNs, 5);
    let seen = view.snapshot().sockets.into_iter().find(|row| row.descriptor == 1001).unwrap();
    assert_eq!(seen.value(Figure::RttNs), 0, "of a socket that has gone");
    assert_eq!(view.snapshot().beyond, 0);
    assert!((0..8).all(|_| page.open_engine("eth1", Mode::Copy, &[]).is_some()));
    assert!(page.open_engine("eth1", Mode::Copy, &[]).is_none());
}

/// Each of several threads opens, changes and closes sockets; a reader sees whole rows only.
#[test]
fn rows_are_never_seen_half_changed() {
    let (page, view) = page();
    let stop = AtomicBool::new(false);
    let churn = |thread: i32| {
        let mut round = 0_u16;
        while !stop.load(Ordering::Relaxed) {
            round = round.wrapping_add(1);
            let Some(row) = page.open_socket(thread, SocketKind::UdpSocket) else { continue };
            for port in 1..20 {
                let address = |host: u8| Some(std::net::SocketAddr::from(([10, 0, 0, host], port)));
                page.set_addresses(row, address(thread as u8), address(thread as u8));
            }
            page.close_socket(row);
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|thread| drop(scope.spawn(move || churn(thread))));
        for _ in 0..2000 {
            let seen = view.snapshot();
            assert_eq!(seen.spoilt, 0);
            for socket in seen.sockets.iter().filter(|socket| !socket.is_torn) {
                assert_eq!(socket.local, socket.remote);
                let host = socket.local.map(|local| local.ip().to_string());
                assert!(host.is_none_or(|host| host == format!("10.0.0.{}", socket.descriptor)), "{socket:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(view.snapshot().sockets.is_empty());
    // All rows are free again.
    assert!((0..ROWS as i32).all(|fd| page.open_socket(fd, SocketKind::UdpSocket).is_some()));
}

const WORDS: usize = 2624 + 16 * 32;
const HEAD: [(usize, u64); 4] = [(0, u64::from_le_bytes(*b"SIDESTAT")), (1, 1), (4, SOCKETS_MIN as u64), (7, u64::MAX)];

fn spoilt(words: &[u64], head: &[(usize, u64)]) -> std::os::fd::OwnedFd {
    let (memory, file) = Words::create("sidestep-status", WORDS, Writers::Holders).unwrap();
    words.iter().enumerate().for_each(|(at, word)| memory.word(at).store(*word, Ordering::Relaxed));
    head.iter().for_each(|(at, word)| memory.word(*at).store(*word, Ordering::Relaxed));
    file
}

#[test]
fn a_page_that_claims_what_cannot_be_is_refused() {
    let refused = |head: &[(usize, u64)]| {
        let all: Vec<(usize, u64)> = HEAD.iter().chain(head).copied().collect();
        StatusView::open(spoilt(&[], &all).as_fd()).unwrap_err().to_string()
    };
    assert!(refused(&[(0, 0)]).contains("another version") && refused(&[(1, 2)]).contains("another version"));
    for rows in [0, 15, 131_073, u64::MAX] {
        assert!(refused(&[(4, rows)]).contains(&format!("{rows} rows")));
    }
    assert!(refused(&[(4, 17)]).contains("not"), "the file is too short");
    assert!(StatusView::open(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    // A program that died, or was stopped, in the middle of a change.
    let row = 2624;
    let torn = spoilt(&[], &[&HEAD[..], &[(row, 3), (row + 1, 1 | 5 << 32)]].concat());
    let seen = StatusView::open(torn.as_fd()).unwrap().snapshot();
    assert!(seen.sockets.len() == 1 && seen.sockets[0].is_torn && seen.sockets[0].descriptor == 5);
    // Kinds, reasons and engines that do not exist.
    for (kind, path) in [(0, 0), (9, 0), (1, 3), (1, 2), (1, 1 | 8 << 32), (1 | 1 << 63, 0)] {
        let file = spoilt(&[], &[&HEAD[..], &[(row, 2), (row + 1, kind), (row + 2, path)]].concat());
        let seen = StatusView::open(file.as_fd()).unwrap().snapshot();
        assert_eq!((seen.sockets.len(), seen.spoilt), (0, 1), "{kind} {path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_page_is_too_strange(words in prop::collection::vec(prop_oneof![any::<u64>(), 0..4_u64, Just(u64::MAX)], WORDS)) {
        let file = spoilt(&words, &HEAD);
        let seen = StatusView::open(file.as_fd()).unwrap().snapshot();
        prop_assert!(seen.sockets.len() + seen.spoilt as usize <= SOCKETS_MIN as usize);
        prop_assert!(seen.program.chars().all(|c| !c.is_control()));
    }
}

const CHILD: &str = "SIDESTEP_TEST_STATUS_CHILD";

/// Runs this test in another process, which has a page.
fn child() -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "a_stopped_process_is_read"]).env(CHILD, "1");
    die_with_parent(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

#[test]
fn a_stopped_process_is_read() {
    if std::env::var_os(CHILD).is_some() {
        let page = StatusPage::create("child", "safe", ROWS, REASONS).unwrap();
        page.open_socket(5, SocketKind::UdpSocket).unwrap();
        // A program that inherits the descriptor is not the page's process.
        let mut sleeper = Command::new("sleep");
        die_with_parent(sleeper.arg("1000"));
        let mut sleeper = sleeper.spawn().unwrap();
        println!("ready");
        let _ = std::io::stdin().read_line(&mut String::new());
        return sleeper.kill().and_then(|()| sleeper.wait()).map(drop).unwrap();
    }
    let (mut child, mut output) = child();
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended");
    }
    let process = Process::of(child.id()).unwrap().unwrap();
    // SIGSTOP.
    assert!(process.signal(19).unwrap());
    let found = || processes().into_iter().filter(|found| found.pid == child.id()).collect::<Vec<_>>();
    while found().iter().any(|found| found.state != 'T') {
        std::thread::yield_now();
    }
    let [stopped] = &found()[..] else { panic!("it has one page") };
    let seen = stopped.view.snapshot();
    assert_eq!((seen.program.as_str(), seen.sockets.len(), seen.pid), ("child", 1, u64::from(child.id())));
    let here = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/proc/self/ns/net").unwrap());
    assert_eq!(stopped.network_namespace, Some(here));
    let parent = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let children = processes().into_iter().filter(|found| parent(found.pid).contains(&format!(" {} ", child.id())));
    assert_eq!(children.filter(|found| found.pid != child.id()).count(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(processes().iter().all(|found| found.pid != child.id()));
}
