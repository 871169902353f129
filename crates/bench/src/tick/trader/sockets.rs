//! The lines of the feed at the trader: groups by the kernel, or past it.

use super::orders::Orders;
use super::ring::RingFeed;
use crate::bypass::join_past_kernel;
use crate::path::Path;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use sidestep_socket::datagram::{DatagramSocket, UdpPort};
use sidestep_socket::stream::{Backend, Io, Options, Waiting, is_retry};
use sidestep_socket::{Engine, Handle};
use sidestep_sys::Problem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

/// A datagram is no longer than what Ethernet carries whole.
const DATAGRAM_BYTES_MAX: usize = 2048;
/// Turns without a datagram between two looks at the order stream, where that is a call of its own: some 20 us of calls on groups.
const IDLE_TURNS: u32 = 64;
/// The same of rings, a look at which is no call and takes some 10 ns.
const IDLE_TURNS_OF_RING: u32 = 2048;
/// The longest sleep, after which the trader looks whether its slice is over.
const SLEEP_MAX: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The sockets of the lines.
pub(crate) struct Sockets {
    lines: Lines,
    buffer: Box<[u8; DATAGRAM_BYTES_MAX]>,
    /// The kernel's sockets are empty until this says that one is readable.
    sleeper: Option<OwnedFd>,
    ready: Vec<epoll::Event>,
    /// Datagrams that the kernel had dropped when they were opened.
    dropped_before: u64,
}

enum Lines {
    Kernel { sockets: Vec<DatagramSocket>, io: Box<Io> },
    Stack(Vec<Handle>),
    Ring(Box<RingFeed>),
}

impl Sockets {
    /// Joins `lines` groups, one after the other from `group` on, by the kernel. Returns their addresses, too.
    pub(crate) fn by_kernel(
        path: &Path,
        interface: Ipv4Addr,
        group: Ipv4Addr,
        lines: u8,
    ) -> Result<(Self, Vec<SocketAddrV4>), Problem> {
        let sleeps = path.waiting != Waiting::Spin;
        let backend = if sleeps { Backend::Kernel } else { path.backend };
        let options = Options { waiting: Waiting::Spin, backend, ..Options::default() };
        let (mut sockets, mut groups) = (Vec::new(), Vec::new());
        for line in 0..lines {
            let group = nth(group, line);
            let port = UdpPort::join(SocketAddrV4::new(group, 0), interface)?;
            let local = port.local().map_err(|error| Problem::failed("cannot name the port", error))?;
            groups.push(SocketAddrV4::new(group, local.port()));
            sockets.push(port.receiver(&options)?);
        }
        let lines = Lines::Kernel { sockets, io: Box::default() };
        Ok((Self::over(lines), groups))
    }

    /// Joins them past the kernel.
    pub(crate) fn past_kernel(
        engine: &mut Engine,
        group: Ipv4Addr,
        lines: u8,
    ) -> Result<(Self, Vec<SocketAddrV4>), Problem> {
        let (mut handles, mut groups) = (Vec::new(), Vec::new());
        for line in 0..lines {
            let group = nth(group, line);
            let (handle, port) = join_past_kernel(engine, group)?;
            handles.push(handle);
            groups.push(SocketAddrV4::new(group, port));
        }
        Ok((Self::over(Lines::Stack(handles)), groups))
    }

    /// Has a ring of the kernel filled with them, on this interface; there are no sockets that a ring would stand behind.
    pub(crate) fn by_ring(
        interface: &str,
        address: Ipv4Addr,
        group: Ipv4Addr,
        lines: u8,
    ) -> Result<(Self, Vec<SocketAddrV4>), Problem> {
        let groups: Vec<Ipv4Addr> = (0..lines).map(|line| nth(group, line)).collect();
        let (feed, groups) = RingFeed::open(interface, address, &groups)?;
        Ok((Self::over(Lines::Ring(Box::new(feed))), groups))
    }

    /// The way of the feed, for the report, where it is not the path's name alone.
    pub(crate) fn way(&self) -> Option<String> {
        match &self.lines {
            Lines::Ring(feed) => Some(feed.way()),
            Lines::Kernel { .. } | Lines::Stack(_) => None,
        }
    }

    /// Errs where datagrams of a slice have come by another way than the path says.
    pub(super) fn check_way(&self) -> Result<(), Problem> {
        match &self.lines {
            Lines::Ring(feed) => feed.check_way(),
            Lines::Kernel { .. } | Lines::Stack(_) => Ok(()),
        }
    }

    fn over(lines: Lines) -> Self {
        let ready = Vec::with_capacity(4);
        let (buffer, dropped_before) = (Box::new([0; DATAGRAM_BYTES_MAX]), dropped_by_kernel());
        Self { lines, buffer, sleeper: None, ready, dropped_before }
    }

    /// Sleeps, from now on, until a line or the order stream has something (epoll(7)).
    pub(crate) fn sleep_until_ready(&mut self, orders: &Orders) -> Result<(), Problem> {
        let failed = |error: rustix::io::Errno| Problem::failed("cannot wait for the feed", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let Lines::Kernel { sockets, .. } = &self.lines else { return Ok(()) };
        let descriptors = sockets.iter().filter_map(DatagramSocket::descriptor).chain(orders.descriptor());
        for descriptor in descriptors {
            epoll::add(&epoll, descriptor, EventData::new_u64(0), EventFlags::IN).map_err(failed)?;
        }
        self.sleeper = Some(epoll);
        Ok(())
    }

    /// Returns whether it never sleeps.
    pub(super) fn spins(&self) -> bool {
        self.sleeper.is_none()
    }

    /// Turns without a datagram between two looks at the order stream.
    #[inline]
    pub(super) fn idle_turns(&self) -> u32 {
        if matches!(self.lines, Lines::Ring(_)) { IDLE_TURNS_OF_RING } else { IDLE_TURNS }
    }

    /// Returns the next datagram of a line, with the line: a ring has those of all lines, as they came, whichever is asked for.
    #[inline]
    pub(super) fn receive(&mut self, line: u8, orders: &mut Orders) -> Result<Option<(u8, &[u8])>, Problem> {
        let (at, buffer) = (usize::from(line), &mut self.buffer[..]);
        let count = match &mut self.lines {
            Lines::Ring(feed) => return Ok(feed.receive()),
            Lines::Kernel { sockets, io } => match sockets[at].receive(io, buffer) {
                Ok(count) => count,
                Err(error) if is_retry(&error) => return Ok(None),
                Err(error) => return Err(Problem::failed("cannot receive the feed", error)),
            },
            Lines::Stack(handles) => {
                let failed = |error: &dyn std::fmt::Display| Problem::failed("cannot receive the feed", error);
                let Some(engine) = orders.io_mut().engine_mut() else { return Ok(None) };
                let Some(datagram) = engine.receive(handles[at]).map_err(|error| failed(&error))? else {
                    return Ok(None);
                };
                // Copied, as the order goes out by the same engine.
                let payload = engine.payload(&datagram);
                let count = payload.len().min(buffer.len());
                buffer[..count].copy_from_slice(&payload[..count]);
                engine.release(datagram);
                count
            }
        };
        Ok(Some((line, &self.buffer[..count])))
    }

    /// Waits for something to receive, as the path says. Returns whether something is there, as far as it knows.
    #[inline]
    pub(super) fn wait(&mut self) -> Result<bool, Problem> {
        let Some(epoll) = &self.sleeper else { return Ok(false) };
        self.ready.clear();
        match epoll::wait(epoll.as_fd(), rustix::buffer::spare_capacity(&mut self.ready), Some(&SLEEP_MAX)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Problem::failed("cannot wait for the feed", error)),
        }
    }

    /// Datagrams and frames that this host has dropped, as far as it tells.
    pub(super) fn dropped(&self, orders: &mut Orders) -> u64 {
        match &self.lines {
            Lines::Kernel { .. } => dropped_by_kernel().saturating_sub(self.dropped_before),
            Lines::Ring(feed) => feed.lost(),
            Lines::Stack(_) => {
                orders.io_mut().engine().map_or(0, |engine| engine.frames().dropped + engine.dropped_by_kernel())
            }
        }
    }
}

/// Datagrams that found no room in a socket of this network namespace (RcvbufErrors, proc_pid_net(5)); 0 where that is not told.
fn dropped_by_kernel() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == "RcvbufErrors").and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// The group of a line.
fn nth(group: Ipv4Addr, line: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(group.to_bits().wrapping_add(line.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_b_has_the_next_group() {
        assert_eq!(nth(Ipv4Addr::new(239, 1, 2, 255), 1), Ipv4Addr::new(239, 1, 3, 0));
    }
}
