//! The begin of a hand-over.

use super::pending::{HandOver, Pending};
use super::record;
use crate::control_agent::Surrender;
use crate::engine::Engine;
use crate::fallback::tcp::{apply, unconnected};
use crate::reason::Reason;
use crate::tcp::Tcp;
use crate::tcp::error::TcpError;
use crate::tcp::streams::{Steered, StreamState};
use crate::tcp::table::TcpStream;
use rustix::io::Errno;
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_stack::tcp::{ConnectionId, Error, Unfit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A connection to hand over.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) id: ConnectionId,
    pub(super) stream: Option<TcpStream>,
    pub(super) steered: Option<Steered>,
}

impl Tcp<'_> {
    /// Begins to hand a connection to the kernel: `socket`, a TCP socket that is unconnected and bound to the local end or to nothing,
    /// becomes it. No segment of the stack's leaves any more. The engine's polls complete it, which an event reports: the stream goes
    /// on by the kernel ([`Reason::HandedOver`]), or, where control refuses, as before. Until then its calls would block.
    ///
    /// The socket keeps the options that it has; the stream keeps a descriptor of it until it is closed. [`Tcp::socket_for`] makes
    /// one where the program has none.
    pub fn begin_hand_over(&mut self, stream: TcpStream, socket: OwnedFd) -> Result<HandOver, TcpError> {
        self.check()?;
        let state = &self.engine.streams.streams.at(stream.0)?.state;
        let (id, steered) = match state {
            StreamState::Accelerated { id, steered } => (*id, steered.clone()),
            StreamState::Kernel(..) => return Err(TcpError::Kernel(Errno::ISCONN.raw_os_error())),
            StreamState::HandingOver => return Err(TcpError::Kernel(Errno::ALREADY.raw_os_error())),
            StreamState::Opening(_) | StreamState::Detour(_) => return Err(TcpError::Stack(Error::NotConnected)),
            StreamState::Lost(reason) => return Err(TcpError::Lost(*reason)),
            StreamState::Failed(error, _) => return Err(*error),
        };
        let begun = self.engine.begin_hand_over_of(Subject { id, stream: Some(stream), steered }, socket, None)?;
        self.engine.streams.streams.at(stream.0)?.state = StreamState::HandingOver;
        Ok(begun)
    }

    /// A socket for [`Tcp::begin_hand_over`]: unbound, non-blocking, with the options of the stream.
    pub fn socket_for(&mut self, stream: TcpStream) -> Result<OwnedFd, TcpError> {
        let options = self.options(stream)?.ok_or(TcpError::Kernel(Errno::ISCONN.raw_os_error()))?;
        let (_, remote) = self.ends(stream)?;
        let socket = unconnected(remote)?;
        apply(&socket, &options)?;
        Ok(socket.into())
    }
}

impl Engine {
    /// Takes the connection out of service and asks control.
    pub(super) fn begin_hand_over_of(
        &mut self,
        subject: Subject,
        socket: OwnedFd,
        cookie: Option<u64>,
    ) -> Result<HandOver, TcpError> {
        let Subject { id, stream, steered } = subject;
        let Self { bypass: Some(bypass), agent: Some(agent), streams, counters, .. } = self else {
            return Err(TcpError::Lost(Reason::Revoked));
        };
        if let Some(reason) = bypass.lost {
            return Err(TcpError::Lost(reason));
        }
        let own = socket.as_fd().try_clone_to_owned().map_err(TcpError::from)?;
        let frozen = bypass.with_tcp(counters, |tcp, now, _| tcp.freeze(now, id)).map_err(of_unfit)?;
        let vlan = steered.as_ref().and_then(|steered| steered.flow.vlan());
        let prepared = record::of(&frozen, vlan)
            .ok_or_else(|| io::Error::from(Errno::NOBUFS))
            .and_then(|connection| Ok(Surrender { connection, socket, bytes: record::bytes(&frozen)? }));
        let surrender = match prepared {
            Ok(surrender) => surrender,
            Err(error) => {
                // It was frozen a moment ago.
                let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.thaw(now, id, output));
                return Err(error.into());
            }
        };
        let (local, remote) = (frozen.flow.local(), frozen.flow.remote());
        let answer = agent.begin_to_hand_over(surrender);
        let view = answer.view();
        streams.hand_overs.pending.push(Pending {
            id,
            stream,
            flow: Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan },
            steered,
            socket: own.into(),
            is_read_shut: frozen.is_read_shut,
            is_aborted: false,
            cookie,
            answer,
        });
        Ok(HandOver(view))
    }
}

fn of_unfit(unfit: Unfit) -> TcpError {
    match unfit {
        Unfit::NotFound | Unfit::Ended | Unfit::TimeWait => TcpError::Stack(Error::NotConnected),
        Unfit::NotSynchronized => TcpError::Stack(Error::WouldBlock),
    }
}
