//! The thread: it waits, passes messages on, and reconnects to a control that was restarted.

use super::rss_watch::{RssWatch, spread_of};
use super::settle::Before;
use super::{Command, Event, Held, Question, Reopened, Shared, Start, Surrender};
use crate::reason::Reason;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use sidestep_control_api::client::{Client, Error, Notice, Stack};
use sidestep_control_api::message::{Entry, HandOver, OpenStack, Protocol};
use sidestep_sys::xdp::device;
use sidestep_sys::{cpu, interface};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Between two attempts to reach a control that went away. It keeps stacks for two seconds, a restarted one for ten.
const RETRY: Duration = Duration::from_millis(200);

/// Between a stack that was lost and the first attempt to open it again, and later from one attempt to the next: twice as
/// long each time. An interface that comes back is up, and has its addresses, some time after it appears.
const REOPEN_FIRST: Duration = Duration::from_millis(100);
const REOPEN_MAX: Duration = Duration::from_secs(5);

/// The most twin events per iteration.
const EVENTS_MAX: usize = 64;

/// The most notices of control per iteration: the owner's commands are executed between them.
const NOTICES_MAX: usize = 64;

pub(super) struct AgentThread<'a> {
    client: Option<Client>,
    retry_at: Instant,
    held: Option<Held>,
    /// The stack to be opened again, when next, and how long to rest after that.
    wanted: Option<(OpenStack, Instant, Duration)>,
    /// Steering entries that stand, with their kernel twins: a control that was restarted is asked for them again.
    entries: BTreeMap<Entry, OwnedFd>,
    /// Steering entries given back while no control was there: the XDP program's maps still have them.
    to_unsteer: BTreeSet<Entry>,
    /// Requests in flight when the connection broke: control may have executed them. Each is sent once more when control is
    /// back, if its owner still waits.
    unanswered: Vec<(Entry, OwnedFd, Question)>,
    path: PathBuf,
    name: String,
    shared: &'a Shared,
    /// While the device receives by queues that are not the stack's.
    rss_watch: Option<RssWatch>,
}

pub(super) fn run(start: Start, shared: &Arc<Shared>, inbox: &Receiver<Command>) {
    if let Some(cpu) = start.cpu {
        // The thread works on any CPU.
        let _ = cpu::restrict(&[cpu]);
    }
    let mut agent = AgentThread::new(start, shared);
    while agent.take_commands(inbox) {
        for _ in 0..NOTICES_MAX {
            if !agent.receive_notice() {
                break;
            }
        }
        agent.reconnect();
        agent.reopen();
        agent.rss_watch.iter_mut().for_each(|rss_watch| rss_watch.look(shared));
        shared.wake_owner();
        agent.wait();
    }
    if let Some(client) = agent.client.take() {
        // A control that is gone has nothing to take back.
        let _ = client.bye();
    }
}

impl<'a> AgentThread<'a> {
    pub(super) fn new(start: Start, shared: &'a Shared) -> Self {
        let Start { client, mut held, path, name, .. } = start;
        let rss_watch = held.as_mut().and_then(rss_watch);
        let (entries, to_unsteer, unanswered) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let (client, retry_at, wanted) = (Some(client), Instant::now(), None);
        Self { client, retry_at, held, wanted, entries, to_unsteer, unanswered, path, name, shared, rss_watch }
    }

    /// Does what the owner asked for; false at the end.
    fn take_commands(&mut self, inbox: &Receiver<Command>) -> bool {
        loop {
            match inbox.try_recv() {
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Ok(command) => self.execute(command),
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Steer(entry, twin, question) => self.execute_steer(entry, twin, question),
            Command::Unsteer(entry, question) => {
                let done = self.unsteer(entry);
                question.answer(done);
            }
            Command::HandOver(surrender, question) => {
                let done = self.hand_over(*surrender);
                question.answer(done);
            }
            Command::KeepTwin(cookie, code) => {
                let _ = self.with_client(|client| client.keep_twin(cookie, code));
            }
            Command::ReservePorts => self.reserve_ports(),
            Command::Resolve(address, interface) => {
                let _ = self.with_client(|client| client.resolve(address, interface));
            }
            Command::Report(subject, code) => {
                let _ = self.with_client(|client| client.report(&subject, code));
            }
            Command::Reopen(wish) => self.wanted = Some((wish, Instant::now() + REOPEN_FIRST, REOPEN_FIRST)),
            Command::Close(question) => {
                self.close_stack();
                question.answer(Ok(()));
            }
            Command::Stop => {}
        }
    }

    fn execute_steer(&mut self, entry: Entry, twin: OwnedFd, question: Question) {
        if !question.is_wanted() {
            // The owner has given up waiting. An earlier request for the same entry may still stand.
            if !self.entries.contains_key(&entry) {
                let _ = self.unsteer(entry);
            }
            return;
        }
        let was_connected = self.client.is_some();
        match self.steer(entry, &twin) {
            Ok(()) => self.keep_entry(entry, twin, question),
            Err(_) if was_connected && self.client.is_none() => {
                question.delay();
                self.unanswered.push((entry, twin, question));
            }
            Err(reason) => {
                // Closed before the owner gets the answer: a port that the owner then closes must be free.
                drop(twin);
                question.answer(Err(reason));
            }
        }
    }

    fn keep_entry(&mut self, entry: Entry, twin: OwnedFd, question: Question) {
        self.entries.insert(entry, twin);
        self.to_unsteer.remove(&entry);
        if !question.answer(Ok(())) {
            // The owner no longer waits for the entry, and would not answer the segments that it brings.
            let _ = self.unsteer(entry);
        }
    }

    fn close_stack(&mut self) {
        self.rss_watch = None;
        if let Some(held) = self.held.take() {
            self.forget_entries();
            let _ = self.with_client(|client| client.close_stack(held.stack));
        }
    }

    fn steer(&mut self, entry: Entry, twin: &OwnedFd) -> Result<(), Reason> {
        let steered = self.with_stack(|client, stack| client.steer(stack, entry, twin.as_fd()));
        if steered == Err(Reason::QueueElsewhere) {
            self.rss_watch.iter_mut().for_each(RssWatch::invalidate);
        }
        steered
    }

    /// Hands a connection over. Where control is lost in the middle, the socket tells what has become of it.
    fn hand_over(&mut self, surrender: Surrender) -> Result<(), Reason> {
        let Surrender { connection, socket, bytes } = surrender;
        let (socket, bytes) = (socket.as_fd(), bytes.as_fd());
        let HandOver { local, remote, vlan, .. } = connection;
        let (before, was_there) = (Before::of(socket), self.client.is_some());
        let done = self.with_stack(|client, stack| client.hand_over(stack, connection.clone(), socket, bytes));
        let is_lost = was_there && self.client.is_none();
        let done = match done {
            Err(_) if is_lost && before.settle(socket, &connection, bytes) => Ok(()),
            done => done,
        };
        if done.is_ok() {
            // The twin: the connection ends with the program's descriptor.
            self.entries.remove(&Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan });
        }
        done
    }

    fn reserve_ports(&mut self) {
        let answer = match self.held.as_ref().map(|held| held.stack) {
            Some(stack) => self.with_client(|client| client.reserve_ports(stack)),
            None => Err(Reason::Revoked),
        };
        self.shared.post(Event::Ports(answer));
    }

    fn unsteer(&mut self, entry: Entry) -> Result<(), Reason> {
        self.entries.remove(&entry);
        let done = self.with_stack(|client, stack| client.unsteer(stack, entry));
        if self.client.is_none() {
            self.to_unsteer.insert(entry);
        }
        done
    }

    fn with_stack(&mut self, ask: impl FnOnce(&mut Client, u32) -> Result<(), Error>) -> Result<(), Reason> {
        let stack = self.held.as_ref().ok_or(Reason::Revoked)?.stack;
        self.with_client(|client| ask(client, stack))
    }

    /// Asks control. A connection that breaks meanwhile is closed, and made again later.
    fn with_client<T>(&mut self, ask: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T, Reason> {
        let client = self.client.as_mut().ok_or(Reason::ControlSilent)?;
        ask(client).map_err(|error| {
            if matches!(error, Error::Lost(_)) {
                self.lose();
            }
            Reason::of_error(&error)
        })
    }

    fn lose(&mut self) {
        self.client = None;
        self.retry_at = Instant::now() + RETRY;
    }

    /// Connects again, resumes the stack, and shows the twins of its steering entries again.
    fn reconnect(&mut self) {
        if self.client.is_some() || Instant::now() < self.retry_at {
            return;
        }
        self.retry_at = Instant::now() + RETRY;
        // Requests whose owner no longer waits are undone, whether control executed them or not.
        let given_up = self.unanswered.extract_if(.., |(.., question)| !question.is_wanted());
        self.to_unsteer.extend(given_up.map(|(entry, ..)| entry));
        let Ok(mut client) = Client::connect_to(&self.path, &self.name) else { return self.look_after_device() };
        if let Some(held) = &self.held
            && let Err(error) = client.resume_stack(held.stack, held.counters_page.as_fd())
        {
            let Error::Refused(refusal) = error else { return };
            self.revoke(Reason::Revoked, refusal.to_string());
        }
        if let Some(held) = &self.held {
            for (entry, twin) in &self.entries {
                // A refused entry was given to another stack, or still stands: traffic follows the program's maps.
                let _ = client.steer(held.stack, *entry, twin.as_fd());
            }
            for entry in std::mem::take(&mut self.to_unsteer) {
                // Control may not know the entry: then it is removed already.
                let _ = client.unsteer(held.stack, entry);
            }
        }
        if let Some(table) = client.take_table() {
            self.shared.post(Event::Tables(table));
        }
        self.client = Some(client);
        for (entry, twin, question) in std::mem::take(&mut self.unanswered) {
            self.execute(Command::Steer(entry, twin, question));
        }
    }

    /// Revokes the stack if its interface is gone, or the program was detached from it. Only this check finds that while no
    /// control runs: the pins of a killed control go with the last process in its mount namespace, and with
    /// `sidestep control --cleanup`.
    fn look_after_device(&mut self) {
        let Some(held) = &self.held else { return };
        let reason = match interface::name_of_index(held.interface).map(|name| device(&name)) {
            Err(error) if is_no_device(&error) => "the interface is gone",
            Ok(Ok(device)) if device.index == held.interface && device.xdp_program.is_none() => {
                "the control plane is gone, and its program was detached"
            }
            _ => return,
        };
        self.revoke(Reason::Revoked, format!("cannot go on with stack {}: {reason}", held.stack));
    }

    fn revoke(&mut self, reason: Reason, text: String) {
        (self.held, self.rss_watch) = (None, None);
        self.forget_entries();
        self.shared.post(Event::Revoked(reason, text));
    }

    fn forget_entries(&mut self) {
        self.entries.clear();
        self.to_unsteer.clear();
        self.unanswered.drain(..).for_each(|(.., question)| _ = question.answer(Err(Reason::Revoked)));
    }

    /// Shows the kernel twin of an entry again, if there is one: a restarted control may not have received it in time.
    fn prove_again(&mut self, stack: u32, entry: Entry) {
        if self.held.as_ref().is_none_or(|held| held.stack != stack) {
            return;
        }
        let twin = self.entries.remove(&entry);
        let steered = twin.as_ref().map_or(Err(Reason::Refused), |twin| self.steer(entry, twin));
        match (steered, twin) {
            (Ok(()), Some(twin)) => _ = self.entries.insert(entry, twin),
            (steered, _) => {
                let reason = steered.err().unwrap_or(Reason::Refused);
                self.shared.post(Event::GivenBack(entry, reason));
            }
        }
    }

    /// Reopens a lost stack.
    fn reopen(&mut self) {
        let Some((wish, at, rest)) = self.wanted.take_if(|(_, at, _)| *at <= Instant::now()) else { return };
        let Some(client) = self.client.as_mut() else {
            self.wanted = Some((wish, at, rest));
            return;
        };
        match client.open_stack(wish.clone()) {
            Ok(Stack { facts, sockets, frames, heartbeat, counters, counters_page }) => {
                let spread = (!facts.elsewhere.is_empty()).then(|| spread_of(facts.index));
                let mut held = Held { stack: facts.id, interface: facts.index, counters_page, spread: spread.clone() };
                self.rss_watch = rss_watch(&mut held);
                self.held = Some(held);
                let parts = Reopened { facts, spread, sockets, frames, heartbeat, counters };
                self.shared.post(Event::Opened(Box::new(parts)));
            }
            Err(error) => {
                let rest = (2 * rest).min(REOPEN_MAX);
                self.wanted = Some((wish, Instant::now() + rest, rest));
                if matches!(error, Error::Lost(_)) {
                    self.lose();
                }
            }
        }
    }

    /// The time at which the thread has work to do without an event.
    fn due(&self) -> Option<Instant> {
        let of_control = match &self.client {
            None => Some(self.retry_at),
            Some(_) => self.wanted.as_ref().map(|(_, at, _)| *at),
        };
        let of_device = self.rss_watch.as_ref().map(RssWatch::due);
        of_control.into_iter().chain(of_device).min()
    }

    /// Sleeps until the owner, a twin or control has an event.
    fn wait(&mut self) {
        let timeout = self.due().map(|due| due.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds =
            vec![PollFd::new(&self.shared.wake, PollFlags::IN), PollFd::new(&self.shared.twins, PollFlags::IN)];
        if let Some(client) = &self.client {
            fds.push(PollFd::new(client, PollFlags::IN));
        }
        // After a signal, or without memory, the loop runs once more.
        let _ = poll(&mut fds, timeout.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready[0] {
            let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        }
        if ready[1] {
            self.report_twins();
        }
    }

    fn report_twins(&self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.shared.twins, rustix::buffer::spare_capacity(&mut events), Some(&now));
        for event in events {
            self.shared.post(Event::Twin(event.data.u64()));
        }
    }

    /// Takes one notice of control; false when there is no more.
    fn receive_notice(&mut self) -> bool {
        let Some(client) = &mut self.client else { return false };
        match client.notice() {
            Ok(Some(Notice::Revoked { stack, refusal })) => {
                if self.held.as_ref().is_some_and(|held| held.stack == stack) {
                    self.revoke(Reason::of_code(refusal.code), refusal.to_string());
                }
                true
            }
            Ok(Some(Notice::GivenBack { stack, entry })) => {
                self.prove_again(stack, entry);
                true
            }
            Ok(Some(Notice::Ended { stack, local, remote })) => {
                if self.held.as_ref().is_some_and(|held| held.stack == stack) {
                    self.shared.post(Event::Ended(local, remote));
                }
                true
            }
            Ok(Some(Notice::HandOverTwin { cookie })) => {
                self.shared.post(Event::HandOverTwin(cookie));
                true
            }
            Ok(Some(Notice::HandOverAll { for_good })) => {
                self.shared.post(Event::HandOverAll(for_good));
                true
            }
            Ok(Some(Notice::IcmpError(error))) => {
                self.shared.post(Event::IcmpError(error));
                true
            }
            // Stacks have no feeds; their readers have connections of their own.
            Ok(Some(Notice::FeedRevoked(_) | Notice::FeedVerdict(_))) => true,
            Ok(None) => false,
            Err(_) => {
                self.lose();
                false
            }
        }
    }
}

/// The watch over the device's distribution, for a stack that has not all of its queues.
fn rss_watch(held: &mut Held) -> Option<RssWatch> {
    held.spread.take().map(|spread| RssWatch::after(held.interface, spread))
}

fn is_no_device(error: &io::Error) -> bool {
    let none = [Errno::NXIO, Errno::NODEV].map(|errno| Some(errno.raw_os_error()));
    none.contains(&error.raw_os_error())
}
