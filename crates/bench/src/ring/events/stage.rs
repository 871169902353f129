//! What all arms of a run share: the source and its CPU. A slice opens a reader, starts the source, reads, and stops it.

use super::Origin;
use super::arms::{Path, Way};
use super::awake::Awake;
use super::device::Device;
use super::reader::{Plan, Reader, SLEEP_MAX, read};
use super::readers::{CallReader, DoorbellReader, RingReader, RingbufReader};
use super::wire::{PORT, Wire, drain};
use crate::measure::Cpus;
use crate::ring::Job;
use crate::ring::near::Found;
use sidestep_kernel_ring::source::{self, Sink, Source};
use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::{Doorbell, Segment};
use sidestep_sys::{Problem, cpu};
use std::cell::RefCell;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Reads of a second reader between two looks at whether the slice is over.
const READS_PER_LOOK: u32 = 1 << 10;
/// The time that threads of the lowest priority go on after the end of a slice that does not end: see [`Awake`]. Shorter than the silence
/// for which a source counts as gone.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// Bytes of a buffer for one event.
const BUFFER_BYTES: usize = 2048;

/// The source of the events.
enum Events {
    Timer(Source),
    Datagrams(Source, Box<Wire>),
    Module(Device),
}

/// The source, the CPUs, and the samples.
pub(super) struct Stage {
    events: Events,
    interval: Duration,
    cpus: Cpus,
    /// A CPU that neither end has.
    third_cpu: Option<u32>,
    stop: Arc<AtomicBool>,
    samples: RefCell<Vec<u64>>,
}

impl Stage {
    /// Loads the source.
    pub(super) fn open(origin: Origin, interval: Duration, cpus: Cpus, stop: Arc<AtomicBool>) -> Result<Self, Problem> {
        let events = match origin {
            Origin::Timer => Events::Timer(Source::load(source::Origin::Timer)?),
            Origin::Xdp => {
                let source = Source::load(source::Origin::Datagrams { port: PORT })?;
                let wire = Box::new(Wire::up(&source.xdp_program()?)?);
                Events::Datagrams(source, wire)
            }
            Origin::Module => Events::Module(Device::open(interval)?),
        };
        let samples = RefCell::new(Vec::with_capacity(crate::measure::SAMPLES_MAX));
        let is_free = |cpu: &u32| *cpu != cpus.client && Some(*cpu) != cpus.server;
        let third_cpu = cpu::allowed().into_iter().find(is_free);
        Ok(Self { events, interval, cpus, third_cpu, stop, samples })
    }

    /// The BPF programs, if they are the source.
    pub(super) fn source(&self) -> Option<&Source> {
        match &self.events {
            Events::Timer(source) | Events::Datagrams(source, _) => Some(source),
            Events::Module(_) => None,
        }
    }

    /// The interface of the reader, if there is one.
    pub(super) fn interface(&self) -> &str {
        if let Events::Datagrams(_, wire) = &self.events { wire.interface() } else { "" }
    }

    /// Measures one slice of a path.
    pub(super) fn measure(&self, path: &Path, is_awake: bool, job: &Job) -> Result<Found, Problem> {
        // A reader that polls keeps its CPU awake itself, and a second thread there would only take time from it.
        let mut could_halt = vec![job.far_cpu];
        could_halt.extend(path.sleeps().then_some(self.cpus.client));
        let limit = job.settle + job.duration + IDLE_MAX;
        let _awake = is_awake.then(|| Awake::keep(&could_halt, limit)).transpose()?;
        match path.way {
            Way::Ring | Way::ModuleRing => self.slice(Sink::Ring, RingReader::of(self.subscriber()?), job),
            Way::RingTwoReaders => self.two_readers(job),
            Way::RingDoorbell => self.doorbell(job),
            Way::RingbufSpin => self.slice(Sink::Ringbuf, RingbufReader::<false>::open(self.bpf()?)?, job),
            Way::RingbufEpoll => self.slice(Sink::RingbufWake, RingbufReader::<true>::open(self.bpf()?)?, job),
            Way::RecvBlock => {
                self.slice(Sink::Socket, CallReader::<_, false, false>::of(self.socket(false)?, UDP, 0), job)
            }
            Way::RecvPoll => {
                self.slice(Sink::Socket, CallReader::<_, true, false>::of(self.socket(true)?, UDP, 0), job)
            }
            Way::RecvSpin => {
                self.slice(Sink::Socket, CallReader::<_, false, true>::of(self.socket(true)?, UDP, 0), job)
            }
            Way::ReadBlock => self.slice(
                Sink::Nothing,
                CallReader::<_, false, false>::of(self.device()?.reader(false)?, DEVICE, READ_HEADER_BYTES),
                job,
            ),
            Way::ReadPoll => self.slice(
                Sink::Nothing,
                CallReader::<_, true, false>::of(self.device()?.reader(true)?, DEVICE, READ_HEADER_BYTES),
                job,
            ),
            Way::ReadSpin => self.slice(
                Sink::Nothing,
                CallReader::<_, false, true>::of(self.device()?.reader(true)?, DEVICE, READ_HEADER_BYTES),
                job,
            ),
        }
    }

    fn slice<R: Reader>(&self, sink: Sink, mut reader: R, job: &Job) -> Result<Found, Problem> {
        let plan = Plan { settle: job.settle, duration: job.duration, stop: &self.stop };
        let mut samples = self.samples.borrow_mut();
        match &self.events {
            Events::Timer(source) => {
                // It stays on the CPU that starts it.
                self.on(job.far_cpu, || source.start_timer(self.interval, sink))?;
                let found = read(&mut reader, &plan, &mut samples);
                source.stop_timer().and(found)
            }
            Events::Datagrams(source, wire) => {
                source.send_to(sink)?;
                let is_over = AtomicBool::new(false);
                let (interval, cpu) = (self.interval, job.far_cpu);
                std::thread::scope(|scope| {
                    let sender = scope.spawn(|| wire.send(interval, cpu, &is_over));
                    let found = read(&mut reader, &plan, &mut samples);
                    is_over.store(true, Ordering::Relaxed);
                    let sent = sender.join().unwrap_or_else(|_| Err(ended("the sender")));
                    sent.and(found)
                })
            }
            Events::Module(device) => {
                self.on(job.far_cpu, || device.start())?;
                read(&mut reader, &plan, &mut samples)
            }
        }
    }

    /// A slice with a second reader, which is not timed.
    fn two_readers(&self, job: &Job) -> Result<Found, Problem> {
        let (reader, other) = (RingReader::of(self.subscriber()?), self.subscriber()?);
        let third = self.third_cpu;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let end = Instant::now() + job.settle + job.duration + IDLE_MAX;
            let (on, is_over) = (third.unwrap_or(job.far_cpu), &is_over);
            let second = scope.spawn(move || read_along(other, on, third.is_none(), (is_over, end)));
            let found = self.slice(Sink::Ring, reader, job);
            is_over.store(true, Ordering::Relaxed);
            let second = second.join().unwrap_or_else(|_| Err(ended("the second reader")));
            second.and(found)
        })
    }

    fn doorbell(&self, job: &Job) -> Result<Found, Problem> {
        let [flag_page, ring_buffer] = self.bpf()?.doorbell()?;
        let doorbell = Doorbell::bpf(flag_page, ring_buffer)?;
        self.slice(Sink::Doorbell, DoorbellReader::of(self.subscriber()?, doorbell), job)
    }

    fn subscriber(&self) -> Result<Subscriber, Problem> {
        let segment = match &self.events {
            Events::Timer(source) | Events::Datagrams(source, _) => {
                let ring = source.ring();
                let map = ring
                    .map
                    .try_clone_to_owned()
                    .map_err(|error| Problem::failed("cannot attach to the ring", error))?;
                Segment::foreign(map, ring.offset, ring.bytes)?
            }
            Events::Module(device) => device.segment()?,
        };
        segment.subscriber(Start::Latest)
    }

    fn socket(&self, is_non_blocking: bool) -> Result<UdpSocket, Problem> {
        let Events::Datagrams(_, wire) = &self.events else { return Err(ended("the socket")) };
        let socket = wire.receiver()?;
        let set = || {
            socket.set_nonblocking(true)?;
            drain(&socket);
            socket.set_nonblocking(is_non_blocking)?;
            socket.set_read_timeout(Some(SLEEP_MAX))
        };
        set().map_err(|error| Problem::failed("cannot set up a socket for events", error))?;
        Ok(socket)
    }

    fn bpf(&self) -> Result<&Source, Problem> {
        self.source().ok_or_else(|| ended("the BPF program"))
    }

    fn device(&self) -> Result<&Device, Problem> {
        if let Events::Module(device) = &self.events { Ok(device) } else { Err(ended("the device")) }
    }

    /// Runs `work` on this CPU, and returns to the reader's.
    fn on<T>(&self, other: u32, work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
        cpu::restrict(&[other])?;
        let done = work();
        cpu::restrict(&[self.cpus.client])?;
        done
    }
}

/// Bytes of `struct sidestep_ring_read`, in front of each message that the module's device returns.
const READ_HEADER_BYTES: usize = 16;
const UDP: &str = "the socket";
const DEVICE: &str = "the module's device";

/// Reads a ring, and forgets what it reads: until it is told that the slice is over, but not longer than to this time.
fn read_along(
    mut subscriber: Subscriber,
    on: u32,
    is_modest: bool,
    (is_over, end): (&AtomicBool, Instant),
) -> Result<(), Problem> {
    cpu::restrict(&[on])?;
    if is_modest {
        cpu::run_idle()?;
    }
    let mut buffer = [0; BUFFER_BYTES];
    while !is_over.load(Ordering::Relaxed) && Instant::now() < end {
        for _ in 0..READS_PER_LOOK {
            // A loss is its own affair: it may not get the CPU for long.
            std::hint::black_box(subscriber.try_read(&mut buffer).is_ok());
        }
    }
    Ok(())
}

fn ended(what: &str) -> Problem {
    Problem::failed("cannot measure this path", format!("{what} is not there"))
}
