//! Requests that are answered later: by another application, which has to do something first.

use super::{Answer, Host, RecordStore, Registry};
use crate::dataplane::Dataplane;
use crate::foreign::{Foreign, Ticket};
use rustix::fs::fstat;
use sidestep_control_api::message::{Code, HAND_OVER_WAIT, Refusal, Reply};
use sidestep_sys::socket::{TcpState, netns_cookie, tcp_state};
use sidestep_sys::tcp_repair;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The most requests of one application that wait.
const WAITING_MAX: usize = 64;

/// The longest time that a process has for all of its connections: less than who asks waits for an answer.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(8);

/// A request that waits for another application.
#[derive(Debug)]
pub(super) struct Waiting {
    client: u32,
    /// The request's number, once it is known.
    number: Option<u32>,
    what: What,
    due: Instant,
    /// What has been done since the request came moves `due`, to here at most.
    latest: Instant,
    has_progress: bool,
    outcome: Option<Result<(), Code>>,
}

#[derive(Debug)]
enum What {
    /// The connection of this twin is to be the kernel's; the socket, which this user made, is watched. Those with stacks were asked,
    /// or will be when the asker's user has asked less in a second.
    Twin { cookie: u64, socket: Foreign, uid: u32, is_asked: bool },
    /// This application is to have no stack any more.
    Release(u32),
    /// A descriptor of a socket whose port is given back is to be closed.
    Closing(Ticket),
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Asks the owner of a twin for the hand-over of its connection. The proof is a descriptor of the twin.
    pub(super) fn hand_over_twin(
        &mut self,
        id: u32,
        mut descriptors: Vec<Foreign>,
        host: &dyn Host,
        now: Instant,
    ) -> Result<Answer, Refusal> {
        let thing = "cannot hand over a connection";
        let (Some(socket), true) = (descriptors.pop(), descriptors.is_empty()) else {
            return Err(Refusal::plain(Code::TwinMissing, thing));
        };
        let failed = |error| Refusal::new(Code::TwinMismatch, thing, format!("no socket: {error}"));
        if netns_cookie(socket.as_fd()).map_err(failed)? != host.namespace() {
            return Err(Refusal::plain(Code::TwinNamespace, thing));
        }
        if tcp_state(socket.as_fd()).map_err(failed)? == TcpState::Connection {
            return Ok(Answer::plain(Reply::Done));
        }
        let cookie = tcp_repair::cookie(socket.as_fd()).map_err(failed)?;
        let uid = fstat(socket.as_fd()).map_err(|error| failed(error.into()))?.st_uid;
        self.wait(id, What::Twin { cookie, socket, uid, is_asked: false }, now, thing)?;
        self.ask_for_twins(now);
        Ok(Answer::later())
    }

    /// Passes requests for twins on: each to everybody with a stack, so of each user so many in a second. Who hangs up and comes
    /// again has no more of them; root has no limit.
    fn ask_for_twins(&mut self, now: Instant) {
        let owners: Vec<u32> = self.owners_of_stacks().collect();
        let Self { waiting, clients, twins_asked, notices, .. } = self;
        let mut over = BTreeSet::new();
        for one in waiting.iter_mut().filter(|one| one.outcome.is_none()) {
            let What::Twin { cookie, is_asked: is_asked @ false, .. } = &mut one.what else { continue };
            let Some(asker) = clients.get(&one.client).map(|client| client.owner) else { continue };
            if over.contains(&asker) || !asker.is_root() && !twins_asked.count(asker, now) {
                over.insert(asker);
                continue;
            }
            *is_asked = true;
            notices.extend(owners.iter().map(|owner| (*owner, Reply::HandOverTwin { cookie: *cookie })));
        }
    }

    /// The owner of a twin cannot hand it over. Everybody with a stack is asked, and could say so: it is believed of the user who
    /// made the socket.
    pub(super) fn keep_twin(&mut self, id: u32, cookie: u64, code: Code) {
        let (sender, is_root) = (self.uid(id), self.owner(id).is_root());
        for waiting in &mut self.waiting {
            let What::Twin { cookie: of, uid, .. } = waiting.what else { continue };
            if of == cookie && (uid == sender || is_root) {
                waiting.outcome = Some(Err(code));
            }
        }
    }

    /// Has all applications of a process hand over their connections.
    pub(super) fn release_process(&mut self, id: u32, pid: u32, now: Instant) -> Result<Answer, Refusal> {
        let thing = format!("cannot release process {pid}");
        let asker = self.owner(id);
        let of_process =
            |(_, client): &(u32, &super::Client)| client.peer.pid == Some(pid) && !client.stacks.is_empty();
        let clients: Vec<_> = self.clients().filter(of_process).map(|(id, client)| (id, client.owner)).collect();
        if clients.is_empty() {
            return Err(Refusal::new(Code::NoEntry, thing, "it has no stack").next("see which do: sidestep ps"));
        }
        if !asker.is_root() && clients.iter().any(|(_, owner)| *owner != asker) {
            return Err(Refusal::new(Code::Privilege, thing, "another user started it")
                .next("run it as root: sudo sidestep ps --release"));
        }
        for (client, _) in clients {
            self.wait(id, What::Release(client), now, &thing)?;
            self.notices.push((client, Reply::HandOverAll { for_good: true }));
        }
        Ok(Answer::later())
    }

    fn wait(&mut self, client: u32, what: What, now: Instant, thing: &str) -> Result<(), Refusal> {
        if self.waiting.iter().filter(|waiting| waiting.client == client).count() >= WAITING_MAX {
            return Err(Refusal::new(Code::Limit, thing, format!("at most {WAITING_MAX} requests of a program wait")));
        }
        let (due, latest) = (now + HAND_OVER_WAIT, now + RELEASE_WAIT_MAX);
        self.waiting.push(Waiting { client, number: None, what, due, latest, has_progress: false, outcome: None });
        Ok(())
    }

    /// The answer to a request by which ports were given back: when they are free. A user who keeps its own sockets from being closed has it
    /// a little later.
    pub(super) fn when_closed(&mut self, id: u32, now: Instant) -> Answer {
        let done = Answer::plain(Reply::Done);
        let Some(ticket) = self.closers.last_of(self.uid(id)) else { return done };
        // Where too many requests wait, it is not said when.
        self.wait(id, What::Closing(ticket), now, "").map_or(done, |()| Answer::later())
    }

    /// The request that has just got [`Answer::later`] has this number.
    pub(crate) fn answer_later(&mut self, client: u32, number: u32) {
        let unnumbered = |waiting: &&mut Waiting| waiting.client == client && waiting.number.is_none();
        self.waiting.iter_mut().filter(unnumbered).for_each(|waiting| waiting.number = Some(number));
    }

    /// A connection of an application was handed over: its twin's requests are fulfilled, and a release goes on.
    pub(super) fn note_handed_over(&mut self, id: u32) {
        for waiting in &mut self.waiting {
            match &waiting.what {
                What::Twin { socket, .. } => {
                    if tcp_state(socket.as_fd()).is_ok_and(|state| state == TcpState::Connection) {
                        waiting.outcome = Some(Ok(()));
                    }
                }
                What::Release(client) => waiting.has_progress |= *client == id,
                What::Closing(_) => {}
            }
        }
    }

    /// Notices that requests have caused, since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<(u32, Reply)> {
        std::mem::take(&mut self.notices)
    }

    /// The answers that are due: client, number of the request, reply.
    pub(crate) fn due_answers(&mut self, now: Instant) -> Vec<(u32, u32, Reply)> {
        self.ask_for_twins(now);
        let Self { waiting, clients, closers, .. } = self;
        for one in waiting.iter_mut().filter(|one| one.outcome.is_none()) {
            if std::mem::take(&mut one.has_progress) {
                one.due = one.latest.min(now + HAND_OVER_WAIT);
            }
            let has_stacks = |client: &u32| clients.get(client).is_some_and(|client| !client.stacks.is_empty());
            one.outcome = match &one.what {
                What::Release(client) if !has_stacks(client) => Some(Ok(())),
                What::Closing(ticket) if one.due <= now || closers.is_closed(*ticket) => Some(Ok(())),
                _ if one.due <= now => Some(Err(Code::NoEntry)),
                _ => None,
            };
        }
        waiting.retain(|one| clients.contains_key(&one.client));
        let mut done: Vec<Waiting> =
            waiting.extract_if(.., |one| one.outcome.is_some() && one.number.is_some()).collect();
        // Of several applications of a process one failure is the answer.
        done.sort_by_key(|one| matches!(one.outcome, Some(Ok(()))));
        let mut answers: Vec<(u32, u32, Reply)> = Vec::new();
        for one in done {
            let Waiting { client, number: Some(number), what, outcome: Some(outcome), .. } = one else { continue };
            // A process may have several applications: one answer, when the last one is done.
            let is_last = !waiting.iter().any(|other| (other.client, other.number) == (client, Some(number)));
            if is_last && !answers.iter().any(|(of, known, _)| (*of, *known) == (client, number)) {
                answers.push((client, number, outcome.map_or_else(|code| refused(code, &what), |()| Reply::Done)));
            }
        }
        answers
    }

    /// Opens no stack any more; returns the notices that have every application hand over its connections.
    pub(crate) fn begin_to_end(&mut self) -> Vec<(u32, Reply)> {
        self.is_ending = true;
        self.begun.clear();
        self.owners_of_stacks().map(|id| (id, Reply::HandOverAll { for_good: false })).collect()
    }

    /// The number of applications that still have stacks, and of the hand-overs so far.
    pub(crate) fn releases_left(&self) -> (usize, u64) {
        (self.owners_of_stacks().count(), self.handed_over.times)
    }

    /// The clients that have stacks.
    pub(crate) fn owners_of_stacks(&self) -> impl Iterator<Item = u32> + use<'_, D, K> {
        self.clients().filter(|(_, client)| client.is_connected() && !client.stacks.is_empty()).map(|(id, _)| id)
    }
}

fn refused(code: Code, what: &What) -> Reply {
    let (thing, reason) = match what {
        What::Twin { .. } => {
            ("cannot hand over a connection", "no program has an accelerated connection with this socket")
        }
        What::Closing(_) => ("cannot give a port back", "it is not closed"),
        What::Release(_) => ("cannot release the process", "it has not handed over its connections in time"),
    };
    Reply::Refused(match code {
        Code::NoEntry => Refusal::new(code, thing, reason),
        code => Refusal::plain(code, thing),
    })
}
