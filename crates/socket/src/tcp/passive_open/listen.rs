//! Passive open: listening.

use crate::control_agent::ANSWER_WAIT;
use crate::engine::Engine;
use crate::fallback::tcp::Twin;
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

/// The rule of a listener that was asked for.
enum Rule {
    Stands(ListenerId, Entry),
    /// Control has not answered in time.
    Pending(Pending),
}

impl Tcp<'_> {
    /// Listens: up to `backlog` connections wait to be accepted, past the kernel and in the kernel each. The kernel decides
    /// whether it may, and gives the port where `local` has none. The unspecified address of IPv6 takes IPv6 only.
    /// Steering stands before this returns; [`Tcp::begin_listening`] does not wait for it.
    pub fn listen(&mut self, local: SocketAddr, backlog: usize, options: Options) -> Result<TcpListener, Problem> {
        self.listen_within(ANSWER_WAIT, local, backlog, options)
    }

    /// The same, and waits for nothing: until control has answered, which an event tells, connections come by the kernel
    /// ([`Reason::Opening`]). One that has come so by then keeps the others there until it is over
    /// ([`Reason::KernelConnections`]). A port that was given back a moment ago may be taken still.
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
        let refused = |why: &dyn std::fmt::Display| {
            failed("listen on", local, why).next(format!("see who has the port: ss -ltnp sport = :{}", local.port()))
        };
        self.check().map_err(|error| refused(&error))?;
        let released = &self.engine.streams.released;
        let bind = || Twin::for_listener(local);
        let twin = if longest.is_zero() { bind() } else { released.bind(local, bind) };
        let twin = twin.map_err(|error| refused(&error).errno(error.raw_os_error()))?;
        let bound = twin.local().map_err(|error| refused(&error))?;
        let begun = self.listen_in_stack(bound, backlog, options);
        // It proves its port by listening.
        let kernel = if begun.is_ok() { twin.listen_dropping_syns(backlog) } else { twin.listen(backlog) };
        let kernel = kernel.map_err(|error| {
            begun.iter().for_each(|(id, _)| self.stop_stack(*id));
            refused(&error).errno(error.raw_os_error())
        })?;
        let bypass = begun.and_then(|(id, entry)| self.await_rule(id, entry, &twin, longest));
        twin.accept_syns();
        let (id, entry, pending, detour) = match bypass {
            Ok(Rule::Stands(id, entry)) => (Some(id), Some(entry), None, None),
            Ok(Rule::Pending(pending)) if longest.is_zero() => (None, None, Some(pending), Some(Reason::Opening)),
            Ok(Rule::Pending(pending)) => (None, None, Some(pending), Some(Reason::ControlSilent)),
            Err(reason) => (None, None, None, Some(reason)),
        };
        // In the stack, with or without a rule.
        let listens = pending.as_ref().map(|pending| (pending.id, pending.entry)).or(id.zip(entry));
        let is_pending = pending.is_some();
        let twin = Arc::new(twin);
        let (is_twin_ready, is_twin_watched) = (true, false);
        let listener = Listener {
            local: bound,
            options,
            twin,
            kernel,
            backlog,
            id,
            entry,
            detour,
            pending,
            drops_syns: false,
            is_twin_ready,
            is_twin_watched,
        };
        let Some(key) = self.engine.streams.listeners.insert(listener) else {
            listens.into_iter().for_each(|(id, entry)| self.stop(id, entry));
            return Err(refused(&format!("an engine has at most {HANDLES_MAX} listeners; close some")));
        };
        let handle = TcpListener(key);
        match (id, &mut self.engine.bypass, detour, &self.engine.agent) {
            (Some(id), Some(bypass), ..) => bypass.handles.insert_listener(id, handle),
            (_, _, Some(reason), Some(agent)) => agent.report(format!("tcp {bound}"), reason.code()),
            _ => {}
        }
        self.watch(handle);
        let reacceleration = &mut self.engine.streams.reacceleration;
        reacceleration.note(detour);
        if is_pending {
            reacceleration.await_answer();
        }
        Ok(handle)
    }

    /// Asks for the rule of a listener of the stack, and waits for it. One that takes too long may come all the same: then the
    /// stack listens still, and answers what it brings.
    fn await_rule(&mut self, id: ListenerId, entry: Entry, twin: &Twin, longest: Duration) -> Result<Rule, Reason> {
        let proof = twin.duplicate().map_err(|_| Reason::Refused);
        let asked = proof.and_then(|proof| {
            let agent = self.engine.agent.as_ref().ok_or(Reason::Revoked)?;
            Ok(agent.begin_to_steer(entry, proof))
        });
        let answered = asked.and_then(|answer| match answer.wait(longest) {
            Some(answered) => answered.map(|()| Rule::Stands(id, entry)),
            None => Ok(Rule::Pending(Pending { id, entry, answer })),
        });
        answered.inspect_err(|_| self.stop_stack(id))
    }

    /// Listens where steering is to lead; gives the rule for it.
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
        // SYNs that are steered are answered here or by nobody. Where the tables leave routes undecided, some of
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
            // It listens: nobody else knows the number.
            let _ = bypass.with_tcp(&self.engine.counters, |tcp, now, output| tcp.close_listener(now, id, output));
        }
    }

    pub(crate) fn watch(&mut self, handle: TcpListener) {
        let (Some(agent), Ok(listener)) = (&self.engine.agent, self.engine.streams.listeners.at(handle.0)) else {
            return;
        };
        listener.is_twin_watched = agent.watch(listener.kernel.as_fd(), handle.token()).is_ok();
    }

    /// Stops listening. Connections that wait to be accepted are aborted; those accepted go on, each with a rule of its own
    /// from now on. Where control refuses those rules nothing changes: close connections first.
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

    /// Gives each connection of a listener a rule of its own; all of them, or none.
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

    /// Asks for a rule for each connection of a listener that has none any more; waits for nothing. One that gets none ends when
    /// control has said so.
    pub(crate) fn request_rule_for_each(&mut self, handle: TcpListener) {
        let Engine { streams, bypass: Some(bypass), agent: Some(agent), .. } = &mut *self.engine else { return };
        for steered in streams.steered_by(handle) {
            // Without a proof it stays one of the listener's, and ends with those.
            let Ok(proof) = steered.twin.duplicate() else { continue };
            bypass.rules.expect(steered.flow, agent.begin_to_steer(steered.flow, proof));
            (steered.entry, steered.listener) = (Some(steered.flow), None);
        }
    }
}
