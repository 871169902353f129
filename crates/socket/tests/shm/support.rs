//! Connected pairs, and another process at one end.

use sidestep_socket::datagram::{self, DatagramSocket, ShmListener};
use sidestep_socket::stream::shm::Settings;
use sidestep_socket::stream::{Accepted, Io, Listener, Options, Stream, Waiting, connect_shm, is_retry};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A hang is a failure: far above anything a correct link takes.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);
/// Every kind of waiting that shared memory has.
pub(crate) const WAITINGS: [Waiting; 3] = [Waiting::Block, Waiting::Epoll, Waiting::Spin];

const ROLE: &str = "SIDESTEP_SHM_ROLE";
const PATH: &str = "SIDESTEP_SHM_PATH";

pub(crate) fn options(waiting: Waiting) -> Options {
    Options { waiting, timeout: Duration::from_millis(50), ..Options::default() }
}

pub(crate) fn path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("sidestep-shm-{}-{number}", std::process::id()))
}

/// One end of a stream; no engine is used.
pub(crate) struct End {
    io: Io,
    stream: Stream,
}

impl End {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { io: Io::default(), stream }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(&mut self.io, bytes)
    }

    pub(crate) fn send_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(&mut self.io, bytes)
    }

    pub(crate) fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(&mut self.io, buffer)
    }

    pub(crate) fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown(&mut self.io)
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.descriptor().expect("shared memory has one")
    }
}

/// One end of datagrams.
pub(crate) struct DatagramEnd {
    io: Io,
    socket: DatagramSocket,
}

impl DatagramEnd {
    fn new(socket: DatagramSocket) -> Self {
        Self { io: Io::default(), socket }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(&mut self.io, bytes)
    }

    pub(crate) fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(&mut self.io, buffer)
    }

    pub(crate) fn shutdown(&mut self) {
        self.socket.shutdown();
    }
}

pub(crate) fn connect(path: &std::path::Path, settings: &Settings, options: &Options) -> End {
    End::new(connect_shm(path, settings, options).expect("it listens"))
}

pub(crate) fn accept(listener: &mut Listener) -> Accepted {
    listener.accept_within(&mut Io::default(), WATCHDOG).expect("it has been connected to")
}

/// The connector's end and the listener's.
pub(crate) fn pair(settings: &Settings, options: &Options) -> (End, End) {
    let path = path();
    let mut listener = Listener::bind_shm(&path, settings.clone(), options).expect("the folder can be written");
    let client = connect(&path, settings, options);
    (client, End::new(accept(&mut listener).stream))
}

/// The same of datagrams.
pub(crate) fn datagram_pair(settings: &Settings, options: &Options) -> (DatagramEnd, DatagramEnd) {
    let path = path();
    let mut listener = ShmListener::bind(&path, settings.clone(), options).expect("the folder can be written");
    let client = datagram::connect_shm(&path, settings, options).expect("it listens");
    let (server, _) = listener.accept_within(WATCHDOG).expect("it has been connected to");
    (DatagramEnd::new(client), DatagramEnd::new(server))
}

/// A pair of streams with rings of so many bytes.
pub(crate) fn streams(ring_bytes: usize, waiting: Waiting) -> (End, End) {
    pair(&Settings { ring_bytes, ..Settings::default() }, &options(waiting))
}

/// Receives once, trying again while nothing has come.
pub(crate) fn recv(link: &mut End, buffer: &mut [u8]) -> io::Result<usize> {
    again(|| link.recv(buffer))
}

/// Tries again while the answer is "not now".
pub(crate) fn again<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_retry(&error) => assert!(begin.elapsed() < WATCHDOG, "nothing happens"),
            other => return other,
        }
    }
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 + index / 251) as u8).collect()
}

/// This test program again, to play `role` against a listener at the path.
pub(crate) fn spawn(role: &str, path: &std::path::Path) -> Child {
    spawn_saying(role, path, Stdio::null())
}

/// As `spawn`, with something to write to.
pub(crate) fn spawn_saying(role: &str, path: &std::path::Path, stdout: Stdio) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a test program has a path"));
    command.args(["--exact", "deaths::child", "--test-threads=1", "--nocapture"]);
    command.env(ROLE, role).env(PATH, path).stdout(stdout);
    sidestep_sys::process::die_with_parent(&mut command);
    command.spawn().expect("it runs already")
}

/// What this process is to play, when a test has spawned it.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(PATH)?.into()))
}
