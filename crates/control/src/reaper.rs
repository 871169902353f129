//! Closes connections of strangers without blocking.
//!
//! Closing a connection also closes its unread messages with the descriptors in them, and a stranger can make the close
//! of a descriptor take as long as it likes (SO_LINGER on a full TCP connection). The kernel never lingers for a thread
//! that exits (`PF_EXITING` in inet_release). So connections are passed to a thread with its own table of descriptors,
//! which takes them in, and exits.

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};
use sidestep_sys::Problem;
use sidestep_sys::descriptors::spawn_unshared;
use sidestep_sys::process::unshare_descriptors;
use std::collections::VecDeque;
use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// The most connections that one thread takes.
const BATCH_MAX: usize = 64;

/// The number of this process's threads, exiting ones included, at which no further closing thread is started. One that
/// does not exit is blocked by something else than lingering: a device whose driver sleeps.
const THREADS_MAX: usize = 256;

/// The pause while this limit is reached.
const PAUSE: Duration = Duration::from_millis(20);

/// The number of connections that wait to be passed to the thread, at which no new ones are accepted.
const HELD_MAX: usize = 64;

/// The sender to the thread.
pub(crate) struct Reaper {
    way: OwnedFd,
    /// One message for each connection that this side has closed. Not earlier: the last one to close it lingers.
    go: Sender<()>,
    held: VecDeque<OwnedFd>,
}

impl Reaper {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, Problem> {
        let problem = |error: std::io::Error| {
            Problem::failed("cannot start the thread that closes connections", error).next("see the limits: ulimit -a")
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (way, end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|error| problem(error.into()))?;
        let (go, going) = channel();
        spawn_unshared("reaper", end, move |end| work(end, &going)).map_err(problem)?;
        Ok(Self { way, go, held: VecDeque::new() })
    }

    /// Ends a connection, which its peer sees at once, and passes it on to be closed.
    pub(crate) fn close(&mut self, connection: OwnedFd) {
        // A connection that has ended already needs no shutdown.
        let _ = shutdown(&connection, Shutdown::Both);
        self.held.push_back(connection);
        self.hand_over();
    }

    /// Passes on connections that had to wait.
    pub(crate) fn hand_over(&mut self) {
        while let Some(connection) = self.held.pop_front() {
            if !self.send(&connection) {
                return self.held.push_front(connection);
            }
            drop(connection);
            let _ = self.go.send(());
        }
    }

    /// Returns whether so many wait that no new connection may be accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= HELD_MAX
    }

    fn send(&self, connection: &OwnedFd) -> bool {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [connection.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors))
            && sendmsg(&self.way, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL).is_ok()
    }
}

/// The thread's loop: starts another thread for each batch, which takes it in and exits.
fn work(end: OwnedFd, going: &Receiver<()>) {
    let end = Arc::new(end);
    while going.recv().is_ok() {
        let count = 1 + going.try_iter().take(BATCH_MAX - 1).count();
        while threads() >= THREADS_MAX || !end_with(&end, count) {
            thread::sleep(PAUSE);
        }
    }
}

/// The number of this process's threads. One that has exited for join may still be closing its descriptors.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Starts a thread that exits with `count` connections; `false` if no thread is available.
fn end_with(end: &Arc<OwnedFd>, count: usize) -> bool {
    let (tell, told) = sync_channel(1);
    let end = Arc::clone(end);
    let begin = move || {
        let is_apart = unshare_descriptors().is_ok();
        if is_apart {
            take(&end, count);
        }
        let _ = tell.send(is_apart);
    };
    thread::Builder::new().name("reaped".into()).spawn(begin).is_ok() && told.recv().unwrap_or(false)
}

/// Takes connections into this thread's table, to be closed with it.
fn take(end: &OwnedFd, count: usize) {
    for _ in 0..count {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        if recvmsg(end, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::CMSG_CLOEXEC).is_err() {
            return;
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(connections) = message {
                // Closed by this thread they would linger.
                connections.for_each(std::mem::forget);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::send_with;
    use sidestep_testkit::lingering;
    use std::fs::File;
    use std::io::Read;
    use std::time::Instant;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn what_lingers_in_a_connection_holds_up_nobody() {
        let mut reaper = Reaper::start().unwrap();
        // More than can be in transit at once; each with a descriptor whose close takes five seconds.
        for _ in 0..400 {
            let (ours, theirs) = pair();
            let (peer, socket) = lingering(Duration::from_secs(5));
            send_with(theirs.as_fd(), "{}", vec![socket]);
            let begun = Instant::now();
            reaper.close(ours);
            while reaper.is_full() {
                assert!(begun.elapsed() < Duration::from_secs(60), "nothing is taken");
                reaper.hand_over();
            }
            assert_eq!(File::from(theirs).read(&mut [0; 8]).unwrap_or(0), 0, "it has ended");
            drop(peer);
        }
    }

    #[test]
    fn what_is_closed_is_closed_for_good() {
        let mut reaper = Reaper::start().unwrap();
        let (ours, theirs) = pair();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send_with(theirs.as_fd(), "{}", vec![writer]);
        reaper.close(ours);
        assert_eq!(File::from(reader).read(&mut [0; 8]).unwrap(), 0, "no copy of the writing end is left");
    }
}
