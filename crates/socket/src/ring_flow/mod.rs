//! Readers of packets that the steering program copies into rings ("feeds"): UDP groups and ports of this host, and taps on traffic of
//! others. A packet takes no system call and no wake-up, any number of readers share it, and each of them knows exactly what it lost.
//!
//! ```no_run
//! use sidestep_socket::ring_flow::{Flow, FlowOptions, Verdict};
//!
//! let mut flow = Flow::open(&FlowOptions::on("eth1"))?;
//! let group = flow.join("239.1.1.1:5000".parse().unwrap(), None, Verdict::Drop)?;
//! println!("{}", flow.path(group));
//! loop {
//!     if let Some(packet) = flow.receive() {
//!         println!("{} bytes from {}", packet.payload().len(), packet.source());
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), sidestep_sys::Problem>(())
//! ```
//!
//! # Entries
//!
//! A group or a port has a kernel socket of the flow's own, which proves the right to it: the kernel's rules and the memberships that
//! routers see are as without rings. A tap has none, and is for root and for groups that the administrator has named.
//!
//! [`Verdict::Pass`] copies: other sockets of the host go on receiving. [`Verdict::Drop`] takes the packets out of the kernel's way, as
//! long as nobody else on the host would lose them; [`Flow::path`] has the verdict in force, and why it is not the one asked for.
//!
//! # Order, fragments, other interfaces
//!
//! Packets of one receive queue come in their order. Fragments, packets with IP options or IPv6 extension headers, and what
//! comes by other interfaces, are not in rings, and while a ring carries an entry its kernel socket drops everything. These are in no
//! counter of the flow. A checksum that is wrong is counted, and its packet skipped.
//!
//! # Without control
//!
//! Groups and ports are read from their kernel sockets while no ring carries them, and the path has the reason. The feed is tried again
//! every second. At the change from kernel sockets to rings, packets that come while control is answering may come twice. At
//! the change back, the rings are read to their end first. A control that is ended in order tells its readers first: nothing is missing then, and
//! packets may come twice. Where it is killed, or its program is detached, packets that came until the flow's thread has learned of it may be
//! missing, and those of the next two seconds may come twice. [`Statistics::fallbacks`] counts the changes.
//!
//! The calls of a flow that ask control wait for it, at most ten seconds: [`Flow::open`], [`Flow::join`], [`Flow::bind`], [`Flow::tap`],
//! [`Flow::leave`]. A flow belongs to the process that opened it.

mod agent;
#[cfg(test)]
mod controlled;
mod link;
mod options;
mod packet;
mod path;
mod rings;
mod session;
mod statistics;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod twin;
mod wait;

pub use options::FlowOptions;
pub use packet::{FACTS_BYTES, Packet};
pub use path::EntryPath;
pub use sidestep_control_api::message::{Entry, Protocol, Verdict};
pub use statistics::{QueueStatistics, Statistics};

use crate::engine::build::checksums_of;
use crate::reason::Reason;
use link::{ENTRIES_MAX, Link, Wanted};
use packet::{Facts, Found};
use path::Why;
use rings::{Look, Rings};
use sidestep_stack::Checksums;
use sidestep_sys::Problem;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use twin::Twin;
use wait::Sleep;

/// A datagram of a kernel socket is at most this long.
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// Looks at empty rings between two looks at kernel sockets, a system call each, where some entries are in rings and others are not.
const LOOKS_PER_TWIN: u32 = 32;

/// The time for which the rings of a dead control are read: until the steering program has noticed, and passes everything.
const RINGS_OUTLIVE_CONTROL: Duration = Duration::from_secs(2);

/// Messages with wrong checksums that one call skips: anybody can send them.
const SKIPPED_MAX: u32 = 64;

/// The number of an entry in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(u32);

impl EntryId {
    /// The number, for C.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The entry of this number.
    pub fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// A reader of feeds: one interface, any number of groups, ports and taps. It is used by one thread.
pub struct Flow {
    link: Link,
    /// The rings in use.
    rings: Option<Rings>,
    /// Rings of a feed that was lost, until they are empty and this time has passed.
    retired: Option<(Rings, Option<Instant>)>,
    twins: Vec<Twin>,
    /// True if some kernel socket has a backlog.
    has_backlog: bool,
    /// The number of changes that the agent has told.
    changes: u64,
    /// The kernel socket that is looked at first.
    turn: usize,
    empty_looks: u32,
    buffer: Vec<u8>,
    /// Found by a wait, and not received yet.
    stashed: Option<Found>,
    checksums: Checksums,
    statistics: Statistics,
    /// Packets that did not get into the rings of earlier feeds.
    dropped: u64,
    options: FlowOptions,
    last_entry: u32,
    sleep: Option<Sleep>,
}

impl Flow {
    /// Opens a flow without entries. Without control it uses kernel sockets: see [`Flow::refusal`].
    pub fn open(options: &FlowOptions) -> Result<Self, Problem> {
        sidestep_sys::interface::check(&options.interface)?;
        let link = Link::start(options)?;
        let mut flow = Self {
            link,
            rings: None,
            retired: None,
            twins: Vec::new(),
            has_backlog: false,
            changes: 0,
            turn: 0,
            empty_looks: 0,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            stashed: None,
            checksums: checksums_of(options.checksums, &options.interface, Checksums::Verify),
            statistics: Statistics::default(),
            dropped: 0,
            options: options.clone(),
            last_entry: 0,
            sleep: None,
        };
        flow.take_news();
        Ok(flow)
    }

    /// Receives a UDP group, of one source or of all. The kernel tells routers of the membership.
    pub fn join(&mut self, group: SocketAddr, source: Option<IpAddr>, verdict: Verdict) -> Result<EntryId, Problem> {
        let entry = Entry::Multicast { group, source, vlan: None };
        let number = self.next_number(&entry)?;
        let index = index_of(&self.options.interface)?;
        let twin = Twin::join(number, group, source, index, &self.options)?;
        self.add(entry.canonical(), verdict, Some(twin))
    }

    /// Receives the datagrams to a UDP port of this host that come by the flow's interface.
    pub fn bind(&mut self, local: SocketAddr, verdict: Verdict) -> Result<EntryId, Problem> {
        let entry = |local| Entry::Listener { protocol: Protocol::Udp, local, vlan: None };
        // The kernel may have to choose the port.
        let checked = SocketAddr::new(local.ip(), local.port().max(1));
        let number = self.next_number(&entry(checked))?;
        let index = index_of(&self.options.interface)?;
        let twin = Twin::bind(number, local, index, &self.options)?;
        self.add(entry(twin.local()).canonical(), verdict, Some(twin))
    }

    /// Receives copies of traffic without a socket: for root, and for groups that the administrator has named (`sidestep control
    /// --allow-tap-gid`). Without control nothing comes: see [`Flow::path`].
    pub fn tap(&mut self, entry: Entry, verdict: Verdict) -> Result<EntryId, Problem> {
        self.next_number(&entry)?;
        self.add(entry.canonical(), verdict, None)
    }

    /// Ends an entry. What is in the rings of it is still received.
    pub fn leave(&mut self, id: EntryId) {
        self.link.remove(id.0);
        if let (Some(place), Some(sleep)) = (self.twins.iter().position(|twin| twin.number == id.0), &self.sleep) {
            sleep.forget(&self.twins[place]);
        }
        self.twins.retain(|twin| twin.number != id.0);
    }

    /// The address of an entry's kernel socket; `None` for a tap, and for an entry that was ended.
    pub fn local(&self, id: EntryId) -> Option<SocketAddr> {
        self.twins.iter().find(|twin| twin.number == id.0).map(Twin::local)
    }

    /// The way that an entry's packets take.
    pub fn path(&self, id: EntryId) -> EntryPath {
        let gone = || EntryPath::without(&Why::plain(Reason::NotWanted), false);
        self.link.path(id.0).unwrap_or_else(gone)
    }

    /// The reason why there is no feed, in control's words, too; `None` if there is one.
    pub fn refusal(&self) -> Option<(Reason, String)> {
        self.link.refusal().map(|why| (why.reason, why.detail))
    }

    /// Packets of its entries, and of all that share its feed, that the steering program could not put into a ring: longer than
    /// 16,320 bytes, or come while another CPU wrote the ring of their queue (in generic mode alone) and then counted with the next
    /// packet of this queue. They are not in [`Statistics::lost`]. The kernel gets them, for other receivers.
    pub fn dropped(&self) -> u64 {
        self.rings.as_ref().map_or(0, Rings::dropped).saturating_add(self.dropped)
    }

    /// The counters. Losses are exact for each queue; those of kernel sockets are not in them.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Receives the next packet; it stays until the next call. Does not wait, and makes no system call while rings carry all entries.
    #[inline]
    pub fn receive(&mut self) -> Option<Packet<'_>> {
        let found = match self.stashed.take() {
            Some(found) => found,
            None => self.find()?,
        };
        match found.facts.queue {
            Some(queue) => self.statistics.queue(queue).packets += 1,
            None => self.statistics.by_kernel += 1,
        }
        Some(Packet::of(&found, &self.buffer))
    }

    /// Looks for a packet, and leaves it in the buffer.
    #[inline]
    fn find(&mut self) -> Option<Found> {
        if self.link.has_news() {
            self.take_news();
        }
        if self.has_backlog
            && let Some(found) = self.find_in_backlog()
        {
            return Some(found);
        }
        for _ in 0..SKIPPED_MAX {
            // What is left of a lost feed came first.
            let is_retired = self.retired.is_some();
            let rings = match &mut self.retired {
                Some((rings, _)) => Some(rings),
                None => self.rings.as_mut(),
            };
            let look = rings.map_or(Look::Empty, |rings| rings.read(&mut self.buffer, &mut self.statistics));
            match look {
                Look::Message(read) => match packet::parse(&self.buffer[..read.length], self.checksums) {
                    Ok(mut found) => {
                        (found.facts.queue, found.facts.lost_before) = (Some(read.queue), read.lost_before);
                        self.empty_looks = 0;
                        return Some(found);
                    }
                    Err(refused) => {
                        if let Some(rings) = self.rings_in_turn() {
                            rings.keep_loss(&read);
                        }
                        self.statistics.count(refused);
                    }
                },
                Look::Broken(_) if is_retired => self.retired = None,
                Look::Broken(error) => {
                    self.dropped = self.dropped();
                    self.rings = None;
                    self.link.give_up(error.to_string());
                }
                Look::Empty if is_retired => {
                    if let Some(found) = self.find_beside_retired() {
                        return Some(found);
                    }
                    if self.retired.is_some() {
                        return None;
                    }
                }
                Look::Empty => return self.find_in_twins(),
            }
        }
        None
    }

    /// The rings that are read now.
    fn rings_in_turn(&mut self) -> Option<&mut Rings> {
        match &mut self.retired {
            Some((rings, _)) => Some(rings),
            None => self.rings.as_mut(),
        }
    }

    /// Reads what kernel sockets had received before rings carried their traffic. It ends: they receive no more.
    #[cold]
    fn find_in_backlog(&mut self) -> Option<Found> {
        for at in 0..self.twins.len() {
            if !self.twins[at].has_backlog {
                continue;
            }
            if let Some(found) = read_twin(&self.twins[at], &mut self.buffer) {
                return Some(found);
            }
            self.twins[at].has_backlog = false;
        }
        self.has_backlog = false;
        None
    }

    /// The rings of a lost feed are empty: their time may have passed.
    #[cold]
    fn find_beside_retired(&mut self) -> Option<Found> {
        let is_over = |(_, until): &(Rings, Option<Instant>)| until.is_none_or(|until| Instant::now() >= until);
        if self.retired.as_ref().is_some_and(is_over) {
            self.retired = None;
            return None;
        }
        self.find_in_twins()
    }

    /// Reads a kernel socket whose traffic no ring carries.
    #[inline]
    fn find_in_twins(&mut self) -> Option<Found> {
        self.empty_looks = self.empty_looks.wrapping_add(1);
        if self.rings.is_some() && !self.empty_looks.is_multiple_of(LOOKS_PER_TWIN) {
            return None;
        }
        self.read_twins()
    }

    fn read_twins(&mut self) -> Option<Found> {
        let count = self.twins.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            let twin = &self.twins[at];
            if twin.is_carried {
                continue;
            }
            if let Some(found) = read_twin(twin, &mut self.buffer) {
                self.turn = (at + 1) % count;
                return Some(found);
            }
        }
        None
    }

    #[cold]
    fn take_news(&mut self) {
        let twins = &mut self.twins;
        let news = self.link.take_news(|number, is_carried| {
            if let Some(twin) = twins.iter_mut().find(|twin| twin.number == number) {
                twin.set_carried(is_carried);
            }
        });
        self.has_backlog = self.twins.iter().any(|twin| twin.has_backlog);
        self.changes += 1;
        if let Some(is_silent) = news.lost
            && let Some(rings) = self.rings.take()
        {
            self.statistics.fallbacks += 1;
            self.dropped = self.dropped.saturating_add(rings.dropped());
            self.retired = Some((rings, is_silent.then(|| Instant::now() + RINGS_OUTLIVE_CONTROL)));
        }
        if let Some(rings) = news.opened {
            // A new control has removed the feeds of the one before: nothing comes by their rings any more.
            self.retired.iter_mut().for_each(|(_, until)| *until = None);
            // What is stashed in it stays.
            self.buffer.resize(self.buffer.len().max(rings.message_bytes_max()), 0);
            self.rings = Some(*rings);
        }
        self.sleep = None;
    }

    fn next_number(&self, entry: &Entry) -> Result<u32, Problem> {
        if let Some(fault) = entry.fault() {
            return Err(Problem::usage(format!("cannot receive {entry}"), fault));
        }
        if self.link.count() >= ENTRIES_MAX {
            let why = format!("a flow has at most {ENTRIES_MAX} entries");
            return Err(Problem::failed(format!("cannot receive {entry}"), why).next("open another flow"));
        }
        Ok(self.last_entry + 1)
    }

    fn add(&mut self, entry: Entry, verdict: Verdict, twin: Option<Twin>) -> Result<EntryId, Problem> {
        if self.link.has(&entry) {
            let why = "this flow has the entry already";
            return Err(Problem::usage(format!("cannot receive {entry}"), why).next("use the one that there is"));
        }
        let proof = twin.as_ref().map(Twin::proof).transpose()?;
        self.last_entry += 1;
        self.twins.extend(twin);
        self.link.add(self.last_entry, Wanted { entry, verdict, proof });
        self.take_news();
        Ok(EntryId(self.last_entry))
    }
}

/// The next datagram of a kernel socket.
fn read_twin(twin: &Twin, buffer: &mut [u8]) -> Option<Found> {
    let (length, source) = twin.receive(buffer)?;
    let facts = Facts {
        source,
        destination: twin.local(),
        protocol: Protocol::Udp,
        received_ns: sidestep_sys::clock::monotonic_ns(),
        vlan: None,
        queue: None,
        lost_before: 0,
    };
    Some(Found { facts, payload: 0..length, packet: 0..0 })
}

fn index_of(interface: &str) -> Result<u32, Problem> {
    let failed = |error: std::io::Error| Problem::failed(format!("cannot find the interface {interface}"), error);
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
    rustix::net::netdevice::name_to_index(&socket, interface).map_err(|error| failed(error.into()))
}
