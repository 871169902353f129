//! A connection of the kernel, made out of a record.

use super::refuse;
use super::segment::Wire;
use super::socket::ShownSocket;
use rustix::net::sockopt::{set_socket_reuseaddr, socket_reuseaddr};
use rustix::net::{Shutdown, bind, connect, getsockname, shutdown};
use sidestep_control_api::message::{Code, HandOver, Refusal};
use sidestep_sys::problem::say;
use sidestep_sys::socket::detach_filter;
use sidestep_sys::tcp_queue;
use sidestep_sys::tcp_repair::{self as repair, BufferSizes, Negotiated, Queue, Window};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Attempts to leave repair mode: another process that has the socket can make it listen in between.
const TRIES: usize = 1000;

/// Attempts to have the kernel take the peer's FIN.
const FIN_TRIES: usize = 3;

/// Everything that a connection is made of.
pub(crate) struct Making<'a> {
    pub(crate) connection: &'a HandOver,
    pub(crate) socket: ShownSocket<'a>,
    /// The bytes of the queues.
    pub(crate) bytes: BorrowedFd<'a>,
    /// Needed where the peer has finished; `None` on a kernel without it.
    pub(crate) wire: Option<Wire<'a>>,
    /// The interface, for addresses that hold on one link.
    pub(crate) interface: u32,
    /// Others listen on the port, or will: it must be shared.
    pub(crate) shares_port: bool,
}

/// A connection in the kernel's table, in repair mode.
pub(crate) struct Made<'a> {
    making: Making<'a>,
    may_reuse: bool,
    /// Of its buffers, before.
    sizes: BufferSizes,
}

impl<'a> Made<'a> {
    /// Makes the connection. If refused, the socket is as it was, but may be bound.
    pub(crate) fn of(making: Making<'a>) -> Result<Self, Refusal> {
        let Making { connection, socket: ShownSocket { socket, .. }, .. } = &making;
        let (connection, socket) = (*connection, *socket);
        if connection.peer_fin && making.wire.is_none() {
            let reason = "the peer has finished, and this kernel lets nobody say so (Linux 5.18 does)";
            return Err(refuse(connection, Code::Unsupported, reason));
        }
        let failed = |error: io::Error| refuse(connection, Code::Kernel, format!("repair mode: {error}"));
        let may_reuse = socket_reuseaddr(socket).unwrap_or(false);
        let sizes = BufferSizes::of(socket).map_err(failed)?;
        repair::begin(socket).map_err(failed)?;
        let made = Self { making, may_reuse, sizes };
        match made.build() {
            Ok(()) => Ok(made),
            Err((step, error)) => {
                let refusal = refuse(connection, Code::Kernel, format!("{step}: {error}"));
                made.dissolve();
                Err(refusal)
            }
        }
    }

    fn build(&self) -> Result<(), (&'static str, io::Error)> {
        let Making { connection, socket: shown, interface, .. } = &self.making;
        let socket = shown.socket;
        let at = |step: &'static str| move |error: io::Error| (step, error);
        if !shown.has_own_filter {
            repair::seclude(socket).map_err(at("filter"))?;
        }
        let (local, remote) =
            (shown.address(connection.local, *interface), shown.address(connection.remote, *interface));
        if !shown.is_bound {
            bind(socket, &local).map_err(|error| ("bind", error.into()))?;
        }
        let received_from = connection.receive_end.wrapping_sub(connection.received);
        repair::set_sequence(socket, Queue::Receive, received_from).map_err(at("sequence number"))?;
        let send_from = connection.send_start.wrapping_sub(connection.sampled());
        repair::set_sequence(socket, Queue::Send, send_from).map_err(at("sequence number"))?;
        connect(socket, &remote).map_err(|error| ("connect", error.into()))?;
        self.check_source(connection.local).map_err(at("source address"))?;
        self.set_options().map_err(at("options"))?;
        self.fill().map_err(at("queues"))?;
        repair::choose(socket, Queue::None).map_err(at("queues"))
    }

    /// The route decides the source address of a socket that is bound to any.
    fn check_source(&self, local: SocketAddr) -> io::Result<()> {
        let bound = SocketAddr::try_from(getsockname(self.making.socket.socket)?)?;
        if (bound.ip().to_canonical(), bound.port()) == (local.ip(), local.port()) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::AddrNotAvailable, format!("the kernel takes {bound}")))
    }

    fn set_options(&self) -> io::Result<()> {
        let Making { connection, socket: ShownSocket { socket, .. }, .. } = &self.making;
        let negotiated = Negotiated {
            segment_bytes: connection.segment_bytes,
            send_shift: connection.send_shift,
            receive_shift: connection.receive_shift,
            sack: connection.sack,
            timestamps: connection.timestamps.is_some(),
        };
        repair::set_negotiated(*socket, &negotiated)?;
        connection.timestamps.map_or(Ok(()), |(ours, _)| repair::set_timestamp(*socket, ours))
    }

    fn fill(&self) -> io::Result<()> {
        let Making { connection, socket: ShownSocket { socket, .. }, bytes, .. } = &self.making;
        let socket = *socket;
        let (received, unacknowledged) = (u64::from(connection.received), u64::from(connection.unacknowledged));
        // The kernel counts what it keeps around the bytes, too, which its doubling is for.
        repair::enlarge_buffer(socket, Queue::Receive, connection.receive_buffer() as usize)?;
        repair::enlarge_buffer(socket, Queue::Send, connection.send_buffer() as usize + (64 << 10))?;
        repair::choose(socket, Queue::Receive)?;
        tcp_queue::fill(socket, *bytes, 0..received)?;
        repair::set_window(
            socket,
            &Window {
                send_update: connection.send_update,
                send: connection.send_window + connection.sampled(),
                send_max: connection.send_window_max + connection.sampled(),
                receive: connection.receive_window,
                receive_from: connection.receive_end,
            },
        )?;
        repair::choose(socket, Queue::Send)?;
        tcp_queue::put(socket, &[0][..connection.sampled() as usize])?;
        tcp_queue::fill(socket, *bytes, received..received + unacknowledged)?;
        if self.is_fin_in_flight() {
            // It counts as sent, too: the peer may acknowledge it before the congestion window lets it leave again.
            shutdown(socket, Shutdown::Write)?;
        }
        Ok(())
    }

    /// Takes the connection back: the socket is unconnected, and no segment leaves.
    pub(crate) fn dissolve(self) {
        let socket = self.making.socket.socket;
        // One that was never connected is as wanted.
        let _ = repair::disconnect(socket);
        // Larger ones by control's privilege are for a connection alone.
        let _ = self.sizes.restore(socket);
        self.leave();
        self.become_ordinary();
    }

    /// Puts the connection into service, which repair mode's end does, at once: what follows its owner could do, too, and does where
    /// this process dies (`socket::control_agent`). It is the kernel's from here on: where that does not take all of it, it is reset.
    pub(crate) fn begin(self) {
        let Making { connection, socket: ShownSocket { socket, .. }, bytes, wire, .. } = &self.making;
        let (connection, socket, bytes) = (*connection, *socket, *bytes);
        self.hear_peer(wire.as_ref());
        self.leave();
        self.become_ordinary();
        let from = u64::from(connection.received) + u64::from(connection.unacknowledged);
        let outcome = tcp_queue::fill(socket, bytes, from..connection.bytes()).and_then(|()| self.finish());
        if let Err(error) = outcome {
            // Half of a stream is worse than none.
            let _ = repair::disconnect(socket);
            let HandOver { local, remote, .. } = connection;
            say(format!("tcp {local} from {remote} was reset: the kernel did not take all of it: {error}"));
        }
    }

    /// The peer's FIN, and its clock. Before anything is sent: what the peer answers to that is newer, and the kernel would take
    /// these for too old (RFC 7323 section 5.3, RFC 5961 section 5). Of two ends that have finished this one is then in CLOSING, where
    /// it may have been in LAST-ACK, or the other way round.
    fn hear_peer(&self, wire: Option<&Wire<'_>>) {
        let Making { connection, socket: ShownSocket { socket, .. }, .. } = &self.making;
        let Some(wire) = wire else { return };
        if !connection.peer_fin {
            // Without it the kernel's first segment would echo zero, which most peers ignore.
            let _ = connection.timestamps.map(|_| wire.acknowledge(connection));
            return;
        }
        for _ in 0..FIN_TRIES {
            if wire.finish(connection).is_ok() && repair::has_peer_fin(*socket).unwrap_or(false) {
                return;
            }
        }
        // On a host that steers received packets to other CPUs (RPS) it is under way.
        say(format!("the FIN of {} has not been seen in time", connection.remote));
    }

    /// Returns whether our FIN counts as sent. Where little is in flight it leaves once more instead: the peer's answer tells at
    /// once what it has, and no timeout has to be waited for.
    fn is_fin_in_flight(&self) -> bool {
        let HandOver { is_fin_sent, unacknowledged, segment_bytes, .. } = *self.making.connection;
        is_fin_sent && unacknowledged > 2 * u32::from(segment_bytes)
    }

    fn finish(&self) -> io::Result<()> {
        if self.making.connection.own_fin && !self.is_fin_in_flight() {
            shutdown(self.making.socket.socket, Shutdown::Write)?;
        }
        Ok(())
    }

    /// Leaves repair mode. Whoever else has the socket may have made it listen, on a port that repair mode has let it bind: it
    /// has to stop before.
    fn leave(&self) {
        let socket = self.making.socket.socket;
        for _ in 0..TRIES {
            if repair::abandon(socket).is_ok() && !repair::is_on(socket).unwrap_or(false) {
                return;
            }
            let _ = shutdown(socket, Shutdown::Both);
        }
        say(format!(
            "a socket stays in repair mode: its owner makes it listen (port {})",
            self.making.connection.local.port()
        ));
    }

    /// Has the socket receive, and a connection ask for its peer's window, whose answer is received.
    fn become_ordinary(&self) {
        let socket = self.making.socket.socket;
        if !self.making.socket.has_own_filter {
            // One that its owner has locked or detached is the owner's loss.
            let _ = detach_filter(socket);
        }
        // Refused to one that listens, which asks for nothing.
        let _ = repair::end(socket);
        // The mode has cleared it. An accepted connection lets its listener's successor bind, as any other does.
        let _ = set_socket_reuseaddr(socket, self.may_reuse || self.making.shares_port);
    }
}
