//! Accepting links for a service that strangers of the same host can reach: who says nothing holds up nobody.

use super::HELLO_MAX;
use crate::stream::blocking::Listener;
use crate::stream::{Accepted, Address, Credentials, Options, Stream, is_retry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_sys::Problem;
use socket2::Socket;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connectors whose hello is waited for. An honest one has sent it before it is accepted. When there are more, the oldest of the
/// process that has most goes.
const WAITING_MAX: usize = 64;
/// Those accepted before the others are looked at.
const ACCEPTS_PER_LOOK: usize = 16;

/// As [`Listener`] for links in shared memory, but waits for all hellos at the same time.
pub(crate) struct Acceptor {
    listener: Listener,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    socket: Socket,
    who: Option<Credentials>,
    until: Instant,
}

impl Acceptor {
    /// Listens at `path` for links that are as [`Settings::default`](super::Settings) says.
    ///
    /// # Errors
    /// The path cannot be had.
    pub(crate) fn bind(path: &Path, options: &Options) -> Result<Self, Problem> {
        let listener = Listener::bind(&Address::Shm(path.to_owned()), options)?;
        let ready = listener.socket().set_nonblocking(true);
        ready.map_err(|error| Problem::failed(format!("cannot listen on {}", path.display()), error))?;
        Ok(Self { listener, waiting: VecDeque::new() })
    }

    /// Waits for a link; `WouldBlock` when none came within `timeout`.
    ///
    /// # Errors
    /// Accepting failed.
    pub(crate) fn accept(&mut self, timeout: Duration) -> io::Result<Accepted> {
        let end = Instant::now() + timeout;
        loop {
            self.take_in()?;
            if let Some(accepted) = self.first_said()? {
                return Ok(accepted);
            }
            let now = Instant::now();
            if now >= end {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.waiting.retain(|waiting| now < waiting.until);
            let next = self.waiting.front().map_or(end, |first| first.until.min(end));
            self.sleep(next.saturating_duration_since(now))?;
        }
    }

    fn take_in(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS_PER_LOOK {
            match self.listener.socket().accept() {
                Ok((socket, _)) => {
                    let who = Credentials::of_peer(socket.as_fd()).ok();
                    if self.waiting.len() >= WAITING_MAX {
                        self.crowd_out();
                    }
                    self.waiting.push_back(Waiting { socket, who, until: Instant::now() + HELLO_MAX });
                }
                Err(error) if is_retry(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn crowd_out(&mut self) {
        let mut counts = HashMap::new();
        let process = |waiting: &Waiting| waiting.who.and_then(|who| who.pid);
        for waiting in &self.waiting {
            *counts.entry(process(waiting)).or_insert(0) += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        if let Some(place) = self.waiting.iter().position(|waiting| counts[&process(waiting)] == most) {
            self.waiting.remove(place);
        }
    }

    /// The first that has said something and is taken.
    fn first_said(&mut self) -> io::Result<Option<Accepted>> {
        let mut place = 0;
        while place < self.waiting.len() {
            if !is_readable(&self.waiting[place].socket) {
                place += 1;
                continue;
            }
            let Some(Waiting { socket, who, .. }) = self.waiting.remove(place) else { break };
            // The listener expects a socket as accept(2) gives it.
            socket.set_nonblocking(false)?;
            if let Some(link) = self.listener.admit(socket) {
                return Ok(Some(Accepted { stream: Stream::Shm(link), peer: None, credentials: who }));
            }
        }
        Ok(None)
    }

    fn sleep(&self, limit: Duration) -> io::Result<()> {
        let sockets = self.waiting.iter().map(|waiting| &waiting.socket);
        let mut fds: Vec<PollFd<'_>> = std::iter::once(self.listener.socket())
            .chain(sockets)
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        match poll(&mut fds, Timespec::try_from(limit).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_readable(socket: &Socket) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
