//! Reacceleration: listeners that were with the kernel alone get the path past it.
//!
//! Control steers a port only while the kernel has no connections of it: their segments would come to a stack that does not
//! know them, and resets them. So a listener whose connections came by the kernel for a while waits until they are over.
//! Nothing here waits for control: the owner has other connections to serve.

use crate::engine::Engine;
use crate::reason::Reason;
use crate::tcp::Tcp;
use crate::tcp::passive_open::pending::Pending;
use crate::tcp::streams::{ClosedConnection, Steered, StreamState};
use crate::tcp::table::{TcpEvent, TcpListener, TcpStream};
use sidestep_control_api::message::Entry;

/// Between a refusal for the kernel's connections and the next attempt, and later from one attempt to the next: twice as
/// long each time. A FIX session of the kernel's lasts a day.
const PAUSE_FIRST_NS: u64 = 1_000_000_000;
const PAUSE_MAX_NS: u64 = 60_000_000_000;

impl Tcp<'_> {
    /// Listeners that are with the kernel alone, for a reason that `is_over`, ask for the path past it, where there is
    /// one; [`Engine::tidy_listeners`] goes on with it.
    pub(crate) fn reaccelerate_listeners(&mut self, is_over: impl Fn(Reason) -> bool) {
        let all = self.engine.streams.listeners.iter_mut();
        let waiting = all.filter(|(_, listener)| {
            listener.id.is_none() && listener.pending.is_none() && listener.detour.is_some_and(&is_over)
        });
        let waiting: Vec<_> = waiting.map(|(key, _)| key).collect();
        for key in waiting {
            if let Err(reason) = self.request_listener_rule(TcpListener(key))
                && let Ok(listener) = self.engine.streams.listeners.at(key)
            {
                listener.detour = Some(reason);
            }
        }
    }

    /// The stack listens before steering brings the first SYN.
    fn request_listener_rule(&mut self, handle: TcpListener) -> Result<(), Reason> {
        let Ok(listener) = self.engine.streams.listeners.at(handle.0) else { return Ok(()) };
        let (local, backlog, options) = (listener.local, listener.backlog, listener.options);
        let proof = listener.twin.duplicate().map_err(|_| Reason::Refused)?;
        let (id, entry) = self.listen_in_stack(local, backlog, options)?;
        let answer = self.engine.agent.as_ref().map(|agent| agent.begin_to_steer(entry, proof));
        let Some(answer) = answer else {
            self.stop_stack(id);
            return Err(Reason::Revoked);
        };
        self.engine.streams.reacceleration.await_answer();
        if let Ok(listener) = self.engine.streams.listeners.at(handle.0) {
            listener.pending = Some(Pending { id, entry, answer });
        }
        Ok(())
    }

    /// Takes note of what control has answered.
    fn take_answer(&mut self, handle: TcpListener) {
        let Ok(listener) = self.engine.streams.listeners.at(handle.0) else { return };
        let Some(answer) = listener.pending.as_ref().and_then(|pending| pending.answer.take()) else { return };
        let Some(Pending { id, entry, .. }) = listener.pending.take() else { return };
        (listener.id, listener.entry, listener.detour) = match answer {
            Ok(()) => (Some(id), Some(entry), None),
            Err(reason) => (None, None, Some(reason)),
        };
        let (local, is_held) = (listener.local, listener.held_until_ns.is_some());
        // What the kernel has accepted meanwhile is fetched first. A control that was killed in the middle has left it dropping SYNs.
        listener.is_twin_ready = true;
        listener.twin.accept_syns();
        let reacceleration = &mut self.engine.streams.reacceleration;
        reacceleration.asked -= 1;
        reacceleration.note(answer.err());
        if answer.is_err() {
            self.retire_in_stack(id, local, None);
        } else {
            self.engine.bypass.iter_mut().for_each(|bypass| bypass.handles.insert_listener(id, handle));
            if !is_held {
                self.answer_in_stack(id);
            }
        }
        self.watch(handle);
        self.engine.streams.events.push(TcpEvent::Listener(handle));
    }

    /// Cancels the request for the steering entry of a listener.
    pub(crate) fn cancel_pending(&mut self, handle: TcpListener) {
        let Ok(listener) = self.engine.streams.listeners.at(handle.0) else { return };
        let local = listener.local;
        let Some(Pending { id, entry, .. }) = listener.pending.take() else { return };
        self.engine.streams.reacceleration.asked -= 1;
        // Commands are executed in order: the request comes first.
        self.give_back_and_retire(id, entry, local);
    }
}

impl Tcp<'_> {
    /// Falls back to the kernel after a steering entry was withdrawn. New connections come by the kernel. Control is asked for
    /// an entry for each connection that the entry of a listener covered. A connection without an entry ends: the kernel resets
    /// its peer.
    pub(crate) fn fall_back(&mut self, entry: Entry, reason: Reason) {
        let listeners = self.engine.streams.listeners.iter_mut();
        let found = listeners.filter(|(_, listener)| listener.entry == Some(entry)).map(|(key, listener)| {
            (listener.entry, listener.detour, listener.is_twin_ready) = (None, Some(reason), true);
            (TcpListener(key), listener.local, listener.id.take())
        });
        let found: Vec<_> = found.collect();
        for (handle, local, id) in found {
            self.request_entry_for_each(handle);
            if let Ok(listener) = self.engine.streams.listeners.at(handle.0) {
                (listener.drops_syns, self.engine.streams.reacceleration.drop_syns) = (true, true);
            }
            if let Some(id) = id {
                self.retire_in_stack(id, local, None);
                self.engine.bypass.iter_mut().for_each(|bypass| bypass.handles.remove_listener(id));
            }
            self.abort_steered(reason, |steered| steered.listener == Some(handle));
        }
        self.abort_steered(reason, |steered| steered.entry == Some(entry));
    }

    /// Accepts SYNs again on listeners whose entry control has withdrawn, once each of their connections has an entry of its own
    /// or has ended: before that the kernel would reset the peers.
    fn accept_syns_again(&mut self) {
        let Engine { streams, bypass, .. } = &mut *self.engine;
        streams.reacceleration.drop_syns = false;
        for (_, listener) in streams.listeners.iter_mut().filter(|(_, listener)| listener.drops_syns) {
            let port = listener.local.port();
            listener.drops_syns = bypass.as_ref().is_some_and(|bypass| bypass.entries.are_asked_of_tcp(port));
            if !listener.drops_syns {
                listener.twin.accept_syns();
            }
            streams.reacceleration.drop_syns |= listener.drops_syns;
        }
    }

    /// Aborts streams by their steering entries.
    fn abort_steered(&mut self, reason: Reason, is_lost: impl Fn(&Steered) -> bool) {
        let Engine { streams, bypass: Some(bypass), counters, .. } = &mut *self.engine else { return };
        // Closed connections end by themselves, without an answer.
        for ClosedConnection { steered, .. } in streams.closed.iter_mut().filter(|closed| is_lost(&closed.steered)) {
            (steered.entry, steered.listener) = (None, None);
        }
        for (key, stream) in streams.streams.iter_mut() {
            let lost = match &stream.state {
                StreamState::Accelerated { id, steered: Some(steered) } if is_lost(steered) => *id,
                _ => continue,
            };
            bypass.handles.remove_stream(lost);
            // One that has ended already is as wanted.
            let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.abort(now, lost, output));
            stream.state = StreamState::Lost(reason);
            streams.events.push(TcpEvent::Stream(TcpStream(key)));
        }
    }
}

impl Engine {
    /// Advances listeners that wait for a steering entry. `now_ns` is CLOCK_MONOTONIC.
    pub(crate) fn poll_listeners(&mut self, now_ns: u64) {
        if !self.streams.ending.is_empty() {
            self.end_twins();
        }
        self.poll_holding(now_ns);
        let reacceleration = &mut self.streams.reacceleration;
        if reacceleration.are_waiting {
            reacceleration.are_waiting = false;
            reacceleration.pause_ns = (2 * reacceleration.pause_ns).clamp(PAUSE_FIRST_NS, PAUSE_MAX_NS);
            reacceleration.at_ns = now_ns.saturating_add(reacceleration.pause_ns);
        }
        if reacceleration.at_ns != 0 && now_ns >= reacceleration.at_ns {
            reacceleration.at_ns = 0;
            self.tcp().reaccelerate_listeners(|reason| reason == Reason::KernelConnections);
        }
        if self.streams.reacceleration.drop_syns {
            self.tcp().accept_syns_again();
        }
        if self.streams.reacceleration.asked != 0 {
            let asked = self.streams.listeners.iter_mut().filter(|(_, listener)| listener.pending.is_some());
            let asked: Vec<_> = asked.map(|(key, _)| TcpListener(key)).collect();
            asked.into_iter().for_each(|handle| self.tcp().take_answer(handle));
        }
    }
}
