//! Figures of the engine, its connections and listeners, copied to the status page while the engine is polled.

use super::{Why, page};
use crate::datagram::peer_of;
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_socket::shared::Turns;
use sidestep_socket::tcp::{TcpListener, TcpStream};
use sidestep_socket::{Engine, Handle as Datagrams, Path as Carried, Reason, Statistics};
use sidestep_stack::tcp::{Facts, State};
use sidestep_unmodified::status::{EngineFigure, EngineRow, Figure, Path, SocketRow, StatusPage, TcpState};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sockets that are looked at for each millisecond since the last look: about a microsecond of work.
const PER_MS: u64 = 8;
/// The most in one look, which follows a sleep.
const LOOK_MAX: u64 = 64;
/// Between two looks at the same socket, at the least.
const ROUND_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handle {
    Stream(TcpStream),
    Listener(TcpListener),
    Datagrams(Datagrams),
}

/// What is copied from an engine.
#[derive(Debug, Default)]
pub(crate) struct Samples(Mutex<Sockets>);

#[derive(Debug, Default)]
struct Sockets {
    engine: Option<EngineRow>,
    queue: Option<u32>,
    list: Vec<(Handle, SocketRow)>,
    places: HashMap<Handle, usize>,
    /// The place in the list where the next look begins.
    next: usize,
    looked_ns: u64,
    round_ns: u64,
}

impl Samples {
    /// The engine that is copied from. Its row is made here.
    pub(crate) fn begin(&self, engine: &Engine) {
        let Some(status) = super::wanted() else { return };
        let mut sockets = self.locked();
        sockets.engine = status.open_engine(engine);
        sockets.queue = engine.link().and_then(|facts| match &facts.xsks[..] {
            [xsk] => Some(xsk.queue),
            _ => None,
        });
    }

    /// Copies what is due.
    pub(crate) fn take(&self, engine: &mut Engine, turns: &Turns) {
        let Some(status) = page() else { return };
        let now_ns = monotonic_ns();
        let mut sockets = self.locked();
        if let Some(row) = sockets.engine {
            copy_engine(&status.page, row, engine, turns, now_ns);
        }
        sockets.look(&status.page, engine, now_ns);
    }

    pub(crate) fn add_stream(&self, engine: &mut Engine, stream: TcpStream, row: Option<SocketRow>) {
        self.add(engine, Handle::Stream(stream), row);
    }

    pub(crate) fn add_listener(&self, engine: &mut Engine, listener: TcpListener, row: Option<SocketRow>) {
        self.add(engine, Handle::Listener(listener), row);
    }

    pub(crate) fn add_datagrams(&self, engine: &mut Engine, socket: Datagrams, row: Option<SocketRow>) {
        self.add(engine, Handle::Datagrams(socket), row);
    }

    /// A stream ends, or is the kernel's from here on.
    pub(crate) fn remove_stream(&self, engine: &mut Engine, stream: TcpStream) {
        let path = match engine.tcp().path(stream) {
            Ok(Carried::Kernel(reason)) if reason != Reason::Opening => Why::Of(reason).path(),
            _ => Path::Undecided,
        };
        self.remove(engine, Handle::Stream(stream), path);
    }

    /// A listener ends.
    pub(crate) fn remove_listener(&self, engine: &mut Engine, listener: TcpListener) {
        self.remove(engine, Handle::Listener(listener), Path::Undecided);
    }

    /// A socket of UDP ends, or is the kernel's from here on.
    pub(crate) fn remove_datagrams(&self, engine: &mut Engine, socket: Datagrams) {
        let path = match engine.path(socket) {
            Ok(Carried::Kernel(reason)) if reason != Reason::Opening => Why::Of(reason).path(),
            _ => Path::Undecided,
        };
        self.remove(engine, Handle::Datagrams(socket), path);
    }

    /// A listener is the kernel's from here on.
    pub(crate) fn leave_listener(&self, engine: &mut Engine, listener: TcpListener) {
        self.remove(engine, Handle::Listener(listener), Why::Shared.path());
    }

    fn add(&self, engine: &mut Engine, handle: Handle, row: Option<SocketRow>) {
        let (Some(status), Some(row)) = (page(), row) else { return };
        let mut sockets = self.locked();
        let place = sockets.list.len();
        sockets.list.push((handle, row));
        sockets.places.insert(handle, place);
        sockets.copy(&status.page, engine, handle, row);
    }

    fn remove(&self, engine: &mut Engine, handle: Handle, path: Path) {
        let mut sockets = self.locked();
        let Some(place) = sockets.places.remove(&handle) else { return };
        let (_, row) = sockets.list.swap_remove(place);
        if let Some((moved, _)) = sockets.list.get(place).copied() {
            sockets.places.insert(moved, place);
        }
        let Some(status) = page() else { return };
        // What was counted stays to be seen; what was measured is the kernel's from now on.
        sockets.copy(&status.page, engine, handle, row);
        let gauges = [Figure::RttNs, Figure::UnreadBytes, Figure::UnsentBytes];
        gauges.into_iter().for_each(|gauge| status.page.set(row, gauge, 0));
        status.page.set_path(row, path);
    }

    fn locked(&self) -> MutexGuard<'_, Sockets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sockets {
    fn look(&mut self, page: &StatusPage, engine: &mut Engine, now_ns: u64) {
        if self.next == 0 {
            if now_ns.saturating_sub(self.round_ns) < ROUND_NS {
                return;
            }
            self.round_ns = now_ns;
        }
        let passed_ms = now_ns.saturating_sub(self.looked_ns) / 1_000_000;
        self.looked_ns = now_ns;
        let count = passed_ms.saturating_mul(PER_MS).clamp(1, LOOK_MAX) as usize;
        let end = self.next.saturating_add(count).min(self.list.len());
        for place in self.next.min(end)..end {
            let (handle, row) = self.list[place];
            self.copy(page, engine, handle, row);
        }
        self.next = if end == self.list.len() { 0 } else { end };
    }

    fn copy(&self, page: &StatusPage, engine: &mut Engine, handle: Handle, row: SocketRow) {
        match handle {
            Handle::Stream(stream) => {
                let mut tcp = engine.tcp();
                if let Ok((local, remote)) = tcp.ends(stream) {
                    page.set_addresses(row, Some(local), Some(remote));
                }
                if let Ok(path) = tcp.path(stream) {
                    page.set_path(row, self.path(path));
                }
                if let Ok(Some(facts)) = tcp.facts(stream) {
                    copy_facts(page, row, &facts);
                }
            }
            Handle::Listener(listener) => {
                let mut tcp = engine.tcp();
                if let Ok(local) = tcp.local(listener) {
                    page.set_addresses(row, Some(local), None);
                }
                if let Ok(path) = tcp.listener_path(listener) {
                    page.set_path(row, self.path(path));
                }
                page.set_tcp_state(row, TcpState::Listen);
            }
            Handle::Datagrams(socket) => {
                if let Ok(local) = engine.local(socket) {
                    let peer = engine.twin(socket).ok().and_then(peer_of);
                    page.set_addresses(row, Some(local), peer);
                }
                if let Ok(path) = engine.path(socket) {
                    page.set_path(row, self.path(path));
                }
                if let Ok(statistics) = engine.statistics(socket) {
                    copy_statistics(page, row, &statistics);
                }
            }
        }
    }

    fn path(&self, path: Carried) -> Path {
        match (path, self.engine) {
            (Carried::Accelerated { mode }, Some(engine)) => Path::Accelerated { engine, mode, queue: self.queue },
            (Carried::Accelerated { .. }, None) => Path::Undecided,
            (Carried::Kernel(reason), _) => Why::Of(reason).path(),
        }
    }
}

fn copy_engine(page: &StatusPage, row: EngineRow, engine: &Engine, turns: &Turns, now_ns: u64) {
    let frames = engine.frames();
    let figures = [
        (EngineFigure::Polls, turns.polls),
        (EngineFigure::HelperPolls, turns.helper_polls),
        (EngineFigure::Sleeps, turns.sleeps),
        (EngineFigure::WakeUps, turns.wake_ups),
        (EngineFigure::HelperWakeUps, turns.helper_wake_ups),
        (EngineFigure::ReceivedFrames, frames.received),
        (EngineFigure::SentFrames, frames.sent),
        (EngineFigure::DroppedFrames, frames.dropped),
        (EngineFigure::LastPollNs, now_ns),
    ];
    figures.into_iter().for_each(|(figure, value)| page.set_engine(row, figure, value));
}

fn copy_facts(page: &StatusPage, row: SocketRow, facts: &Facts) {
    page.set_tcp_state(row, state_of(facts.state));
    let figures = [
        (Figure::ReceivedBytes, facts.bytes_in),
        (Figure::SentBytes, facts.bytes_out),
        (Figure::Received, facts.segments_in),
        (Figure::Sent, facts.segments_out),
        (Figure::Retransmits, facts.retransmitted),
        (Figure::RttNs, facts.rtt_ns.unwrap_or(0)),
        (Figure::Drops, facts.dropped),
        (Figure::UnreadBytes, facts.readable as u64),
        (Figure::UnsentBytes, facts.unacknowledged as u64),
    ];
    figures.into_iter().for_each(|(figure, value)| page.set(row, figure, value));
}

fn copy_statistics(page: &StatusPage, row: SocketRow, statistics: &Statistics) {
    page.set(row, Figure::Received, statistics.received);
    page.set(row, Figure::Sent, statistics.sent);
    page.set(row, Figure::Drops, statistics.dropped);
}

fn state_of(state: State) -> TcpState {
    match state {
        State::Established => TcpState::Established,
        State::SynSent => TcpState::SynSent,
        State::SynReceived => TcpState::SynReceived,
        State::FinWait1 => TcpState::FinWait1,
        State::FinWait2 => TcpState::FinWait2,
        State::TimeWait => TcpState::TimeWait,
        State::Closed => TcpState::Closed,
        State::CloseWait => TcpState::CloseWait,
        State::LastAck => TcpState::LastAck,
        State::Closing => TcpState::Closing,
    }
}
