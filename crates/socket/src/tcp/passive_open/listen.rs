//! Passive open: listening.

use crate::control_agent::ANSWER_WAIT;
use crate::engine::Engine;
use crate::fallback::tcp::{KernelListener, Twin};
use crate::reason::{Path, Reason};
use crate::tcp::passive_open::holding::Answering;
use crate::tcp::passive_open::pending::Pending;
use crate::tcp::streams::Listener;
use crate::tcp::table::{HANDLES_MAX, TcpEvent, TcpListener};
use crate::tcp::{Tcp, failed};
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_stack::tcp::{ListenerId, Options};
use sidestep_sys::Problem;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The state of the steering entry that control was asked for.
enum EntryState {
    Stands(ListenerId, Entry),
    /// Control has not answered in time.
    Pending(Pending),
}

/// What becomes of the kernel twin of a listener that ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It listens no more.
    Unlisten,
    /// It listens on.
    Leave,
}

/// The connections that wait past the kernel where as many as the kernel has are wanted: one more than the backlog (sk_acceptq_is_full,
/// linux/include/net/sock.h).
pub(super) fn beside_kernel(backlog: usize) -> usize {
    backlog.saturating_add(1)
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
        self.listen_over(twin, bound, longest, backlog, options, None)
    }

    /// Listens past the kernel beside a program's own socket, of which `twin` is a duplicate: it is bound, to a port of the kernel's choice
    /// if it is not yet, and listens when this returns. It is never read, and its flags stay the program's: the caller
    /// accepts the kernel's connections itself, and [`Tcp::accept`] gives those that came past it. A listen(2) of the caller, before or
    /// afterwards, changes the backlog in the kernel, and nothing else. Until control has answered SYNs are dropped, by a filter on
    /// the socket (SO_ATTACH_FILTER), for some 40 ms at most: other threads wait for the engine meanwhile. Later answers come as an
    /// event, and connections by the kernel until then.
    pub fn listen_beside(
        &mut self,
        twin: OwnedFd,
        backlog: usize,
        options: Options,
        answering: Answering,
    ) -> Result<TcpListener, Problem> {
        self.listen_beside_at(twin, |bound| bound, backlog, options, answering)
    }

    /// Listens for what comes over IPv4 to a program's own socket of IPv6 that is bound to the unspecified address and takes both
    /// (IPV6_V6ONLY is off): beside the listener of [`Tcp::listen_beside`] for IPv6, of which otherwise the same holds. One of the two is
    /// ended by [`Tcp::leave_listener`] before the other is closed.
    pub fn listen_beside_ipv4(
        &mut self,
        twin: OwnedFd,
        backlog: usize,
        options: Options,
        answering: Answering,
    ) -> Result<TcpListener, Problem> {
        let over_ipv4 = |bound: SocketAddr| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), bound.port());
        self.listen_beside_at(twin, over_ipv4, backlog, options, answering)
    }

    fn listen_beside_at(
        &mut self,
        twin: OwnedFd,
        local: impl FnOnce(SocketAddr) -> SocketAddr,
        backlog: usize,
        options: Options,
        answering: Answering,
    ) -> Result<TcpListener, Problem> {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        self.check().map_err(|error| refused(any, &error))?;
        let twin = Twin::adopt(twin);
        let named = |error: io::Error| refused(any, &error).errno(error.raw_os_error());
        if twin.local().map_err(named)?.port() == 0 {
            twin.bind(twin.local().map_err(named)?).map_err(named)?;
        }
        let local = local(twin.local().map_err(named)?);
        let longest = self.engine.bypass().map_or(Duration::ZERO, |bypass| bypass.entries.setup_wait());
        let handle = self.listen_over(twin, local, longest, backlog, options, Some(answering))?;
        let is_answered = self.engine.streams.listeners.at(handle.0).is_ok_and(|listener| listener.pending.is_none());
        if let Some(bypass) = self.engine.bypass() {
            bypass.entries.note_wait(is_answered);
        }
        Ok(handle)
    }

    fn listen_over(
        &mut self,
        twin: Twin,
        local: SocketAddr,
        longest: Duration,
        backlog: usize,
        options: Options,
        beside: Option<Answering>,
    ) -> Result<TcpListener, Problem> {
        let in_stack = if beside.is_some() { beside_kernel(backlog) } else { backlog };
        let begun = self.listen_in_stack(local, in_stack, options);
        let kernel = self.listen_in_kernel(&twin, local, backlog, begun.as_ref().ok())?;
        let steered = begun.and_then(|(id, entry)| self.await_entry(id, entry, &twin, longest));
        twin.accept_syns();
        let held_until_ns = beside.and_then(Answering::held_until_ns);
        let (id, entry, pending, detour) = match steered {
            Ok(EntryState::Stands(id, entry)) => (Some(id), Some(entry), None, None),
            Ok(EntryState::Pending(pending)) if longest.is_zero() => (None, None, Some(pending), Some(Reason::Opening)),
            Ok(EntryState::Pending(pending)) => (None, None, Some(pending), Some(Reason::ControlSilent)),
            Err(reason) => (None, None, None, Some(reason)),
        };
        let listener = Listener {
            local,
            options,
            twin: Arc::new(twin),
            kernel,
            is_beside: beside.is_some(),
            held_until_ns,
            backlog: in_stack,
            id,
            entry,
            detour,
            pending,
            drops_syns: false,
            accepted: VecDeque::new(),
            is_twin_ready: true,
            is_twin_watched: false,
        };
        self.engine.streams.holding.note(held_until_ns);
        if let (Some(id), None) = (id, held_until_ns) {
            self.answer_in_stack(id);
        }
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
        answered.inspect_err(|_| self.retire_in_stack(id, entry.local(), None))
    }

    /// Listens in the stack, which answers nothing before control has answered. Returns the listener and the steering entry that it
    /// needs.
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
        self.end_retiring_at(local);
        let bypass = self.engine.bypass.as_mut().ok_or(Reason::Revoked)?;
        let tcp = bypass.stack.tcp_mut();
        let id = tcp.listen(local, backlog, options).map_err(|_| Reason::Taken)?;
        // It was just made.
        let _ = tcp.hold(id);
        Ok((id, Entry::Listener { protocol: Protocol::Tcp, local, vlan }))
    }

    fn stop(&mut self, id: ListenerId, entry: Entry) {
        self.unsteer_later(entry);
        self.stop_stack(id);
    }

    /// Gives the entry of a listener back. Until control has removed it SYNs are as if they were lost.
    pub(crate) fn give_back_and_retire(&mut self, id: ListenerId, entry: Entry, local: SocketAddr) {
        let removal = self.engine.agent.as_ref().map(|agent| agent.begin_to_unsteer(entry));
        self.retire_in_stack(id, local, removal);
    }

    /// The same; waits for the removal for a short time, so that the next SYN is the kernel's.
    fn leave_in_stack(&mut self, id: ListenerId, entry: Entry, local: SocketAddr) {
        let _ = self.engine.bypass.as_mut().map(|bypass| bypass.stack.tcp_mut().hold(id));
        let removal = self.engine.unsteer_listener(entry);
        self.retire_in_stack(id, local, removal);
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
        if listener.is_beside {
            return;
        }
        listener.is_twin_watched = agent.watch(listener.kernel.as_fd(), handle.token()).is_ok();
    }

    /// Stops listening. Connections that wait to be accepted are aborted; those accepted go on, each with a steering
    /// entry of its own from now on. Where control refuses those entries nothing changes: close connections first.
    /// Of a listener beside a program's own socket nothing is waited for: a connection that control refuses an entry ends. Where
    /// another process has that socket, too, [`Tcp::leave_listener`] lets it listen on.
    pub fn close_listener(&mut self, handle: TcpListener) -> Result<(), Problem> {
        self.end_listener(handle, End::Unlisten)
    }

    /// Stops listening past the kernel, where the program's own socket listens on ([`Tcp::listen_beside`]), which is not touched: it gets
    /// all further connections. Until control has removed the steering entry, for which this waits a short time, SYNs are as if they were
    /// lost. Otherwise as [`Tcp::close_listener`].
    pub fn leave_listener(&mut self, handle: TcpListener) -> Result<(), Problem> {
        self.end_listener(handle, End::Leave)
    }

    /// Ends listening of the kernel's socket alone, which keeps its port: for a process that ends.
    pub fn unlisten(&mut self, handle: TcpListener) {
        // One that is gone does not listen.
        self.engine.streams.listeners.at(handle.0).into_iter().for_each(|listener| listener.twin.unlisten(false));
    }

    fn end_listener(&mut self, handle: TcpListener, end: End) -> Result<(), Problem> {
        self.check().map_err(|error| Problem::failed("cannot stop listening", error))?;
        let found = self.engine.streams.listeners.at(handle.0);
        let found = found.map(|listener| (listener.local, listener.id, listener.entry, listener.is_beside));
        let (local, id, entry, is_beside) = found.map_err(|error| Problem::failed("cannot stop listening", error))?;
        self.cancel_pending(handle);
        let mut flows = Vec::new();
        if id.is_some() && is_beside {
            // For a short time, as other threads wait for the engine: commands are executed in order, so these entries come first.
            // A socket that has ended does not prove a port of the kernel's choice.
            flows = self.request_entry_for_each(handle);
            self.engine.await_entries(&flows);
        } else if id.is_some() {
            self.steer_each(handle).map_err(|reason| {
                failed("stop listening on", local, &reason).next("close some of the accepted connections first")
            })?;
        }
        if let (Some(id), Some(entry)) = (id, entry) {
            match end {
                // Segments that come until control has done it are reset.
                End::Unlisten => self.stop(id, entry),
                End::Leave => self.leave_in_stack(id, entry, local),
            }
            self.engine.bypass.iter_mut().for_each(|bypass| bypass.handles.remove_listener(id));
        }
        self.engine.streams.events.forget(TcpEvent::Listener(handle));
        if let Ok(listener) = self.engine.streams.listeners.remove(handle.0) {
            if let Some(agent) = &self.engine.agent {
                agent.forget(listener.kernel.as_fd());
            }
            if end == End::Unlisten {
                self.engine.end_later(listener.twin, &flows);
            }
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
    /// gets none ends when control has answered. Returns the entries that were asked for.
    pub(crate) fn request_entry_for_each(&mut self, handle: TcpListener) -> Vec<Entry> {
        let mut flows = Vec::new();
        let Engine { streams, bypass: Some(bypass), agent: Some(agent), .. } = &mut *self.engine else { return flows };
        for steered in streams.steered_by(handle) {
            // Without a proof it stays one of the listener's, and ends with those.
            let Ok(proof) = steered.twin.duplicate() else { continue };
            bypass.entries.expect(steered.flow, agent.begin_to_steer(steered.flow, proof));
            (steered.entry, steered.listener) = (Some(steered.flow), None);
            flows.push(steered.flow);
        }
        flows
    }
}
