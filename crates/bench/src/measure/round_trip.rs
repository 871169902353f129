//! One slice of request and response.

use super::conversation::Conversation;
use super::packets::{PacketMeter, Packets};
use super::{Bench, Meter, SAMPLES_MAX, floor};
use crate::bypass::{Load, StackLink, connect_past_kernel, engine};
use crate::causes::SliceTail;
use crate::cpu_time::{BothSpent, Spent, SpentSince};
use crate::frames::{End, Flow, FramesLink, OwnPort};
use crate::link::{DatagramLink, Link, StreamLink};
use crate::path::{Medium, Path};
use crate::peer::protocol::{Done, Echo, Ready, Reply, Request};
use crate::place::Way;
use crate::stats::Slice;
use crate::transport::Transport;
use crate::unmodified::Client;
use sidestep_report::schema::Noise;
use sidestep_socket::datagram::UdpPort;
use sidestep_socket::stream::{Endpoint, Options, Waiting};
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Uncounted messages at the start of every slice: the connection is new, caches are cold.
const SETTLE_MESSAGES: u64 = 64;
/// Settling time of a path that never sleeps.
const SETTLE_SPINNING: Duration = Duration::from_millis(3);
/// Settling time of a path that sleeps. Opening a slice keeps both CPUs busy, and for some milliseconds afterwards wake-ups are
/// cheaper: with 3 ms the median of a slice was 8 to 15 % too low, from 30 ms on it is that of a connection that lasts
/// (virtual machine, KVM; docs/decisions/0006).
const SETTLE_SLEEPING: Duration = Duration::from_millis(30);
/// After this the messages need not be complete: a round trip may take milliseconds.
const SETTLE_MAX: Duration = Duration::from_millis(50);
/// Time-out of a sleeping receive, after which it checks whether the answer is overdue.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(100);
/// Repetitions of the last message of a slice over datagrams, in case it gets lost.
pub(crate) const FAREWELLS: u32 = 20;

/// Returns the settling time of a path that waits in this way.
pub(crate) fn settling_time(waiting: Waiting) -> Duration {
    if waiting == Waiting::Spin { SETTLE_SPINNING } else { SETTLE_SLEEPING }
}

/// The work of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// Round trips: each message is sent after the answer to the one before it.
    #[default]
    RoundTrips,
    /// A stream to the peer.
    Send,
    /// A stream from the peer.
    Receive,
    /// Connections: open, one message and its answer, close.
    Connect,
    /// Round trips of which several are under way (see `open_loop`). The measuring end spins, as it keeps a schedule.
    OpenLoop,
}

/// The target of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The work of a slice.
    pub work: Work,
    /// TCP, UDP, Unix or memory, shared or not.
    pub transport: Transport,
    /// The path.
    pub path: &'static Path,
    /// Message size, bytes.
    pub size: u32,
}

impl Target {
    /// Returns the waiting of the measuring end.
    fn waiting(&self) -> Waiting {
        if self.work == Work::OpenLoop { Waiting::Spin } else { self.path.waiting }
    }

    /// Returns the load of the frames.
    fn load(&self) -> Load {
        if self.work == Work::OpenLoop { Load::Stream } else { Load::RoundTrips }
    }
}

/// The results of a slice.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    /// Round trips.
    pub slice: Slice,
    /// Messages exchanged before counting began.
    pub(crate) settling: u64,
    /// Messages without an answer.
    pub lost: u64,
    /// Disturbances.
    pub noise: Noise,
    /// CPU time of both ends.
    pub cpu: BothSpent,
    /// Set if the device has a NAPI instance that can be polled.
    pub napi: bool,
    /// The packets of the kernel's device, in a lab.
    pub packets: Option<Packets>,
    /// Congestion control of the sender of a stream.
    pub congestion: Option<String>,
    /// A note on the frame path, for the report.
    pub note: Option<String>,
    /// What the host did in the slowest samples of an observed slice.
    pub(crate) tail: Option<SliceTail>,
}

/// The measured loop of one connection.
pub(crate) struct Exchange<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) settle: Duration,
    pub(crate) duration: Duration,
}

impl<'a> Exchange<'a> {
    /// Measures over a connected socket of its own, messages of so many bytes, each a datagram or a piece of a stream. Returns the
    /// conversation, to be ended.
    pub(crate) fn over(
        &self,
        link: Box<dyn Link>,
        (size, is_datagram): (u32, bool),
        samples: &mut Vec<u64>,
    ) -> Result<(Trips, Conversation<'a>), Problem> {
        let mut talk = Conversation::new(link, self.clock, size, is_datagram, false);
        let trips = self.run(&mut talk, samples, |_| {}, || false)?;
        Ok((trips, talk))
    }

    /// Settles, then fills `samples`; `begun` gets the clock's reading at the beginning of each.
    fn run(
        &self,
        talk: &mut Conversation<'_>,
        samples: &mut Vec<u64>,
        mut begun: impl FnMut(u64),
        is_stopped: impl Fn() -> bool,
    ) -> Result<Trips, Problem> {
        let mut trips = Trips::default();
        let begin = self.clock.stop();
        let (settled, give_up) = (begin + self.clock.ticks(self.settle), begin + self.clock.ticks(SETTLE_MAX));
        let is_settled = |messages, now| now >= settled && (messages >= SETTLE_MESSAGES || now >= give_up);
        while !is_settled(trips.settling, self.clock.stop()) {
            trips.settling += 1;
            trips.lost += u64::from(talk.round_trip()?.is_none());
            if is_stopped() {
                return Ok(trips);
            }
        }
        let (spent, lost) = (SpentSince::now(), trips.lost);
        let end = self.clock.stop() + self.clock.ticks(self.duration);
        while samples.len() < SAMPLES_MAX && self.clock.stop() < end {
            match talk.round_trip()? {
                Some(ticks) => {
                    samples.push(ticks);
                    begun(talk.begun());
                }
                None => trips.lost += 1,
            }
        }
        trips.cpu.here = spent.on(samples.len() as u64 + trips.lost - lost);
        Ok(trips)
    }
}

impl Bench {
    /// Measures `target` for `duration`, over a connection made for it.
    pub(crate) fn round_trips(&mut self, target: Target, duration: Duration) -> Result<Trips, Problem> {
        self.place_thread(target.path.pinned)?;
        match target.work {
            Work::RoundTrips if target.path.medium == Medium::CacheLine => return self.floor(duration),
            Work::RoundTrips | Work::OpenLoop => {}
            Work::Send | Work::Receive => return self.bulk(target, duration),
            Work::Connect => return self.connections(target, duration),
        }
        if target.path.medium == Medium::Unmodified {
            return self.unmodified(target, duration);
        }
        let (link, note) = match target.path.medium {
            Medium::Frames => self.open_frames(target).map(|(link, note)| (link, Some(note)))?,
            Medium::Stack => self.open_stack(target).map(|(link, note)| (link, Some(note)))?,
            _ => self.open(target)?,
        };
        // From here on the peer sends one more reply, whatever happens to the slice.
        let packets = self.packet_meter(target);
        let meter = Meter::start(self.watched_cpus());
        let spins = target.path.waiting == Waiting::Spin;
        let clock = self.clock.clone();
        let mut talk = Conversation::new(link, &clock, target.size, target.transport.is_datagram(), spins);
        self.begin_observed(target);
        let measured = self.exchange(&mut talk, settling_time(target.path.waiting), duration);
        let tail = self.end_observed();
        let noise = meter.stop();
        let done = self.say_farewell(talk, target.transport.is_datagram());
        let (mut trips, done) = (measured?, done?);
        trips.slice = self.take_slice();
        trips.napi = done.napi;
        trips.note = note;
        trips.tail = tail;
        trips.cpu.peer = done.cpu;
        trips.packets = packets.map(PacketMeter::stop).transpose()?;
        trips.noise = Noise { involuntary_switches: noise.involuntary_switches + done.involuntary_switches, ..noise };
        Ok(trips)
    }

    /// Asks the peer to echo, and connects to it.
    pub(super) fn open(&mut self, target: Target) -> Result<(Box<dyn Link>, Option<String>), Problem> {
        let options = Options {
            waiting: target.waiting(),
            backend: target.path.backend,
            timeout: self.patience(target.transport.is_datagram()),
            ..Options::default()
        };
        let Way { client, server, .. } = self.ends.way(target.path)?;
        let port = match target.transport {
            Transport::Udp => Some(UdpPort::bind(SocketAddr::new(client, 0))?),
            _ => None,
        };
        let local =
            port.as_ref().map(UdpPort::local).transpose().map_err(|error| Problem::failed("cannot bind", error))?;
        let ready = self.ask_echo(target, local.map_or(0, |local| local.port()))?;
        let there = SocketAddr::new(server, ready.port);
        let stream = |endpoint| StreamLink::connect(&endpoint, &options).map(|link| Box::new(link) as Box<dyn Link>);
        let note = self.kernel_note(ready.note.as_deref());
        let link = match (port, ready.unix) {
            (Some(port), _) => port.connect(there, &options).map(|socket| Box::new(DatagramLink::new(socket)) as _),
            (None, Some(path)) if target.transport == Transport::Shm => stream(Endpoint::Shm(path.into())),
            (None, Some(path)) => stream(Endpoint::Unix(path.into())),
            (None, None) => stream(Endpoint::from(there)),
        };
        link.map(|link| (link, note)).inspect_err(|_| {
            // The peer gives up the slice that it was ready for. Its report is read here, so that it is not taken
            // for the answer to the next request.
            let _ = self.control().reply();
        })
    }

    /// Asks the peer to open its end, opens this one, and waits until the wire between them carries frames.
    fn open_frames(&mut self, target: Target) -> Result<(Box<dyn Link>, String), Problem> {
        let (IpAddr::V4(client), IpAddr::V4(server)) = (self.ends.client, self.ends.server) else {
            return Err(Problem::usage("cannot send bare frames", "they are IPv4").next("leave -6 out"));
        };
        self.leave_interface();
        let interface = self.ends.consent.interface(client.into())?;
        let port = OwnPort::take()?;
        let local = SocketAddrV4::new(client, port.number);
        let ready = self.ask_echo(target, port.number)?;
        let flow = Flow { local, remote: SocketAddrV4::new(server, ready.port) };
        let open = || {
            let mut link = FramesLink::new(End::open(&interface, port, flow)?)?;
            link.wait_until_answered(target.size).map(|()| link)
        };
        let link = open().inspect_err(|_| {
            // As in `open`: the peer's report on the slice that it gives up.
            let _ = self.control().reply();
        })?;
        let note = self.note(&link.note(), ready.note.as_deref());
        Ok((Box::new(link), note))
    }

    /// Opens an engine here, asks the peer to open one there, and waits until both are accelerated.
    pub(super) fn open_stack(&mut self, target: Target) -> Result<(Box<dyn Link>, String), Problem> {
        // The threads that an engine starts shall not be where this one spins.
        self.place_thread(false)?;
        self.need_plane()?;
        if target.transport == Transport::Tcp {
            return self.open_stream(target);
        }
        let mut link = StackLink::open(&self.device()?, self.ends.client, target.load(), target.size)?;
        if target.waiting() == target.path.waiting {
            link = link.waiting(target.path);
        }
        self.place_thread(true)?;
        let port = link.port()?;
        let ready = self.ask_echo(target, port)?;
        let note = self.stack_note(&link.note(), ready.note.as_deref());
        link.connect(SocketAddr::new(self.ends.server, ready.port)).inspect_err(|_| {
            // As in `open`: the peer's report on the slice that it gives up.
            let _ = self.control().reply();
        })?;
        Ok((Box::new(link), note))
    }

    /// The same, with a connection between the engines.
    fn open_stream(&mut self, target: Target) -> Result<(Box<dyn Link>, String), Problem> {
        let engine = engine(&self.device_toward()?, target.load())?;
        self.place_thread(true)?;
        let ready = self.ask_echo(target, 0)?;
        let link = connect_past_kernel(engine, SocketAddr::new(self.ends.server, ready.port)).inspect_err(|_| {
            // As in `open`: the peer's report on the slice that it gives up.
            let _ = self.control().reply();
        })?;
        let note = self.stack_note(&link.note(), ready.note.as_deref());
        let link = if target.waiting() == target.path.waiting { link.waiting(target.path) } else { link };
        Ok((Box::new(link), note))
    }

    pub(crate) fn ask_echo(&mut self, target: Target, port: u16) -> Result<Ready, Problem> {
        let request = Request::Echo(Echo {
            transport: target.transport,
            path: target.path.at_peer().into(),
            size: target.size,
            cpu: self.cpus.server,
            port,
            service: self.service_time,
            pipelined: target.work == Work::OpenLoop,
        });
        match self.control().ask(&request)? {
            Reply::Ready(ready) => Ok(ready),
            _ => Err(Problem::failed("lost the peer", "it did not get ready for a slice").next("restart the peer")),
        }
    }

    /// Has two programs under the library measure.
    fn unmodified(&mut self, target: Target, duration: Duration) -> Result<Trips, Problem> {
        self.place_thread(false)?;
        self.need_plane()?;
        let ready = self.ask_echo(target, 0)?;
        let meter = Meter::start(self.watched_cpus());
        let client = Client {
            transport: target.transport,
            remote: SocketAddr::new(self.ends.server, ready.port),
            size: target.size,
            cpu: self.cpus.client,
            settle: settling_time(target.path.waiting),
            duration,
            clock: (self.clock.name().to_owned(), self.clock.ns_per_tick()),
        };
        let program = self.ends.program.clone().unwrap_or_default();
        let found = client.start(&program);
        let noise = meter.stop();
        // The answering program ends with the connection, whatever has become of the slice.
        let reply = self.control().reply();
        let found = found?;
        let Reply::Done(done) = reply? else {
            return Err(
                Problem::failed("lost the peer", "it did not say that the slice is over").next("restart the peer")
            );
        };
        self.samples.extend(&found.samples);
        let involuntary_switches = found.involuntary_switches + done.involuntary_switches;
        let note = "both ends accelerated by libsidestep.so, as the status page of each program has shown".to_owned();
        Ok(Trips {
            slice: self.take_slice(),
            settling: found.settling,
            noise: Noise { involuntary_switches, ..noise },
            cpu: BothSpent { here: found.cpu, peer: done.cpu },
            lost: found.lost,
            note: Some(note),
            ..Trips::default()
        })
    }

    /// The measured loop: settles, then fills `samples`.
    fn exchange(
        &mut self,
        talk: &mut Conversation<'_>,
        settle: Duration,
        duration: Duration,
    ) -> Result<Trips, Problem> {
        let exchange = Exchange { clock: &self.clock, settle, duration };
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        if self.observer.is_none() {
            return exchange.run(talk, &mut self.samples, |_| {}, is_stopped);
        }
        self.starts.clear();
        exchange.run(talk, &mut self.samples, |begun| self.starts.push(begun), is_stopped)
    }

    fn begin_observed(&mut self, target: Target) {
        if let Some(observer) = &mut self.observer {
            observer.begin(&self.clock, target.path.pinned);
        }
    }

    fn end_observed(&mut self) -> Option<SliceTail> {
        let observer = self.observer.as_mut()?;
        Some(observer.end(&self.clock, &self.starts, &self.samples))
    }

    /// Ends the slice and receives the peer's counts.
    fn say_farewell(&mut self, mut talk: Conversation<'_>, is_datagram: bool) -> Result<Done, Problem> {
        for _ in 0..if is_datagram { FAREWELLS } else { 1 } {
            // A broken connection cannot be closed in order; the peer then sees it break.
            let _ = talk.finish();
            if !is_datagram || self.control().has_word(LOOK_UP) {
                break;
            }
        }
        drop(talk);
        match self.control().reply()? {
            Reply::Done(done) => Ok(done),
            _ => {
                Err(Problem::failed("lost the peer", "it did not say that the slice is over").next("restart the peer"))
            }
        }
    }

    fn floor(&mut self, duration: Duration) -> Result<Trips, Problem> {
        let Some(server) = self.cpus.server.filter(|_| self.ends.same_host) else {
            return Err(Problem::failed("cannot bounce a cache line", "the ends are on different machines"));
        };
        let meter = Meter::start(self.watched_cpus());
        let (settling, here) = floor::bounce(&self.clock, server, duration, &mut self.samples)?;
        let cpu = BothSpent { here, peer: Spent::default() };
        Ok(Trips { slice: self.take_slice(), settling, cpu, noise: meter.stop(), ..Trips::default() })
    }

    /// The CPUs of this host that a pinned path uses.
    pub(crate) fn watched_cpus(&self) -> Vec<u32> {
        let server = self.cpus.server.filter(|_| self.ends.same_host);
        let mut cpus: Vec<u32> = std::iter::once(self.cpus.client).chain(server).collect();
        cpus.dedup();
        cpus
    }
}
