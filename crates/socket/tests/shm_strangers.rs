//! What strangers can do to a listener, and a listener to a connector: nothing that hangs, nothing that stays open.
//!
//! The tests count descriptors of the process, so they take turns, in a test program of their own.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sidestep_ring::{Cell, Kind as RingKind, Options as RingOptions, Segment, Waking};
use sidestep_socket::datagram;
use sidestep_socket::stream::shm::{RING_BYTES_MIN, Settings, Users};
use sidestep_socket::stream::{Endpoint, Io, Listener, Options, Stream, Waiting, connect_shm, is_retry};
use sidestep_sys::memory;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{self, File};
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

const WATCHDOG: Duration = Duration::from_secs(30);

fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn options() -> Options {
    Options { waiting: Waiting::Spin, timeout: Duration::from_millis(50), ..Options::default() }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("sidestep-strangers-{}-{name}", std::process::id()))
}

fn listener(name: &str) -> (Listener, PathBuf) {
    let path = path(name);
    (Listener::bind_shm(&path, Settings::default(), &options()).expect("the folder can be written"), path)
}

fn accept(listener: &mut Listener) -> Stream {
    listener.accept_within(&mut Io::default(), WATCHDOG).expect("it was connected to").stream
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("/proc is mounted").count()
}

/// A connection that has not said hello.
fn stranger(path: &Path) -> Socket {
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
    socket.connect(&SockAddr::unix(path).expect("a short path")).expect("it listens");
    socket
}

fn hello(version: u32, kind: u32, up: u64, down: u64) -> Vec<u8> {
    let mut bytes = b"SIDELINK".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(up.to_le_bytes());
    bytes.extend(down.to_le_bytes());
    bytes
}

fn say(socket: &Socket, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(256))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).expect("it listens");
}

/// The reason for which the listener turned its last connector away.
fn turned_away(listener: &mut Listener) -> String {
    let before = listener.refusals().count;
    let begin = Instant::now();
    // The end of a timeout does not wait for one that is silent.
    while listener.refusals().count == before {
        let accepted = listener.accept_within(&mut Io::default(), Duration::from_millis(20));
        let error = accepted.err().expect("nobody was to be taken");
        assert!(is_retry(&error), "{error}");
        assert!(begin.elapsed() < WATCHDOG);
    }
    let refusals = listener.refusals();
    assert_eq!(refusals.count, before + 1);
    refusals.last
}

fn ring() -> Segment {
    let options =
        RingOptions { kind: RingKind::Spsc, cell: Cell::Line, bytes: RING_BYTES_MIN, waking: Waking::Barrier };
    Segment::memfd(&options).expect("memory")
}

const SIZE: u64 = RING_BYTES_MIN as u64;

#[test]
fn silence_and_garbage_neither_hang_nor_stay() {
    let _turn = my_turn();
    let (mut listener, path) = listener("garbage");
    let before = open_descriptors();
    let silent = stranger(&path);
    assert!(turned_away(&mut listener).contains("silent for 500 ms"));
    drop(silent);
    drop(stranger(&path)); // It hangs up at once.
    assert!(turned_away(&mut listener).contains("no hello"));
    for garbage in [&b"x"[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 32], &[0; 60_000], &hello(1, 1, SIZE, SIZE)[..31]] {
        let stranger = stranger(&path);
        say(&stranger, garbage, &[]);
        assert!(turned_away(&mut listener).contains("no hello"), "{garbage:?}");
    }
    assert_eq!(open_descriptors(), before);
}

#[test]
fn every_mismatch_is_refused_by_name_on_both_sides() {
    let _turn = my_turn();
    let (mut listener, path) = listener("mismatch");
    let before = open_descriptors();
    let (one, two) = (ring(), ring());
    for (greeting, name) in [
        (hello(7, 1, SIZE, SIZE), "version 1 of the hello"),
        (hello(1, 2, SIZE, SIZE), "takes a stream link"),
        (hello(1, 9, SIZE, SIZE), "takes a stream link"),
        (hello(1, 1, SIZE, 64), "rings of 4096 to 262144 bytes"),
        (hello(1, 1, u64::MAX, SIZE), "rings of 4096 to 262144 bytes"),
        (hello(1, 1, SIZE, 2 * SIZE), "not those of a ring of 8192"),
    ] {
        let stranger = stranger(&path);
        say(&stranger, &greeting, &[one.fd(), two.fd()]);
        let why = turned_away(&mut listener);
        assert!(why.contains(name), "{why}");
        let mut answer = [MaybeUninit::uninit(); 64];
        assert_eq!(stranger.recv(&mut answer).expect("it is told"), 16);
    }
    drop((one, two));
    assert_eq!(open_descriptors(), before);
}

#[test]
fn a_hundred_descriptors_do_not_stay() {
    let _turn = my_turn();
    let (mut listener, path) = listener("hundred");
    let before = open_descriptors();
    let (one, two) = (ring(), ring());
    let with = open_descriptors();
    for count in [0, 1, 3, 100, 200] {
        for greeting in [hello(1, 1, SIZE, SIZE), b"garbage".to_vec()] {
            let stranger = stranger(&path);
            say(&stranger, &greeting, &vec![one.fd(); count]);
            let why = turned_away(&mut listener);
            assert!(why.contains("exactly two descriptors") || why.contains("no hello"), "{why}");
        }
        assert_eq!(open_descriptors(), with, "{count} descriptors");
    }
    // After the hello as well: nobody takes them out, and they go with the connection.
    let stranger = stranger(&path);
    say(&stranger, &hello(1, 1, SIZE, SIZE), &[one.fd(), two.fd()]);
    let mut link = accept(&mut listener);
    say(&stranger, &[0], &vec![one.fd(); 100]);
    assert!(is_retry(&link.read(&mut Io::default(), &mut [0; 8]).expect_err("nothing was sent")));
    drop((link, stranger, one, two));
    assert_eq!(open_descriptors(), before);
}

#[test]
fn memory_that_cannot_be_trusted_is_refused() {
    let _turn = my_turn();
    let (mut listener, path) = listener("memory");
    let good = ring();
    let length = SIZE as usize + 4096;
    let sealed = |length: usize| {
        let file = memory::memfd("stranger", false).expect("a memfd");
        memory::allocate(file.as_fd(), length).expect("memory");
        memory::seal_size(file.as_fd()).expect("it can be sealed");
        file
    };
    let unsealed = memory::memfd("stranger", false).expect("a memfd");
    memory::allocate(unsealed.as_fd(), length).expect("memory");
    let broadcast =
        RingOptions { kind: RingKind::Broadcast, cell: Cell::Line, bytes: RING_BYTES_MIN, waking: Waking::Barrier };
    let broadcast = Segment::memfd(&broadcast).expect("memory");
    let mute = RingOptions { waking: Waking::Never, kind: RingKind::Spsc, cell: Cell::Line, bytes: RING_BYTES_MIN };
    let mute = Segment::memfd(&mute).expect("memory");
    let held = ring();
    let _holder = held.producer().expect("it is fresh");
    let file: OwnedFd = File::open("/proc/self/exe").expect("it runs").into();
    let pipe = io::pipe().expect("a pipe");
    for (bad, name) in [
        (unsealed.as_fd(), "not sealed"),
        (file.as_fd(), "not sealed"),
        (pipe.0.as_fd(), "not sealed"),
        (sealed(length).as_fd(), "SIDESTEP"),
        (sealed(4096).as_fd(), "it has 4096 bytes"),
        (sealed(1 << 20).as_fd(), "it has 1048576 bytes"),
        (broadcast.fd(), "another ring"),
        (mute.fd(), "another ring"),
    ] {
        for pair in [[bad, good.fd()], [good.fd(), bad]] {
            let stranger = stranger(&path);
            say(&stranger, &hello(1, 1, SIZE, SIZE), &pair);
            let why = turned_away(&mut listener);
            assert!(why.contains(name), "{why}");
        }
    }
    let mut refusal_of = |bad: BorrowedFd<'_>| {
        let stranger = stranger(&path);
        say(&stranger, &hello(1, 1, SIZE, SIZE), &[good.fd(), bad]);
        turned_away(&mut listener)
    };
    assert!(refusal_of(held.fd()).contains("holds this side"), "somebody else writes there");
    match memory::memfd("stranger", true) {
        Ok(huge) => {
            memory::seal_size(huge.as_fd()).expect("it can be sealed");
            assert!(refusal_of(huge.as_fd()).contains("huge pages"));
        }
        Err(error) => eprintln!("skipped: this kernel has no huge pages ({error})"),
    }
}

#[test]
fn a_connector_is_told_why_it_was_refused() {
    let _turn = my_turn();
    let before = open_descriptors();
    for waiting in [Waiting::Block, Waiting::Epoll, Waiting::Spin] {
        let options = Options { waiting, timeout: WATCHDOG, ..Options::default() };
        let mut io = Io::default();
        let name = "takes a stream link";
        let (mut listener, path) = listener("told");
        let mut link = datagram::connect_shm(&path, &Settings::default(), &options).expect("it listens");
        assert!(turned_away(&mut listener).contains(name));
        let refused = told(|| link.receive(&mut io, &mut [0; 8]).map(|_| ()));
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(refused.to_string().contains(name), "{refused}");
        assert_eq!(told(|| link.send(&mut io, b"x").map(|_| ())).kind(), ErrorKind::ConnectionRefused);
        drop(listener);

        let (settings, name) =
            (Settings { ring_bytes: 1 << 20, ..Settings::default() }, "rings of 4096 to 262144 bytes");
        let (mut listener, path) = self::listener("told");
        let mut link = connect_shm(&path, &settings, &options).expect("it listens");
        assert!(turned_away(&mut listener).contains(name));
        let refused = told(|| link.read(&mut io, &mut [0; 8]).map(|_| ()));
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(refused.to_string().contains(name), "{refused}");
        assert_eq!(told(|| link.write(&mut io, b"x").map(|_| ())).kind(), ErrorKind::ConnectionRefused);
    }
    let other = Settings { users: Users::These(vec![4_000_000]), ..Settings::default() };
    let path = path("users");
    let mut listener = Listener::bind_shm(&path, other, &options()).expect("the folder can be written");
    let mut link = connect_shm(&path, &Settings::default(), &options()).expect("it listens");
    assert!(turned_away(&mut listener).contains("does not let user"));
    assert!(told(|| link.read(&mut Io::default(), &mut [0; 8]).map(|_| ())).to_string().contains("does not let user"));
    drop((link, listener));
    assert_eq!(open_descriptors(), before);
}

/// The first error that is not "not now".
fn told(mut attempt: impl FnMut() -> io::Result<()>) -> io::Error {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(error) if !is_retry(&error) => return error,
            _ => assert!(begin.elapsed() < WATCHDOG, "never told"),
        }
    }
}

#[test]
fn honest_links_leave_nothing_open_either() {
    let _turn = my_turn();
    let (mut listener, path) = listener("honest");
    let before = open_descriptors();
    for _ in 0..50 {
        let mut client = connect_shm(&path, &Settings::default(), &options()).expect("it listens");
        let mut server = accept(&mut listener);
        client.write(&mut Io::default(), b"x").expect("there is room");
        assert_eq!(server.read(&mut Io::default(), &mut [0; 8]).expect("it was sent"), 1);
        assert_eq!(open_descriptors(), before + 2, "one socket for each end");
    }
    // Connected, never accepted, and the listener gone.
    let mut orphan = connect_shm(&path, &Settings::default(), &options()).expect("it listens");
    drop(listener);
    assert_eq!(told(|| orphan.read(&mut Io::default(), &mut [0; 8]).map(|_| ())).kind(), ErrorKind::ConnectionReset);
    drop(orphan);
    assert_eq!(open_descriptors(), before - 1);
    assert!(!path.exists(), "the listener's name is gone");
}

/// Descriptors up to a limit of this process, which is put back with them.
struct Hoard(Rlimit, Vec<File>);

impl Hoard {
    fn of_all() -> Self {
        let before = getrlimit(Resource::Nofile);
        let limit = (open_descriptors() + 32) as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..before }).expect("it is lower");
        Self(before, std::iter::from_fn(|| File::open("/dev/null").ok()).collect())
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        self.1.clear();
        setrlimit(Resource::Nofile, self.0).expect("it was so before");
    }
}

#[test]
fn silent_strangers_do_not_keep_the_last_descriptors() {
    let _turn = my_turn();
    let (mut listener, path) = listener("descriptors");
    let honest = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
    let (up, down) = (ring(), ring());
    let before = open_descriptors();
    let silent: Vec<Socket> = (0..8).map(|_| stranger(&path)).collect();
    let nobody = listener.accept_within(&mut Io::default(), Duration::from_millis(20)).err().expect("all are silent");
    assert!(is_retry(&nobody) && open_descriptors() == before + 2 * silent.len(), "they wait: {nobody}");
    let hoard = Hoard::of_all();
    honest.connect(&SockAddr::unix(&path).expect("a short path")).expect("it listens");
    say(&honest, &hello(1, 1, SIZE, SIZE), &[up.fd(), down.fd()]);
    let accepted = listener.accept_within(&mut Io::default(), Duration::from_secs(2));
    drop(hoard);
    assert!(accepted.is_ok(), "{:?}", listener.refusals());
}

#[test]
fn a_full_backlog_does_not_hold_a_connector() {
    let _turn = my_turn();
    let (_listener, path) = listener("backlog");
    let before = open_descriptors();
    let mut links = Vec::new();
    let problem = loop {
        match connect_shm(&path, &Settings { ring_bytes: RING_BYTES_MIN, ..Settings::default() }, &options()) {
            Ok(stream) => links.push(stream),
            Err(problem) => break problem.to_string(),
        }
        assert!(links.len() < 1000, "a backlog has an end");
    };
    assert!(problem.contains("backlog is full"), "{problem}");
    drop(links);
    assert_eq!(open_descriptors(), before);
}

/// The peer writes anything over the rings, at any time, while this end goes on. Nothing is expected but that every call
/// returns, and that this end's memory is its own (the test runs under the same checks as any other).
#[test]
fn a_peer_that_scribbles_cannot_harm() {
    let _turn = my_turn();
    let (mut listener, path) = listener("scribble");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut faults = 0;
    for round in 0..300 {
        let (up, down) = (ring(), ring());
        let stranger = stranger(&path);
        say(&stranger, &hello(1, 1, SIZE, SIZE), &[up.fd(), down.fd()]);
        let mut link = accept(&mut listener);
        let files = [&up, &down].map(|ring| File::from(ring.fd().try_clone_to_owned().expect("a descriptor")));
        for _ in 0..40 {
            let which = &files[next() as usize % 2];
            if next() % 2 == 0 {
                // A record's word at its first lap, of any kind and length.
                let cell = next() % 64;
                let word = cell << 32 | 1 << 31 | (next() % 8) << 29 | (next() % 3000);
                which.write_all_at(&word.to_le_bytes(), 4096 + cell * 64).expect("a memfd takes bytes");
            } else {
                let at = next() % if round % 2 == 0 { 4096 } else { 4096 + SIZE };
                which.write_all_at(&next().to_le_bytes(), at.min(4096 + SIZE - 8)).expect("a memfd takes bytes");
            }
            let mut buffer = vec![0; (next() % 4000) as usize];
            faults += u32::from(is_fault(link.read(&mut Io::default(), &mut buffer)));
            faults += u32::from(is_fault(link.write(&mut Io::default(), &buffer)));
        }
    }
    assert!(faults > 100, "scribbling was seen {faults} times");
}

/// What is shown to a protocol is its own: the peer changes the ring while it is looked at, and the bytes stay as they were.
#[test]
fn bytes_that_are_shown_do_not_change_while_they_are_looked_at() {
    let _turn = my_turn();
    let path = path("shown");
    let (mut io, options) = (Io::default(), Options::default());
    let mut listener = Listener::bind(&mut io, &Endpoint::Shm(path.clone()), &options).expect("a free name");
    let (up, down) = (ring(), ring());
    let stranger = stranger(&path);
    say(&stranger, &hello(1, 1, SIZE, SIZE), &[up.fd(), down.fd()]);
    let deadline = Instant::now() + WATCHDOG;
    let mut stream = loop {
        assert!(Instant::now() < deadline, "a good hello is taken");
        if let Some(accepted) = listener.accept(&mut io).expect("it listens") {
            break accepted.stream;
        }
    };
    let memory = File::from(up.fd().try_clone_to_owned().expect("a descriptor"));
    up.producer().expect("nobody has it").try_send(&[7; 500]).expect("there is room");
    let mut shown = 0;
    let taken = stream.receive_with(&mut io, &mut |bytes: &[u8]| {
        memory.write_all_at(&vec![9; SIZE as usize], 4096).expect("a memfd takes bytes");
        shown += bytes.iter().filter(|byte| **byte == 7).count();
        bytes.len()
    });
    assert_eq!((taken.expect("it has come"), shown), (500, 500));
}

fn is_fault(result: io::Result<usize>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::InvalidData)
}
