//! The mirror keeps the shared table equal to the kernel's tables.
//!
//! A change notice is only a hint to read a table again: merging notices fails if the kernel drops routes silently,
//! replaces one of many next hops, or drops notices (ENOBUFS). Reading takes milliseconds at most, and is done at most
//! every `REFRESH_INTERVAL`; unchanged records are not written.

use crate::netlink::{self, Asker, Dirty, Events, Read};
use sidestep_control_api::table::{Address, Incomplete, Link, Neighbour, Route, Writer};
use sidestep_sys::Problem;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The shortest time between two readings of one table: a burst of changes is read once. A first change is read at
/// once.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_millis(5);

/// The interval for a table that does not fit: its readers ask the kernel anyway, and reading it takes long.
const OVERFLOWED_INTERVAL: Duration = Duration::from_secs(10);

/// The interval for a table that the kernel has refused to dump.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);

/// The number of readings spoiled by concurrent changes before the mirror waits for the next iteration.
const READINGS_MAX: usize = 4;

/// The mirror of one network namespace: that of the thread that made it.
pub struct Mirror {
    writer: Writer,
    events: Events,
    asker: Asker,
    dirty: Dirty,
    hosts: Table<Link>,
    addresses: Vec<Address>,
    routes: Table<Route>,
    neighbours: Table<Neighbour>,
}

/// One table as last read.
struct Table<T> {
    records: Vec<T>,
    incomplete: Incomplete,
    read_at: Option<Instant>,
    /// True if the last reading failed; the records are those of an earlier one.
    is_refused: bool,
}

impl<T> Table<T> {
    fn new() -> Self {
        Self { records: Vec::new(), incomplete: Incomplete::NotRead, read_at: None, is_refused: false }
    }

    /// The time of the next reading.
    fn due(&self) -> Option<Instant> {
        let interval = match self.incomplete {
            _ if self.is_refused => REFUSED_INTERVAL,
            Incomplete::Overflowed => OVERFLOWED_INTERVAL,
            _ => REFRESH_INTERVAL,
        };
        self.read_at.map(|read_at| read_at + interval)
    }

    fn take(&mut self, read: Read<T>, now: Instant) {
        let Read { records, incomplete } = read;
        *self = Self { records, incomplete, read_at: Some(now), is_refused: false };
    }
}

impl Mirror {
    /// Opens the sockets in the calling thread's namespace and reads everything once. `event_buffer_bytes` is for tests
    /// in which the kernel must drop notices.
    pub fn open(namespace: u64, event_buffer_bytes: Option<usize>) -> Result<Self, Problem> {
        let problem = |error: io::Error| {
            Problem::failed("cannot listen to the kernel's routes and links", error).next("netlink must be allowed")
        };
        let mut mirror = Self {
            writer: Writer::create(namespace)?,
            // Before anything is read: a change in between is then noticed.
            events: Events::open(event_buffer_bytes).map_err(problem)?,
            asker: Asker::open().map_err(problem)?,
            dirty: Dirty::ALL,
            hosts: Table::new(),
            addresses: Vec::new(),
            routes: Table::new(),
            neighbours: Table::new(),
        };
        mirror.refresh(Instant::now())?;
        Ok(mirror)
    }

    /// The table's file, for readers.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.writer.file()
    }

    /// Writes the table's heartbeat: CLOCK_MONOTONIC, nanoseconds.
    pub fn beat(&self, now_ns: u64) {
        self.writer.beat(now_ns);
    }

    /// The interfaces as last read, by index.
    pub fn links(&self) -> &[Link] {
        &self.hosts.records
    }

    /// The addresses as last read.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The routes as last read.
    pub fn routes(&self) -> &[Route] {
        &self.routes.records
    }

    /// The neighbours as last read, sorted by interface and address.
    pub fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours.records
    }

    /// The kernel's entry of one neighbour.
    pub fn neighbour(&self, interface: u32, address: IpAddr) -> Option<&Neighbour> {
        let all = self.neighbours();
        let found = all.binary_search_by_key(&(interface, address), |entry| (entry.interface, entry.address));
        found.ok().map(|index| &all[index])
    }

    /// The number of times that the kernel dropped notices because this side was slow; each led to a full reading.
    pub fn overruns(&self) -> u64 {
        self.events.overruns
    }

    /// Reads the notices of changes; [`Self::refresh`] reads the tables.
    pub fn drain(&mut self) -> Result<(), Problem> {
        let dirty = self.events.drain();
        self.dirty.add(dirty.map_err(|error| Problem::failed("lost the kernel's notices of changes", error))?);
        Ok(())
    }

    /// The time at which [`Self::refresh`] has work: `None` while nothing has changed.
    pub fn due(&self) -> Option<Instant> {
        let tables = [
            self.dirty.hosts.then(|| self.hosts.due()),
            self.dirty.routes.then(|| self.routes.due()),
            self.dirty.neighbours.then(|| self.neighbours.due()),
        ];
        // A table that was never read is due at once.
        tables.into_iter().flatten().map(|due| due.unwrap_or_else(Instant::now)).min()
    }

    /// Reads changed tables that are due, and writes them to the shared table. Returns whether interfaces may have
    /// changed.
    ///
    /// A table that the kernel refuses to dump is an error, and the mirror continues: it marks this table as
    /// incomplete, and reads it again a second later.
    pub fn refresh(&mut self, now: Instant) -> Result<bool, Problem> {
        let is_due = |due: Option<Instant>| due.is_none_or(|due| due <= now);
        let hosts = self.dirty.hosts && is_due(self.hosts.due());
        if hosts {
            let is_read = self.read_hosts(now);
            self.dirty.hosts = !is_read.or_else(|error| self.refused("links and addresses", error))?;
        }
        if self.dirty.routes && is_due(self.routes.due()) {
            let is_read = self.read_routes(now);
            self.dirty.routes = !is_read.or_else(|error| self.refused("routes", error))?;
        }
        if self.dirty.neighbours && is_due(self.neighbours.due()) {
            let is_read = self.read_neighbours(now);
            self.dirty.neighbours = !is_read.or_else(|error| self.refused("neighbours", error))?;
        }
        Ok(hosts)
    }

    /// Makes the kernel resolve or confirm a neighbour.
    pub fn use_neighbour(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        netlink::use_neighbour(&mut self.asker, interface, address)
    }

    fn read_hosts(&mut self, now: Instant) -> io::Result<bool> {
        (self.hosts.read_at, self.hosts.is_refused) = (Some(now), true);
        let links = settled(|| netlink::links(&mut self.asker))?;
        let addresses = settled(|| netlink::addresses(&mut self.asker))?;
        self.hosts.is_refused = false;
        let (Some(links), Some(addresses)) = (links, addresses) else { return Ok(false) };
        self.writer.set_links(&links.records, links.incomplete);
        self.writer.set_addresses(&addresses.records, addresses.incomplete);
        self.hosts.take(links, now);
        self.addresses = addresses.records;
        Ok(true)
    }

    fn read_routes(&mut self, now: Instant) -> io::Result<bool> {
        (self.routes.read_at, self.routes.is_refused) = (Some(now), true);
        let read = settled(|| netlink::routes(&mut self.asker))?;
        self.routes.is_refused = false;
        let Some(routes) = read else { return Ok(false) };
        self.writer.set_routes(&routes.records, routes.incomplete);
        self.routes.take(routes, now);
        Ok(true)
    }

    fn read_neighbours(&mut self, now: Instant) -> io::Result<bool> {
        (self.neighbours.read_at, self.neighbours.is_refused) = (Some(now), true);
        let read = settled(|| netlink::neighbours(&mut self.asker))?;
        self.neighbours.is_refused = false;
        let Some(neighbours) = read else { return Ok(false) };
        self.writer.set_neighbours(&neighbours.records, neighbours.incomplete);
        self.neighbours.take(neighbours, now);
        Ok(true)
    }

    /// Marks a table as incomplete in the shared table, and opens a new socket for the next request: no part of an
    /// abandoned answer is left in it.
    fn refused(&mut self, what: &str, error: io::Error) -> Result<bool, Problem> {
        if self.hosts.is_refused {
            self.writer.set_links(&self.hosts.records, Incomplete::Unreadable);
        }
        if self.routes.is_refused {
            self.writer.set_routes(&self.routes.records, Incomplete::Unreadable);
        }
        if self.neighbours.is_refused {
            self.writer.set_neighbours(&self.neighbours.records, Incomplete::Unreadable);
        }
        let problem = Problem::failed(format!("cannot read the kernel's {what}"), error);
        match Asker::open() {
            Ok(asker) => self.asker = asker,
            Err(error) => return Err(problem.next(format!("netlink must be allowed ({error})"))),
        }
        Err(problem.next("see the kernel's log; it is tried again"))
    }
}

impl AsFd for Mirror {
    /// Readable if there are change notices.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// Reads until no change came in between; `None` if changes come faster than that.
fn settled<T>(mut read: impl FnMut() -> io::Result<Read<T>>) -> io::Result<Option<Read<T>>> {
    for _ in 0..READINGS_MAX {
        match read() {
            Ok(read) => return Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
