//! The sockets of the lines: one engine for each interface, one socket for each line, polled in turn by one thread.

use crate::drops::{self, Drops, Tally};
use crate::line::{LINES_MAX, Line, name};
use crate::requests::{Requests, SERVERS_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sidestep_socket::{Engine, EngineOptions, Handle, Path, Queues, Reason, Statistics, UdpOptions};
use sidestep_sys::clock::monotonic_ns;
use sidestep_sys::{Problem, interface};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Datagrams of one line before the next one has its turn: a burst of one line delays the others by some 20 us.
const BURST: usize = 32;
/// The longest wait at the start for control's answer, which takes some milliseconds.
const OPENING_MAX: Duration = Duration::from_millis(200);
/// The longest sleep: an engine whose owner is silent for a second counts as stopped, and control's word is seen so late.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Descriptors of one sleep: an engine and a twin for each line, a socket for each server, a snapshot.
const WATCHED_MAX: usize = 2 * LINES_MAX + SERVERS_MAX + 1;

/// Options of the sockets.
#[derive(Clone, Debug)]
pub struct LineOptions {
    /// Past the kernel where possible; false for the kernel's path alone.
    pub accelerate: bool,
    /// Control's socket; that of this network namespace if none is given.
    pub control: Option<PathBuf>,
    /// The program's name in `sidestep ps`.
    pub name: String,
    /// The receive buffer of each kernel socket, bytes. It holds what comes by the kernel while the thread does something else: 8 MiB are
    /// a burst of some 4,000 datagrams. The kernel grants net.core.rmem_max at the most.
    pub receive_buffer: u32,
    /// Frames of 2 KiB of each engine, a power of two. The default holds an opening burst of 2,000 datagrams of either line.
    pub frames: u32,
    /// True if datagrams get the time of day at which they were received: a reading of the clock for each, some 25 ns.
    pub times: bool,
}

impl Default for LineOptions {
    fn default() -> Self {
        let engine = EngineOptions::on("");
        Self {
            accelerate: true,
            control: None,
            name: engine.name,
            receive_buffer: 8 << 20,
            frames: engine.frames,
            times: false,
        }
    }
}

/// A datagram of a line.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The line, by its place.
    pub line: usize,
    /// It came by the kernel while the line's traffic goes past it: a path of its own, which keeps no order with the other.
    pub by_twin: bool,
    /// When this thread took it: CLOCK_MONOTONIC, ns. How long it had lain in its socket or ring by then is not in it, nor which line's
    /// copy was on the wire first if both lay there.
    pub arrived_ns: u64,
    /// The same as the time of day, ns since 1970; 0 without [`LineOptions::times`].
    pub time_ns: u64,
    /// Who sent it.
    pub source: SocketAddr,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// Lines that were joined. One thread owns and polls them.
#[derive(Debug)]
pub struct Lines {
    engines: Vec<Engine>,
    sockets: Vec<LineSocket>,
    /// The line that is polled first, so that none is always served last.
    first: usize,
}

#[derive(Debug)]
struct LineSocket {
    line: Line,
    engine: usize,
    handle: Handle,
    /// As of the last look.
    path: Path,
    /// Of the socket, and of the interface.
    dropped: [Tally; 2],
}

impl Lines {
    /// Joins the lines. Waits at most 200 ms for control, where it runs; what it answers later is followed while the lines are polled. Where
    /// it does not run yet, lines are the kernel's for good: start it first, or open them again.
    ///
    /// # Errors
    /// There are none or too many; an interface is not there; a group cannot be joined.
    pub fn open(lines: &[Line], options: &LineOptions) -> Result<Self, Problem> {
        if lines.is_empty() || lines.len() > LINES_MAX {
            return Err(Problem::usage(
                "cannot receive the feed",
                format!("it has {} lines, and has to have 1 to {LINES_MAX}", lines.len()),
            )
            .next("name each line as INTERFACE:GROUP:PORT"));
        }
        let mut opened = Self { engines: Vec::new(), sockets: Vec::new(), first: 0 };
        let mut interfaces: Vec<&str> = Vec::new();
        for line in lines {
            let known = interfaces.iter().position(|one| *one == line.interface);
            let engine = match known {
                Some(engine) => engine,
                None => {
                    opened.engines.push(engine(&line.interface, options)?);
                    interfaces.push(&line.interface);
                    interfaces.len() - 1
                }
            };
            opened.join(line, engine, options)?;
        }
        opened.await_control()?;
        Ok(opened)
    }

    fn join(&mut self, line: &Line, engine: usize, options: &LineOptions) -> Result<(), Problem> {
        let socket =
            UdpOptions { reuse_address: true, receive_buffer: options.receive_buffer, ..UdpOptions::default() };
        let engine_of = &mut self.engines[engine];
        // Bound to the group: groups of different lines may share a port.
        let handle = engine_of.bind(line.group, &socket)?;
        let mut path = engine_of.path(handle).unwrap_or(Path::Kernel(Reason::Opening));
        if line.group.ip().is_multicast() {
            let index = interface::index(&line.interface)?;
            let sources =
                line.sources.iter().map(|source| Some(*source)).chain(line.sources.is_empty().then_some(None));
            for source in sources {
                path = engine_of.join(handle, line.group.ip(), index, source)?;
            }
        }
        self.sockets.push(LineSocket { line: line.clone(), engine, handle, path, dropped: [Tally::default(); 2] });
        Ok(())
    }

    fn await_control(&mut self) -> Result<(), Problem> {
        let until = Instant::now() + OPENING_MAX;
        while Instant::now() < until && self.look_at_paths() {
            for engine in &mut self.engines {
                engine.poll().map_err(of_engine)?;
            }
        }
        Ok(())
    }

    /// Follows the paths of the lines; returns whether one waits for control's answer. Call it now and then: control may come and go.
    pub fn look_at_paths(&mut self) -> bool {
        let mut is_opening = false;
        for socket in &mut self.sockets {
            socket.path = self.engines[socket.engine].path(socket.handle).unwrap_or(socket.path);
            is_opening |= socket.path == Path::Kernel(Reason::Opening);
        }
        is_opening
    }

    /// Shows what has come to `deliver`, line by line in turn, at most 32 datagrams of each; returns how many.
    ///
    /// # Errors
    /// This process was forked from the one that opened the lines.
    pub fn poll(&mut self, deliver: &mut dyn FnMut(Arrival<'_>)) -> Result<usize, Problem> {
        let mut received = 0;
        let count = self.sockets.len();
        for place in (self.first..count).chain(0..self.first) {
            received += self.poll_line(place, deliver)?;
        }
        self.first = if self.first + 1 < count { self.first + 1 } else { 0 };
        Ok(received)
    }

    #[inline]
    fn poll_line(&mut self, line: usize, deliver: &mut dyn FnMut(Arrival<'_>)) -> Result<usize, Problem> {
        let socket = &self.sockets[line];
        let engine = &mut self.engines[socket.engine];
        let is_accelerated = matches!(socket.path, Path::Accelerated { .. });
        for received in 0..BURST {
            let Some(datagram) = engine.receive(socket.handle).map_err(of_engine)? else { return Ok(received) };
            deliver(Arrival {
                line,
                by_twin: is_accelerated && datagram.by_kernel(),
                arrived_ns: monotonic_ns(),
                time_ns: datagram.software_ns(),
                source: datagram.source(),
                payload: engine.payload(&datagram),
            });
            engine.release(datagram);
        }
        Ok(BURST)
    }

    /// Sleeps until something has come, at most so long and at most 50 ms. Call it when a poll has found nothing.
    ///
    /// # Errors
    /// The kernel refused to, or this process was forked.
    pub fn sleep(&mut self, longest: Duration) -> Result<(), Problem> {
        self.sleep_with(longest, None, &Requests::default())
    }

    /// The same, with other descriptors that end the sleep.
    pub(crate) fn sleep_with(
        &mut self,
        longest: Duration,
        other: Option<BorrowedFd<'_>>,
        requests: &Requests,
    ) -> Result<(), Problem> {
        let failed = |error: &dyn std::fmt::Display| Problem::failed("cannot wait for the feed", error);
        {
            let twins = self.sockets.iter().filter_map(|socket| self.engines[socket.engine].twin(socket.handle).ok());
            let links = self.engines.iter().filter_map(Engine::socket);
            let watched =
                twins.chain(links).chain(other).chain(requests.descriptors(&self.engines[0])).take(WATCHED_MAX);
            let mut watched: Vec<PollFd<'_>> =
                watched.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
            let length = Timespec::try_from(longest.min(SLEEP_MAX)).map_err(|error| failed(&error))?;
            match poll(&mut watched, Some(&length)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(failed(&error).errno(error.raw_os_error())),
            }
        }
        for engine in &mut self.engines {
            // Has slept: its next poll reads the clock.
            engine.sleep(Duration::ZERO).map_err(of_engine)?;
        }
        Ok(())
    }

    /// The number of lines.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// False: there is a line at least.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// A line as it was named.
    ///
    /// # Panics
    /// There is no line of this place.
    pub fn line(&self, place: usize) -> &Line {
        &self.sockets[place].line
    }

    /// The path of a line, as of the last look ([`Lines::look_at_paths`]).
    ///
    /// # Panics
    /// There is no line of this place.
    pub fn path(&self, place: usize) -> Path {
        self.sockets[place].path
    }

    /// Datagrams of a line, counted by its socket.
    ///
    /// # Panics
    /// There is no line of this place.
    pub fn statistics(&mut self, place: usize) -> Statistics {
        let socket = &self.sockets[place];
        self.engines[socket.engine].statistics(socket.handle).unwrap_or_default()
    }

    /// Datagrams of a line that this host has dropped. Some system calls: for statistics, not for each datagram.
    ///
    /// # Panics
    /// There is no line of this place.
    pub fn drops(&mut self, place: usize) -> Drops {
        let queue = self.statistics(place).dropped;
        let LineSocket { engine, handle, dropped: [socket, interface], .. } = &mut self.sockets[place];
        let [by_socket, by_interface] = drops::read(&self.engines[*engine], *handle);
        Drops { socket: socket.add(by_socket), queue, interface: interface.add(by_interface) }
    }

    /// Sentences about the lines that the kernel carries: name, and the reason.
    pub fn by_kernel(&self) -> impl Iterator<Item = String> {
        self.sockets.iter().enumerate().filter_map(|(place, socket)| match socket.path {
            Path::Accelerated { .. } => None,
            path => Some(format!("line {} ({}): {path}", name(place), socket.line)),
        })
    }

    /// The engine of the first line, for sockets of the caller's own.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engines[0]
    }
}

fn engine(name: &str, options: &LineOptions) -> Result<Engine, Problem> {
    interface::check(name)?;
    Engine::open(&EngineOptions {
        // Packets to a group may come by any queue.
        queues: Queues::Every,
        frames: options.frames,
        ring_entries: options.frames / 2,
        // All the time: the first burst after a calm would find few of them, and what does not fit is lost.
        fill: Some(options.frames / 2),
        control: options.control.clone(),
        name: options.name.clone(),
        timestamps: options.times,
        accelerate: options.accelerate,
        ..EngineOptions::on(name)
    })
}

#[cold]
pub(crate) fn of_engine(error: sidestep_socket::Error) -> Problem {
    Problem::failed("cannot receive the feed", error).next("open the handler in the process that polls it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn options() -> LineOptions {
        LineOptions { accelerate: false, ..LineOptions::default() }
    }

    /// A port that is free now: bound, and let go.
    fn free() -> SocketAddr {
        UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[test]
    fn datagrams_of_all_lines_come_with_their_line() {
        let (a, b) = (Line::new("lo", free()), Line::new("lo", free()));
        let mut lines = Lines::open(&[a.clone(), b.clone()], &LineOptions { times: true, ..options() }).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in 0..100_u8 {
            sender.send_to(&[number], a.group).unwrap();
            sender.send_to(&[number, number], b.group).unwrap();
        }
        let mut counts = [0_usize; 2];
        while counts != [100, 100] {
            let received = lines.poll(&mut |arrival| {
                assert_eq!(arrival.payload.len(), arrival.line + 1);
                assert_eq!(usize::from(arrival.payload[0]), counts[arrival.line], "in order");
                assert!(!arrival.by_twin && arrival.arrived_ns > 0 && arrival.time_ns > 0);
                assert_eq!(arrival.source, sender.local_addr().unwrap());
                counts[arrival.line] += 1;
            });
            if received.unwrap() == 0 {
                lines.sleep(Duration::from_secs(1)).unwrap();
            }
        }
        assert_eq!((lines.len(), lines.statistics(1).received_by_kernel), (2, 100));
        assert!(lines.by_kernel().next().is_some_and(|text| text.starts_with("line A (lo:127.0.0.1:")));
    }

    #[test]
    fn a_burst_of_one_line_does_not_keep_the_other_waiting() {
        let (a, b) = (Line::new("lo", free()), Line::new("lo", free()));
        let mut lines = Lines::open(&[a.clone(), b.clone()], &options()).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..3 * BURST).for_each(|_| assert_eq!(sender.send_to(b"A", a.group).unwrap(), 1));
        sender.send_to(b"B", b.group).unwrap();
        let mut order = String::new();
        while order.len() <= 3 * BURST {
            lines.poll(&mut |arrival| order.push(name(arrival.line))).unwrap();
        }
        assert!(order.find('B').is_some_and(|place| place <= BURST), "{order}");
    }

    #[test]
    fn what_the_kernel_drops_is_told_of_its_line() {
        let (a, b) = (Line::new("lo", free()), Line::new("lo", free()));
        let options = LineOptions { receive_buffer: 1, ..options() };
        let mut lines = Lines::open(&[a, b.clone()], &options).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..500).for_each(|_| assert_eq!(sender.send_to(&[0; 1_000], b.group).unwrap(), 1_000));
        let mut received = 0;
        while lines.poll(&mut |_| received += 1).unwrap() > 0 {}
        let dropped = lines.drops(1);
        assert!(received > 0 && dropped.socket > 0, "{received}");
        assert_eq!((received + dropped.socket, dropped.queue, dropped.interface), (500, 0, 0));
        assert_eq!((lines.drops(1), lines.drops(0)), (dropped, Drops::default()));
    }

    #[test]
    fn what_cannot_be_joined_says_why() {
        let refused = |lines: &[Line]| Lines::open(lines, &options()).unwrap_err();
        assert!(refused(&[]).to_string().contains("it has 0 lines"));
        assert!(refused(&vec![Line::new("lo", free()); LINES_MAX + 1]).to_string().contains("it has 9 lines"));
        let missing = refused(&[Line::new("none0", free())]);
        assert!(missing.to_string().contains("none0") && !missing.next_step().is_empty(), "{missing}");
    }
}
