//! Items with EPOLLONESHOT whose event was told, and whose socket the kernel has got since. In the kernel's set they would tell of errors and
//! hangups, so they come there by the next EPOLL_CTL_MOD.

use super::set::lock;
use libc::c_int;
use rustix::net::sockopt::socket_cookie;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

/// Numbers, with the SO_COOKIE of their sockets: a number may be another socket's by now.
#[derive(Debug, Default)]
pub(super) struct Disarmed(Mutex<HashMap<c_int, u64>>);

impl Disarmed {
    /// Notes one. Returns false where its socket cannot be known again.
    pub(super) fn insert(&self, number: c_int) -> bool {
        let cookie = cookie(number);
        cookie.into_iter().for_each(|cookie| _ = lock(&self.0).insert(number, cookie));
        cookie.is_some()
    }

    pub(super) fn has(&self, number: c_int) -> bool {
        let mut all = lock(&self.0);
        let is_there = all.get(&number).is_some_and(|noted| cookie(number) == Some(*noted));
        if !is_there {
            all.remove(&number);
        }
        is_there
    }

    pub(super) fn remove(&self, number: c_int) {
        lock(&self.0).remove(&number);
    }
}

fn cookie(number: c_int) -> Option<u64> {
    // SAFETY: borrowed for one system call; a closed one gives an error.
    socket_cookie(unsafe { BorrowedFd::borrow_raw(number) }).ok()
}
