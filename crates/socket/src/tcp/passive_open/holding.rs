//! Listeners that answer nothing for a while. A SYN waits for its answer until control has said that the port is ours, and until a program
//! that may yet leave its connections to a child has waited for one. After the port was given back nothing is answered either: what was
//! steered before is still in the ring, and may be of the kernel's connections.

use crate::control_agent::Answer;
use crate::engine::Engine;
use crate::tcp::Tcp;
use crate::tcp::error::TcpError;
use crate::tcp::table::TcpListener;
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_stack::tcp::ListenerId;
use std::net::SocketAddr;

/// The time for which SYNs wait for a program that does not wait for connections: as long as they would be late if one had been lost.
const HELD_MAX_NS: u64 = 1_000_000_000;

/// The time for which frames may be in a ring.
const RING_NS: u64 = 100_000_000;

/// When a listener beside a program's own socket begins to answer SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// As soon as control has said that the port is ours.
    AtOnce,
    /// With [`Tcp::begin_answering`], a second later at the latest. Until then it can be left without a connection that is reset.
    OnceAwaited,
}

impl Answering {
    /// The time from which SYNs are answered whatever the program does: CLOCK_MONOTONIC. `None`: at once.
    pub(super) fn held_until_ns(self) -> Option<u64> {
        (self == Self::OnceAwaited).then(|| monotonic_ns().saturating_add(HELD_MAX_NS))
    }
}

/// A listener of the stack whose port was given back.
#[derive(Debug)]
struct Retiring {
    id: ListenerId,
    local: SocketAddr,
    /// The request to control to remove its entry.
    removal: Option<Answer>,
    /// The time at which the ring has nothing of it any more; known once the entry is removed.
    until_ns: Option<u64>,
}

/// What waits for the time.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    retiring: Vec<Retiring>,
    /// The first time at which a listener answers by itself.
    first_ns: Option<u64>,
}

impl Holding {
    /// A listener holds its answers.
    pub(super) fn note(&mut self, held_until_ns: Option<u64>) {
        self.first_ns = [self.first_ns, held_until_ns].into_iter().flatten().min();
    }
}

impl Tcp<'_> {
    /// Answers the SYNs of a listener ([`Answering::OnceAwaited`]) from now on, those that wait first.
    pub fn begin_answering(&mut self, handle: TcpListener) -> Result<(), TcpError> {
        let listener = self.engine.streams.listeners.at(handle.0)?;
        if let (Some(_), Some(id)) = (listener.held_until_ns.take(), listener.id) {
            self.answer_in_stack(id);
        }
        Ok(())
    }

    pub(super) fn answer_in_stack(&mut self, id: ListenerId) {
        if let Some(bypass) = self.engine.bypass.as_mut() {
            // The number is known here alone, so it listens.
            let _ = bypass.with_tcp(&self.engine.counters, |tcp, now, output| tcp.answer(now, id, output));
        }
    }

    /// Ends a listener of the stack once nothing can come for it: when its entry is removed, and the ring has been read.
    pub(super) fn retire_in_stack(&mut self, id: ListenerId, local: SocketAddr, removal: Option<Answer>) {
        let Some(bypass) = self.engine.bypass.as_mut() else { return };
        let _ = bypass.stack.tcp_mut().hold(id);
        let local = SocketAddr::new(local.ip(), local.port());
        self.engine.streams.holding.retiring.push(Retiring { id, local, removal, until_ns: None });
    }

    /// Ends a listener that is retiring at this address: the next one holds its answers, too.
    pub(super) fn end_retiring_at(&mut self, local: SocketAddr) {
        let retiring = &mut self.engine.streams.holding.retiring;
        let ended: Vec<_> = retiring.extract_if(.., |retiring| retiring.local == local).collect();
        ended.into_iter().for_each(|ended| self.stop_stack(ended.id));
    }
}

impl Engine {
    pub(super) fn poll_holding(&mut self, now_ns: u64) {
        let Self { streams, .. } = self;
        for retiring in &mut streams.holding.retiring {
            let is_removed = retiring.removal.as_ref().is_none_or(|removal| removal.take().is_some());
            if is_removed && retiring.until_ns.is_none() {
                retiring.until_ns = Some(now_ns.saturating_add(RING_NS));
            }
        }
        let is_over = |retiring: &mut Retiring| retiring.until_ns.is_some_and(|until| until <= now_ns);
        let ended: Vec<_> = streams.holding.retiring.extract_if(.., is_over).collect();
        ended.into_iter().for_each(|ended| self.tcp().stop_stack(ended.id));
        if self.streams.holding.first_ns.is_some_and(|first| first <= now_ns) {
            self.answer_held(now_ns);
        }
    }

    /// Has those listeners answer whose time is over.
    fn answer_held(&mut self, now_ns: u64) {
        let held =
            self.streams.listeners.iter_mut().filter_map(|(key, one)| Some((TcpListener(key), one.held_until_ns?)));
        let (over, left): (Vec<_>, Vec<_>) = held.partition(|(_, until)| *until <= now_ns);
        self.streams.holding.first_ns = left.into_iter().map(|(_, until)| until).min();
        // They are in the table.
        over.into_iter().for_each(|(handle, _)| _ = self.tcp().begin_answering(handle));
    }
}
