//! One slice of a rate sweep: messages leave on a schedule, some are reflected.
//!
//! The schedule does not wait: message *i* is due at `start + i / rate`, a whole batch with its first. A sampled message's latency counts
//! from when it was due, so that a late sender shows (coordinated omission); the latency from the
//! actual departure is kept apart.

use super::{Bench, Meter};
use crate::bypass::{Load, StackLink};
use crate::cpu_time::{Spent, SpentSince};
use crate::link::{Link, datagrams, send_all};
use crate::message::{Header, filled};
use crate::path::{Medium, Path};
use crate::peer::protocol::{Done, Ready, Reply, Request, Sink};
use crate::place::Way;
use crate::stats::Slice;
use sidestep_report::schema::Noise;
use sidestep_socket::datagram::UdpPort;
use sidestep_socket::stream::{Backend, Options, Waiting, is_retry};
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The longest wait for the last samples.
const STRAGGLERS: Duration = Duration::from_millis(50);
/// Pause before the last message of a slice, so that it does not overtake the others.
const FAREWELL_WAIT: Duration = Duration::from_millis(100);
/// Repetitions of the last message, in case it gets lost.
const FAREWELLS: u32 = 30;
/// The most samples in flight; older ones count as lost. A tenth of a second at the densest sampling.
const OUTSTANDING_MAX: usize = 4096;

/// The target of a slice of a rate sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateTarget {
    /// The path.
    pub path: &'static Path,
    /// Message size, bytes.
    pub size: u32,
    /// Messages per second.
    pub rate: f64,
    /// Group to send to; none for unicast.
    pub group: Option<Ipv4Addr>,
    /// One message in this many is reflected.
    pub reflect_every: u64,
    /// Messages that are due at the same time, and leave together.
    pub batch: u32,
}

/// The results of the slice.
#[derive(Debug, Default)]
pub(crate) struct RateSlice {
    /// Latency of the samples from when they were due.
    pub(crate) from_due: Slice,
    /// From when they left.
    pub(crate) from_actual: Slice,
    /// From when they were due until they left.
    pub(crate) lateness: Slice,
    /// Messages sent.
    pub sent: u64,
    /// Time that took, seconds.
    pub elapsed_s: f64,
    /// Samples that did not come back.
    pub(crate) lost_samples: u64,
    /// CPU time of the sender's thread, which spins on the schedule whatever the path.
    pub(crate) cpu: Spent,
    /// The peer's counts.
    pub done: Done,
    /// Receive buffer of the peer, bytes.
    pub receive_buffer: usize,
    /// Disturbances.
    pub noise: Noise,
    /// A note on the frame path, for the report.
    pub(crate) note: Option<String>,
}

impl Bench {
    /// Sends at `target.rate` for `duration`.
    pub(crate) fn rate(&mut self, target: RateTarget, duration: Duration) -> Result<RateSlice, Problem> {
        if target.path.medium == Medium::Stack {
            return self.rate_past_kernel(target, duration);
        }
        self.place_thread(true)?; // The schedule is kept by spinning, whatever the path; only the receiver's path differs.
        let way = self.ends.way(target.path)?;
        let back = UdpPort::bind(SocketAddr::new(way.client, 0))?;
        let local = back.local().map_err(|error| Problem::failed("cannot bind", error))?;
        let ready = self.ask_sink(target, local.port())?;
        let meter = Meter::start(self.watched_cpus());
        let sent = self.connect(back, &way, &ready, target);
        let sent = sent.and_then(|(back, group)| self.stream(target, back, group, duration));
        let note = self.kernel_note(ready.note.as_deref());
        self.finish(sent.map(|sent| RateSlice { note, ..sent }), meter, ready.receive_buffer)
    }

    /// The same by our own stack, from an engine of ours to one of the peer's.
    fn rate_past_kernel(&mut self, target: RateTarget, duration: Duration) -> Result<RateSlice, Problem> {
        // The threads that an engine starts shall not be where this one spins.
        self.place_thread(false)?;
        self.need_plane()?;
        let mut link = StackLink::open(&self.device()?, self.ends.client, Load::Stream, target.size)?;
        self.place_thread(true)?;
        let ready = self.ask_sink(target, link.port()?)?;
        let note = Some(self.stack_note(&link.note(), ready.note.as_deref()));
        let meter = Meter::start(self.watched_cpus());
        let connected = link.connect(SocketAddr::new(self.ends.server, ready.port));
        let connected = connected.and_then(|()| ready.group.map_or(Ok(()), |group| link.send_to_group(group)));
        let sent = connected.and_then(|()| self.stream(target, Box::new(link), None, duration));
        self.finish(sent.map(|sent| RateSlice { note, ..sent }), meter, ready.receive_buffer)
    }

    /// Receives the peer's counts of the slice.
    fn finish(
        &mut self,
        sent: Result<RateSlice, Problem>,
        meter: Meter,
        receive_buffer: usize,
    ) -> Result<RateSlice, Problem> {
        let noise = meter.stop();
        let done = match self.control().reply()? {
            Reply::Done(done) => done,
            _ => return Err(Problem::failed("lost the peer", "it did not say that the slice is over")),
        };
        let mut slice = sent?;
        slice.receive_buffer = receive_buffer;
        slice.noise = Noise { involuntary_switches: noise.involuntary_switches + done.involuntary_switches, ..noise };
        slice.done = done;
        Ok(slice)
    }

    fn ask_sink(&mut self, target: RateTarget, port: u16) -> Result<Ready, Problem> {
        let request = Request::Sink(Sink {
            path: target.path.at_peer().into(),
            size: target.size,
            cpu: self.cpus.server,
            port,
            group: target.group,
            reflect_every: target.reflect_every,
            batch: target.batch,
        });
        match self.control().ask(&request)? {
            Reply::Ready(ready) => Ok(ready),
            _ => Err(Problem::failed("lost the peer", "it did not get ready for a slice").next("restart the peer")),
        }
    }

    /// Connects to the peer, and to the group if there is one.
    fn connect(&self, back: UdpPort, way: &Way, ready: &Ready, target: RateTarget) -> Result<Links, Problem> {
        let options = sending(target.path);
        let link = |socket| datagrams(socket, options.waiting, target.batch, target.size);
        let back = back.connect(SocketAddr::new(way.server, ready.port), &options)?;
        let group = match (ready.group, way.client) {
            (Some(group), IpAddr::V4(interface)) => {
                let port = UdpPort::bind(SocketAddr::new(IpAddr::V4(interface), 0))?;
                let socket = port.connect_group(group, interface, self.ends.is_one_namespace(), &options)?;
                Some(link(socket))
            }
            _ => None,
        };
        Ok((link(back), group))
    }

    /// Streams, and ends the slice on the peer's side.
    fn stream(
        &mut self,
        target: RateTarget,
        back: Box<dyn Link>,
        group: Option<Box<dyn Link>>,
        duration: Duration,
    ) -> Result<RateSlice, Problem> {
        let clock = self.clock.clone();
        let mut stream = Stream::new(back, group, &clock, target);
        let sent = stream.run(duration);
        for _ in 0..FAREWELLS {
            stream.say_farewell();
            if self.control().has_word(FAREWELL_WAIT) {
                break;
            }
        }
        sent.map(|()| stream.slice())
    }
}

/// The conversation with the peer, and the way to the group.
type Links = (Box<dyn Link>, Option<Box<dyn Link>>);

/// A sampled message under way.
#[derive(Clone, Copy)]
struct Sample {
    sequence: u64,
    due: u64,
    left: u64,
}

/// The sender of one slice.
struct Stream<'a> {
    back: Box<dyn Link>,
    group: Option<Box<dyn Link>>,
    clock: &'a Clock,
    interval_ticks: f64,
    reflect_every: u64,
    batch: u64,
    flushing: Flushing,
    flushed_at_most: u32,
    unflushed: u32,
    message: Vec<u8>,
    buffer: Vec<u8>,
    sequence: u64,
    elapsed_ticks: u64,
    spent: Spent,
    outstanding: VecDeque<Sample>,
    lost_samples: u64,
    from_due: Vec<u64>,
    from_actual: Vec<u64>,
    lateness: Vec<u64>,
}

/// The time at which a message leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flushing {
    /// Each message leaves by itself.
    Never,
    /// Each message is flushed.
    Always,
    /// Messages that are due at the same time are flushed together; a sender that keeps up flushes each.
    WhenNothingIsDue,
}

/// The most messages that are flushed together, where batches of one are due.
const FLUSHED_AT_MOST: u32 = 64;

impl<'a> Stream<'a> {
    fn new(back: Box<dyn Link>, group: Option<Box<dyn Link>>, clock: &'a Clock, target: RateTarget) -> Self {
        Self {
            back,
            group,
            clock,
            interval_ticks: clock.ticks(Duration::from_secs(1)) as f64 / target.rate,
            reflect_every: target.reflect_every.max(1),
            batch: u64::from(target.batch.max(1)),
            flushed_at_most: if target.batch > 1 { target.batch } else { FLUSHED_AT_MOST },
            flushing: match target.path {
                path if path.medium == Medium::Stack || target.batch > 1 => Flushing::WhenNothingIsDue,
                path if path.backend == Backend::Uring => Flushing::Always,
                _ => Flushing::Never,
            },
            unflushed: 0,
            message: filled(target.size),
            buffer: vec![0; target.size as usize],
            sequence: 0,
            elapsed_ticks: 0,
            spent: Spent::default(),
            outstanding: VecDeque::with_capacity(OUTSTANDING_MAX),
            lost_samples: 0,
            from_due: Vec::new(),
            from_actual: Vec::new(),
            lateness: Vec::new(),
        }
    }

    /// Sends for `duration`; messages that are still due then are not sent.
    fn run(&mut self, duration: Duration) -> Result<(), Problem> {
        let since = SpentSince::now();
        let start = self.clock.stop();
        let length = self.clock.ticks(duration);
        loop {
            let first_of_batch = self.sequence - self.sequence % self.batch;
            let due = start + (first_of_batch as f64 * self.interval_ticks) as u64;
            let now = self.wait_until(due)?;
            if due - start >= length || now - start >= length {
                self.elapsed_ticks = (now - start).max(1);
                self.spent = since.on(self.sequence);
                break;
            }
            self.send(due, now)?;
        }
        self.await_stragglers()
    }

    /// Spins until `due` and receives reflected messages; polls at least once while a sample is in flight.
    fn wait_until(&mut self, due: u64) -> Result<u64, Problem> {
        loop {
            if !self.outstanding.is_empty() {
                self.take_back()?;
            }
            let now = self.clock.stop();
            if now >= due {
                return Ok(now);
            }
            if self.unflushed != 0 {
                self.flush()?;
            }
        }
    }

    fn send(&mut self, due: u64, now: u64) -> Result<(), Problem> {
        Header { sequence: self.sequence, last: false }.write(&mut self.message);
        let link = self.group.as_mut().unwrap_or(&mut self.back);
        send_all(link.as_mut(), &self.message)
            .and_then(|()| if self.flushing == Flushing::Always { link.flush() } else { Ok(()) })
            .map_err(cannot_send)?;
        self.unflushed += u32::from(self.flushing == Flushing::WhenNothingIsDue);
        if self.unflushed >= self.flushed_at_most {
            self.flush()?;
        }
        if self.sequence.is_multiple_of(self.reflect_every) {
            if self.outstanding.len() == OUTSTANDING_MAX {
                self.outstanding.pop_front();
                self.lost_samples += 1;
            }
            self.outstanding.push_back(Sample { sequence: self.sequence, due, left: now });
            self.lateness.push(now - due);
        }
        self.sequence += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Problem> {
        self.unflushed = 0;
        self.group.as_mut().unwrap_or(&mut self.back).flush().map_err(cannot_send)
    }

    /// Receives one reflected message, if one is there. Earlier samples that are not back are lost or late; either
    /// way they are no longer waited for.
    fn take_back(&mut self) -> Result<(), Problem> {
        let count = match self.back.receive(&mut self.buffer) {
            Ok(count) => count,
            Err(error) if is_retry(&error) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(Problem::failed("the peer stopped receiving", error).next("see what the peer printed"));
            }
            Err(error) => return Err(Problem::failed("cannot receive", error)),
        };
        let now = self.clock.stop();
        let Some(header) = Header::read(&self.buffer[..count]) else { return Ok(()) };
        while let Some(sample) = self.outstanding.front().copied().filter(|sample| sample.sequence <= header.sequence) {
            self.outstanding.pop_front();
            if sample.sequence == header.sequence {
                self.from_due.push(now - sample.due);
                self.from_actual.push(now - sample.left);
            } else {
                self.lost_samples += 1;
            }
        }
        Ok(())
    }

    fn await_stragglers(&mut self) -> Result<(), Problem> {
        self.flush()?;
        let end = self.clock.stop() + self.clock.ticks(STRAGGLERS);
        while !self.outstanding.is_empty() && self.clock.stop() < end {
            self.take_back()?;
        }
        self.lost_samples += self.outstanding.len() as u64;
        self.outstanding.clear();
        Ok(())
    }

    /// Sends the last message of the slice, several times in case it gets lost.
    fn say_farewell(&mut self) {
        Header { sequence: self.sequence, last: true }.write(&mut self.message);
        let link = self.group.as_mut().unwrap_or(&mut self.back);
        let _ = send_all(link.as_mut(), &self.message).and_then(|()| link.flush());
    }

    fn slice(&self) -> RateSlice {
        let ns = |ticks: &[u64]| Slice::of(ticks.iter().map(|ticks| self.clock.ns(*ticks)));
        RateSlice {
            from_due: ns(&self.from_due),
            from_actual: ns(&self.from_actual),
            lateness: ns(&self.lateness),
            sent: self.sequence,
            cpu: self.spent,
            elapsed_s: self.clock.ns(self.elapsed_ticks) as f64 / 1e9,
            lost_samples: self.lost_samples,
            ..RateSlice::default()
        }
    }
}

/// The sender spins, whatever the path.
fn sending(path: &Path) -> Options {
    Options { waiting: Waiting::Spin, backend: path.backend, timeout: FAREWELL_WAIT, ..Options::default() }
}

fn cannot_send(error: std::io::Error) -> Problem {
    Problem::failed("cannot send", error).next("check the route and the interface")
}
