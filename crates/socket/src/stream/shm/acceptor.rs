//! Accepting connections through shared memory, from strangers of the same host, too: one that says nothing holds up nobody.

use super::handshake::{HELLO_MAX, TurnedAway, admit, check, open_socket, refuse_silent};
use super::{Kind, Rings, Settings};
use crate::stream::socket_file::bind_file;
use crate::stream::{Credentials, Options, SocketFile, is_out_of_descriptors, is_retry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use sidestep_sys::Problem;
use socket2::Socket;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Connections not yet accepted that the kernel keeps.
const BACKLOG: i32 = 16;
/// Connectors whose hello is waited for, at most; no more than a quarter of the descriptors that the process may have. An honest one
/// has sent it before it is accepted. When there are more, the oldest of the process that has most goes.
const WAITING_MAX: usize = 64;
/// The descriptors that a connector needs: its socket, the two rings of its hello, and those by which the rings know its process
/// (pidfds, /proc).
const DESCRIPTORS_PER_CONNECTOR: usize = 6;
/// Those accepted before the others are looked at.
const ACCEPTS_PER_LOOK: usize = 16;

/// Connectors that a listener for shared memory did not take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Their number.
    pub count: u64,
    /// The reason of the last refusal; empty if there was none.
    pub last: String,
}

/// [`Refusals`] that the accepting thread counts and others read.
#[derive(Clone, Default)]
pub(crate) struct SharedRefusals(Arc<Mutex<Refusals>>);

impl SharedRefusals {
    pub(crate) fn copy(&self) -> Refusals {
        self.0.lock().map(|refusals| refusals.clone()).unwrap_or_default()
    }

    fn count(&self, TurnedAway(why): TurnedAway) {
        if let Ok(mut refusals) = self.0.lock() {
            *refusals = Refusals { count: refusals.count + 1, last: why };
        }
    }
}

/// A listener that waits for the hellos of all connectors at the same time.
pub(crate) struct Acceptor {
    /// Removed while the socket still listens: a successor does not take the file for a dead one's.
    _file: SocketFile,
    socket: Socket,
    kind: Kind,
    settings: Settings,
    refusals: SharedRefusals,
    /// The oldest first.
    waiting: VecDeque<Connector>,
    waiting_max: usize,
}

/// One that was accepted and has said nothing yet.
struct Connector {
    socket: Socket,
    who: Option<Credentials>,
    until: Instant,
}

impl Acceptor {
    /// Listens at `path`.
    ///
    /// # Errors
    /// The path cannot be had, or `options` ask for what shared memory cannot do.
    pub(crate) fn bind(path: &Path, kind: Kind, settings: Settings, options: &Options) -> Result<Self, Problem> {
        check(&settings, options)?;
        let listen = || -> io::Result<(Socket, SocketFile)> {
            let socket = bind_file(open_socket()?, path)?;
            socket.listen(BACKLOG)?;
            socket.set_nonblocking(true)?;
            Ok((socket, SocketFile::at(path)?))
        };
        let (socket, file) = listen().map_err(|error| {
            Problem::failed(format!("cannot listen on {}", path.display()), error).next("choose another path")
        })?;
        let (refusals, waiting) = (SharedRefusals::default(), VecDeque::new());
        Ok(Self { socket, kind, settings, refusals, waiting, waiting_max: waiting_max(), _file: file })
    }

    /// Returns the count of those that were refused.
    pub(crate) fn refusals(&self) -> &SharedRefusals {
        &self.refusals
    }

    /// Waits for a connector; its calls never wait. One that cannot be taken is told why and turned away.
    ///
    /// # Errors
    /// `WouldBlock` when none came within `timeout`; accepting failed.
    pub(crate) fn accept(&mut self, timeout: Duration) -> io::Result<(Rings, Option<Credentials>)> {
        // A time beyond what the clock can name is for ever.
        let end = Instant::now().checked_add(timeout);
        loop {
            let taken_in = self.take_in();
            if let Some(accepted) = self.first_said() {
                return Ok(accepted);
            }
            taken_in.or_else(|error| self.make_room(error))?;
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.refuse_silent(now);
            let next = self.waiting.front().map(|first| first.until).into_iter().chain(end).min();
            self.sleep(next.map(|next| next.saturating_duration_since(now)))?;
        }
    }

    fn take_in(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_LOOK {
            match self.socket.accept() {
                Ok((socket, _)) => {
                    let who = Credentials::of_peer(socket.as_fd()).ok();
                    if self.waiting.len() >= self.waiting_max {
                        self.crowd_out();
                    }
                    self.waiting.push_back(Connector { socket, who, until: Instant::now() + HELLO_MAX });
                }
                Err(error) if is_retry(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Evicts connectors where no descriptors are left for the next one. accept(2) takes a descriptor before it looks for a
    /// connection, so that its error alone does not mean that there is one.
    ///
    /// # Errors
    /// The error is another one, or there is nobody to evict.
    fn make_room(&mut self, error: io::Error) -> io::Result<()> {
        if !is_out_of_descriptors(&error) || self.waiting.is_empty() {
            return Err(error);
        }
        if is_readable(&self.socket) {
            (0..DESCRIPTORS_PER_CONNECTOR).for_each(|_| self.crowd_out());
        }
        Ok(())
    }

    fn crowd_out(&mut self) {
        let mut counts = HashMap::new();
        let process = |waiting: &Connector| waiting.who.and_then(|who| who.pid);
        for waiting in &self.waiting {
            *counts.entry(process(waiting)).or_insert(0) += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        if let Some(place) = self.waiting.iter().position(|waiting| counts[&process(waiting)] == most) {
            self.waiting.remove(place);
        }
    }

    /// Refuses those whose time for a hello is over.
    fn refuse_silent(&mut self, now: Instant) {
        while self.waiting.front().is_some_and(|first| now >= first.until) {
            if let Some(Connector { socket, .. }) = self.waiting.pop_front() {
                self.refusals.count(refuse_silent(&socket));
            }
        }
    }

    /// The first that has said something and is taken.
    fn first_said(&mut self) -> Option<(Rings, Option<Credentials>)> {
        let mut place = 0;
        while place < self.waiting.len() {
            if !is_readable(&self.waiting[place].socket) {
                place += 1;
                continue;
            }
            let Connector { socket, who, .. } = self.waiting.remove(place)?;
            match admit(socket, self.kind, &self.settings) {
                Ok(rings) => return Some((rings, who)),
                Err(why) => self.refusals.count(why),
            }
        }
        None
    }

    fn sleep(&self, limit: Option<Duration>) -> io::Result<()> {
        let sockets = self.waiting.iter().map(|waiting| &waiting.socket);
        let mut fds: Vec<PollFd<'_>> =
            std::iter::once(&self.socket).chain(sockets).map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn waiting_max() -> usize {
    let quarter = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
    usize::try_from(quarter).unwrap_or(usize::MAX).clamp(1, WAITING_MAX)
}

fn is_readable(socket: &Socket) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
