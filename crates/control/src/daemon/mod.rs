//! The daemon: one thread, one event loop over the kernel's notices, the listener, the applications and the ends of
//! their processes.

mod kernel;
mod listener;
mod rest;
#[cfg(test)]
mod tests;

use crate::dataplane::Dataplane;
use crate::icmp::Errors;
use crate::mirror::Mirror;
use crate::reaper::Reaper;
use crate::registry::{Answer, Client, RecordStore, Registry};
pub(crate) use kernel::Here;
use kernel::Kernel;
pub(crate) use listener::Listener;
use listener::{Arrival, refuse_connection};
use rest::Rest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_control_api::message::{Channel, Code, Fault, HAND_OVER_WAIT, Numbered, Refusal, Reply, Request};
use sidestep_control_api::table::NeighbourState;
use sidestep_sys::Problem;
use sidestep_sys::owner::Owner;
use sidestep_sys::printable::printable;
use sidestep_sys::problem::say;
use sidestep_sys::process::Process;
use sidestep_sys::socket::unread_by_peer_bytes;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time in which readers of feeds turn to their kernel sockets: a thread of theirs has to wake up.
const FEED_WAIT: Duration = Duration::from_millis(50);

/// The interval of checks without an event: the stop flag, deadlines, the table's heartbeat.
const TURN: Duration = Duration::from_millis(250);

/// The interval at which neighbours in use are confirmed, and kernel sockets checked.
const CONFIRM: Duration = Duration::from_secs(1);

/// The time limit of a connection without a greeting.
const GREETING_WAIT: Duration = Duration::from_secs(2);

/// The longest time in which an ending control lets applications hand their connections over: less than a service manager waits.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(20);

/// The most neighbours confirmed at once.
const CONFIRMATIONS_MAX: usize = 256;

/// NUD_STALE (linux/neighbour.h).
const STALE: u16 = 4;

/// The state of the event loop.
pub(crate) struct Daemon<D: Dataplane, K> {
    mirror: Mirror,
    listener: Listener,
    /// Closes connections.
    reaper: Reaper,
    registry: Registry<D, K>,
    errors: Errors,
    /// Each with the user at the other end.
    channels: BTreeMap<u32, (Channel, u32)>,
    here: Here,
    /// No descriptors are left: no connection is accepted until then.
    shut_until: Option<Instant>,
    confirmed_at: Instant,
    resting: Rest,
    /// The number of packets that were not requests.
    malformed: u64,
    /// Ends it when it was not used for this time.
    unused_wait: Option<Duration>,
    used_at: Instant,
}

impl<D: Dataplane, K: RecordStore> Daemon<D, K> {
    pub(crate) fn new(
        mirror: Mirror,
        listener: Listener,
        reaper: Reaper,
        registry: Registry<D, K>,
        here: Here,
    ) -> Self {
        let (channels, now) = (BTreeMap::new(), Instant::now());
        let errors = Errors::open();
        let resting = Rest::default();
        Self {
            mirror,
            listener,
            reaper,
            registry,
            errors,
            channels,
            here,
            shut_until: None,
            confirmed_at: now,
            resting,
            malformed: 0,
            unused_wait: None,
            used_at: now,
        }
    }

    /// Makes it end after this time without an application, if one is given.
    pub(crate) fn end_after_unused(&mut self, wait: Option<Duration>) {
        self.unused_wait = wait;
    }

    /// Serves until `stop` is set, then takes everything back; returns the records, which are no longer needed.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Result<K, Problem> {
        let mut result = Ok(());
        while result.is_ok() && !stop.load(Ordering::Relaxed) && !self.is_unused(Instant::now()) {
            result = self.turn();
        }
        // After a failure it stays for the next control.
        if result.is_ok() {
            self.release_connections()?;
            self.release_feeds();
            let notices = self.registry.end();
            self.notify(notices);
        }
        self.channels.into_values().for_each(|(channel, _)| self.reaper.close(channel.into()));
        self.listener.close(&mut self.reaper);
        result.map(|()| self.registry.into_records())
    }

    /// Has the readers of feeds use their kernel sockets before the rings end. Packets come twice then, rather than not at all.
    fn release_feeds(&mut self) {
        let notices = self.registry.end_feeds();
        if !notices.is_empty() {
            self.notify(notices);
            std::thread::sleep(FEED_WAIT);
        }
    }

    /// Has the applications hand over their connections, which would end with steering, and waits for that as long as it makes
    /// progress.
    fn release_connections(&mut self) -> Result<(), Problem> {
        let notices = self.registry.begin_to_end();
        self.notify(notices);
        let latest = Instant::now() + RELEASE_WAIT_MAX;
        let (mut due, mut left) = (Instant::now() + HAND_OVER_WAIT, self.registry.releases_left());
        while left.0 > 0 && Instant::now() < due.min(latest) {
            self.turn()?;
            let now_left = self.registry.releases_left();
            if now_left != left {
                due = Instant::now() + HAND_OVER_WAIT;
            }
            left = now_left;
        }
        let silent: Vec<u32> = self.registry.owners_of_stacks().collect();
        for id in silent {
            say(format!("{} has not handed over its connections in time: they end", self.describe(id)));
        }
        Ok(())
    }

    /// Returns whether it is to end because nobody uses it.
    fn is_unused(&mut self, now: Instant) -> bool {
        let Some(wait) = self.unused_wait else { return false };
        if self.registry.is_used() {
            self.used_at = now;
        }
        now.duration_since(self.used_at) >= wait
    }

    fn turn(&mut self) -> Result<(), Problem> {
        let ready = self.wait()?;
        if ready.has_notices {
            self.mirror.drain()?;
        }
        self.reaper.hand_over();
        let now = Instant::now();
        let mut have_links_changed = self.refresh(now);
        if ready.has_arrivals {
            self.welcome(now);
        }
        for id in ready.clients {
            have_links_changed |= self.serve_in_turn(id)?;
        }
        self.answer_waiting(now);
        let errors = self.errors.take().into_iter().flat_map(|error| self.registry.owners_of_error(error)).collect();
        self.notify(errors);
        self.registry.expire(now);
        let is_time = now.duration_since(self.confirmed_at) >= CONFIRM;
        if have_links_changed || is_time {
            let notices = self.registry.look(self.mirror.links());
            self.notify(notices);
        }
        if is_time {
            self.confirmed_at = now;
            self.registry.detach_drop_filters();
            let kernel = Kernel { mirror: &mut self.mirror, here: &self.here };
            let mut notices = self.registry.check_twins(&kernel, now);
            notices.extend(self.registry.check_passed(&kernel));
            notices.extend(self.registry.check_feeds(&kernel));
            self.notify(notices);
            let notices = self.registry.check_queues();
            self.notify(notices);
            self.registry.hold_ports();
            self.confirm_neighbours();
        }
        self.drop_silent(now);
        self.registry.beat(Instant::now());
        self.mirror.beat(monotonic_ns());
        Ok(())
    }

    fn refresh(&mut self, now: Instant) -> bool {
        self.mirror.refresh(now).unwrap_or_else(|problem| {
            // At most once a second and per table. Existing stacks work without news from the kernel.
            say(problem);
            false
        })
    }

    /// Serves a client unless its user is deferred; returns whether interfaces may have changed. After a long request
    /// the tables are refreshed: applications distrust them after three seconds without a heartbeat.
    fn serve_in_turn(&mut self, id: u32) -> Result<bool, Problem> {
        let begun = Instant::now();
        let owner = self.registry.owner(id);
        if self.resting.has(owner, begun) {
            return Ok(false);
        }
        self.serve(id, begun);
        let now = Instant::now();
        if !self.resting.note(owner, begun, now) {
            return Ok(false);
        }
        self.mirror.drain()?;
        let have_links_changed = self.refresh(now);
        self.mirror.beat(monotonic_ns());
        Ok(have_links_changed)
    }

    fn wait(&mut self) -> Result<Ready, Problem> {
        let now = Instant::now();
        let until_rested = self.resting.end(now).map_or(TURN, |end| end.saturating_duration_since(now));
        let until_due = self.mirror.due().map_or(TURN, |due| due.saturating_duration_since(now)).min(TURN);
        let until_due = until_due.min(until_rested);
        let is_shut = self.reaper.is_full() || self.shut_until.is_some_and(|until| until > now);
        let mut ids = Vec::with_capacity(self.channels.len());
        let mut fds = vec![PollFd::new(&self.mirror, PollFlags::IN)];
        let events = if is_shut { PollFlags::empty() } else { PollFlags::IN };
        fds.push(PollFd::new(&self.listener, events));
        for (id, (channel, uid)) in &self.channels {
            // From a user whose descriptors cannot be closed, no more are accepted.
            if self.resting.has(self.registry.owner(*id), now) || self.registry.closers.is_stuck(*uid) {
                continue;
            }
            ids.push(*id);
            fds.push(PollFd::new(channel, PollFlags::IN));
        }
        let watches = self.registry.clients().filter_map(|(_, client)| client.watch.as_ref());
        fds.extend(watches.map(|watch| PollFd::new(watch, PollFlags::IN)));
        fds.extend(self.errors.poll_fds());
        fds.push(PollFd::from_borrowed_fd(self.registry.closers.bell(), PollFlags::IN));
        match poll(&mut fds, Timespec::try_from(until_due).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Problem::failed("cannot wait for events", std::io::Error::from(error))),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        if fds.last().is_some_and(is_ready) {
            self.registry.closers.heard();
        }
        let clients = ids.into_iter().zip(&fds[2..]).filter(|(_, fd)| is_ready(fd)).map(|(id, _)| id).collect();
        Ok(Ready { has_notices: is_ready(&fds[0]), has_arrivals: is_ready(&fds[1]), clients })
    }

    fn welcome(&mut self, now: Instant) {
        let arrivals = self.listener.accept(&mut self.reaper).unwrap_or_else(|problem| {
            say(problem);
            self.shut_until = Some(now + TURN);
            Vec::new()
        });
        for Arrival { channel, peer, may_tap } in arrivals {
            let process = peer.pid.and_then(|pid| Process::of(pid).ok().flatten());
            let owner = Owner::of_peer(channel.as_fd(), &peer).ok_or_else(maker_has_ended);
            match owner.and_then(|owner| self.registry.admit(peer, owner, process, now)) {
                Ok(id) => {
                    self.registry.permit_taps(id, may_tap);
                    self.channels.insert(id, (channel, peer.uid));
                }
                Err(refusal) => refuse_connection(channel, refusal, &mut self.reaper),
            }
        }
    }

    /// Serves one request of one application; the next one waits for the next iteration, after the others.
    fn serve(&mut self, id: u32, now: Instant) {
        let Some((channel, _)) = self.channels.get(&id) else { return };
        let mut descriptors = Vec::new();
        let (number, answer) = match channel.receive_beside::<Request>(&mut descriptors) {
            Ok(Numbered { number, body }) => {
                let mut kernel = Kernel { mirror: &mut self.mirror, here: &self.here };
                (number, self.registry.handle(id, body, std::mem::take(&mut descriptors), &mut kernel, now))
            }
            Err(Fault::WouldBlock) => return,
            // Not the client's fault: its message stays queued, or it gets an error.
            Err(Fault::Io(error)) if is_shortage(&error) => return,
            Err(Fault::NoDescriptors { number }) => (number, Answer::refused(no_descriptors())),
            Err(Fault::Malformed(reason)) => {
                // The parser's error quotes the stranger's text.
                let reason = printable(&reason, 200);
                self.malformed += 1;
                // One line for each doubling, as in the listener.
                if self.malformed.is_power_of_two() {
                    let so_far = self.malformed;
                    say(format!("{} sends what is no request ({so_far} so far): {reason}", self.describe(id)));
                }
                (0, Answer::last(Refusal::new(Code::Malformed, "cannot answer", reason)))
            }
            Err(Fault::Closed | Fault::Io(_)) => return self.hang_up(id, now),
        };
        // The descriptors of a refused packet.
        drop(self.registry.foreign(id, descriptors));
        if answer.is_later {
            return self.registry.answer_later(id, number);
        }
        // A client that does not read its replies gets no more of them: nothing is queued here.
        let is_sent = self.send(id, number, &answer);
        if !is_sent || answer.is_last {
            self.hang_up(id, now);
        }
    }

    /// Sends what requests have caused elsewhere, and answers that had to wait for that.
    fn answer_waiting(&mut self, now: Instant) {
        let answers = self.registry.due_answers(now);
        let notices = self.registry.take_notices();
        self.notify(notices);
        for (id, number, reply) in answers {
            if !self.send(id, number, &Answer::plain(reply)) {
                self.hang_up(id, now);
            }
        }
    }

    fn send(&self, id: u32, number: u32, answer: &Answer) -> bool {
        let Some((channel, _)) = self.channels.get(&id) else { return false };
        let mut descriptors: Vec<BorrowedFd<'_>> = answer.descriptors.iter().map(AsFd::as_fd).collect();
        if answer.with_table {
            descriptors.push(self.mirror.file());
        }
        let message = Numbered { number, body: answer.reply.clone() };
        match channel.send(&message, &descriptors) {
            Ok(()) => true,
            // A program that ends does not wait for the answers to its last requests.
            Err(Fault::Closed) => false,
            Err(fault) => {
                say(format!("{} cannot be answered: {fault}", self.describe(id)));
                false
            }
        }
    }

    fn describe(&self, id: u32) -> String {
        let client = self.registry.client(id);
        client.map_or_else(
            || format!("client {id}"),
            |client| {
                format!(
                    "client {id} ({}, process {}, user {})",
                    client.name,
                    client.peer.pid.unwrap_or(0),
                    client.peer.uid
                )
            },
        )
    }

    fn hang_up(&mut self, id: u32, now: Instant) {
        self.shut(id);
        self.registry.hang_up(id, now);
    }

    /// Closes a connection with everything that is queued in it.
    fn shut(&mut self, id: u32) {
        if let Some((channel, _)) = self.channels.remove(&id) {
            self.reaper.close(channel.into());
        }
    }

    fn notify(&mut self, notices: Vec<(u32, Reply)>) {
        for (id, body) in notices {
            if let Some((channel, _)) = self.channels.get(&id)
                && has_room(channel, &body)
            {
                // A client that does not read it finds its stack gone at its next request.
                let _ = channel.send(&Numbered { number: 0, body }, &[]);
            }
        }
    }

    fn drop_silent(&mut self, now: Instant) {
        // A deferred user is not served: its programs may have sent their greeting long ago.
        self.registry.await_anew(now, |owner| self.resting.has(owner, now));
        let is_silent =
            |client: &Client| !client.has_greeted && now.duration_since(client.awaited_since) >= GREETING_WAIT;
        let silent: Vec<u32> =
            self.registry.clients().filter(|(_, client)| is_silent(client)).map(|(id, _)| id).collect();
        silent.into_iter().for_each(|id| self.hang_up(id, now));
        // Connections of applications that have been removed meanwhile.
        let forgotten: Vec<u32> =
            self.channels.keys().copied().filter(|id| self.registry.client(*id).is_none()).collect();
        forgotten.into_iter().for_each(|id| self.shut(id));
    }

    /// Makes the kernel check stale neighbours that applications use: it does not see our traffic, which would confirm
    /// them.
    fn confirm_neighbours(&mut self) {
        let mut wanted: Vec<_> =
            self.registry.clients().flat_map(|(_, client)| client.neighbours.iter().copied()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let is_doubtful = |(interface, address): &(u32, std::net::IpAddr)| {
            let entry = self.mirror.neighbour(*interface, *address);
            entry.is_none_or(|entry| entry.nud == STALE || entry.state == NeighbourState::Failed)
        };
        let doubtful: Vec<_> = wanted.into_iter().filter(is_doubtful).take(CONFIRMATIONS_MAX).collect();
        for (interface, address) in doubtful {
            // An interface that is gone takes its neighbours along.
            let _ = self.mirror.use_neighbour(interface, address);
        }
    }
}

/// Returns whether a notice leaves space for replies: a client that cannot get a reply is disconnected. Fewer notices
/// are queued of events that any peer can cause, such as ICMP, or any process, than of control's own decisions.
fn has_room(channel: &Channel, notice: &Reply) -> bool {
    let share = match notice {
        Reply::IcmpError(_) => 4,
        Reply::HandOverTwin { .. } => 3,
        _ => 2,
    };
    let room = rustix::net::sockopt::socket_send_buffer_size(channel).unwrap_or(0);
    unread_by_peer_bytes(channel.as_fd()).is_ok_and(|unread| unread < room / share)
}

/// Returns whether the kernel or this process is temporarily out of a resource.
fn is_shortage(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let short = [Errno::NOMEM, Errno::NOBUFS, Errno::MFILE, Errno::NFILE];
    Errno::from_io_error(error).is_some_and(|error| short.contains(&error))
}

fn maker_has_ended() -> Refusal {
    let reason = "the process that connected has ended";
    Refusal::new(Code::NotAllowed, "cannot take another client", reason).next("connect from the process that asks")
}

fn no_descriptors() -> Refusal {
    Refusal::new(Code::Limit, "cannot answer", "the control plane has no descriptors left")
        .next("try again later; raise its limit: LimitNOFILE in its unit, or ulimit -n")
}

/// The result of poll(2).
struct Ready {
    has_notices: bool,
    has_arrivals: bool,
    clients: Vec<u32>,
}
