//! Hand-overs that control has not answered, and connections that the kernel has got.

use super::begin::Subject;
use crate::control_agent::{Answer, AnswerView};
use crate::reason::Reason;
use crate::tcp::streams::Steered;
use crate::tcp::table::TcpStream;
use sidestep_control_api::message::Entry;
use sidestep_stack::tcp::ConnectionId;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A hand-over that has begun. The engine completes it in its poll; dropping this changes nothing.
#[derive(Debug)]
pub struct HandOver(pub(super) AnswerView);

impl HandOver {
    /// Waits for the outcome, without a poll of the engine: `Ok` when the socket is the connection, `Err` when control has refused
    /// and the connection goes on past the kernel; `None` when the time is over.
    pub fn wait(&self, longest: Duration) -> Option<Result<(), Reason>> {
        self.0.wait(longest)
    }
}

/// A connection that is being handed over.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(super) id: ConnectionId,
    /// `None` once the program has closed it.
    pub(super) stream: Option<TcpStream>,
    pub(super) flow: Entry,
    pub(super) steered: Option<Steered>,
    /// The same socket as that which control makes the connection of.
    pub(super) socket: socket2::Socket,
    pub(super) is_read_shut: bool,
    /// The program has closed it by an abort.
    pub(super) is_aborted: bool,
    /// The process that has asked for it waits: the twin's cookie.
    pub(super) cookie: Option<u64>,
    pub(super) answer: Answer,
}

/// Connections on their way to the kernel, and those that it has.
#[derive(Debug, Default)]
pub(crate) struct HandOvers {
    pub(super) pending: Vec<Pending>,
    /// The streams that have twins, by the cookies of those.
    pub(super) twins: BTreeMap<u64, TcpStream>,
    /// Tuples that the kernel has.
    pub(super) done: Vec<(ConnectionId, SocketAddr, SocketAddr)>,
    /// All are to be handed over: then the stack is closed, for good or until there is another control.
    pub(super) release: Option<Release>,
    /// Control's answer to the end of the stack.
    pub(super) closing: Option<Answer>,
}

/// The progress of handing all connections over.
#[derive(Debug)]
pub(crate) struct Release {
    pub(super) for_good: bool,
    /// Handshakes that were answered are waited for until then.
    pub(super) handshakes_until: Instant,
    /// Passes over all connections that have begun.
    pub(super) passes: u32,
    /// The rest of this pass.
    pub(super) to_do: Vec<Subject>,
}

impl HandOvers {
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.release.is_none()
    }

    /// The program closes a stream that is being handed over.
    pub(crate) fn close(&mut self, stream: TcpStream, is_abort: bool) {
        for pending in self.pending.iter_mut().filter(|pending| pending.stream == Some(stream)) {
            (pending.stream, pending.is_aborted) = (None, is_abort);
        }
    }

    /// The stack was lost, and its tuples with it.
    pub(crate) fn forget_tuples(&mut self) {
        self.done.clear();
        self.release = None;
    }

    pub(super) fn take_tuple(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<ConnectionId> {
        let place = self.done.iter().position(|(_, here, there)| (*here, *there) == (local, remote))?;
        Some(self.done.swap_remove(place).0)
    }
}
