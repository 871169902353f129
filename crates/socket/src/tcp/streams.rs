//! The streams and listeners of an engine.

use crate::fallback::released::Released;
use crate::fallback::tcp::{KernelListener, Twin};
use crate::reason::Reason;
use crate::tcp::active_open::opening::Opening;
use crate::tcp::active_open::ports::Ports;
use crate::tcp::error::TcpError;
use crate::tcp::events::EventQueue;
use crate::tcp::hand_over::pending::HandOvers;
use crate::tcp::hand_over::twins::OwnTwin;
use crate::tcp::passive_open::ending::Ending;
use crate::tcp::passive_open::holding::Holding;
use crate::tcp::passive_open::pending::{Pending, Reacceleration};
use crate::tcp::table::{Table, TcpEvent, TcpListener, TcpStream};
use sidestep_control_api::message::Entry;
use sidestep_stack::tcp::{ConnectionId, ListenerId, Options};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// The state of a stream: not begun, carried past the kernel or by it, or ended.
#[derive(Debug)]
pub(crate) enum StreamState {
    /// Not yet known.
    Opening(Box<Opening>),
    /// Past the kernel. Without a steering entry of its own its port is one that control has reserved.
    Accelerated { id: ConnectionId, steered: Option<Steered> },
    /// On its way to the kernel.
    HandingOver,
    /// By the kernel's socket, for a reason.
    Kernel(socket2::Socket, Reason),
    /// Ended with the path past the kernel that carried it.
    Lost(Reason),
    /// Did not begin, because there is no path past the kernel: the caller connects its own socket.
    Detour(Reason),
    /// Failed to begin, with the error; true once the program was told.
    Failed(TcpError, bool),
}

/// The steering of a connection's packets, kept until its TIME-WAIT is over.
#[derive(Clone, Debug)]
pub(crate) struct Steered {
    /// The steering entry of its flow; `None` as long as its listener's entry covers it.
    pub(crate) entry: Option<Entry>,
    /// The flow as a steering entry names it.
    pub(crate) flow: Entry,
    pub(crate) twin: Arc<Twin>,
    pub(crate) listener: Option<TcpListener>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The local end that the program has asked for.
    pub(crate) asked: Option<SocketAddr>,
    /// The kernel twin is the program's own socket, which it connects where there is no path past the kernel.
    pub(crate) is_beside: bool,
    pub(crate) state: StreamState,
    /// The kernel socket that the program knows it by.
    pub(crate) twin: Option<OwnTwin>,
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) local: SocketAddr,
    pub(crate) options: Options,
    pub(crate) twin: Arc<Twin>,
    pub(crate) kernel: KernelListener,
    /// The twin is the program's own socket, which it accepts from.
    pub(crate) is_beside: bool,
    /// Of the stack.
    pub(crate) backlog: usize,
    /// Past the kernel.
    pub(crate) id: Option<ListenerId>,
    pub(crate) entry: Option<Entry>,
    /// The reason why it is with the kernel.
    pub(crate) detour: Option<Reason>,
    /// The request to control for a steering entry.
    pub(crate) pending: Option<Pending>,
    /// SYNs wait for their answers, until then: CLOCK_MONOTONIC.
    pub(crate) held_until_ns: Option<u64>,
    /// Control has withdrawn its entry, and its connections have none of their own yet.
    pub(crate) drops_syns: bool,
    /// Streams that were accepted before the program has asked for them, as they had to be handed over.
    pub(crate) accepted: VecDeque<TcpStream>,
    /// True if the kernel may have a connection.
    pub(crate) is_twin_ready: bool,
    /// True if the control agent tells when it has; else every accept looks.
    pub(crate) is_twin_watched: bool,
}

/// A connection that was closed and is not over yet.
#[derive(Debug)]
pub(crate) struct ClosedConnection {
    pub(crate) id: ConnectionId,
    pub(crate) steered: Steered,
}

/// All streams and listeners of an engine.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) streams: Table<Stream>,
    pub(crate) listeners: Table<Listener>,
    /// Twins of closed listeners that listen on for a moment.
    pub(crate) ending: Vec<Ending>,
    pub(crate) closed: Vec<ClosedConnection>,
    /// The place in `closed` where the next look begins.
    pub(crate) next_closed: usize,
    /// Events besides those of the stack.
    pub(crate) events: EventQueue,
    /// Ports that were given back a moment ago.
    pub(crate) released: Released,
    /// The bytes of a kernel socket that a read by reference shows.
    pub(crate) shown: Vec<u8>,
    pub(crate) reacceleration: Reacceleration,
    pub(crate) holding: Holding,
    /// Connections that have not begun, in the order of the next look.
    pub(crate) opening: VecDeque<TcpStream>,
    /// For connections from here.
    pub(crate) ports: Ports,
    pub(crate) hand_overs: HandOvers,
}

impl Streams {
    /// The kernel's socket of a listener has something.
    pub(crate) fn note_twin_ready(&mut self, token: u64) {
        let found = self.listeners.iter_mut().find(|(key, _)| TcpListener(*key).token() == token);
        if let Some((key, listener)) = found {
            listener.is_twin_ready = true;
            self.events.push(TcpEvent::Listener(TcpListener(key)));
        }
    }

    /// The connections that the entry of a listener covers, closed ones included.
    pub(crate) fn steered_by(&mut self, listener: TcpListener) -> Vec<&mut Steered> {
        let accepted = self.streams.iter_mut().filter_map(|(_, stream)| match &mut stream.state {
            StreamState::Accelerated { steered, .. } => steered.as_mut(),
            _ => None,
        });
        let closed = self.closed.iter_mut().map(|ClosedConnection { steered, .. }| steered);
        accepted.chain(closed).filter(|steered| steered.listener == Some(listener)).collect()
    }

    /// The fast path is no more: listeners go on by the kernel, connections past it have ended. Their ports are the kernel's
    /// again, which tells peers that still send.
    pub(crate) fn lose(&mut self, reason: Reason) {
        self.closed.clear();
        self.next_closed = 0;
        self.reacceleration.forget();
        self.holding = Holding::default();
        self.ports = Ports::default();
        self.hand_overs.forget_tuples();
        for (_, listener) in self.listeners.iter_mut() {
            (listener.id, listener.entry, listener.detour) = (None, None, Some(reason));
            listener.pending = None;
            if std::mem::take(&mut listener.drops_syns) {
                listener.twin.accept_syns();
            }
            (listener.is_twin_watched, listener.is_twin_ready) = (false, true);
        }
        for (key, stream) in self.streams.iter_mut() {
            match &mut stream.state {
                StreamState::Accelerated { .. } => {
                    stream.state = StreamState::Lost(reason);
                    self.events.push(TcpEvent::Stream(TcpStream(key)));
                }
                StreamState::Opening(opening) => opening.stopped = Some(reason),
                // What becomes of one on its way control says.
                StreamState::HandingOver
                | StreamState::Kernel(..)
                | StreamState::Lost(_)
                | StreamState::Detour(_)
                | StreamState::Failed(..) => {}
            }
        }
    }
}
