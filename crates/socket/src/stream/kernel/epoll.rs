//! An epoll set of one socket.

use rustix::event::{Timespec, epoll};
use socket2::Socket;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

pub(super) struct Epoll {
    set: OwnedFd,
    timeout: Timespec,
}

impl Epoll {
    /// Watches `socket`, level-triggered, for input.
    pub(super) fn watching(socket: &Socket, timeout: Duration) -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let timeout = Timespec::try_from(timeout).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { set, timeout })
    }

    /// Sleeps until there is input; false when none came in time.
    #[inline]
    pub(super) fn wait(&self) -> io::Result<bool> {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 1];
        let (ready, _) = epoll::wait(&self.set, &mut events, Some(&self.timeout))?;
        Ok(!ready.is_empty())
    }
}
