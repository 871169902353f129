//! A listening socket of TCP: connections past the kernel from the engine, all others from the kernel's socket.

use crate::answer::Answer;
use crate::engine::{Shared, Woken};
use crate::inherit::Inherited;
use crate::process::Birth;
use crate::stream::of_twin;
use crate::waiting::Waiting;
use rustix::event::PollFlags;
use rustix::io::Errno;
use sidestep_socket::tcp::{TcpListener, TcpStream};
use sidestep_socket::{Engine, Path};
use sidestep_sys::accept_ring::AcceptRing;
use sidestep_sys::socket::listen_backlog;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A listening socket of TCP.
#[derive(Debug)]
pub(crate) struct Listener {
    engine: Arc<Shared>,
    handle: TcpListener,
    /// The listener for IPv4 of a socket of IPv6 that takes both.
    ipv4: Option<TcpListener>,
    pub(crate) is_ipv6: bool,
    /// Connections that were taken, and that no call has got yet.
    taken: Mutex<VecDeque<TcpStream>>,
    /// The kernel's socket alone gets further connections.
    is_left: AtomicBool,
    is_ended: AtomicBool,
    /// The program has waited for connections here.
    is_waited: AtomicBool,
    birth: Birth,
    /// Other processes had the socket before.
    is_shared: bool,
    /// Read when the first connection is accepted.
    inherited: Mutex<Option<Inherited>>,
    /// The paths of both that were reported last: control may answer after listen(2) has returned.
    reported: Mutex<[Option<Path>; 2]>,
    /// Held by the thread that takes a connection from the kernel's socket; the ring is made when it is first needed.
    turn: Mutex<Turn>,
}

/// How connections are taken from a kernel's socket that other processes have, too.
#[derive(Debug, Default)]
pub(crate) struct Turn(Option<Box<AcceptRing>>);

impl Listener {
    pub(crate) fn new(
        engine: Arc<Shared>,
        handle: TcpListener,
        ipv4: Option<TcpListener>,
        is_ipv6: bool,
        is_shared: bool,
    ) -> Self {
        let no = || AtomicBool::new(false);
        let (is_left, is_ended, is_waited) = (no(), no(), AtomicBool::new(is_shared));
        let (taken, birth, inherited, reported) = (Mutex::default(), Birth::now(), Mutex::default(), Mutex::default());
        Self {
            engine,
            handle,
            ipv4,
            is_ipv6,
            taken,
            is_left,
            is_ended,
            is_waited,
            birth,
            is_shared,
            inherited,
            reported,
            turn: Mutex::default(),
        }
    }

    /// The program waits for connections here: a fork leaves them to this process, and peers have their answers from now on.
    pub(crate) fn note_waited(&self) {
        if !self.is_waited() {
            self.engine.with(|engine| self.note_waited_in(engine));
        }
    }

    /// The same, with the engine locked.
    fn note_waited_in(&self, engine: &mut Engine) {
        if !self.is_waited.swap(true, Ordering::Relaxed) {
            // One that has ended has no peers to answer.
            self.handles().for_each(|handle| _ = engine.tcp().begin_answering(handle));
        }
    }

    pub(crate) fn is_waited(&self) -> bool {
        self.is_waited.load(Ordering::Relaxed)
    }

    pub(crate) fn engine(&self) -> &Arc<Shared> {
        &self.engine
    }

    /// Takes over what the program has set on the kernel's socket, for the connections that come from now on.
    pub(crate) fn follow(&self, twin: BorrowedFd<'_>) {
        *self.inherited() = None;
        self.engine.with(|engine| {
            for handle in self.handles() {
                let mut tcp = engine.tcp();
                let is_ipv6 = tcp.local(handle).is_ok_and(|local| local.is_ipv6());
                let options = of_twin(twin, is_ipv6, tcp.defaults());
                // The kernel has accepted the values; what our stack cannot do with them stays as it was.
                let _ = tcp.set_listener_options(handle, options);
            }
        });
    }

    /// What a connection has from the kernel's socket.
    pub(crate) fn inherit(&self, twin: BorrowedFd<'_>, accepted: BorrowedFd<'_>) {
        self.inherited().get_or_insert_with(|| Inherited::of(twin)).give(accepted);
    }

    fn inherited(&self) -> MutexGuard<'_, Option<Inherited>> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the backlog that the kernel's socket has: another of a further listen(2), and at most net.core.somaxconn.
    pub(crate) fn follow_backlog(&self, twin: BorrowedFd<'_>) {
        let Ok(backlog) = listen_backlog(twin) else { return };
        self.engine.with(|engine| {
            for handle in self.handles() {
                // One that was lost listens in the kernel alone.
                let _ = engine.tcp().set_backlog(handle, usize::try_from(backlog).unwrap_or(usize::MAX));
            }
        });
    }

    pub(crate) fn handle(&self) -> TcpListener {
        self.handle
    }

    /// The next connection past the kernel.
    pub(crate) fn next(&self, engine: &mut Engine) -> Option<TcpStream> {
        self.note_waited_in(engine);
        let next = self.taken().pop_front().or_else(|| self.accept(engine));
        if next.is_some() {
            self.report_path(engine);
        }
        next
    }

    /// Reports the paths that differ from those reported last, if the user asked for it.
    pub(crate) fn report_path(&self, engine: &mut Engine) {
        let mut tcp = engine.tcp();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        for (handle, reported) in self.handles().zip(&mut *reported) {
            let (Ok(path), Ok(local)) = (tcp.listener_path(handle), tcp.local(handle)) else { continue };
            if *reported != Some(path) {
                *reported = Some(path);
                self.engine.report_path(|| format!("TCP listener at {local}"), path);
            }
        }
    }

    fn handles(&self) -> impl Iterator<Item = TcpListener> {
        [Some(self.handle), self.ipv4].into_iter().flatten()
    }

    /// Gives a connection back that cannot be accepted now: the next call gets it.
    pub(crate) fn put_back(&self, stream: TcpStream) {
        self.taken().push_front(stream);
    }

    pub(crate) fn readiness(&self, engine: &mut Engine) -> PollFlags {
        self.note_waited_in(engine);
        // One that is taken leaves a place in the queue: they stay there until they are accepted.
        let has_one = |handle| engine.tcp().has_connection(handle).unwrap_or(false);
        let is_any = !self.taken().is_empty() || self.handles().any(has_one);
        if is_any { PollFlags::IN | PollFlags::RDNORM } else { PollFlags::empty() }
    }

    /// Waits for a connection, past the kernel or by the kernel's socket.
    pub(crate) fn wait(&self, twin: BorrowedFd<'_>, waiting: &mut Waiting<'_>) -> Answer<()> {
        let is_ready = |engine: &mut Engine| (!self.readiness(engine).is_empty()).then_some(());
        match waiting.wait(&self.engine, &[(twin, PollFlags::IN)], is_ready) {
            Woken::Ready(()) | Woken::Kernel => Ok(()),
            Woken::Interrupted => Err(Errno::INTR.into()),
            Woken::Deadline => Err(Errno::AGAIN.into()),
        }
    }

    /// Leaves further connections to the kernel's socket, for good; those that have come past it are still accepted here.
    pub(crate) fn leave(&self) {
        if self.is_left.swap(true, Ordering::AcqRel) {
            return;
        }
        let left = self.engine.with(|engine| {
            let mut taken = self.taken();
            while let Some(stream) = self.accept(engine) {
                taken.push_back(stream);
            }
            self.engine.samples().leave_listener(engine, self.handle);
            let mut tcp = engine.tcp();
            let ipv4 = self.ipv4.map_or(Ok(()), |ipv4| tcp.leave_listener(ipv4));
            tcp.leave_listener(self.handle).and(ipv4)
        });
        if let Err(problem) = left {
            self.engine.report(&problem.brief());
        }
    }

    /// Stops listening past the kernel, with the engine locked.
    pub(crate) fn end_in(&self, engine: &mut Engine) {
        if self.is_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        self.handles().for_each(|handle| self.engine.forget_listener(engine, handle));
        let mut tcp = engine.tcp();
        for stream in std::mem::take(&mut *self.taken()) {
            // As the kernel: connections that nobody has accepted are reset.
            let _ = tcp.abort(stream);
        }
        if self.is_left.load(Ordering::Acquire) {
            return;
        }
        // The socket listens until both have gone, which proves the port for the connections that each has accepted.
        let ipv4 = self.ipv4.map_or(Ok(()), |ipv4| tcp.leave_listener(ipv4));
        // Where another process may have the socket, it listens on there.
        let ended =
            if self.may_be_others() { tcp.leave_listener(self.handle) } else { tcp.close_listener(self.handle) };
        if let Err(problem) = ipv4.and(ended) {
            self.engine.report(&problem.brief());
        }
    }

    /// Before the process ends: control has a descriptor of the socket, and closes it a little later than the process. Whoever binds the
    /// port meanwhile finds it as the kernel leaves it.
    pub(crate) fn unlisten(&self) {
        if !self.may_be_others() {
            self.engine.with(|engine| engine.tcp().unlisten(self.handle));
        }
    }

    /// Returns whether another process may have the socket.
    pub(crate) fn may_be_others(&self) -> bool {
        self.is_shared || self.birth.was_before_fork() || self.birth.was_before_start()
    }

    /// Waits until no other thread takes a connection from the kernel's socket.
    pub(crate) fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ring that takes them without waiting; `None` where there is no io_uring.
    pub(crate) fn ring<'a>(&self, turn: &'a mut Turn) -> Option<&'a mut AcceptRing> {
        if turn.0.is_none() {
            turn.0 = AcceptRing::new().ok().map(Box::new);
            if turn.0.is_none() {
                let text = || "a listener: to the kernel: other processes have it, and there is no io_uring".to_owned();
                self.engine.report_change(text);
            }
        }
        turn.0.as_deref_mut()
    }

    fn accept(&self, engine: &mut Engine) -> Option<TcpStream> {
        // What fails here is one connection that has gone, or a listener that was lost: the kernel's socket goes on.
        let mut accept = |handle| engine.tcp().accept(handle).ok().flatten();
        accept(self.handle).or_else(|| self.ipv4.and_then(accept))
    }

    fn taken(&self) -> MutexGuard<'_, VecDeque<TcpStream>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !*self.is_ended.get_mut() {
            self.engine.with(|engine| self.end_in(engine));
        }
    }
}
