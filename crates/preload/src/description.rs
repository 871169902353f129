//! Open file descriptions past the kernel: what dup(2) shares.

use crate::datagram::Datagrams;
use crate::epoll::Set;
use crate::listener::Listener;
use crate::process::Birth;
use crate::stream::Stream;
use crate::timeouts::Timeouts;
use crate::watchers::Watchers;
use libc::c_int;
use rustix::event::PollFlags;
use rustix::io::{FdFlags, fcntl_getfd};
use sidestep_socket::Engine;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One open file description.
#[derive(Debug)]
pub(crate) struct Description {
    /// O_NONBLOCK, as the program has set it; the kernel's description has it, too.
    is_nonblocking: AtomicBool,
    /// Numbers that stand for it in the table. A call under way has a reference to it, too, and is no number.
    numbers: AtomicUsize,
    birth: Birth,
    pub(crate) kind: Kind,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) timeouts: Timeouts,
}

/// What is behind the descriptor.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A connection of TCP.
    Stream(Stream),
    /// A listening socket of TCP.
    Listener(Listener),
    /// A socket of UDP.
    Datagrams(Datagrams),
    /// An epoll set.
    Epoll(Arc<Set>),
}

impl Description {
    pub(crate) fn new(kind: Kind, watchers: Arc<Watchers>, is_nonblocking: bool) -> Arc<Self> {
        Arc::new(Self {
            is_nonblocking: AtomicBool::new(is_nonblocking),
            numbers: AtomicUsize::new(0),
            birth: Birth::now(),
            kind,
            watchers,
            timeouts: Timeouts::default(),
        })
    }

    /// The table has another number of it.
    pub(crate) fn add_number(&self) {
        self.numbers.fetch_add(1, Ordering::AcqRel);
    }

    /// The table has one number less; returns whether that was the last one.
    pub(crate) fn remove_number(&self) -> bool {
        self.numbers.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
    }

    pub(crate) fn stream(&self) -> Option<&Stream> {
        match &self.kind {
            Kind::Stream(stream) => Some(stream),
            Kind::Listener(_) | Kind::Datagrams(_) | Kind::Epoll(_) => None,
        }
    }

    pub(crate) fn datagrams(&self) -> Option<&Datagrams> {
        match &self.kind {
            Kind::Datagrams(datagrams) => Some(datagrams),
            Kind::Stream(_) | Kind::Listener(_) | Kind::Epoll(_) => None,
        }
    }

    /// The events that poll(2) would report of our side.
    pub(crate) fn readiness(&self, engine: &mut Engine) -> PollFlags {
        match &self.kind {
            Kind::Stream(stream) => stream.readiness(engine),
            Kind::Listener(listener) => listener.readiness(engine),
            Kind::Datagrams(datagrams) => datagrams.readiness(engine),
            Kind::Epoll(set) => set.readiness(engine),
        }
    }

    /// Returns whether another process may have the connection: one that was forked since, or a program that was started since and has
    /// this number, as it stays open there.
    pub(crate) fn is_shared(&self, number: c_int) -> bool {
        let stays_open = || {
            // SAFETY: borrowed for one system call; a closed one gives an error.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
        };
        self.stream().is_some() && (self.birth.was_before_fork() || self.birth.was_before_start() && stays_open())
    }

    /// Bytes unread and bytes not acknowledged; `None` for what has neither.
    pub(crate) fn queued(&self) -> Option<(usize, usize)> {
        self.stream().map(Stream::queued)
    }

    /// Ends our side of a connection while the numbers are still open. Returns false if it was ended before.
    pub(crate) fn end(&self) -> bool {
        match &self.kind {
            Kind::Stream(stream) => stream.end(),
            Kind::Listener(_) | Kind::Datagrams(_) | Kind::Epoll(_) => false,
        }
    }

    /// Ends our side before the last reference goes while the engine is locked.
    pub(crate) fn end_in(&self, engine: &mut Engine) {
        match &self.kind {
            Kind::Stream(stream) => _ = stream.end_in(engine),
            Kind::Listener(listener) => listener.end_in(engine),
            Kind::Datagrams(datagrams) => datagrams.end_in(engine),
            Kind::Epoll(_) => {}
        }
    }

    /// Takes SO_RCVTIMEO and SO_SNDTIMEO of the twin, which the program has open.
    pub(crate) fn follow_timeouts(&self, number: c_int) {
        // SAFETY: borrowed for two system calls; one that was closed meanwhile has none.
        self.timeouts.follow(unsafe { BorrowedFd::borrow_raw(number) });
    }

    /// Closes it as close(2) does: with SO_LINGER, not before the peer has what was sent, or the time is over.
    pub(crate) fn linger(self, number: c_int) {
        // SAFETY: the number is open until this has returned.
        let twin = unsafe { BorrowedFd::borrow_raw(number) };
        let linger = rustix::net::sockopt::socket_linger(twin).ok().flatten();
        if let (Some(time), Some(stream), false) = (linger, self.stream(), self.is_nonblocking()) {
            stream.linger(time, &self.watchers);
        }
    }

    /// Returns whether the kernel's socket receives, too: then its readiness counts beside ours.
    pub(crate) fn twin_also_receives(&self) -> bool {
        !matches!(self.kind, Kind::Stream(_))
    }
}
