//! A stream past the kernel: a connection of the thread's engine.

use super::Backend;
use super::unread::Unread;
use super::{Endpoint, Io, Options, Waiting, is_retry};
use crate::Path;
use crate::tcp::{Readiness, Shutdown, TcpError, TcpStream};
use sidestep_sys::Problem;
use std::io;
use std::time::{Duration, Instant};

/// TCP past the kernel, or by the kernel where the engine had to (`XdpStream::path`).
#[derive(Debug)]
pub struct XdpStream {
    stream: TcpStream,
    /// Polls of the engine when this stream was read last.
    polls: u64,
    /// Of a connection that the kernel carries.
    unread: Unread,
    waiting: Waiting,
    timeout: Duration,
}

/// Refuses what streams past the kernel cannot do, by name.
pub(super) fn check(endpoint: &Endpoint, options: &Options) -> Result<(), Problem> {
    let refused = |why: &str| Err(Problem::usage(format!("cannot use {endpoint} so"), why));
    if options.backend == Backend::Uring {
        return refused("io_uring has nothing to do past the kernel").map_err(|it| it.next("use Backend::Kernel"));
    }
    if matches!(options.waiting, Waiting::BusyPoll { .. }) {
        let refused = refused("its engine polls the device itself, in every call");
        return refused.map_err(|it| it.next("use Waiting::Spin, Block or Epoll"));
    }
    Ok(())
}

impl XdpStream {
    /// A stream of the engine of `io`, which never waits.
    pub(super) fn new(io: &Io, stream: TcpStream) -> Self {
        let (waiting, timeout) = (Waiting::Spin, Duration::ZERO);
        Self { stream, polls: io.polls, unread: Unread::default(), waiting, timeout }
    }

    /// Has calls wait as `options` say.
    pub(super) fn with_waiting(self, options: &Options) -> Self {
        Self { waiting: options.waiting, timeout: options.timeout, ..self }
    }

    /// Returns the engine's handle.
    pub fn handle(&self) -> TcpStream {
        self.stream
    }

    #[inline]
    pub(super) fn receive_with(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        if self.waiting == Waiting::Spin {
            return self.receive_now(io, deliver);
        }
        self.until_timeout(|stream| {
            let mut shown = false;
            let mut show = |bytes: &[u8]| {
                shown = true;
                deliver(bytes)
            };
            let received = stream.receive_now(io, &mut show);
            // What was shown and not taken is not shown again in the same call.
            if shown { Attempt::Done(received) } else { Attempt::of(received) }
        })
    }

    /// Attempts until it is done or the timeout is over: nobody sleeps, as timers and other connections of the engine need polls.
    fn until_timeout(&mut self, mut attempt: impl FnMut(&mut Self) -> Attempt) -> io::Result<usize> {
        let deadline = Instant::now().checked_add(self.timeout);
        loop {
            match attempt(self) {
                Attempt::Done(result) => return result,
                Attempt::NotYet(error) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Err(error);
                }
                Attempt::NotYet(_) => {}
            }
        }
    }

    #[inline]
    fn receive_now(&mut self, io: &mut Io, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        io.was_read = true;
        // Where another stream has polled since, the payload waits in the receive buffer; and an ACK is not to leave before the
        // answer that it could ride on.
        let is_first = self.polls == io.polls;
        io.polls += u64::from(is_first);
        self.polls = io.polls;
        let (engine, buffer) = io.engine_and_buffer()?;
        let mut tcp = engine.tcp();
        if is_first {
            let (own, mut taken) = (self.stream, 0);
            let show = |stream, bytes: &[u8]| {
                let count = if stream == own { deliver(bytes).min(bytes.len()) } else { 0 };
                taken += count;
                count
            };
            tcp.poll_with(show).map_err(|error| of_tcp(error.into()))?;
            if taken > 0 {
                return Ok(taken);
            }
        }
        tcp.receive_with(self.stream, (&mut self.unread, buffer), deliver).map_err(of_tcp)
    }

    #[inline]
    pub(super) fn write(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        let written = self.write_now(io, bytes);
        match written {
            Err(error) if self.waiting == Waiting::Block && is_retry(&error) => self.write_waiting(io, bytes),
            other => other,
        }
    }

    /// Polls the engine until there is room, which comes from ACKs.
    #[cold]
    fn write_waiting(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        self.until_timeout(|stream| match io.poll() {
            Ok(()) => Attempt::of(stream.write_now(io, bytes)),
            Err(error) => Attempt::Done(Err(io::Error::other(error))),
        })
    }

    #[inline]
    fn write_now(&mut self, io: &mut Io, bytes: &[u8]) -> io::Result<usize> {
        io.connected_engine()?.tcp().send(self.stream, bytes).map_err(of_tcp)
    }

    pub(super) fn shutdown(&mut self, io: &mut Io) -> io::Result<()> {
        io.connected_engine()?.tcp().shutdown(self.stream, Shutdown::Write).map_err(of_tcp)
    }

    pub(super) fn close(&mut self, io: &mut Io) -> io::Result<()> {
        io.connected_engine()?.tcp().close(self.stream).map_err(of_tcp)
    }

    /// Gives the connection up: the handle is only a name for what the engine has, which has to go, too.
    pub(super) fn abort(&mut self, io: &mut Io) -> io::Result<()> {
        io.connected_engine()?.tcp().abort(self.stream).map_err(of_tcp)
    }

    pub(super) fn path(&self, io: &mut Io) -> Option<Path> {
        io.engine_mut()?.tcp().path(self.stream).ok()
    }

    /// Returns whether the connection is made.
    pub(super) fn is_connected(&self, io: &mut Io) -> io::Result<bool> {
        let mut tcp = io.connected_engine()?.tcp();
        match tcp.take_error(self.stream).map_err(of_tcp)? {
            Some(error) => Err(of_tcp(error)),
            None => Ok(tcp.readiness(self.stream).map_err(of_tcp)?.has(Readiness::WRITABLE)),
        }
    }
}

/// The outcome of one attempt of a call that waits.
enum Attempt {
    Done(io::Result<usize>),
    NotYet(io::Error),
}

impl Attempt {
    fn of(result: io::Result<usize>) -> Self {
        match result {
            Err(error) if is_retry(&error) => Self::NotYet(error),
            other => Self::Done(other),
        }
    }
}

#[inline]
pub(super) fn of_tcp(error: TcpError) -> io::Error {
    if error.is_would_block() { io::ErrorKind::WouldBlock.into() } else { error.into() }
}
