//! Pairs of links, and another process at one end.

use sidestep_socket::stream::blocking::Listener;
use sidestep_socket::stream::shm::{self, Settings};
use sidestep_socket::stream::{Link, Options, Waiting, is_retry};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A hang is a failure: far above anything a correct link takes.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);
/// Every way to wait that shared memory has.
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

/// The connector's end and the listener's.
pub(crate) fn pair(settings: &Settings, options: &Options) -> (Box<dyn Link>, Box<dyn Link>) {
    let path = path();
    let listener = Listener::bind_shm(&path, settings.clone(), options).expect("the folder can be written");
    let client = shm::connect(&path, settings, options).expect("it listens");
    (client, listener.accept(WATCHDOG).expect("it has been connected to").link)
}

/// A pair of streams with rings of so many bytes.
pub(crate) fn streams(ring_bytes: usize, waiting: Waiting) -> (Box<dyn Link>, Box<dyn Link>) {
    pair(&Settings { ring_bytes, ..Settings::default() }, &options(waiting))
}

/// Receives once, trying again while nothing has come.
pub(crate) fn recv(link: &mut dyn Link, buffer: &mut [u8]) -> io::Result<usize> {
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
