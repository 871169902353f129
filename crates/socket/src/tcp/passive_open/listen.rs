//! Passive open: listening.

use crate::control_agent::ANSWER_WAIT;
use crate::engine::Engine;
use crate::fallback::tcp::{KernelListener, Twin};
use crate::reason::{Path, Reason};
use crate::tcp::passive_open::pending::Pending;
use crate::tcp::streams::Listener;
use crate::tcp::table::{HANDLES_MAX, TcpEvent, TcpListener};
use crate::tcp::{Tcp, failed};
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_stack::tcp::{ListenerId, Options};
use sidestep_sys::Problem;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// The state of the steering entry that control was asked for.
enum EntryState {
    Stands(ListenerId, Entry),
    /// Control has not answered in time.
    Pending(Pending),
}

/// The error of a listen that is refused.
fn refused(local: SocketAddr, why: &dyn std::fmt::Display) -> Problem {
    failed("listen on", local, why).next(format!("see who has the port: ss -ltnp sport = :{}", local.port()))
}

impl Tcp<'_> {
    /// Listens: up to `backlog` connections wait to be accepted, past the kernel and in the kernel each. The kernel decides
    /// whether it may, and gives the port where `local` has none. The unspecified address of IPv6 takes IPv6 only.
    /// Steering stands before this returns; [`Tcp::begin_listening`] does not wait for it.
    pub fn listen(&mut self, local: SocketAddr, backlog: usize, options: Options) -> Result<TcpListener, Problem> {
        self.listen_within(ANSWER_WAIT, local, backlog, options)
    }

    /// Listens without waiting for control. Until control has answered, which an event reports, connections come by the kernel
    /// ([`Reason::Opening`]). A connection that came by the kernel keeps later ones there until it ends
    /// ([`Reason::KernelConnections`]). A port that was given back a moment ago may still be taken.
    pub fn begin_listening(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        options: Options,
    ) -> Result<TcpListener, Problem> {
        self.listen_within(Duration::ZERO, local, backlog, options)
    }

    fn listen_within(
        &mut self,
        longest: Duration,
        local: SocketAddr,
        backlog: usize,
        options: Options,
    ) -> Result<TcpListener, Problem> {
        self.check().map_err(|error| refused(local, &error))?;
        let twin = self.bind_listener(local, longest)?;
        let bound = twin.local().map_err(|error| refused(local, &error))?;
        let begun = self.listen_in_stack(bound, backlog, options);
        let kernel = self.listen_in_kernel(&twin, local, backlog, begun.as_ref().ok())?;
        let steered = begun.and_then(|(id, entry)| self.await_entry(id, entry, &twin, longest));
        twin.accept_syns();
        let (id, entry, pending, detour) = match steered {
            Ok(EntryState::Stands(id, entry)) => (Some(id), Some(entry), None, None),
            Ok(EntryState::Pending(pending)) if longest.is_zero() => (None, None, Some(pending), Some(Reason::Opening)),
            Ok(EntryState::Pending(pending)) => (None, None, Some(pending), Some(Reason::ControlSilent)),
            Err(reason) => (None, None, None, Some(reason)),
        };
        let listener = Listener {
            local: bound,
            options,
            twin: Arc::new(twin),
            kernel,
            backlog,
            id,
            entry,
            detour,
            pending,
            drops_syns: false,
            is_twin_ready: true,
            is_twin_watched: false,
        };
        self.insert_listener(listener)
            .ok_or_else(|| refused(local, &format!("an engine has at most {HANDLES_MAX} listeners; close some")))
    }

    /// Binds the kernel twin. With no time to wait, a port that was given back a moment ago may be taken still.
    fn bind_listener(&self, local: SocketAddr, longest: Duration) -> Result<Twin, Problem> {
        let bind = || Twin::for_listener(local);
        let twin = if longest.is_zero() { bind() } else { self.engine.streams.released.bind(local, bind) };
        twin.map_err(|error| refused(local, &error).errno(error.raw_os_error()))
    }

    /// Has the twin listen, which proves the port. While `begun` listens in the stack, the twin drops SYNs.
    fn listen_in_kernel(
        &mut self,
        twin: &Twin,
        local: SocketAddr,
        backlog: usize,
        begun: Option<&(ListenerId, Entry)>,
    ) -> Result<KernelListener, Problem> {
        let kernel = if begun.is_some() { twin.listen_dropping_syns(backlog) } else { twin.listen(backlog) };
        kernel.map_err(|error| {
            begun.into_iter().for_each(|(id, _)| self.stop_stack(*id));
            refused(local, &error).errno(error.raw_os_error())
        })
    }

    /// Gives a listener its handle and reports its path. `None`: the engine has no room, and the listener ends.
    fn insert_listener(&mut self, listener: Listener) -> Option<TcpListener> {
        let Listener { local, id, entry, detour, .. } = listener;
        let pending = listener.pending.as_ref().map(|pending| (pending.id, pending.entry));
        let Some(key) = self.engine.streams.listeners.insert(listener) else {
            // It listens in the stack, with its steering entry or without.
            pending.or(id.zip(entry)).into_iter().for_each(|(id, entry)| self.stop(id, entry));
            return None;
        };
        let handle = TcpListener(key);
        match (id, &mut self.engine.bypass, detour, &self.engine.agent) {
            (Some(id), Some(bypass), ..) => bypass.handles.insert_listener(id, handle),
            (_, _, Some(reason), Some(agent)) => agent.report(format!("tcp {local}"), reason.code()),
            _ => {}
        }
        self.watch(handle);
        let reacceleration = &mut self.engine.streams.reacceleration;
        reacceleration.note(detour);
        if pending.is_some() {
            reacceleration.await_answer();
        }
        Some(handle)
    }

    /// Asks control for the steering entry of a listener, and waits for it. An entry that takes longer may still come: the
    /// stack listens on, and answers the segments that it brings.
    fn await_entry(
        &mut self,
        id: ListenerId,
        entry: Entry,
        twin: &Twin,
        longest: Duration,
    ) -> Result<EntryState, Reason> {
        let proof = twin.duplicate().map_err(|_| Reason::Refused);
        let asked = proof.and_then(|proof| {
            let agent = self.engine.agent.as_ref().ok_or(Reason::Revoked)?;
            Ok(agent.begin_to_steer(entry, proof))
        });
        let answered = asked.and_then(|answer| match answer.wait(longest) {
            Some(answered) => answered.map(|()| EntryState::Stands(id, entry)),
            None => Ok(EntryState::Pending(Pending { id, entry, answer })),
        });
        answered.inspect_err(|_| self.stop_stack(id))
    }

    /// Listens in the stack. Returns the listener and the steering entry that it needs.
    pub(crate) fn listen_in_stack(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        options: Options,
    ) -> Result<(ListenerId, Entry), Reason> {
        if let Path::Kernel(reason) = self.engine.best_path() {
            return Err(reason);
        }
        let bypass = self.engine.bypass.as_mut().ok_or(Reason::Revoked)?;
        if local.ip().is_loopback() {
            return Err(Reason::LoopbackOrLocal);
        }
        // The kernel does not see SYNs that are steered. Where the tables leave routes undecided, some of
        // them would be answered by another route than the kernel's.
        bypass.routes.check_complete()?;
        let interface = bypass.routes.interface_of(local.ip());
        let vlan = interface.and_then(|interface| bypass.routes.vlan_of_interface(interface, bypass.device)).flatten();
        let local = SocketAddr::new(local.ip(), local.port());
        let id = bypass.stack.tcp_mut().listen(local, backlog, options).map_err(|_| Reason::Taken)?;
        Ok((id, Entry::Listener { protocol: Protocol::Tcp, local, vlan }))
    }

    fn stop(&mut self, id: ListenerId, entry: Entry) {
        self.unsteer_later(entry);
        self.stop_stack(id);
    }

    pub(crate) fn stop_stack(&mut self, id: ListenerId) {
        if let Some(bypass) = self.engine.bypass.as_mut() {
            // The number is known here alone, so it still listens.
            let _ = bypass.with_tcp(&self.engine.counters, |tcp, now, output| tcp.close_listener(now, id, output));
        }
    }

    pub(crate) fn watch(&mut self, handle: TcpListener) {
        let (Some(agent), Ok(listener)) = (&self.engine.agent, self.engine.streams.listeners.at(handle.0)) else {
            return;
        };
        listener.is_twin_watched = agent.watch(listener.kernel.as_fd(), handle.token()).is_ok();
    }

    /// Stops listening. Connections that wait to be accepted are aborted; those accepted go on, each with a steering
    /// entry of its own from now on. Where control refuses those entries nothing changes: close connections first.
    pub fn close_listener(&mut self, handle: TcpListener) -> Result<(), Problem> {
        self.check().map_err(|error| Problem::failed("cannot stop listening", error))?;
        let found = self.engine.streams.listeners.at(handle.0);
        let found = found.map(|listener| (listener.local, listener.id, listener.entry));
        let (local, id, entry) = found.map_err(|error| Problem::failed("cannot stop listening", error))?;
        self.cancel_pending(handle);
        if id.is_some() {
            self.steer_each(handle).map_err(|reason| {
                failed("stop listening on", local, &reason).next("close some of the accepted connections first")
            })?;
        }
        if let (Some(id), Some(entry)) = (id, entry) {
            // Segments that come until control has done it are reset.
            self.stop(id, entry);
            self.engine.bypass.iter_mut().for_each(|bypass| bypass.handles.remove_listener(id));
        }
        self.engine.streams.events.forget(TcpEvent::Listener(handle));
        if let Ok(listener) = self.engine.streams.listeners.remove(handle.0) {
            if let Some(agent) = &self.engine.agent {
                agent.forget(listener.kernel.as_fd());
            }
            listener.twin.unlisten();
            self.engine.streams.released.note(local.port());
        }
        Ok(())
    }

    /// Gives each connection of a listener a steering entry of its own; all of them, or none.
    fn steer_each(&mut self, handle: TcpListener) -> Result<(), Reason> {
        let mut all = self.engine.streams.steered_by(handle);
        let agent = self.engine.agent.as_ref().ok_or(Reason::Revoked)?;
        for done in 0..all.len() {
            let proof = all[done].twin.duplicate().map_err(|_| Reason::Refused);
            if let Err(reason) = proof.and_then(|proof| agent.steer(all[done].flow, proof)) {
                all[..done].iter().for_each(|steered| agent.unsteer_later(steered.flow));
                return Err(reason);
            }
        }
        for steered in &mut all {
            (steered.entry, steered.listener) = (Some(steered.flow), None);
        }
        Ok(())
    }

    /// Asks for a steering entry for each connection of a listener that has lost its own; does not wait. A connection that
    /// gets none ends when control has answered.
    pub(crate) fn request_entry_for_each(&mut self, handle: TcpListener) {
        let Engine { streams, bypass: Some(bypass), agent: Some(agent), .. } = &mut *self.engine else { return };
        for steered in streams.steered_by(handle) {
            // Without a proof it stays one of the listener's, and ends with those.
            let Ok(proof) = steered.twin.duplicate() else { continue };
            bypass.entries.expect(steered.flow, agent.begin_to_steer(steered.flow, proof));
            (steered.entry, steered.listener) = (Some(steered.flow), None);
        }
    }
}
