//! Opening and resuming stacks.

use super::{Answer, Host, RecordStore, Registry, Stack};
use crate::dataplane::{Begun, Dataplane, Step};
use crate::foreign::Foreign;
use crate::state::Record;
use sidestep_control_api::counters::{Counters, CountersView};
use sidestep_control_api::message::{BIND_WAIT, Code, DESCRIPTORS_MAX, OpenStack, Refusal, Reply, StackFacts, ranges};
use sidestep_control_api::table::Link;
use sidestep_sys::problem::{note, say};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// A stack that was begun: its application is mapping the rings.
pub(super) struct Pending<P> {
    kept: P,
    pub(super) wish: OpenStack,
    pub(super) interface: u32,
    /// The number of queues that it may get.
    pub(super) queues: u32,
    /// The time at which it is discarded.
    pub(super) due: Instant,
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Makes the memory and sockets that the application has to map. Discards what it began before.
    pub(super) fn begin(&mut self, id: u32, wish: OpenStack, host: &dyn Host, now: Instant) -> Result<Answer, Refusal> {
        self.begun.remove(&id);
        let thing = thing(&wish);
        if self.is_ending {
            return Err(Refusal::new(Code::NoControl, thing, "the control plane ends"));
        }
        let link = usable_link(host.links(), &wish.interface, &thing)?;
        let queues = self.share_of_queues(id, link, self.dataplane.plan(link, &wish)?, &thing)?;
        self.check_limits(id, &wish, queues, &thing)?;
        let planned = self.dataplane.attach(link, &wish)?;
        let queues = self.share_of_queues(id, link, planned, &thing)?;
        self.check_limits(id, &wish, queues, &thing)?;
        let interface = link.index;
        let Begun { kept, facts, frames } = self.dataplane.begin(link, &wish, queues)?;
        let mut descriptors = copies::<D>(&kept, 0, 1, &thing)?;
        descriptors.insert(0, frames);
        self.begun.insert(id, Pending { kept, wish, interface, queues, due: now + BIND_WAIT });
        Ok(Answer { descriptors, ..Answer::plain(Reply::Prepared(facts)) })
    }

    /// Further sockets of the stack that was begun.
    pub(super) fn take_sockets(&self, id: u32, from: u32) -> Result<Answer, Refusal> {
        let thing = "cannot hand over sockets";
        let pending = self.begun.get(&id).ok_or_else(|| Refusal::plain(Code::NoStack, thing))?;
        let descriptors = copies::<D>(&pending.kept, from as usize, DESCRIPTORS_MAX, thing)?;
        Ok(Answer { descriptors, ..Answer::plain(Reply::Sockets) })
    }

    /// Binds sockets of the stack that was begun, all or some of them.
    pub(super) fn open(&mut self, id: u32, host: &dyn Host, now: Instant) -> Result<Answer, Refusal> {
        let pending = self.begun.remove(&id).filter(|pending| pending.due > now);
        let Some(Pending { kept, wish, interface, queues, .. }) = pending else {
            let reason = format!("none was begun, or more than {} s ago", BIND_WAIT.as_secs());
            return Err(Refusal::new(Code::NoStack, "cannot bind a stack", reason));
        };
        let thing = thing(&wish);
        let link = usable_link(host.links(), &wish.interface, &thing)?;
        let stack = super::free_number(self.next_stack, &self.stacks);
        let (counters, page) =
            Counters::create(stack).map_err(|problem| Refusal::of(Code::Memory, thing.clone(), &problem))?;
        let label = self.clients.get(&id).map(|client| (client.peer, client.name.clone()));
        let (peer, name) = label.ok_or_else(|| Refusal::plain(Code::Greeting, thing.clone()))?;
        let label = format!("pid {} {name}", peer.pid.unwrap_or(0));
        let opened = match self.dataplane.open(stack, &label, link, &wish, kept)? {
            Step::Done(opened) => *opened,
            Step::More(kept) => {
                self.begun.insert(id, Pending { kept, wish, interface, queues, due: now + BIND_WAIT });
                return Ok(Answer::plain(Reply::Binding));
            }
        };
        self.next_stack = stack.wrapping_add(1);
        if let Err(error) = self.remember(id, &opened.facts) {
            say(format!("stack {stack} will not survive a restart of the control plane: {error}"));
        }
        let facts = opened.facts;
        note(format!(
            "stack {stack}: {} queue {} ({} mode) for {label}, user {}",
            facts.interface,
            ranges(facts.queues.iter().map(|queue| queue.queue)),
            facts.mode,
            peer.uid
        ));
        let reply = Reply::Stack(facts.clone());
        let counters = Some(counters);
        self.stacks.insert(stack, Stack { client: id, facts, entries: BTreeMap::new(), counters, proof_due: None });
        self.clients.get_mut(&id).into_iter().for_each(|client| _ = client.stacks.insert(stack));
        Ok(Answer { descriptors: vec![opened.heartbeat, page], ..Answer::plain(reply) })
    }

    fn remember(&self, id: u32, facts: &StackFacts) -> std::io::Result<()> {
        let Some((client, process)) = self.clients.get(&id).and_then(|client| Some((client, client.process?))) else {
            return Err(std::io::Error::other("its process cannot be watched from here"));
        };
        self.records.store(&Record {
            facts: facts.clone(),
            name: client.name.clone(),
            pid: process.pid,
            start_ticks: process.start_ticks,
            uid: client.peer.uid,
            gid: client.peer.gid,
            owner: client.owner,
        })
    }

    /// Resumes a stack, for the very process that opened it.
    pub(super) fn resume(&mut self, id: u32, number: u32, descriptors: &[Foreign]) -> Result<Answer, Refusal> {
        let refusal = || Refusal::plain(Code::NoStack, format!("cannot resume stack {number}"));
        let claimant = self.clients.get(&id).ok_or_else(refusal)?;
        let (process, uid) = (claimant.process.ok_or_else(refusal)?, claimant.peer.uid);
        let stack = self.stacks.get_mut(&number).ok_or_else(refusal)?;
        let before = stack.client;
        // The pid of a connection is that of its maker, who may have ended since and passed it to another user's
        // process.
        let owner = self.clients.get(&before);
        let is_same = owner.is_some_and(|owner| owner.process == Some(process) && owner.peer.uid == uid);
        if !is_same {
            return Err(refusal());
        }
        // An invalid page only leaves the stack without counters in lists.
        if let Some(view) = descriptors.first().and_then(|page| CountersView::open(page.as_fd()).ok()) {
            stack.counters = Some(view);
        }
        stack.client = id;
        let reply = Reply::Stack(stack.facts.clone());
        self.clients.get_mut(&before).into_iter().for_each(|owner| _ = owner.stacks.remove(&number));
        self.clients.get_mut(&id).into_iter().for_each(|owner| _ = owner.stacks.insert(number));
        if self.clients.get(&before).is_some_and(|owner| !owner.is_connected() && owner.stacks.is_empty()) {
            self.clients.remove(&before);
        }
        Ok(Answer::plain(reply))
    }
}

fn copies<D: Dataplane>(kept: &D::Kept, from: usize, count: usize, thing: &str) -> Result<Vec<OwnedFd>, Refusal> {
    let copies = D::sockets(kept, from, count).map_err(|error| Refusal::new(Code::Kernel, thing, error))?;
    if copies.is_empty() { Err(Refusal::new(Code::NoQueue, thing, "there are not as many")) } else { Ok(copies) }
}

fn thing(wish: &OpenStack) -> String {
    format!("cannot open a stack on {}", super::client::name(&wish.interface))
}

/// The interface, if an application may get frames of it.
pub(super) fn usable_link<'a>(links: &'a [Link], interface: &str, thing: &str) -> Result<&'a Link, Refusal> {
    let number: Option<u32> = interface.parse().ok();
    let by_name = links.iter().find(|link| link.name == interface);
    let link = by_name.or_else(|| links.iter().find(|link| Some(link.index) == number));
    let refuse = |code, reason: &str, next: &str| Err(Refusal::new(code, thing, reason).next(next));
    let Some(link) = link else {
        return refuse(Code::NoInterface, Code::NoInterface.description(), "list them with: ip link");
    };
    if let Some((parent, vlan)) = link.vlan {
        let parent = links.iter().find(|link| link.index == parent).map_or("its parent", |link| link.name.as_str());
        let next = format!("open it on {parent} and steer VLAN {vlan}");
        return refuse(Code::InterfaceKind, "it is a VLAN of another interface", &next);
    }
    if !link.is_plain_ethernet || link.is_loopback || link.master != 0 {
        return refuse(Code::InterfaceKind, Code::InterfaceKind.description(), "choose an Ethernet interface");
    }
    if !link.is_up {
        let next = format!("bring it up: ip link set {} up", link.name);
        return refuse(Code::InterfaceDown, Code::InterfaceDown.description(), &next);
    }
    Ok(link)
}
