//! Requests about live connections that become the kernel's.

use super::{Client, Error, strange};
use crate::message::{Code, HandOver, Reply, Request};
use std::os::fd::BorrowedFd;

impl Client {
    /// Hands a live connection over to the kernel: `socket` becomes it, with the bytes in `bytes`.
    pub fn hand_over(
        &mut self,
        stack: u32,
        connection: HandOver,
        socket: BorrowedFd<'_>,
        bytes: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        match self.ask_with(Request::HandOver { stack, connection }, &[socket, bytes])?.0 {
            Reply::Done => Ok(()),
            reply => Err(strange(&reply)),
        }
    }

    /// Has the owner of an accelerated connection hand it over; `twin` is the kernel socket that this process has in common
    /// with it. When this returns, that socket is the connection.
    pub fn hand_over_twin(&mut self, twin: BorrowedFd<'_>) -> Result<(), Error> {
        self.expect_done(Request::HandOverTwin, Some(twin))
    }

    /// Replies to [`Notice::HandOverTwin`](super::Notice::HandOverTwin) that the connection cannot be handed over.
    pub fn keep_twin(&mut self, cookie: u64, code: Code) -> Result<(), Error> {
        self.expect_done(Request::TwinStays { cookie, code }, None)
    }

    /// Has a process hand over all of its connections.
    pub fn release_process(&mut self, pid: u32) -> Result<(), Error> {
        self.expect_done(Request::ReleaseProcess { pid }, None)
    }
}
