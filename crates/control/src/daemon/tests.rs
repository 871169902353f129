//! Hostile users of the socket: the daemon survives, stays small, and serves the others.

use super::*;
use crate::permit::Permit;
use crate::testing::{Fake, send_with};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, send, socket_with};
use sidestep_control_api::client::Client as Application;
use sidestep_control_api::message::{OpenStack, PACKET_BYTES_MAX};
use sidestep_testkit::lingering;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A watchdog, not a measurement.
const WATCHDOG: Duration = Duration::from_secs(20);

struct Running {
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn daemon(listener: Listener) -> Daemon<Fake, ()> {
    let mirror = Mirror::open(0, None).unwrap();
    let registry = Registry::new(Fake::default(), ()).unwrap();
    let here = Here { cookie: 0, guard: crate::guard::Guard::open().unwrap(), injector: None };
    Daemon::new(mirror, listener, Reaper::start().unwrap(), registry, here)
}

impl Running {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let listener = Listener::open(&path, Permit::new(&[], &[])).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let serve = move || daemon(listener).run(&seen).unwrap();
        Self { folder, stop, thread: Some(std::thread::spawn(serve)) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Asserts that a well-behaved application is served.
    fn assert_serves(&self) {
        let mut application = Application::connect_to(&self.path(), "test").unwrap();
        assert!(application.take_table().is_some());
        assert!(!application.clients().unwrap().is_empty());
        application.bye().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the daemon has panicked");
    }
}

fn raw(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// Reads until the daemon hangs up; returns the text that it sent.
fn last_words(socket: OwnedFd) -> String {
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(WATCHDOG)).unwrap();
    let mut text = String::new();
    let mut buffer = [0; PACKET_BYTES_MAX];
    let mut file = File::from(socket);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return text,
            Ok(length) => text.push_str(&String::from_utf8_lossy(&buffer[..length])),
            // Reset: it hung up with a packet of ours unread.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return text,
            Err(error) => panic!("the daemon does not hang up: {error}"),
        }
    }
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    let daemon = Running::new();
    let too_long = vec![b'x'; PACKET_BYTES_MAX + 1];
    for bytes in [&b"\0"[..], b"{}", b"{\"number\":1,", &[0xff; 4000], &too_long, "[".repeat(4000).as_bytes()] {
        let socket = raw(&daemon.path());
        send(&socket, bytes, SendFlags::empty()).unwrap();
        let said = last_words(socket);
        assert!(said.contains("malformed"), "{said}");
    }
    let socket = raw(&daemon.path());
    send(&socket, br#"{"number":1,"body":{"type":"hello","version":999,"name":"x"}}"#, SendFlags::empty()).unwrap();
    let said = last_words(socket);
    assert!(said.contains(r#""code":"version""#) && said.contains("999"), "{said}");
    let socket = raw(&daemon.path());
    send(&socket, br#"{"number":1,"body":{"type":"list","from":0}}"#, SendFlags::empty()).unwrap();
    assert!(last_words(socket).contains(r#""code":"greeting""#));
    daemon.assert_serves();
}

#[test]
fn one_that_never_reads_and_one_that_says_nothing_are_let_go() {
    let daemon = Running::new();
    let silent = raw(&daemon.path());
    let greedy = raw(&daemon.path());
    send(&greedy, br#"{"number":1,"body":{"type":"hello","version":5,"name":"greedy"}}"#, SendFlags::empty()).unwrap();
    let deadline = Instant::now() + WATCHDOG;
    // Until the daemon's replies do not fit any more, and it hangs up.
    while send(&greedy, br#"{"number":2,"body":{"type":"list","from":0}}"#, SendFlags::NOSIGNAL).is_ok() {
        assert!(Instant::now() < deadline, "it goes on answering nobody");
    }
    assert_eq!(last_words(silent), "");
    daemon.assert_serves();
}

/// While a user is deferred, none of its programs is served.
#[test]
fn who_rests_is_not_let_go_for_its_silence() {
    use sidestep_sys::credentials::Credentials;
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::open(&folder.path().join("control.sock"), Permit::new(&[], &[])).unwrap();
    let mut daemon = daemon(listener);
    let (begun, second) = (Instant::now(), Duration::from_secs(1));
    let mut admit = |uid, at| {
        let peer = Credentials { pid: None, uid, gid: uid };
        daemon.registry.admit(peer, Owner::User(uid), None, at).unwrap()
    };
    let (resting, other) = (admit(7, begun), admit(8, begun));
    // A request of the first one's user took three seconds, so it is deferred until the sixth.
    assert!(daemon.resting.note(Owner::User(7), begun, begun + 3 * second));
    let mut is_there = |id, at| {
        daemon.drop_silent(at);
        daemon.registry.client(id).is_some()
    };
    assert!(is_there(resting, begun + 3 * second) && !is_there(other, begun + 3 * second));
    let last_of_rest = begun + 6 * second - TURN;
    assert!(is_there(resting, last_of_rest));
    assert!(is_there(resting, last_of_rest + GREETING_WAIT - TURN), "its turn has just come");
    assert!(!is_there(resting, last_of_rest + GREETING_WAIT), "it has had its turn");
}

#[test]
fn a_socket_that_answers_is_left_alone_and_a_dead_one_replaced() {
    let daemon = Running::new();
    let refused = Listener::open(&daemon.path(), Permit::new(&[], &[])).map(drop).unwrap_err().to_string();
    assert!(refused.contains("another process listens there"), "{refused}");
    daemon.assert_serves();
    let dead = daemon.folder.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    Listener::open(&dead, Permit::new(&[], &[])).map(drop).unwrap();
    let file = daemon.folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(Listener::open(&file, Permit::new(&[], &[])).is_err(), "it is no socket");
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_flood_of_connections_is_bounded() {
    let daemon = Running::new();
    let flood: Vec<OwnedFd> = (0..400).map(|_| raw(&daemon.path())).collect();
    let accepted = || descriptors() - flood.len();
    // The daemon is in this process: its ends are counted, too. Other tests have some as well.
    std::thread::sleep(Duration::from_millis(300));
    assert!(accepted() < 400, "{} descriptors", accepted());
    let refused = flood.into_iter().map(last_words).filter(|said| said.contains(r#""code":"limit""#)).count();
    assert!(refused >= 400 - crate::registry::CLIENTS_PER_USER_MAX, "{refused} were told");
    daemon.assert_serves();
}

#[test]
fn an_application_that_goes_away_in_the_middle_leaves_nothing() {
    let daemon = Running::new();
    // An interface that no machine has: refused, with the connection still usable.
    let mut application = Application::connect_to(&daemon.path(), "test").unwrap();
    let refusal = application.open_stack(OpenStack::on("none0")).unwrap_err();
    assert_eq!(refusal.code(), Code::NoInterface);
    application.report("udp 198.18.0.1:7", Code::RouteUnknown).unwrap();
    let client = application.clients().unwrap().into_iter().find(|line| line.name == "test").unwrap();
    assert_eq!(client.refused, 2);
    assert_eq!(application.details(client.client).unwrap().len(), 2);
    drop(application);
    let deadline = Instant::now() + WATCHDOG;
    loop {
        let mut other = Application::connect_to(&daemon.path(), "other").unwrap();
        if !other.clients().unwrap().iter().any(|line| line.name == "test") {
            break;
        }
        assert!(Instant::now() < deadline, "it is still listed");
    }
}

#[test]
fn descriptors_that_do_not_close_hold_up_nobody_else() {
    let daemon = Running::new();
    let hello = r#"{"number":1,"body":{"type":"hello","version":5,"name":"x"}}"#;
    let list = r#"{"number":1,"body":{"type":"list","from":0}}"#;
    // Unexpected with a request; with garbage; too many; still queued when the daemon hangs up.
    for (packets, count) in [(vec![hello, list, list], 1), (vec![hello, "{}"], 1), (vec![hello, list], 9)] {
        let socket = Channel::over(raw(&daemon.path()));
        let mut peers = Vec::new();
        for packet in packets.into_iter().chain(["{}", list]) {
            let (peers_of, sockets): (Vec<_>, Vec<_>) = (0..count).map(|_| lingering(Duration::from_secs(30))).unzip();
            peers.extend(peers_of);
            send_with(socket.as_fd(), packet, sockets);
        }
        drop(last_words(socket.into()));
        daemon.assert_serves();
    }
}

/// Any peer can cause ICMP errors: a flood of notices to a client that does not read just then must leave space for the
/// reply to its next request, or it is disconnected.
#[test]
fn notices_leave_room_for_answers() {
    use rustix::net::socketpair;
    use sidestep_control_api::message::{IcmpError, IcmpErrorKind, Protocol, Unreachable};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
    let (ours, _theirs) = (Channel::over(ours), theirs);
    let address = "198.18.0.1:7".parse().unwrap();
    let kind = IcmpErrorKind::Unreachable { why: Unreachable::Host };
    let error = IcmpError { protocol: Protocol::Tcp, local: address, remote: address, sequence: Some(1), kind };
    let send_all = |body: Reply| {
        let sent = (0..100_000).take_while(|_| {
            has_room(&ours, &body) && ours.send(&Numbered { number: 0, body: body.clone() }, &[]).is_ok()
        });
        sent.count()
    };
    assert!((16..10_000).contains(&send_all(Reply::IcmpError(error))));
    assert!((16..10_000).contains(&send_all(Reply::HandOverTwin { cookie: 7 })), "any process of this host");
    let revoked = Refusal::new(Code::Revoked, "cannot go on", "the interface is gone");
    assert!(
        (16..10_000).contains(&send_all(Reply::Revoked { stack: 1, refusal: revoked })),
        "more of what control says"
    );
    let page = Reply::Refused(Refusal::new(Code::Kernel, "x".repeat(600), "y".repeat(600)).next("z".repeat(600)));
    for number in 1..=8 {
        ours.send(&Numbered { number, body: page.clone() }, &[]).unwrap();
    }
}
