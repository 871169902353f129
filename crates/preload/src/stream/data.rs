//! Data in and out of a connection.

use super::Stream;
use crate::answer::{Answer, Stop};
use crate::engine::Woken;
use crate::vectors::{Gather, Scatter};
use crate::waiting::Waiting;
use rustix::io::Errno;
use sidestep_socket::Engine;
use sidestep_socket::tcp::{Readiness, Tcp, TcpError};
use std::sync::atomic::Ordering;

/// Flags of a receiving call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Receive {
    /// MSG_PEEK
    pub(crate) peek: bool,
    /// MSG_WAITALL
    pub(crate) wait_all: bool,
    /// MSG_TRUNC: the bytes are dropped, not copied (tcp(7)).
    pub(crate) discard: bool,
}

impl Receive {
    /// The bytes that the call waits for (sock_rcvlowat, linux/include/net/sock.h).
    fn target(self, wanted: usize, low_water: usize) -> usize {
        if self.wait_all { wanted } else { wanted.min(low_water) }.max(1)
    }
}

/// Flags of a sending call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Send {
    /// MSG_MORE
    pub(crate) more: bool,
}

impl Stream {
    /// Receives behind the first `done` bytes; 0 when the peer has finished. Where the connection becomes the kernel's meanwhile, `done`
    /// tells how far it has come.
    pub(crate) fn receive(
        &self,
        into: &mut Scatter<'_>,
        how: Receive,
        done: &mut usize,
        waiting: &mut Waiting<'_>,
    ) -> Answer<usize> {
        let target = how.target(into.len(), self.low_water.load(Ordering::Relaxed));
        loop {
            let attempt = |engine: &mut Engine| would_block_is_none(self.take(engine, into, *done, how));
            match self.attempt(waiting, attempt) {
                Ok(0) => return Ok(*done),
                Ok(count) if *done + count < target && !waiting.is_nonblocking() => *done += count,
                Ok(count) => return Ok(*done + count),
                Err(Stop::Errno(_)) if *done > 0 => return Ok(*done),
                Err(stop) => return Err(stop),
            }
        }
    }

    fn take(&self, engine: &mut Engine, into: &mut Scatter<'_>, done: usize, how: Receive) -> Result<usize, TcpError> {
        let mut tcp = engine.tcp();
        if into.len() == 0 {
            // Without room a call waits as well, and takes nothing.
            return tcp.peek(self.handle, 0, &mut []);
        }
        if how.peek {
            return self.look(&mut tcp, into, done);
        }
        if how.discard {
            return self.discard(&mut tcp, into.len() - done);
        }
        into.fill(done, |part| tcp.read(self.handle, part))
    }

    /// Copies what is unread behind the first `done` bytes.
    fn look(&self, tcp: &mut Tcp<'_>, into: &mut Scatter<'_>, done: usize) -> Result<usize, TcpError> {
        let (unread, _) = self.queued_in(tcp);
        if done > 0 && unread <= done && !tcp.readiness(self.handle)?.has(Readiness::PEER_CLOSED) {
            return Err(TcpError::WOULD_BLOCK);
        }
        let mut seen = done;
        into.fill(done, |part| {
            let count = tcp.peek(self.handle, seen, part)?;
            seen += count;
            Ok(count)
        })
    }

    fn discard(&self, tcp: &mut Tcp<'_>, most: usize) -> Result<usize, TcpError> {
        let mut left = most;
        let discarded = tcp.read_with(self.handle, |bytes| {
            let count = bytes.len().min(left);
            left -= count;
            count
        });
        discarded.map(|(count, _)| count)
    }

    /// Sends all that lies behind the first `done` bytes, or what there is room for if the call may not wait. Where the connection becomes
    /// the kernel's meanwhile, `done` tells how far it has come.
    pub(crate) fn send(
        &self,
        from: Gather<'_>,
        how: Send,
        done: &mut usize,
        waiting: &mut Waiting<'_>,
    ) -> Answer<usize> {
        let wanted = from.len();
        self.begin_more(how)?;
        let answer = loop {
            let attempt = |engine: &mut Engine| would_block_is_none(self.put(engine, from, *done));
            match self.attempt(waiting, attempt) {
                Ok(count) => *done += count,
                Err(Stop::Errno(_)) if *done > 0 => break Ok(*done),
                Err(stop) => break Err(stop),
            }
            if *done >= wanted || waiting.is_nonblocking() {
                break Ok(*done);
            }
        };
        self.end_more(how);
        answer
    }

    fn put(&self, engine: &mut Engine, from: Gather<'_>, done: usize) -> Result<usize, TcpError> {
        let mut sum = 0;
        if from.len() == 0 {
            return engine.tcp().send(self.handle, &[]);
        }
        for part in from.parts(done) {
            let count = match engine.tcp().send(self.handle, part) {
                Ok(count) => count,
                Err(_) if sum > 0 => break,
                Err(error) => return Err(error),
            };
            sum += count;
            if count < part.len() {
                break;
            }
        }
        Ok(sum)
    }

    /// MSG_MORE holds small segments back as TCP_CORK does, until data without it follows.
    fn begin_more(&self, how: Send) -> Answer<()> {
        if how.more && !self.has_more.swap(true, Ordering::Relaxed) {
            self.set_cork(true)?;
        }
        Ok(())
    }

    fn end_more(&self, how: Send) {
        if !how.more && self.has_more.swap(false, Ordering::Relaxed) {
            // A connection that has ended holds nothing back.
            let _ = self.set_cork(self.is_corked.load(Ordering::Relaxed));
        }
    }

    fn set_cork(&self, is_corked: bool) -> Answer<()> {
        self.engine.with(|engine| {
            let mut tcp = engine.tcp();
            if let Some(mut options) = tcp.options(self.handle)? {
                options.cork = is_corked;
                tcp.set_options(self.handle, options)?;
            }
            Ok(())
        })
    }

    /// Tries, and waits until it succeeds as long as the call may.
    fn attempt<T>(
        &self,
        waiting: &mut Waiting<'_>,
        mut ready: impl FnMut(&mut Engine) -> Option<Result<T, TcpError>>,
    ) -> Answer<T> {
        let mut ready = |engine: &mut Engine| {
            if self.is_ended.load(Ordering::Acquire) || self.is_kernels(engine) || self.is_urgent(engine) {
                return Some(Err(Stop::Kernel));
            }
            ready(engine).map(|done| done.map_err(Stop::from))
        };
        if let Some(done) = self.engine.with(&mut ready) {
            return done;
        }
        if waiting.is_nonblocking() {
            return self.engine.with_polled(&mut ready).unwrap_or(Err(Errno::AGAIN.into()));
        }
        match waiting.wait(&self.engine, &[], ready) {
            Woken::Ready(done) => done,
            Woken::Interrupted => Err(Errno::INTR.into()),
            Woken::Deadline | Woken::Kernel => Err(Errno::AGAIN.into()),
        }
    }
}

fn would_block_is_none<T>(result: Result<T, TcpError>) -> Option<Result<T, TcpError>> {
    match result {
        Err(error) if error.is_would_block() => None,
        done => Some(done),
    }
}
