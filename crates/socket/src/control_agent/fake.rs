//! A control that answers as a test wants it to.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use sidestep_control_api::message::{Channel, Mode, Numbered, Reply, Request, RingSizes, StackFacts, VERSION};
use sidestep_control_api::rss::Spread;
use sidestep_control_api::table::Writer;
use sidestep_sys::ethtool::{HashFunction, Rss};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// The reply to a request.
pub(super) enum Do {
    Answer(Reply),
    /// Answer at the test's leave.
    Await(Receiver<Reply>),
    /// The connection ends, and the next one is served.
    HangUp,
    /// There is no control any more.
    Die,
}

/// One that serves a connection at a time.
pub(super) struct FakeControl {
    path: PathBuf,
    /// All that was asked, but greetings.
    pub(super) asked: Receiver<Request>,
    thread: Option<JoinHandle<()>>,
}

impl FakeControl {
    pub(super) fn start(mut decide: impl FnMut(&Request) -> Do + Send + 'static) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sidestep-agent-{}-{number}", std::process::id()));
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&socket, 8).unwrap();
        let (tell, asked) = channel();
        let serve = move || {
            let table = Writer::create(1).unwrap();
            while let Ok(connection) = accept_with(&socket, SocketFlags::CLOEXEC) {
                let connection = Channel::over(connection);
                while let Ok(incoming) = connection.receive::<Request>() {
                    let Numbered { number, body } = incoming.message;
                    drop(incoming.descriptors);
                    let answer = |reply| connection.send(&Numbered { number, body: reply }, &[]);
                    let done = match body {
                        Request::Hello { .. } => {
                            let welcome = Reply::Welcome { version: VERSION, pid: 1 };
                            connection.send(&Numbered { number, body: welcome }, &[table.file()])
                        }
                        request => {
                            let is_last = matches!(request, Request::Bye);
                            let _ = tell.send(request.clone());
                            match decide(&request) {
                                Do::Answer(reply) if is_last => return drop(answer(reply)),
                                Do::Answer(reply) => answer(reply),
                                Do::Await(leave) => answer(leave.recv().unwrap()),
                                Do::HangUp => break,
                                Do::Die => return,
                            }
                        }
                    };
                    if done.is_err() {
                        break;
                    }
                }
            }
        };
        Self { path, asked, thread: Some(std::thread::spawn(serve)) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FakeControl {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // It ends with the agent's farewell.
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

/// The facts of a stack of this number on this interface.
pub(crate) fn facts(id: u32, index: u32) -> StackFacts {
    StackFacts {
        id,
        interface: "eth1".into(),
        index,
        queues: Vec::new(),
        missing: Vec::new(),
        elsewhere: Vec::new(),
        frames: 4096,
        frame_bytes: 2048,
        headroom: 0,
        no_huge_pages: None,
        multi_buffer: false,
        rings: RingSizes { fill: 2048, completion: 2048, receive: 2048, transmit: 2048 },
        mode: Mode::Copy,
        downgrades: Vec::new(),
        tx_budget: 32,
        busy_poll: None,
        deadline_ns: 1_000_000_000,
    }
}

/// A device with four queues whose table has these.
pub(crate) fn spread_over(queues: &[u32]) -> Spread {
    let key = (1..=40).map(|byte: u8| byte.wrapping_mul(37)).collect();
    let table = queues.iter().copied().cycle().take(128).collect();
    Spread::of(4, Rss { function: HashFunction::Toeplitz, transform: 0, key, table })
}

/// Any descriptor.
pub(super) fn page() -> OwnedFd {
    std::os::unix::net::UnixStream::pair().unwrap().0.into()
}
