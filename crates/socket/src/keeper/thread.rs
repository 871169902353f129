//! What the thread does: waits, passes on, and comes back to a control that was restarted.

use super::{Command, Event, Held, Shared, Start};
use crate::reason::Reason;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use sidestep_plane::client::{Client, Error};
use sidestep_plane::message::Entry;
use sidestep_sys::cpu;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Between two attempts to reach a control that went away. It keeps stacks for two seconds, a restarted one for ten.
const RETRY: Duration = Duration::from_millis(200);

/// Twins told of in one turn.
const EVENTS_PER_TURN: usize = 64;

struct Keeping<'a> {
    client: Option<Client>,
    retry_at: Instant,
    held: Option<Held>,
    /// What is steered, with the proof, to be told to a control that was restarted.
    entries: BTreeMap<Entry, OwnedFd>,
    /// What was given back while no control was there to be told: the program's maps still have it.
    owed: BTreeSet<Entry>,
    path: PathBuf,
    name: String,
    shared: &'a Shared,
}

pub(super) fn run(start: Start, shared: &Arc<Shared>, inbox: &Receiver<Command>) {
    if let Some(cpu) = start.cpu {
        // Elsewhere it works as well.
        let _ = cpu::restrict(&[cpu]);
    }
    let Start { client, held, path, name, .. } = start;
    let (entries, owed, retry_at) = (BTreeMap::new(), BTreeSet::new(), Instant::now());
    let mut keeping = Keeping { client: Some(client), retry_at, held, entries, owed, path, name, shared };
    while keeping.serve(inbox) {
        keeping.come_back();
        keeping.wait();
    }
    if let Some(client) = keeping.client.take() {
        // A control that is gone has nothing to take back.
        let _ = client.bye();
    }
}

impl Keeping<'_> {
    /// Does what the owner asked for; false at the end.
    fn serve(&mut self, inbox: &Receiver<Command>) -> bool {
        loop {
            match inbox.try_recv() {
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Steer(entry, twin, reply) => {
                let done = self.steer(entry, &twin);
                if done.is_ok() {
                    self.entries.insert(entry, twin);
                    self.owed.remove(&entry);
                } else {
                    // Before the owner hears of it: what it closes then is to be closed.
                    drop(twin);
                }
                let _ = reply.send(done);
            }
            Command::Unsteer(entry, reply) => {
                self.entries.remove(&entry);
                let done = self.with_stack(|client, stack| client.unsteer(stack, entry));
                if self.client.is_none() {
                    self.owed.insert(entry);
                }
                let _ = reply.send(done);
            }
            Command::Resolve(address, interface) => {
                let _ = self.with_client(|client| client.resolve(address, interface));
            }
            Command::Report(subject, code) => {
                let _ = self.with_client(|client| client.report(&subject, code));
            }
            Command::Stop => {}
        }
    }

    fn steer(&mut self, entry: Entry, twin: &OwnedFd) -> Result<(), Reason> {
        self.with_stack(|client, stack| client.steer(stack, entry, twin.as_fd()))
    }

    fn with_stack(&mut self, ask: impl FnOnce(&mut Client, u32) -> Result<(), Error>) -> Result<(), Reason> {
        let stack = self.held.as_ref().ok_or(Reason::Revoked)?.stack;
        self.with_client(|client| ask(client, stack))
    }

    /// A connection that breaks on the way is given up; it is made anew later.
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

    /// Connects again, takes the stack up, and proves once more what is steered to it.
    fn come_back(&mut self) {
        if self.client.is_some() || Instant::now() < self.retry_at {
            return;
        }
        self.retry_at = Instant::now() + RETRY;
        let Ok(mut client) = Client::connect_to(&self.path, &self.name) else { return };
        if let Some(held) = &self.held
            && let Err(error) = client.resume_stack(held.stack, held.counters_page.as_fd())
        {
            if let Error::Refused(refusal) = error {
                self.held = None;
                self.shared.post(Event::Revoked(Reason::Revoked, refusal.to_string()));
                self.client = Some(client);
            }
            return;
        }
        if let Some(held) = &self.held {
            for (entry, twin) in &self.entries {
                // One that is refused now was given to somebody else, or stands already: traffic follows the program's maps.
                let _ = client.steer(held.stack, *entry, twin.as_fd());
            }
            for entry in std::mem::take(&mut self.owed) {
                // One that control does not know is where it should be.
                let _ = client.unsteer(held.stack, entry);
            }
        }
        if let Some(table) = client.take_table() {
            self.shared.post(Event::Tables(table));
        }
        self.client = Some(client);
    }

    /// Sleeps until the owner, a twin or control has something.
    fn wait(&mut self) {
        let timeout = self.client.is_none().then(|| self.retry_at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut fds =
            vec![PollFd::new(&self.shared.wake, PollFlags::IN), PollFd::new(&self.shared.twins, PollFlags::IN)];
        if let Some(client) = &self.client {
            fds.push(PollFd::new(client, PollFlags::IN));
        }
        // A signal or a lack of memory only makes for another turn.
        let _ = poll(&mut fds, timeout.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready[0] {
            let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        }
        if ready[1] {
            self.tell_of_twins();
        }
        if ready.get(2) == Some(&true) {
            self.hear();
        }
    }

    fn tell_of_twins(&self) {
        let mut events = Vec::with_capacity(EVENTS_PER_TURN);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = epoll::wait(&self.shared.twins, rustix::buffer::spare_capacity(&mut events), Some(&now));
        for event in events {
            self.shared.post(Event::Twin(event.data.u64()));
        }
    }

    /// What control says unasked.
    fn hear(&mut self) {
        let Some(client) = &mut self.client else { return };
        match client.notice() {
            Ok(Some(revoked)) if self.held.as_ref().is_some_and(|held| held.stack == revoked.stack) => {
                self.held = None;
                self.entries.clear();
                let reason = Reason::of_code(revoked.refusal.code);
                self.shared.post(Event::Revoked(reason, revoked.refusal.to_string()));
            }
            Ok(_) => {}
            Err(_) => self.lose(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use sidestep_plane::message::Protocol;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_socket_that_is_not_steered_is_let_go_before_the_owner_is_told() {
        let wake = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let twins = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let shared = Shared { news: false.into(), mailbox: std::sync::Mutex::default(), wake, twins };
        let mut keeping = Keeping {
            client: None,
            retry_at: Instant::now(),
            held: None,
            entries: BTreeMap::new(),
            owed: BTreeSet::new(),
            path: PathBuf::new(),
            name: String::new(),
            shared: &shared,
        };
        let (mut seen, twin) = UnixStream::pair().unwrap();
        seen.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let entry = Entry::Listener { protocol: Protocol::Udp, local: "198.18.0.1:7".parse().unwrap(), vlan: None };
        // No answer is taken before the descriptor is found closed.
        let (reply, answer) = sync_channel(0);
        std::thread::scope(|scope| {
            scope.spawn(|| keeping.obey(Command::Steer(entry, twin.into(), reply)));
            assert_eq!(seen.read(&mut [0; 1]).map_err(|error| error.kind()), Ok(0), "it is closed");
            assert_eq!(answer.recv().unwrap(), Err(Reason::Revoked));
        });
    }
}
