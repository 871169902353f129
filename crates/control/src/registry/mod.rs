//! Ownership of stacks and entries by applications. It uses neither sockets nor a clock: its caller passes the events, and
//! returns the answers.

mod answer;
mod client;
mod feeds;
mod hand_over;
mod host;
mod later;
mod list;
mod open;
mod others;
mod pool;
mod rates;
mod receivers;
mod share;
mod stays;
mod steer;
#[cfg(test)]
mod tests;

pub(crate) use answer::Answer;
pub(crate) use client::Client;
use feeds::Feeds;
use hand_over::HandedOvers;
pub(crate) use host::{Host, RecordStore};
use later::Waiting;
use open::Pending;
use pool::Pool;
use rates::{RESOLVES_PER_SECOND_MAX, Rates, TWINS_PER_SECOND_MAX};
#[cfg(test)]
pub(crate) use share::CLIENTS_PER_USER_MAX;
use share::ENTRIES_MAX;
use stays::Stays;

use crate::dataplane::Dataplane;
use crate::foreign::{Closers, Foreign};
use crate::permit::HandOvers;
use crate::state::Record;
use sidestep_control_api::counters::CountersView;
use sidestep_control_api::message::{
    Code, Entry, GRACE, IcmpError, Protocol, RESTART_GRACE, Refusal, Reply, Request, StackFacts, VERSION,
};
use sidestep_control_api::table::Link;
use sidestep_sys::Problem;
use sidestep_sys::credentials::Credentials;
use sidestep_sys::owner::Owner;
use sidestep_sys::problem::{note, say};
use sidestep_sys::process::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The time for which an entry may exist without its kernel socket after a restart: until its owner has reconnected,
/// and has had time to send all the sockets again.
const PROOF_WAIT: Duration = RESTART_GRACE.saturating_mul(2);

/// One stack.
struct Stack {
    client: u32,
    facts: StackFacts,
    /// Each with the kernel socket that holds the port; without one after a restart, until it is steered again.
    entries: BTreeMap<Entry, Option<Foreign>>,
    counters: Option<CountersView>,
    /// After a restart: the time until which entries may exist without their kernel sockets.
    proof_due: Option<Instant>,
}

/// Applications and stacks.
pub(crate) struct Registry<D: Dataplane, K> {
    pub(crate) dataplane: D,
    pub(crate) closers: Closers,
    records: K,
    clients: BTreeMap<u32, Client>,
    stacks: BTreeMap<u32, Stack>,
    /// Stacks that clients have begun to open: one of each at a time.
    begun: BTreeMap<u32, Pending<D::Kept>>,
    /// Stacks whose closing failed; it is retried.
    doomed: BTreeSet<u32>,
    pool: Pool,
    feeds: Feeds,
    resolves: Rates,
    /// Questions for twins, of each user.
    twins_asked: Rates,
    stays: Stays,
    /// [`ENTRIES_MAX`], or fewer if descriptors are scarce.
    entries_max: usize,
    /// The administrator's setting.
    queues_per_user: Option<u32>,
    /// The same.
    hand_overs: HandOvers,
    next_client: u32,
    next_stack: u32,
    /// The position at which the next check of kernel sockets begins.
    twins_seen: usize,
    /// Stacks whose device brought packets by other queues at the last check.
    elsewhere_before: BTreeSet<u32>,
    /// Listeners whose entry was removed, and whose connections may not have entries of their own yet.
    filtered: Vec<Foreign>,
    handed_over: HandedOvers,
    /// Requests that are answered later.
    waiting: Vec<Waiting>,
    /// Notices that requests have caused.
    notices: Vec<(u32, Reply)>,
    /// Control ends: no stack is opened.
    is_ending: bool,
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    pub(crate) fn new(dataplane: D, records: K) -> Result<Self, Problem> {
        let (clients, stacks, doomed) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let closers = Closers::new()?;
        Ok(Self {
            dataplane,
            closers,
            records,
            clients,
            stacks,
            begun: BTreeMap::new(),
            doomed,
            pool: Pool::default(),
            feeds: Feeds::default(),
            resolves: Rates::new(RESOLVES_PER_SECOND_MAX),
            twins_asked: Rates::new(TWINS_PER_SECOND_MAX),
            stays: Stays::default(),
            entries_max: ENTRIES_MAX,
            queues_per_user: None,
            hand_overs: HandOvers::All,
            next_client: 1,
            next_stack: 1,
            twins_seen: 0,
            elsewhere_before: BTreeSet::new(),
            filtered: Vec::new(),
            handed_over: HandedOvers::default(),
            waiting: Vec::new(),
            notices: Vec::new(),
            is_ending: false,
        })
    }

    /// Limits entries and reserved ports to this many descriptors, half to each at most: without free ones, control
    /// could not serve existing clients.
    pub(crate) fn limit_entries(&mut self, descriptors: usize) {
        let of_ports = self.pool.limit(descriptors / 2);
        self.entries_max = self.entries_max.min(descriptors - of_ports);
        self.feeds.limit(descriptors);
    }

    /// Adopts the stacks of an earlier control: those of living owners wait for them, the others are closed.
    pub(crate) fn adopt(&mut self, records: Vec<Record>, now: Instant) {
        for record in records {
            let stack = record.facts.id;
            self.next_stack = self.next_stack.max(stack.saturating_add(1));
            let what = format!("stack {stack} of {} (process {})", record.name, record.pid);
            let kept = if record.process().is_alive() {
                self.dataplane.adopt(&record.facts).map_err(|problem| problem.brief())
            } else {
                Err("its owner has ended".to_owned())
            };
            match kept {
                Ok(entries) => {
                    note(format!("{what} is kept for {} s, for its owner to come back", RESTART_GRACE.as_secs()));
                    self.keep_orphan(record, entries, now);
                }
                Err(reason) => {
                    note(format!("{what} is closed: {reason}"));
                    self.records.forget(stack);
                }
            }
        }
        self.dataplane.settle();
        self.adopt_passed();
    }

    fn keep_orphan(&mut self, record: Record, entries: Vec<Entry>, now: Instant) {
        let process = record.process();
        let same = self.clients.iter().find(|(_, client)| client.process == Some(process)).map(|(id, _)| *id);
        let id = same.unwrap_or_else(|| {
            let peer = Credentials { pid: Some(record.pid), uid: record.uid, gid: record.gid };
            let mut client = Client::new(peer, record.owner, Some(process), now);
            client.name.clone_from(&record.name);
            client.has_greeted = true;
            client.leaves_at = Some(now + RESTART_GRACE);
            self.insert(client)
        });
        let stack = record.facts.id;
        let entries = entries.into_iter().map(|entry| (entry, None)).collect();
        let proof_due = Some(now + PROOF_WAIT);
        self.stacks.insert(stack, Stack { client: id, facts: record.facts, entries, counters: None, proof_due });
        if let Some(client) = self.clients.get_mut(&id) {
            client.stacks.insert(stack);
        }
        self.adopt_ports(stack);
    }

    fn insert(&mut self, client: Client) -> u32 {
        let id = free_number(self.next_client, &self.clients);
        self.next_client = id.wrapping_add(1);
        self.clients.insert(id, client);
        id
    }

    /// Returns the store of records, after everything has ended.
    pub(crate) fn into_records(self) -> K {
        self.records
    }

    /// Admits a new connection; returns its number, or the reason why not.
    pub(crate) fn admit(
        &mut self,
        peer: Credentials,
        owner: Owner,
        process: Option<Process>,
        now: Instant,
    ) -> Result<u32, Refusal> {
        if self.closers.is_stuck(peer.uid) {
            let reason = "descriptors that this user has sent cannot be closed";
            return Err(Refusal::new(Code::Limit, "cannot take another client", reason)
                .next("end the programs that hold them up"));
        }
        self.check_place(owner)?;
        Ok(self.insert(Client::new(peer, owner, process, now)))
    }

    pub(crate) fn client(&self, id: u32) -> Option<&Client> {
        self.clients.get(&id)
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = (u32, &Client)> {
        self.clients.iter().map(|(id, client)| (*id, client))
    }

    /// Restarts the wait for the greetings of these owners' clients.
    pub(crate) fn await_anew(&mut self, now: Instant, is_it: impl Fn(Owner) -> bool) {
        self.clients
            .values_mut()
            .filter(|client| !client.has_greeted && is_it(client.owner))
            .for_each(|client| client.awaited_since = now);
    }

    /// Answers one request.
    pub(crate) fn handle(
        &mut self,
        id: u32,
        request: Request,
        descriptors: Vec<OwnedFd>,
        host: &mut dyn Host,
        now: Instant,
    ) -> Answer {
        let descriptors = self.foreign(id, descriptors);
        let Some(client) = self.clients.get_mut(&id) else {
            return Answer::last(Refusal::plain(Code::Greeting, "cannot answer"));
        };
        let is_hello = matches!(request, Request::Hello { .. });
        if is_hello == client.has_greeted {
            return Answer::last(Refusal::plain(Code::Greeting, "cannot answer"));
        }
        let is_bye = matches!(request, Request::Bye);
        let answer = self.answer(id, request, descriptors, host, now);
        let answer = answer.unwrap_or_else(|refusal| {
            if let Some(client) = self.clients.get_mut(&id) {
                client.keep(&refusal, now);
            }
            let is_last = refusal.code == Code::Version;
            Answer { is_last, ..Answer::plain(Reply::Refused(refusal)) }
        });
        Answer { is_last: answer.is_last || is_bye, ..answer }
    }

    /// Wraps a client's descriptor, to be closed on another thread.
    pub(crate) fn foreign(&self, id: u32, descriptors: Vec<OwnedFd>) -> Vec<Foreign> {
        let uid = self.uid(id);
        descriptors.into_iter().map(|descriptor| self.closers.own(uid, descriptor)).collect()
    }

    /// The user of a client; root for a client that is gone.
    pub(crate) fn uid(&self, id: u32) -> u32 {
        self.clients.get(&id).map_or(0, |client| client.peer.uid)
    }

    /// The owner whose limits a client counts against; root for a client that is gone.
    pub(crate) fn owner(&self, id: u32) -> Owner {
        self.clients.get(&id).map_or(Owner::User(0), |client| client.owner)
    }

    fn answer(
        &mut self,
        id: u32,
        request: Request,
        descriptors: Vec<Foreign>,
        host: &mut dyn Host,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        match request {
            Request::Hello { version, name } => return self.greet(id, version, &name),
            Request::OpenStack(wish) => return self.begin(id, wish, host, now),
            Request::TakeSockets { from } => return self.take_sockets(id, from),
            Request::BindStack => return self.open(id, host, now),
            Request::ResumeStack { stack } => return self.resume(id, stack, &descriptors),
            Request::Steer { stack, entry } => self.steer(id, stack, entry, descriptors, host)?,
            Request::Unsteer { stack, entry } => {
                self.unsteer(id, stack, &entry)?;
                return Ok(self.when_closed(id, now));
            }
            Request::HandOver { stack, connection } => self.hand_over(id, stack, &connection, descriptors, host)?,
            Request::HandOverTwin => return self.hand_over_twin(id, descriptors, host, now),
            Request::TwinStays { cookie, code } => self.keep_twin(id, cookie, code),
            Request::ReleaseProcess { pid } => return self.release_process(id, pid, now),
            Request::ReservePorts { stack } => return self.reserve_ports(id, stack),
            Request::Resolve { address, interface } => self.resolve(id, interface, address, host, now)?,
            Request::Report { subject, code } => {
                let refusal = Refusal::plain(code, subject);
                self.clients.get_mut(&id).into_iter().for_each(|client| client.keep(&refusal, now));
            }
            Request::Stay => {
                let process = self.clients.get(&id).and_then(|client| client.process);
                self.stays.add(self.owner(id), process)?;
            }
            Request::List { from } => return Ok(Answer::plain(self.list(from))),
            Request::Inspect { client, from } => return self.inspect(client, from, now).map(Answer::plain),
            Request::Programs { from } => return Ok(Answer::plain(self.programs(from))),
            Request::Release { interface } => self.release(id, &interface)?,
            Request::Counters { stack } => return self.counters(stack).map(Answer::plain),
            Request::CloseStack { stack } => {
                self.owned(id, stack)?;
                self.close(stack);
                return Ok(self.when_closed(id, now));
            }
            Request::Bye => self.remove(id),
            request => return self.answer_feed(id, request, descriptors, host, now),
        }
        Ok(Answer::plain(Reply::Done))
    }

    fn greet(&mut self, id: u32, version: u32, name: &str) -> Result<Answer, Refusal> {
        if version != VERSION {
            let reason = format!("the program speaks version {version}, the control plane {VERSION}");
            return Err(Refusal::new(Code::Version, "cannot serve this program", reason)
                .next("install both from one release of sidestep, then restart the control plane"));
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.has_greeted = true;
            client.name = client::name(name);
        }
        let welcome = Reply::Welcome { version: VERSION, pid: std::process::id() };
        Ok(Answer { with_table: true, ..Answer::plain(welcome) })
    }

    /// Handles the end of a connection. If the process lives, its stacks stay for a moment.
    pub(crate) fn hang_up(&mut self, id: u32, now: Instant) {
        self.begun.remove(&id);
        self.leave_feeds(id);
        match self.clients.get_mut(&id) {
            Some(client) if client.process.is_some() && !client.stacks.is_empty() => {
                client.leaves_at = Some(now + GRACE);
            }
            _ => self.remove(id),
        }
    }

    /// Returns whether any application is connected, has stacks, or has asked control to stay for it.
    pub(crate) fn is_used(&mut self) -> bool {
        self.stays.any() || !self.clients.is_empty() || !self.stacks.is_empty()
    }

    /// Closes stacks whose time is over, and retries failed closings. Stacks of dead owners are closed at once.
    pub(crate) fn expire(&mut self, now: Instant) {
        let is_over = |client: &Client| {
            client.leaves_at.is_some_and(|leaves_at| leaves_at <= now)
                || client.watch.as_ref().is_some_and(sidestep_sys::process::Watch::has_ended)
        };
        let over: Vec<u32> = self.clients().filter(|(_, client)| is_over(client)).map(|(id, _)| id).collect();
        over.into_iter().for_each(|id| self.remove(id));
        self.begun.retain(|_, pending| pending.due > now);
        self.pool.expire(now);
        for stack in std::mem::take(&mut self.doomed) {
            self.dispose(stack);
        }
        self.close_doomed_feeds();
    }

    /// Removes an application and closes its stacks.
    pub(crate) fn remove(&mut self, id: u32) {
        self.begun.remove(&id);
        self.leave_feeds(id);
        let Some(client) = self.clients.remove(&id) else { return };
        if !client.stacks.is_empty() {
            note(format!(
                "{} (process {}) is gone; {} stacks are closed",
                client.name,
                client.peer.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()),
                client.stacks.len()
            ));
        }
        client.stacks.into_iter().for_each(|stack| self.close(stack));
    }

    /// Checks the interfaces; returns the clients to notify of closed stacks.
    pub(crate) fn look(&mut self, links: &[Link]) -> Vec<(u32, Reply)> {
        let revoked = self.dataplane.look(links);
        let tell = |(stack, refusal): (u32, Refusal)| {
            let client = self.stacks.get(&stack)?.client;
            say(format!("stack {stack} is closed: {}", refusal.reason));
            self.close(stack);
            Some((client, Reply::Revoked { stack, refusal }))
        };
        let mut notices: Vec<_> = revoked.into_iter().filter_map(tell).collect();
        notices.extend(self.revoke_feeds(links));
        notices
    }

    /// The clients to notify of an ICMP error, with the notice. A connection with its own entry has one owner; a port
    /// may have listeners on several interfaces, and they know their connections.
    pub(crate) fn owners_of_error(&self, error: IcmpError) -> Vec<(u32, Reply)> {
        let mut own = Vec::new();
        let mut any = Vec::new();
        let reserved = Some(error.local.port()).filter(|_| error.protocol == Protocol::Tcp);
        let owner = reserved.and_then(|port| self.pool.owner(port));
        if let Some(stack) = owner.and_then(|owner| self.stacks.get(&owner)) {
            return vec![(stack.client, Reply::IcmpError(error))];
        }
        for stack in self.stacks.values() {
            let about = || stack.entries.keys().filter(|entry| is_about(&error, entry));
            if about().any(|entry| matches!(entry, Entry::Flow { .. })) {
                own.push((stack.client, Reply::IcmpError(error)));
            } else if about().next().is_some() {
                any.push((stack.client, Reply::IcmpError(error)));
            }
        }
        if own.is_empty() { any } else { own }
    }

    /// Closes everything.
    pub(crate) fn end(&mut self) -> Vec<(u32, Reply)> {
        let refusal = Refusal::new(Code::NoControl, "cannot go on", "the control plane ends");
        let tell =
            |(stack, facts): (&u32, &Stack)| (facts.client, Reply::Revoked { stack: *stack, refusal: refusal.clone() });
        let notices: Vec<_> = self.stacks.iter().map(tell).collect();
        let clients: Vec<u32> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|id| self.remove(id));
        if let Err(problem) = self.dataplane.end() {
            say(problem);
        }
        notices
    }

    fn close(&mut self, stack: u32) {
        if let Some(facts) = self.stacks.remove(&stack)
            && let Some(client) = self.clients.get_mut(&facts.client)
        {
            client.stacks.remove(&stack);
        }
        self.pool.release(stack, Instant::now());
        self.forget_passed_ports(stack);
        self.dispose(stack);
    }

    fn dispose(&mut self, stack: u32) {
        match self.dataplane.close(stack) {
            Ok(()) => self.records.forget(stack),
            Err(problem) => {
                say(problem);
                self.doomed.insert(stack);
            }
        }
    }

    /// Finds a stack of this client.
    fn owned(&mut self, id: u32, stack: u32) -> Result<&mut Stack, Refusal> {
        let found = self.stacks.get_mut(&stack).filter(|found| found.client == id);
        found.ok_or_else(|| Refusal::plain(Code::NoStack, format!("cannot use stack {stack}")))
    }
}

/// Returns whether an answer to the packet would match this entry.
fn is_about(error: &IcmpError, entry: &Entry) -> bool {
    let (own, local) = (entry.local(), error.local);
    let is_ours = own.ip() == local.ip() || own.ip().is_unspecified() && own.is_ipv4() == local.is_ipv4();
    let is_to = match entry {
        Entry::Flow { remote, .. } => *remote == error.remote,
        Entry::Listener { .. } => true,
        Entry::Multicast { .. } => false,
    };
    is_to && is_ours && entry.protocol() == error.protocol && own.port() == local.port()
}

/// The first free number from `from` on; after 2^32 - 1 it continues with 1. 0 is reserved.
fn free_number<T>(from: u32, taken: &BTreeMap<u32, T>) -> u32 {
    let mut numbers = (from.max(1)..=u32::MAX).chain(1..from.max(1));
    // The limits keep the number of taken ones below that, so one is free.
    numbers.find(|number| !taken.contains_key(number)).unwrap_or(u32::MAX)
}
