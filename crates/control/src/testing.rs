//! A dataplane that only records the calls, for the tests of the layers above.

use crate::dataplane::{Begun, Dataplane, FeedPlane, Opened, OpenedFeed, Step};
use crate::registry::RecordStore;
use crate::state::Record;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use sidestep_control_api::message::{
    Code, Entry, FeedFacts, Mode, OpenStack, Prepared, ProgramLine, QueueFacts, Queues, Refusal, RingSizes, StackFacts,
};
use sidestep_control_api::table::Link;
use sidestep_sys::Problem;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The recorded calls, and the failures to inject.
#[derive(Default)]
pub(crate) struct Fake {
    /// One copy exists for each unbound socket.
    pub(crate) unbound: Rc<()>,
    pub(crate) bind_fails: bool,
    pub(crate) open: BTreeSet<u32>,
    pub(crate) steered: BTreeMap<Entry, u32>,
    pub(crate) ports: BTreeMap<u16, u32>,
    /// The interface of each.
    pub(crate) interfaces: BTreeMap<u32, u32>,
    /// Flows that the kernel has, each with its interface, and ports with such.
    pub(crate) passed: BTreeSet<(u32, Entry)>,
    pub(crate) shared: BTreeSet<u16>,
    /// Stacks whose device has come to use other queues, too.
    pub(crate) elsewhere: BTreeSet<u32>,
    pub(crate) adoptable: BTreeSet<u32>,
    pub(crate) lost: Vec<u32>,
    pub(crate) close_fails: bool,
    pub(crate) has_ended: bool,
    pub(crate) programs: u32,
    pub(crate) released: Vec<String>,
    /// Feeds with their interface and entries.
    pub(crate) feeds: BTreeMap<u32, (u32, BTreeSet<Entry>)>,
    /// Entries that go nowhere else.
    pub(crate) drops: BTreeSet<(u32, Entry)>,
    /// Every change of them, in order: stacks made, and drops set and ended.
    pub(crate) order: Vec<String>,
    pub(crate) doorbells: BTreeSet<(u32, u32)>,
    pub(crate) lost_feeds: Vec<u32>,
    /// Closed feeds whose memory is still mapped.
    pub(crate) held: BTreeSet<u32>,
    pub(crate) beats: Cell<u32>,
    /// The rings of a feed.
    pub(crate) rings: Option<u32>,
}

pub(crate) fn stack_facts(id: u32, interface: &str, queue: u32) -> StackFacts {
    StackFacts {
        id,
        interface: interface.into(),
        index: 2,
        queues: vec![QueueFacts { queue, mode: Mode::Copy, napi_id: 0 }],
        missing: Vec::new(),
        elsewhere: Vec::new(),
        frames: 4096,
        frame_bytes: 2048,
        headroom: 0,
        multi_buffer: false,
        no_huge_pages: Some("none reserved".into()),
        rings: RingSizes { fill: 2048, completion: 2048, receive: 2048, transmit: 2048 },
        mode: Mode::Copy,
        downgrades: Vec::new(),
        tx_budget: 32,
        busy_poll: None,
        deadline_ns: 1_000_000_000,
    }
}

pub(crate) fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.into(),
        mac: [2; 6],
        mtu: 1500,
        is_up: true,
        is_loopback: false,
        is_plain_ethernet: true,
        receive_queues: 64,
        transmit_queues: 64,
        vlan: None,
        master: 0,
    }
}

fn file() -> OwnedFd {
    File::open("/dev/null").unwrap().into()
}

impl Dataplane for Fake {
    /// The number of bound queues, and of all.
    type Kept = (Rc<()>, u32, u32);

    fn queues(&self, link: &Link) -> u32 {
        u32::from(link.receive_queues)
    }

    fn plan(&self, link: &Link, wish: &OpenStack) -> Result<u32, Refusal> {
        Ok(match &wish.queues {
            Queues::Any => 1,
            Queues::These(queues) => queues.len() as u32,
            Queues::Every => u32::from(link.receive_queues),
        })
    }

    fn begin(&mut self, _link: &Link, wish: &OpenStack, queues: u32) -> Result<Begun<Self::Kept>, Refusal> {
        let OpenStack { frame_bytes, headroom, .. } = *wish;
        let (frames, rings) = (wish.geometry(queues).frames, stack_facts(0, "", 0).rings);
        let facts = Prepared { frames, frame_bytes, headroom, rings, sockets: queues };
        Ok(Begun { kept: (Rc::clone(&self.unbound), 0, queues), facts, frames: file() })
    }

    fn sockets((_, _, queues): &Self::Kept, from: usize, count: usize) -> io::Result<Vec<OwnedFd>> {
        Ok((from..*queues as usize).take(count).map(|_| file()).collect())
    }

    fn open(
        &mut self,
        stack: u32,
        _label: &str,
        link: &Link,
        wish: &OpenStack,
        (kept, bound, queues): Self::Kept,
    ) -> Result<Step<Self::Kept>, Refusal> {
        if self.bind_fails {
            return Err(Refusal::plain(Code::QueueBusy, "cannot open a stack"));
        }
        if bound + 1 < queues {
            return Ok(Step::More((kept, bound + 1, queues)));
        }
        self.open.insert(stack);
        self.interfaces.insert(stack, link.index);
        let mut facts = StackFacts { index: link.index, ..stack_facts(stack, &link.name, 0) };
        facts.queues = (0..queues).map(|queue| QueueFacts { queue, ..facts.queues[0] }).collect();
        (facts.frames, facts.frame_bytes) = (wish.geometry(queues).frames, wish.frame_bytes);
        Ok(Step::Done(Box::new(Opened { facts, heartbeat: file() })))
    }

    fn adopt(&mut self, facts: &StackFacts) -> Result<Vec<Entry>, Problem> {
        if self.adoptable.contains(&facts.id) {
            self.open.insert(facts.id);
            Ok(self.steered.iter().filter(|(_, stack)| **stack == facts.id).map(|(entry, _)| *entry).collect())
        } else {
            Err(Problem::failed("cannot take over", "it is gone"))
        }
    }

    fn settle(&mut self) {}

    fn steer(&mut self, stack: u32, entry: &Entry, _links: &[Link]) -> Result<(), Refusal> {
        match self.steered.get(entry) {
            Some(owner) if *owner != stack => Err(Refusal::plain(Code::Taken, format!("cannot steer {entry}"))),
            _ => {
                self.order.push(format!("steer {entry}"));
                self.steered.insert(*entry, stack);
                Ok(())
            }
        }
    }

    fn elsewhere(&self, stack: u32) -> Option<String> {
        self.elsewhere.contains(&stack).then(|| "packets may come by other queues".into())
    }

    fn unsteer(&mut self, _stack: u32, entry: &Entry) -> Result<(), Refusal> {
        self.steered.remove(entry);
        Ok(())
    }

    fn share_flow(&mut self, stack: u32, flow: &Entry) -> Result<(), Refusal> {
        self.passed.insert((self.interfaces[&stack], *flow));
        Ok(())
    }

    fn pass(&mut self, stack: u32, flow: &Entry) -> Result<(), Refusal> {
        self.share_flow(stack, flow)
    }

    fn unpass(&mut self, interface: u32, flow: &Entry) -> Result<(), Problem> {
        self.passed.remove(&(interface, *flow));
        Ok(())
    }

    fn passed(&self) -> Vec<(u32, Entry)> {
        self.passed.iter().copied().collect()
    }

    fn share_port(&mut self, _stack: u32, port: u16) -> Result<(), Refusal> {
        self.shared.insert(port);
        Ok(())
    }

    fn steer_ports(&mut self, stack: u32, ports: &[u16]) -> Result<(), Refusal> {
        self.ports.extend(ports.iter().map(|port| (*port, stack)));
        Ok(())
    }

    fn ports(&self, stack: u32) -> Vec<u16> {
        self.ports.iter().filter(|(_, owner)| **owner == stack).map(|(port, _)| *port).collect()
    }

    fn programs(&self) -> Vec<ProgramLine> {
        let line = |index| ProgramLine {
            interface: format!("eth{index}"),
            index,
            id: 1,
            is_generic: false,
            stacks: 0,
            feeds: 0,
        };
        (0..self.programs).map(line).collect()
    }

    fn release(&mut self, interface: &str) -> Result<(), Refusal> {
        self.released.push(interface.to_owned());
        Ok(())
    }

    fn counted(&self, stack: u32) -> Vec<(String, u64)> {
        vec![("pass-stale".into(), u64::from(stack))]
    }

    fn close(&mut self, stack: u32) -> Result<(), Problem> {
        if self.close_fails {
            return Err(Problem::failed("cannot close", "not now"));
        }
        self.open.remove(&stack);
        self.steered.retain(|_, owner| *owner != stack);
        self.ports.retain(|_, owner| *owner != stack);
        Ok(())
    }

    fn look(&mut self, _links: &[Link]) -> Vec<(u32, Refusal)> {
        let refuse = |stack| (stack, Refusal::new(Code::Revoked, "cannot go on", "the interface is gone"));
        std::mem::take(&mut self.lost).into_iter().map(refuse).collect()
    }

    fn end(&mut self) -> Result<(), Problem> {
        self.has_ended = true;
        Ok(())
    }
}

impl FeedPlane for Fake {
    fn feed_size(&self, _link: &Link) -> (u32, u64) {
        (self.rings.unwrap_or(1), 1 << 20)
    }

    fn open_feed(&mut self, feed: u32, _label: &str, link: &Link) -> Result<OpenedFeed, Refusal> {
        let (rings, element_bytes) = self.feed_size(link);
        self.feeds.insert(feed, (link.index, BTreeSet::new()));
        let (interface, index, cells, mode) = (link.name.clone(), link.index, 16384, Mode::Copy);
        Ok(OpenedFeed {
            facts: FeedFacts { feed, interface, index, rings, cells, element_bytes, mode },
            map: file(),
            map_id: feed,
        })
    }

    fn is_held(&self, map_id: u32) -> bool {
        self.feeds.contains_key(&map_id) || self.held.contains(&map_id)
    }

    fn feed_map(&self, _feed: u32) -> Result<OwnedFd, Refusal> {
        Ok(file())
    }

    fn close_feed(&mut self, feed: u32) -> Result<(), Problem> {
        if self.close_fails {
            return Err(Problem::failed("cannot close", "not now"));
        }
        self.feeds.remove(&feed);
        self.doorbells.retain(|(of, _)| *of != feed);
        Ok(())
    }

    fn feed_add(&mut self, feed: u32, entry: &Entry, _links: &[Link]) -> Result<(), Refusal> {
        self.feeds.get_mut(&feed).unwrap().1.insert(*entry);
        Ok(())
    }

    fn feed_take(&mut self, feed: u32, entry: &Entry) -> Result<(), Problem> {
        let Some((interface, entries)) = self.feeds.get_mut(&feed) else { return Ok(()) };
        let interface = *interface;
        entries.remove(entry);
        if !self.feeds.values().any(|(on, entries)| *on == interface && entries.contains(entry)) {
            self.drops.remove(&(interface, *entry));
        }
        Ok(())
    }

    fn set_drop(&mut self, interface: u32, entry: &Entry, drops: bool) -> Result<(), Problem> {
        self.order.push(format!("{} {entry}", if drops { "drop" } else { "pass" }));
        match drops {
            true => _ = self.drops.insert((interface, *entry)),
            false => _ = self.drops.remove(&(interface, *entry)),
        }
        Ok(())
    }

    fn open_doorbell(&mut self, feed: u32) -> Result<(u32, OwnedFd, OwnedFd), Refusal> {
        let slot = (0..).find(|slot| !self.doorbells.contains(&(feed, *slot))).unwrap();
        self.doorbells.insert((feed, slot));
        Ok((slot, file(), file()))
    }

    fn close_doorbell(&mut self, feed: u32, slot: u32) -> Result<(), Problem> {
        self.doorbells.remove(&(feed, slot));
        Ok(())
    }

    fn lost_feeds(&mut self, _links: &[Link]) -> Vec<(u32, Refusal)> {
        let refuse = |feed| (feed, Refusal::new(Code::Revoked, "cannot go on", "the interface is gone"));
        std::mem::take(&mut self.lost_feeds).into_iter().map(refuse).collect()
    }

    fn beat(&self) -> Result<(), Problem> {
        self.beats.set(self.beats.get() + 1);
        Ok(())
    }
}

/// Sends a packet with descriptors, if the other end still listens, and closes them on a thread: the last one to close
/// them waits, and that must not be a test.
pub(crate) fn send_with(socket: BorrowedFd<'_>, packet: &str, descriptors: Vec<OwnedFd>) {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    let _ = sendmsg(socket, &[io::IoSlice::new(packet.as_bytes())], &mut control, SendFlags::NOSIGNAL);
    std::thread::spawn(move || drop(descriptors));
}

impl RecordStore for () {
    fn store(&self, _record: &Record) -> io::Result<()> {
        Ok(())
    }

    fn forget(&self, _stack: u32) {}
}
