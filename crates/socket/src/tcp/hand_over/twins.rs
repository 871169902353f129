//! Twins of connections: kernel sockets that the program, and its children, know a connection by.

use super::begin::Subject;
use super::pending::HandOvers;
use crate::engine::Engine;
use crate::tcp::Tcp;
use crate::tcp::error::TcpError;
use crate::tcp::streams::{StreamState, Streams};
use crate::tcp::table::TcpStream;
use sidestep_control_api::message::Code;
use sidestep_sys::tcp_repair::cookie;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel socket that becomes a connection when that is handed over.
#[derive(Debug)]
pub(crate) struct OwnTwin {
    socket: OwnedFd,
    /// Its name among all sockets of this host.
    cookie: u64,
}

impl Tcp<'_> {
    /// Names the kernel socket that the program knows a stream by: an unconnected TCP socket, bound to the local end or to nothing. It
    /// becomes the connection when another process that has it asks for that, and when all connections are handed over.
    pub fn set_twin(&mut self, stream: TcpStream, twin: OwnedFd) -> Result<(), TcpError> {
        self.check()?;
        let cookie = cookie(twin.as_fd())?;
        let Streams { streams, hand_overs, .. } = &mut self.engine.streams;
        let before = streams.at(stream.0)?.twin.replace(OwnTwin { socket: twin, cookie });
        before.iter().for_each(|before| hand_overs.forget_twin(before));
        hand_overs.twins.insert(cookie, stream);
        Ok(())
    }

    /// Returns whether a descriptor may be of the socket that the program knows a stream by: it is the stream's twin, or the stream has
    /// none.
    pub fn may_be_twin(&mut self, stream: TcpStream, descriptor: BorrowedFd<'_>) -> Result<bool, TcpError> {
        Ok(match &self.engine.streams.streams.at(stream.0)?.twin {
            // What is no socket has no cookie.
            Some(twin) => cookie(descriptor).is_ok_and(|cookie| cookie == twin.cookie),
            None => true,
        })
    }

    /// The socket that a stream is to be handed over to: its twin, or a new one.
    pub(super) fn own_socket(&mut self, stream: TcpStream) -> Result<OwnedFd, TcpError> {
        match &self.engine.streams.streams.at(stream.0)?.twin {
            Some(twin) => Ok(twin.socket.as_fd().try_clone_to_owned()?),
            None => self.socket_for(stream),
        }
    }
}

impl HandOvers {
    /// A stream does not have this twin any more.
    pub(crate) fn forget_twin(&mut self, twin: &OwnTwin) {
        self.twins.remove(&twin.cookie);
    }
}

impl Engine {
    /// Another process needs the connection whose twin has this cookie. One that is not of this engine is somebody else's.
    pub(crate) fn hand_over_twin(&mut self, of: u64) {
        // Any process of this host can ask, for any cookie.
        let Some(stream) = self.streams.hand_overs.twins.get(&of).copied() else { return };
        if self.begin_for_other(stream, of).is_err()
            && let Some(agent) = &self.agent
        {
            agent.keep_twin(of, Code::NoEntry);
        }
    }

    fn begin_for_other(&mut self, stream: TcpStream, cookie: u64) -> Result<(), TcpError> {
        let socket = self.tcp().own_socket(stream)?;
        let StreamState::Accelerated { id, steered } = &self.streams.streams.at(stream.0)?.state else {
            // It is on its way already, or the kernel's.
            return Ok(());
        };
        let subject = Subject { id: *id, stream: Some(stream), steered: steered.clone() };
        self.begin_hand_over_of(subject, socket, Some(cookie))?;
        self.streams.streams.at(stream.0)?.state = StreamState::HandingOver;
        Ok(())
    }
}
