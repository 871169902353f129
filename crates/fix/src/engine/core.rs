//! The engine itself: what it holds, what it does when polled.

use super::accept::{Acceptor, candidates};
use super::crowd::Crowd;
use super::dial::{Destinations, Dialer};
use super::pending::Pending;
use super::plan::SessionPlan;
use super::quota::{Quota, store_descriptors_max};
use super::refusals::Refusals;
use super::request::Request;
use super::seldom::Seldom;
use super::slot::Slot;
use super::tls::{Tls, TlsSettings};
use super::{Endpoint, SocketOptions};
use crate::clock::Now;
use crate::decode::Index;
use crate::encode::Builder;
use crate::frame::Framer;
use crate::session::{Application, Phase, SendError, Session, SessionId};
use crate::store::AnyStore;
use sidestep_socket::stream::{Io, Listener, SocketFile};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The interval of checks for new connections and requests. A check costs a system call for each acceptor.
const CHORES_EVERY: Duration = Duration::from_micros(500);
/// The interval of checks for changed certificate files.
const FILES_EVERY: Duration = Duration::from_secs(1);

/// Polls that bring nothing between two readings of the clock: it costs as much as a third of such a poll, and no timer is
/// as fine as eight of them.
const POLLS_PER_READING: u32 = 8;

/// A session of an engine.
/// Those of an engine are numbered in the order of their coming, and no number is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub(super) usize);

impl Handle {
    /// Its number, from 0.
    pub fn number(self) -> usize {
        self.0
    }
}

/// An acceptor of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcceptorId(usize);

/// Sessions, acceptors' and initiators', in the hands of one thread.
pub struct Engine<A> {
    pub(super) app: A,
    pub(super) io: Io,
    pub(super) index: Index,
    pub(super) acceptors: Vec<Acceptor>,
    pub(super) crowd: Crowd,
    pub(super) slots: Vec<Slot>,
    pub(super) dialers: Vec<Dialer>,
    /// The longest message of each slot, bytes.
    pub(super) message_bytes: Vec<usize>,
    /// Number of each slot's session: a session that was let go leaves its slot to another one.
    pub(super) numbers: Vec<usize>,
    pub(super) next_number: usize,
    /// Slots of the sessions that templates have made.
    pub(super) dynamic: Vec<usize>,
    /// Descriptors that these may hold before the first is let go.
    pub(super) store_descriptors_max: usize,
    /// The limit of what sessions keep on the disk.
    pub(super) quota: Quota,
    /// The last report of a template that makes no session.
    pub(super) unmade: Seldom,
    pub(super) refusals: Refusals,
    chores_at: u64,
    files_at: u64,
    /// The last reading of the clock, and the polls since.
    mono_ns: u64,
    idle_polls: u32,
    pub(super) requests: Vec<Receiver<Request>>,
    pub(super) admin_files: Vec<SocketFile>,
}

impl<A: Application> Engine<A> {
    /// An engine without sessions.
    pub fn new(app: A) -> Self {
        Self::over(app, Io::named("sidestep fix"))
    }

    /// The same over an [`Io`] that is there: its socket engine, if it has one, carries the sessions that go past the kernel, beside
    /// what else the program has on it, such as the groups of a feed ([`Engine::io_mut`]).
    pub fn over(app: A, io: Io) -> Self {
        Self {
            app,
            io,
            index: Index::default(),
            acceptors: Vec::new(),
            crowd: Crowd::default(),
            slots: Vec::new(),
            dialers: Vec::new(),
            message_bytes: Vec::new(),
            numbers: Vec::new(),
            next_number: 0,
            dynamic: Vec::new(),
            store_descriptors_max: store_descriptors_max(),
            quota: Quota::default(),
            unmade: Seldom::default(),
            refusals: Refusals::default(),
            chores_at: 0,
            files_at: 0,
            mono_ns: 0,
            idle_polls: POLLS_PER_READING,
            requests: Vec::new(),
            admin_files: Vec::new(),
        }
    }

    /// Listens on `endpoint`, with TLS or without.
    ///
    /// # Errors
    /// The address cannot be had, or the certificates cannot be used.
    pub fn listen(
        &mut self,
        endpoint: &Endpoint,
        tls: Option<&TlsSettings>,
        options: &SocketOptions,
    ) -> Result<AcceptorId, Problem> {
        let tls = tls.map(Tls::server).transpose()?;
        options.check_never_waits(&format!("listen on {endpoint}"))?;
        let listener = Listener::bind(&mut self.io, endpoint, options)?;
        if let Some(path) = listener.path(&mut self.io) {
            say(format!("{}: {path}", listener.endpoint()));
        }
        let acceptor = Acceptor { listener, tls, sessions: HashMap::new(), templates: Vec::new(), plans: Vec::new() };
        self.acceptors.push(acceptor);
        Ok(AcceptorId(self.acceptors.len() - 1))
    }

    /// Returns the address of an acceptor, with the port that the kernel chose.
    pub fn endpoint(&self, acceptor: AcceptorId) -> &Endpoint {
        self.acceptors[acceptor.0].listener.endpoint()
    }

    /// A session that is reached at `acceptor`.
    ///
    /// # Errors
    /// Its settings are wrong, its store cannot be opened, or there is one of that name.
    pub fn add_acceptor(&mut self, acceptor: AcceptorId, plan: SessionPlan) -> Result<Handle, Problem> {
        let id = plan.settings.id.clone();
        if self.acceptors[acceptor.0].sessions.contains_key(&id) {
            return Err(Problem::usage(format!("session {id}"), "there are two of that name").next("remove one"));
        }
        let handle = self.add(&plan)?;
        let slot = self.slots.len() - 1;
        let acceptor = &mut self.acceptors[acceptor.0];
        acceptor.sessions.insert(id, slot);
        acceptor.plans.push(plan);
        Ok(handle)
    }

    /// Adds a template: a session is made for each Logon whose names fit. `*` in the plan's session stands for any name. At
    /// most [`DYNAMIC_MAX`](super::DYNAMIC_MAX) are there at a time, and journals take half of the process's descriptors at
    /// most: then the one that has been disconnected for longest is let go. A journal stays on the disk and is opened at the next
    /// Logon; what was kept in memory is forgotten. A new name beyond [`SessionPlan::kept_max`] is refused by a Logout.
    pub fn add_template(&mut self, acceptor: AcceptorId, plan: SessionPlan) {
        self.acceptors[acceptor.0].templates.push(plan);
    }

    /// A session that connects.
    ///
    /// # Errors
    /// Its settings are wrong, its store cannot be opened, or there is nowhere to connect to.
    pub fn add_initiator(&mut self, plan: &SessionPlan, destinations: Destinations) -> Result<Handle, Problem> {
        let handle = self.add(plan)?;
        self.dialers.push(Dialer::new(self.slots.len() - 1, destinations)?);
        Ok(handle)
    }

    fn add(&mut self, plan: &SessionPlan) -> Result<Handle, Problem> {
        let session = plan.open()?;
        self.app.on_create(session.id());
        Ok(self.push(Slot::new(session), plan))
    }

    /// A slot behind all others.
    pub(super) fn push(&mut self, slot: Slot, plan: &SessionPlan) -> Handle {
        self.index.reserve(slot.session.settings().message_fields_max);
        self.slots.push(slot);
        self.message_bytes.push(plan.message_bytes_max);
        let handle = self.number();
        self.numbers.push(handle.0);
        handle
    }

    /// A number that no session has had.
    pub(super) fn number(&mut self) -> Handle {
        self.next_number += 1;
        Handle(self.next_number - 1)
    }

    /// Returns the slot of a session, if it has not been let go. Until one was, each is where its number says.
    #[inline]
    fn place(&self, handle: Handle) -> Option<usize> {
        if self.numbers.get(handle.0) == Some(&handle.0) {
            return Some(handle.0);
        }
        self.numbers.iter().position(|number| *number == handle.0)
    }

    /// Returns whether there is this session: one that a template has made may have been let go.
    pub fn has(&self, handle: Handle) -> bool {
        self.place(handle).is_some()
    }

    #[inline]
    pub(super) fn slot(&self, handle: Handle) -> &Slot {
        &self.slots[self.place(handle).expect("the session is there: see Engine::has")]
    }

    #[inline]
    fn slot_mut(&mut self, handle: Handle) -> (&mut Slot, &mut Io, &mut A) {
        let place = self.place(handle).expect("the session is there: see Engine::has");
        (&mut self.slots[place], &mut self.io, &mut self.app)
    }

    /// The thread's part of all streams, for other sockets of its socket engine. Whoever receives by that polls it, and the sessions see
    /// what has come for them at the next [`Engine::poll`].
    pub fn io_mut(&mut self) -> &mut Io {
        &mut self.io
    }

    /// The application.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// The application, to be changed between polls.
    pub fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }

    /// Returns a session, read-only.
    ///
    /// # Panics
    /// The session was let go ([`Engine::has`]), here and wherever a handle is given.
    pub fn session(&self, handle: Handle) -> &Session<AnyStore> {
        &self.slot(handle).session
    }

    /// All sessions, also those that templates have made.
    pub fn handles(&self) -> impl Iterator<Item = Handle> + use<A> {
        self.numbers.clone().into_iter().map(Handle)
    }

    /// The session of this number.
    pub fn handle(&self, number: usize) -> Option<Handle> {
        Some(Handle(number)).filter(|handle| self.has(*handle))
    }

    /// The session of this name.
    pub fn find(&self, id: &SessionId) -> Option<Handle> {
        self.slots.iter().position(|slot| slot.session.id() == id).map(|place| Handle(self.numbers[place]))
    }

    /// Connections that did not become a session's.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Connections that have not yet logged on.
    pub fn pending(&self) -> usize {
        self.crowd.len()
    }

    /// Sends an application message; it leaves within this call, if the peer reads. Returns its MsgSeqNum (34).
    ///
    /// # Errors
    /// See [`SendError`].
    #[inline]
    pub fn send(
        &mut self,
        handle: Handle,
        msg_type: &[u8],
        fill: impl FnMut(&mut Builder<'_>),
    ) -> Result<u64, SendError> {
        self.act(handle, |session, now, _| session.send(msg_type, now, fill))
    }

    /// Does several things with a session, such as sending messages that are to leave in one write.
    #[inline]
    pub fn act<R>(&mut self, handle: Handle, act: impl FnOnce(&mut Session<AnyStore>, Now, &mut A) -> R) -> R {
        let (slot, io, app) = self.slot_mut(handle);
        slot.act(io, app, act)
    }

    /// Ends a session's connection by a Logout.
    pub fn log_out(&mut self, handle: Handle, text: &str) {
        let (slot, io, app) = self.slot_mut(handle);
        slot.log_out(io, text, app);
    }

    /// Does all that can be done now. Returns how much that was; 0 for nothing.
    #[inline]
    pub fn poll(&mut self) -> usize {
        self.idle_polls += 1;
        if self.idle_polls >= POLLS_PER_READING {
            self.idle_polls = 0;
            self.mono_ns = Now::system_mono_ns();
        }
        let (mono_ns, mut work) = (self.mono_ns, 0);
        for slot in &mut self.slots {
            if slot.is_connected() || mono_ns >= slot.deadline() {
                work += slot.poll(&mut self.io, &mut self.index, mono_ns, &mut self.app);
            }
        }
        // What no session has read: connections end by what their own calls say.
        let _ = self.io.poll();
        if mono_ns >= self.chores_at {
            work += self.chores(mono_ns);
        }
        if work > 0 {
            self.idle_polls = POLLS_PER_READING;
        }
        work
    }

    /// Makes the next poll read the clock: time has passed since the last one.
    pub(super) fn has_slept(&mut self) {
        self.idle_polls = POLLS_PER_READING;
    }

    /// Does what is not urgent.
    #[cold]
    pub(super) fn chores(&mut self, mono_ns: u64) -> usize {
        self.chores_at = mono_ns + CHORES_EVERY.as_nanos() as u64;
        let work = self.receive_pending(mono_ns) + self.dial(mono_ns);
        self.crowd.report(mono_ns, self.refusals);
        if mono_ns >= self.files_at {
            self.files_at = mono_ns + FILES_EVERY.as_nanos() as u64;
            self.reload_certificates();
        }
        work + self.answer_requests()
    }

    /// Gives a connection to the session that it has logged on to.
    pub(super) fn assign(&mut self, pending: Pending, id: &SessionId, first: &[u8], mono_ns: u64) {
        let acceptor = &self.acceptors[pending.acceptor()];
        // Whatever session it would be: one that there is, or one that a template makes.
        let own =
            candidates(id).iter().find_map(|id| acceptor.plans.iter().find(|plan| plan.settings.id == *id)).cloned();
        let plan = own.or_else(|| acceptor.template_for(id, pending.peer()));
        if plan.is_some_and(|plan| !plan.is_certified(pending.certificate())) {
            self.refusals.address += 1;
            return pending.close(&mut self.io);
        }
        let known = candidates(id).iter().find_map(|id| acceptor.sessions.get(id).copied());
        if known.is_none()
            && let Some(plan) = self.plan_for_new(pending.acceptor(), id, pending.peer())
        {
            return self.admit(pending, plan, first, mono_ns);
        }
        let found = known.or_else(|| self.make_from_template(pending.acceptor(), id, pending.peer(), mono_ns));
        let Some(slot) = found else {
            self.refusals.unknown += 1;
            return pending.close(&mut self.io);
        };
        let acceptor = &self.acceptors[pending.acceptor()];
        // The plan of this acceptor: another one may let other hosts in.
        let plan = acceptor.plans.iter().find(|plan| plan.settings.id == *self.slots[slot].session.id());
        if plan.is_some_and(|plan| !plan.allows(pending.peer())) {
            self.refusals.address += 1;
            return pending.close(&mut self.io);
        }
        if self.slots[slot].is_connected() || self.slots[slot].failure().is_some() {
            self.refusals.taken += 1;
            return pending.close(&mut self.io);
        }
        let source = pending.source();
        self.slots[slot].connect(&mut self.io, &mut self.index, pending.into_parts(), Some(first), &mut self.app);
        if self.slots[slot].session.is_logged_on() {
            self.crowd.remember(source);
        }
    }

    fn dial(&mut self, mono_ns: u64) -> usize {
        let mut work = 0;
        for dialer in &mut self.dialers {
            let slot = &mut self.slots[dialer.slot];
            if slot.failure().is_some() {
                continue;
            }
            let now = (mono_ns, if dialer.deadline() <= mono_ns { Now::system().utc_ns } else { 0 });
            let state = (slot.is_connected(), slot.session.counters().logons);
            if let Some((channel, peer)) = dialer.poll(&mut self.io, slot.session.settings(), state, now) {
                let framer = Framer::new(self.message_bytes[dialer.slot]);
                slot.connect(&mut self.io, &mut self.index, (channel, framer, peer), None, &mut self.app);
                work += 1;
            }
        }
        work
    }

    /// Has initiators connect now, whatever their intervals say.
    pub fn reconnect_now(&mut self) {
        self.dialers.iter_mut().for_each(Dialer::hurry);
        self.chores_at = 0;
    }

    /// Returns the error of an initiator's last attempt to connect; empty if none failed.
    pub fn last_connect_error(&self, handle: Handle) -> &str {
        self.dialers
            .iter()
            .find(|dialer| Some(dialer.slot) == self.place(handle))
            .map_or("", |dialer| &dialer.last_error)
    }

    fn reload_certificates(&mut self) {
        let acceptors = self.acceptors.iter_mut().filter_map(|acceptor| acceptor.tls.as_mut());
        for tls in acceptors.chain(self.dialers.iter_mut().filter_map(|dialer| dialer.tls.as_mut())) {
            match tls.reload_if_changed() {
                Ok(true) => say("the certificates have changed and are used from now on"),
                Ok(false) => {}
                // Half-written files are read again at the next check.
                Err(problem) => say(problem),
            }
        }
    }

    /// Logs all sessions out and waits for their answers, for at most `timeout`; then ends the sessions that are left.
    pub fn shut_down(&mut self, text: &str, timeout: Duration) {
        for slot in &mut self.slots {
            slot.log_out(&mut self.io, text, &mut self.app);
        }
        self.dialers.drain(..).for_each(|dialer| dialer.abandon(&mut self.io));
        // They belong to acceptors, which are closed.
        self.crowd.close_all(&mut self.io);
        self.acceptors.clear();
        let end = Now::system_mono_ns() + timeout.as_nanos() as u64;
        while self.slots.iter().any(|slot| slot.is_connected() && slot.session.phase() != Phase::Disconnected) {
            if self.poll() == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
            if Now::system_mono_ns() >= end {
                break;
            }
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.is_connected()) {
            slot.hang_up(&mut self.io, &mut self.app);
        }
    }
}
