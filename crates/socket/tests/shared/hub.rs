//! An engine with an observer that wakes who waits for a socket, as libsidestep.so has one; and kernel sockets beside it.

use crate::support::{Control, WATCHDOG, address, is_root_or_say, reach};
use rustix::event::PollFlags;
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_socket::shared::{Observer, SharedEngine, SocketEvent, Wait, Waker, Woken};
use sidestep_socket::tcp::{Answering, Readiness, Shutdown, TcpListener, TcpStream};
use sidestep_socket::{Engine, EngineOptions, Queues};
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Who waits for which sockets.
#[derive(Default)]
pub(crate) struct Watched {
    wakers: Mutex<HashMap<SocketEvent, Vec<Waker>>>,
    /// Events shown.
    pub(crate) events: AtomicU64,
}

struct Notes(Arc<Watched>);

impl Observer for Notes {
    fn note(&self, event: SocketEvent) {
        self.0.events.fetch_add(1, Ordering::Relaxed);
        self.0.wake(event);
    }
}

impl Watched {
    pub(crate) fn wake(&self, event: SocketEvent) {
        self.wakers.lock().unwrap().get(&event).into_iter().flatten().for_each(Waker::wake);
    }

    pub(crate) fn add(&self, event: SocketEvent, waker: &Waker) {
        self.wakers.lock().unwrap().entry(event).or_default().push(waker.clone());
    }

    pub(crate) fn remove(&self, event: SocketEvent) {
        self.wakers.lock().unwrap().remove(&event);
    }
}

/// An engine of a host that threads share.
pub(crate) struct Hub {
    pub(crate) engine: SharedEngine,
    pub(crate) watched: Arc<Watched>,
    pub(crate) host: Host,
    pub(crate) spin: Duration,
}

/// A hub of side A, its control plane, and the other side.
pub(crate) fn with_hub(queues: u32, spin: Duration, test: impl FnOnce(&Arc<Hub>, &Host)) {
    with_hub_over(&Options { queues, ..Options::default() }, spin, test);
}

pub(crate) fn with_hub_over(options: &Options, spin: Duration, test: impl FnOnce(&Arc<Hub>, &Host)) {
    if !is_root_or_say() {
        return;
    }
    let lab = Lab::up(options).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    reach(a, address(b, false));
    test(&Arc::new(Hub::open(a, spin)), b);
}

impl Hub {
    pub(crate) fn open(host: &Host, spin: Duration) -> Self {
        let watched = Arc::new(Watched::default());
        let options = EngineOptions {
            queues: Queues::Every,
            ring_entries: 512,
            frames: 2048,
            linger: Duration::ZERO,
            ..EngineOptions::on(&host.interface)
        };
        let notes = Box::new(Notes(Arc::clone(&watched)));
        let engine = host.within(|| SharedEngine::open(&options, notes)).unwrap();
        assert_eq!(engine.lock().unwrap().refusal(), None);
        Self { engine, watched, host: host.clone(), spin }
    }

    /// Lends the engine.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Engine) -> T) -> T {
        work(&mut self.engine.lock().unwrap())
    }

    /// Waits until `ready` gives something; a test that waits longer than the watchdog hangs.
    pub(crate) fn wait<T>(&self, waker: &Waker, mut ready: impl FnMut(&mut Engine) -> Option<T>) -> T {
        let deadline = Instant::now() + WATCHDOG;
        loop {
            match self.wait_once(waker, Some(deadline), &[], &mut ready) {
                Woken::Ready(value) => return value,
                Woken::Woken => {}
                other => panic!("{:?}", std::mem::discriminant(&other)),
            }
        }
    }

    pub(crate) fn wait_once<T>(
        &self,
        waker: &Waker,
        deadline: Option<Instant>,
        also: &[(BorrowedFd<'_>, PollFlags)],
        ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Woken<T> {
        let mut wait = Wait { waker, deadline, spin: self.spin, also, interrupted: &|| false };
        self.engine.wait(&mut wait, ready).unwrap()
    }

    /// Connects past the kernel beside a socket of the kernel's.
    pub(crate) fn connect(&self, waker: &Waker, remote: SocketAddr) -> (TcpStream, Socket) {
        let twin = self.socket(Type::STREAM);
        let duplicate = duplicate(&twin);
        let stream = self.with(|engine| {
            let options = engine.tcp().defaults();
            engine.tcp().connect_beside(duplicate, remote, options).unwrap()
        });
        self.watched.add(SocketEvent::Stream(stream), waker);
        self.wait(waker, |engine| {
            let ready = engine.tcp().readiness(stream).unwrap();
            assert!(!ready.has(Readiness::ERROR), "{:?}", engine.tcp().take_error(stream));
            ready.has(Readiness::WRITABLE).then_some(())
        });
        (stream, twin)
    }

    /// A socket of this host that blocks, as programs have them.
    pub(crate) fn socket(&self, kind: Type) -> Socket {
        self.host.within(|| Ok(Socket::new(Domain::IPV4, kind, None).unwrap())).unwrap()
    }

    /// A listener past the kernel beside a socket of the kernel's.
    pub(crate) fn listen(&self, port: u16) -> (TcpListener, Socket) {
        self.listen_answering(port, Answering::AtOnce)
    }

    pub(crate) fn listen_answering(&self, port: u16, answering: Answering) -> (TcpListener, Socket) {
        let twin = self.socket(Type::STREAM);
        twin.set_reuse_address(true).unwrap();
        twin.bind(&SocketAddr::new(address(&self.host, false), port).into()).unwrap();
        twin.listen(64).unwrap();
        let duplicate = duplicate(&twin);
        let listener = self.with(|engine| {
            let options = engine.tcp().defaults();
            engine.tcp().listen_beside(duplicate, 64, options, answering).unwrap()
        });
        (listener, twin)
    }

    pub(crate) fn accept(&self, waker: &Waker, listener: TcpListener) -> TcpStream {
        let stream = self.wait(waker, |engine| engine.tcp().accept(listener).unwrap());
        self.watched.add(SocketEvent::Stream(stream), waker);
        stream
    }

    pub(crate) fn read(&self, waker: &Waker, stream: TcpStream, buffer: &mut [u8]) -> usize {
        self.wait(waker, |engine| match engine.tcp().read(stream, buffer) {
            Ok(count) => Some(count),
            Err(error) if error.is_would_block() => None,
            Err(error) => panic!("{stream:?}: {error}"),
        })
    }

    pub(crate) fn write_all(&self, waker: &Waker, stream: TcpStream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.wait(waker, |engine| match engine.tcp().send(stream, bytes) {
                Ok(count) => Some(count),
                Err(error) if error.is_would_block() => None,
                Err(error) => panic!("{stream:?}: {error}"),
            });
            bytes = &bytes[count..];
        }
    }

    pub(crate) fn close(&self, stream: TcpStream) {
        self.with(|engine| engine.tcp().close(stream)).unwrap();
        self.watched.remove(SocketEvent::Stream(stream));
    }

    pub(crate) fn shutdown(&self, stream: TcpStream) {
        self.with(|engine| engine.tcp().shutdown(stream, Shutdown::Write)).unwrap();
    }
}

pub(crate) fn duplicate(socket: &Socket) -> OwnedFd {
    socket.try_clone().unwrap().into()
}
