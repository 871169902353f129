//! The real dataplane: the steering program on interfaces, AF_XDP sockets on their queues.

mod entry;
mod feeds;
mod handed_over;
mod interface;
mod known;
mod pinned;
mod placed;
mod socket;
#[cfg(test)]
mod tests;

use crate::dataplane::{Begun, Dataplane, Opened, Step};
use entry::{ours, theirs};
use feeds::PlacedFeed;
use interface::Interface;
use known::Known;
use pinned::pinned;
use placed::Placed;
use sidestep_control_api::message::{
    Code, ELSEWHERE_MAX, Entry, Mode, NAME_BYTES_MAX, OpenStack, ProgramLine, Refusal, StackFacts, ranges,
};
use sidestep_control_api::rss::Spread;
use sidestep_control_api::table::Link;
use sidestep_sys::printable::printable;
use sidestep_sys::problem::{note, say};
use sidestep_sys::xdp::{MULTI_BUFFER_BYTES_MAX, XskFacts};
use sidestep_sys::{Problem, ethtool};
use sidestep_xdp_steering::{self as steer, StackId, StackOptions, Steering};
use socket::{Bound, Sockets, receiving};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The number of deadlines (of a second) for which an owner of TCP may be silent before the kernel gets, and resets,
/// its connections.
const TCP_DEADLINES: u32 = 60;
/// The number in zero copy, where a full RX ring can stop the queue for the kernel's packets, too (decision 0023).
const TCP_DEADLINES_ZERO_COPY: u32 = 5;

/// Programs and sockets of one network namespace.
pub(crate) struct Xdp {
    /// A BPF file system with one directory per interface.
    pins: PathBuf,
    /// The interfaces to serve, attached from start to end; if empty, any, attached from its first stack on.
    served: Vec<String>,
    /// True to detach from an interface with its last stack.
    detaches_unused: bool,
    interfaces: BTreeMap<u32, Interface>,
    /// The number of receive queues of each interface when this control attached the program.
    queues_at_attach: BTreeMap<u32, u32>,
    stacks: BTreeMap<u32, Placed>,
    feeds: BTreeMap<u32, PlacedFeed>,
    known: Known,
}

impl Xdp {
    /// Adopts the pins of an earlier control, and attaches to the named interfaces.
    pub(crate) fn start(
        pins: &Path,
        served: &[String],
        detaches_unused: bool,
        links: &[Link],
    ) -> Result<Self, Problem> {
        steer::mount(pins)?;
        let mut xdp = Self {
            pins: pins.to_owned(),
            served: served.to_vec(),
            detaches_unused,
            interfaces: BTreeMap::new(),
            queues_at_attach: BTreeMap::new(),
            stacks: BTreeMap::new(),
            feeds: BTreeMap::new(),
            known: Known::default(),
        };
        for (index, directory) in pinned(pins) {
            xdp.adopt_program(index, &directory)?;
        }
        match xdp.serve(links) {
            Ok(()) => Ok(xdp),
            Err(problem) => {
                xdp.abandon();
                Err(problem)
            }
        }
    }

    fn serve(&mut self, links: &[Link]) -> Result<(), Problem> {
        for name in self.served.clone() {
            let link = links.iter().find(|link| link.name == name);
            let link = link.ok_or_else(|| {
                Problem::usage(format!("cannot serve {name}"), "there is no such interface").next("list them: ip link")
            })?;
            self.program_on(link, Mode::ZeroCopy).map_err(Problem::from)?;
        }
        Ok(())
    }

    fn directory(&self, index: u32) -> PathBuf {
        self.pins.join(index.to_string())
    }

    /// The program on an interface, attached now if it is not yet.
    fn program_on(&mut self, link: &Link, mode: Mode) -> Result<&mut Interface, Refusal> {
        // A veth does not run the program on queues that were added after attachment (Linux 6.18).
        let has_others = self.queues_at_attach.get(&link.index).is_some_and(|queues| *queues != receiving(link));
        if has_others && self.interfaces.contains_key(&link.index) && !self.is_used(link.index) {
            self.detach(link.index)
                .map_err(|problem| Refusal::of(Code::Kernel, format!("cannot serve {}", link.name), &problem))?;
        }
        if !self.interfaces.contains_key(&link.index) {
            // The first user must not choose for later ones: the program runs in the driver if that supports it.
            let mode = if mode == Mode::Generic { Mode::Copy } else { mode };
            let interface = Interface::attach(link, mode, self.directory(link.index))?;
            self.interfaces.insert(link.index, interface);
            // An XDP program may give the device more queues.
            self.queues_at_attach.insert(link.index, receiving(link));
        }
        let missing = || Refusal::plain(Code::Revoked, format!("cannot serve {}", link.name));
        self.interfaces.get_mut(&link.index).ok_or_else(missing)
    }

    fn is_used(&self, index: u32) -> bool {
        let has_feed = self.feeds.values().any(|feed| feed.interface == index);
        has_feed || self.stacks.values().any(|placed| placed.interface == index)
    }

    /// Detaches from an interface without stacks and feeds, if configured: attaching and detaching stops some devices for
    /// seconds, and drops their link.
    fn leave(&mut self, index: u32) -> Result<(), Problem> {
        let Some(interface) = self.interfaces.get(&index) else { return Ok(()) };
        let is_served = self.served.contains(&interface.steering.facts().interface);
        if !self.detaches_unused || is_served || self.is_used(index) { Ok(()) } else { self.detach(index) }
    }

    fn detach(&mut self, index: u32) -> Result<(), Problem> {
        let Some(interface) = self.interfaces.remove(&index) else { return Ok(()) };
        note(format!("detached from {}", interface.steering.facts().interface));
        Steering::remove(&self.directory(index)).map(|_| ())
    }

    /// The queues of an interface that have stacks.
    fn used(&self, link: &Link) -> Vec<u32> {
        let here = self.stacks.values().filter(|placed| placed.interface == link.index);
        here.flat_map(|placed| placed.queues.iter().copied()).collect()
    }

    /// Enters the stack and its sockets into the program's tables.
    fn enter(
        &mut self,
        stack: u32,
        label: &str,
        link: &Link,
        wish: &OpenStack,
        Bound { queues, missing }: Bound,
    ) -> Result<Opened, Refusal> {
        let tables = self.program_on(link, wish.mode)?.steering.tables();
        let thing = || format!("cannot open a stack on {}", link.name);
        let failed = |problem: Problem| Refusal::of(Code::Kernel, thing(), &problem);
        let (facts, sockets): (Vec<XskFacts>, Vec<_>) = queues.into_iter().unzip();
        let deadline_ns = steer::DEADLINE_DEFAULT.as_nanos() as u64;
        let told = StackFacts::new(stack, &facts, deadline_ns).ok_or_else(|| Refusal::plain(Code::NoQueue, thing()))?;
        let frame_bytes_max = match told.multi_buffer {
            true => MULTI_BUFFER_BYTES_MAX,
            false => wish.geometry(1).receive_bytes_max(),
        };
        if socket::wants_multi_buffer(link, wish) && !told.multi_buffer {
            socket::note_no_multi_buffer(link, frame_bytes_max);
        }
        let options = StackOptions {
            label: format!("#{stack} {label}"),
            frame_bytes_max,
            first_queue: facts[0].queue,
            tcp_deadlines: if told.mode == Mode::ZeroCopy { TCP_DEADLINES_ZERO_COPY } else { TCP_DEADLINES },
        };
        let (id, heartbeat) = tables.stack_create(&options).map_err(failed)?;
        for (facts, socket) in facts.iter().zip(&sockets) {
            tables.set_socket(id, facts.queue, socket.socket()).map_err(|problem| {
                // The next control removes a leftover.
                let _ = tables.stack_remove(id);
                failed(problem)
            })?;
        }
        let queues: Vec<u32> = facts.iter().map(|facts| facts.queue).collect();
        let receiving = receiving(link);
        let elsewhere: Vec<u32> = (0..receiving).filter(|queue| !queues.contains(queue)).take(ELSEWHERE_MAX).collect();
        let mut told = StackFacts { missing, elsewhere: elsewhere.clone(), ..told };
        self.stacks.insert(stack, Placed { interface: link.index, queues, receiving, elsewhere, id });
        told.downgrades
            .splice(0..0, self.interfaces.get(&link.index).and_then(|interface| interface.downgrade(wish.mode)));
        Ok(Opened { facts: told, heartbeat })
    }

    fn bind(&mut self, link: &Link, wish: &OpenStack, kept: &mut Sockets) -> Result<bool, Refusal> {
        let used = self.used(link);
        let best = self.program_on(link, wish.mode)?.mode();
        kept.bind(link, wish, &used, best, &mut self.known)
    }

    /// Stacks whose interface receives by more or fewer queues than when they were opened: their packets may now come
    /// by others.
    fn with_other_queues(&self, links: &[Link]) -> Vec<(u32, Refusal)> {
        let mut revoked = Vec::new();
        for index in self.interfaces.keys() {
            let Some(link) = links.iter().find(|link| link.index == *index) else { continue };
            let now = receiving(link);
            let others = self.stacks.iter().filter(|(_, placed)| placed.interface == *index && placed.receiving != now);
            revoked.extend(others.map(|(stack, placed)| {
                let reason = format!("{} receives by {now} queues, no longer by {}", link.name, placed.receiving);
                (*stack, Refusal::new(Code::Revoked, format!("cannot go on with stack {stack}"), reason))
            }));
        }
        revoked
    }

    fn placed(&self, stack: u32) -> Result<(&Interface, &Placed), Refusal> {
        let found = self.stacks.get(&stack).and_then(|placed| Some((self.interfaces.get(&placed.interface)?, placed)));
        found.ok_or_else(|| Refusal::plain(Code::Revoked, format!("cannot use stack {stack}")))
    }
}

impl Dataplane for Xdp {
    type Kept = Sockets;

    fn queues(&self, link: &Link) -> u32 {
        socket::steerable(link)
    }

    fn plan(&self, link: &Link, wish: &OpenStack) -> Result<u32, Refusal> {
        self.refuse_unserved(link, "a stack")?;
        socket::plan(link, wish, &self.used(link))
    }

    fn attach(&mut self, link: &Link, wish: &OpenStack) -> Result<u32, Refusal> {
        self.program_on(link, wish.mode)?;
        let planned = socket::plan(link, wish, &self.used(link));
        if planned.is_err()
            && let Err(problem) = self.leave(link.index)
        {
            say(problem);
        }
        planned
    }

    fn begin(&mut self, link: &Link, wish: &OpenStack, queues: u32) -> Result<Begun<Sockets>, Refusal> {
        socket::make(link, wish, queues)
    }

    fn sockets(kept: &Sockets, from: usize, count: usize) -> io::Result<Vec<OwnedFd>> {
        kept.copies(from, count)
    }

    fn open(
        &mut self,
        stack: u32,
        label: &str,
        link: &Link,
        wish: &OpenStack,
        mut kept: Sockets,
    ) -> Result<Step<Sockets>, Refusal> {
        let opened = match self.bind(link, wish, &mut kept) {
            Ok(false) => return Ok(Step::More(kept)),
            Ok(true) => kept.finish().and_then(|bound| self.enter(stack, label, link, wish, bound)),
            Err(refusal) => Err(refusal),
        };
        if opened.is_err()
            && let Err(problem) = self.leave(link.index)
        {
            say(problem);
        }
        opened.map(|opened| Step::Done(Box::new(opened)))
    }

    fn adopt(&mut self, facts: &StackFacts) -> Result<Vec<Entry>, Problem> {
        let lost = |why: &str| Problem::failed(format!("cannot take over stack {}", facts.id), why);
        let interface = self.interfaces.get(&facts.index).ok_or_else(|| lost("its interface or program is gone"))?;
        let tables = interface.steering.tables();
        let label = format!("#{} ", facts.id);
        let row = tables.stacks()?.into_iter().find(|row| row.label.starts_with(&label));
        let id = row.ok_or_else(|| lost("the program does not know it"))?.id;
        let owned = tables.entries()?.into_iter().filter(|(_, owner)| *owner == id);
        let entries = owned.filter_map(|(entry, _)| theirs(&entry)).collect();
        let queues: Vec<u32> = facts.queues.iter().map(|queue| queue.queue).collect();
        let highest = queues.iter().chain(&facts.elsewhere).max().copied().unwrap_or(0);
        // The queues of a device with more than are reported are unknown; the entry is accepted.
        let is_cut = facts.elsewhere.len() == ELSEWHERE_MAX;
        let receiving = ethtool::receive_queues(&facts.interface).ok();
        if receiving.is_some_and(|receiving| receiving != highest + 1 && !is_cut) {
            return Err(lost("the queues of the interface were changed"));
        }
        let (receiving, elsewhere) = (receiving.unwrap_or(highest + 1), facts.elsewhere.clone());
        self.stacks.insert(facts.id, Placed { interface: facts.index, queues, receiving, elsewhere, id });
        Ok(entries)
    }

    fn settle(&mut self) {
        let known: Vec<(u32, StackId)> = self.stacks.values().map(|placed| (placed.interface, placed.id)).collect();
        for (index, interface) in &self.interfaces {
            let tables = interface.steering.tables();
            for row in tables.stacks().unwrap_or_default() {
                if !known.contains(&(*index, row.id))
                    && let Err(problem) = tables.stack_remove(row.id)
                {
                    say(problem);
                }
            }
        }
        for index in self.interfaces.keys().copied().collect::<Vec<_>>() {
            self.leave(index).unwrap_or_else(say);
        }
    }

    fn steer(&mut self, stack: u32, entry: &Entry, links: &[Link]) -> Result<(), Refusal> {
        let (interface, placed) = self.placed(stack)?;
        let is_upon = |link: &Link| link.vlan.is_some_and(|(parent, _)| parent == placed.interface);
        interface.refuse_unseen(entry, links.iter().any(is_upon))?;
        let name = interface.name();
        placed.refuse_elsewhere(entry, &name, || Spread::read(&name))?;
        let tables = interface.steering.tables();
        let wanted = ours(entry);
        let is_taken = tables.owner(&wanted).ok().flatten().is_some_and(|owner| owner != placed.id);
        let code = if is_taken { Code::Taken } else { Code::Kernel };
        let added = tables.add(placed.id, &wanted);
        added.map_err(|problem| Refusal::of(code, format!("cannot steer {entry}"), &problem))
    }

    fn elsewhere(&self, stack: u32) -> Option<String> {
        let (interface, placed) = self.placed(stack).ok()?;
        let name = interface.name();
        placed.elsewhere(&name, || Spread::read(&name))
    }

    fn unsteer(&mut self, stack: u32, entry: &Entry) -> Result<(), Refusal> {
        let (interface, placed) = self.placed(stack)?;
        let removed = interface.steering.tables().remove(placed.id, &ours(entry));
        let failed = |problem: Problem| Refusal::of(Code::Kernel, format!("cannot give back {entry}"), &problem);
        removed.map(|_| ()).map_err(failed)
    }

    fn share_flow(&mut self, stack: u32, flow: &Entry) -> Result<(), Refusal> {
        self.share_with_kernel(stack, flow)
    }

    fn pass(&mut self, stack: u32, flow: &Entry) -> Result<(), Refusal> {
        self.pass_flow(stack, flow)
    }

    fn unpass(&mut self, interface: u32, flow: &Entry) -> Result<(), Problem> {
        self.unpass_flow(interface, flow)
    }

    fn passed(&self) -> Vec<(u32, Entry)> {
        self.passed_flows()
    }

    fn share_port(&mut self, stack: u32, port: u16) -> Result<(), Refusal> {
        self.share(stack, port)
    }

    fn steer_ports(&mut self, stack: u32, ports: &[u16]) -> Result<(), Refusal> {
        let (interface, placed) = self.placed(stack)?;
        let thing = format!("cannot reserve ports for stack {stack}");
        interface.refuse_merged(&thing)?;
        let added = interface.steering.tables().add_ports(placed.id, ports);
        added.map_err(|problem| Refusal::of(Code::Kernel, thing, &problem))
    }

    fn ports(&self, stack: u32) -> Vec<u16> {
        self.placed(stack)
            .map(|(interface, placed)| interface.steering.tables().ports_of(placed.id))
            .unwrap_or_default()
    }

    fn programs(&self) -> Vec<ProgramLine> {
        let line = |(index, interface): (&u32, &Interface)| {
            let stacks = self.stacks.values().filter(|placed| placed.interface == *index).count() as u32;
            let is_generic = interface.mode() == Mode::Generic;
            let facts = interface.steering.facts();
            let id = facts.program_id;
            let feeds = self.feeds.values().filter(|feed| feed.interface == *index).count() as u32;
            ProgramLine { interface: interface.name(), index: *index, id, is_generic, stacks, feeds }
        };
        self.interfaces.iter().map(line).collect()
    }

    fn release(&mut self, interface: &str) -> Result<(), Refusal> {
        let thing = || format!("cannot detach from {}", printable(interface, NAME_BYTES_MAX));
        let found = self.interfaces.iter().find(|(_, it)| it.name() == interface).map(|(index, _)| *index);
        let index = found.ok_or_else(|| {
            Refusal::new(Code::NoInterface, thing(), "no program of ours is attached to it").next("see: sidestep ps")
        })?;
        if self.served.iter().any(|served| served == interface) {
            return Err(Refusal::new(Code::Limit, thing(), "the control plane serves it to its end, by its options")
                .next("end it, and start it without --interface"));
        }
        if self.is_used(index) {
            let stacks = self.stacks.iter().filter(|(_, placed)| placed.interface == index);
            let stacks = ranges(stacks.map(|(stack, _)| *stack));
            let on_it = if stacks.is_empty() { "a feed".to_owned() } else { format!("stack {stacks}") };
            return Err(Refusal::new(Code::Taken, thing(), format!("{on_it} is on it")).next("see whose: sidestep ps"));
        }
        self.detach(index).map_err(|problem| Refusal::of(Code::Kernel, thing(), &problem))
    }

    fn counted(&self, stack: u32) -> Vec<(String, u64)> {
        let counters = self.placed(stack).ok().and_then(|(interface, _)| interface.steering.tables().counters().ok());
        let wrong = |counter: &steer::Counter| counter.should_be_zero() && counter.value != 0;
        let wrong = counters.into_iter().flatten().filter(wrong);
        wrong.map(|counter| (counter.name().to_owned(), counter.value)).collect()
    }

    fn close(&mut self, stack: u32) -> Result<(), Problem> {
        let Some(placed) = self.stacks.get(&stack).cloned() else { return Ok(()) };
        if let Some(interface) = self.interfaces.get(&placed.interface) {
            interface.steering.tables().stack_remove(placed.id)?;
        }
        self.stacks.remove(&stack);
        placed.queues.iter().for_each(|queue| self.known.close(placed.interface, *queue));
        self.leave(placed.interface)
    }

    fn look(&mut self, links: &[Link]) -> Vec<(u32, Refusal)> {
        let mut lost = Vec::new();
        for (index, interface) in &mut self.interfaces {
            let link = links.iter().find(|link| link.index == *index);
            match link {
                Some(link) if interface.is_attached() => interface.follow(link),
                _ => lost.push((*index, link.is_some())),
            }
        }
        let mut revoked = Vec::new();
        for (index, is_there) in lost {
            let reason = if is_there { "its program was detached" } else { "the interface is gone" };
            self.interfaces.remove(&index);
            self.known.forget(index);
            if let Err(problem) = Steering::remove(&self.directory(index)) {
                say(problem);
            }
            let stacks = self.stacks.iter().filter(|(_, placed)| placed.interface == index).map(|(stack, _)| *stack);
            let refuse =
                |stack| (stack, Refusal::new(Code::Revoked, format!("cannot go on with stack {stack}"), reason));
            revoked.extend(stacks.map(refuse));
        }
        revoked.extend(self.with_other_queues(links));
        revoked
    }

    fn end(&mut self) -> Result<(), Problem> {
        self.interfaces.clear();
        self.stacks.clear();
        self.feeds.clear();
        Self::cleanup(&self.pins).map(|_| ())
    }
}
