//! Sources of events in the kernel, for measurements: a timer, and datagrams at XDP. An event is stamped once, at the top
//! of its program, before any sink is looked at; it then goes to the ring, to a BPF ring buffer, or to a socket.

mod features;
mod layout;
mod ringbuf;

pub use layout::{Counts, EVENT_BYTES, Event, SOURCE_CELLS, Sink};
pub use ringbuf::Ringbuf;

use crate::{RingMap, element_bytes};
use features::Features;
use layout::{RING_EVENTS, RINGBUF_BYTES, RINGS, Settings};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramInput};
use sidestep_sys::Problem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The compiled programs.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ring_source.bpf.o"));
/// `BPF_F_TIMER_CPU_PIN` of linux/bpf.h (Linux 6.7).
const TIMER_CPU_PIN: u32 = 2;
/// The most events of one run of publishing: they must fit into the BPF ring buffer, each with its header of 8 bytes.
const PUBLISHES_MAX: u32 = RINGBUF_BYTES / (EVENT_BYTES as u32 + 8);
const START: &str = "source_start";
const STOP: &str = "source_stop";
const COST: &str = "source_cost";
const DATAGRAM: &str = "source_datagram";

/// The origin of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A timer in softirq (Linux 5.15).
    Timer,
    /// UDP datagrams over IPv4 of [`EVENT_BYTES`] to this port, at XDP.
    Datagrams {
        /// The port.
        port: u16,
    },
}

/// The programs, loaded, with their rings. Dropping it stops the timer.
pub struct Source {
    object: Object,
    rings: RingMap,
    origin: Origin,
    features: Features,
    /// Whether the timer stays on the CPU that started it.
    timer_flags: AtomicU32,
}

impl Source {
    /// Loads the programs of this origin.
    pub fn load(origin: Origin) -> Result<Self, Problem> {
        // First, because it says what is missing where nothing is permitted; what is not permitted looks unsupported.
        let rings = RingMap::create("sidestep_source", RINGS, SOURCE_CELLS)?;
        let features = Features::probe()?;
        if origin == Origin::Timer {
            features.require_timer()?;
        }
        libbpf_rs::set_print(None);
        let object = ObjectBuilder::default().open_memory(OBJECT).and_then(|mut object| {
            choose(&mut object, origin, features);
            for mut map in object.maps_mut().filter(|map| map.name() == "rings") {
                map.reuse_fd(rings.fd())?;
            }
            object.load()
        });
        let object = object.map_err(|error| {
            Problem::failed("cannot load the source of events", format!("{error:#}"))
                .next("check that the kernel is 5.15 or later, and run as root (it needs CAP_BPF and CAP_NET_ADMIN)")
        })?;
        Ok(Self { object, rings, origin, features, timer_flags: AtomicU32::new(TIMER_CPU_PIN) })
    }

    /// Sends the next events to this sink. Datagrams do so at once, the timer when it is started.
    pub fn send_to(&self, sink: Sink) -> Result<(), Problem> {
        self.settle(Settings { sink, ..self.settings() })
    }

    /// Starts the timer on the CPU of the calling thread, with this time from one event to the next.
    pub fn start_timer(&self, interval: Duration, sink: Sink) -> Result<(), Problem> {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let start = |timer_flags: u32| {
            self.timer_flags.store(timer_flags, Relaxed);
            self.settle(Settings { interval_ns, sink, is_running: true, ..self.settings() })?;
            self.run(START)
        };
        let mut result = start(self.timer_flags.load(Relaxed))?;
        if result != 0 && self.timer_is_pinned() {
            result = start(0)?;
        }
        if result == 0 {
            return Ok(());
        }
        let why = std::io::Error::from_raw_os_error(result.wrapping_neg());
        Err(Problem::failed("cannot start the timer in the kernel", why).next("check that the kernel is 5.15 or later"))
    }

    /// Stops the timer. No event comes after it.
    pub fn stop_timer(&self) -> Result<(), Problem> {
        self.settle(self.settings())?;
        self.run(STOP).map(|_| ())
    }

    /// Whether the timer stays on the CPU on which it was started: from Linux 6.7 on.
    pub fn timer_is_pinned(&self) -> bool {
        self.timer_flags.load(Relaxed) == TIMER_CPU_PIN
    }

    /// Publishes this many events (at most 4681) in one loop in the kernel, to the ring, to the BPF ring buffer or to
    /// nothing, and returns the time that took, ns. The ring buffer must be empty. Needs bpf_loop (Linux 5.17).
    pub fn publish(&self, sink: Sink, events: u32) -> Result<u64, Problem> {
        self.features.require_loop()?;
        if events == 0 || events > PUBLISHES_MAX {
            let why = format!("the BPF ring buffer has room for {PUBLISHES_MAX}");
            return Err(Problem::usage(format!("cannot publish {events} events in one loop"), why));
        }
        let before = self.counts()?;
        self.settle(Settings { sink, publishes: events, ..self.settings() })?;
        self.run(COST)?;
        let after = self.counts()?;
        if after.refused != before.refused {
            return Err(Problem::failed("cannot measure publishing", "the BPF ring buffer was full")
                .next("empty it before each run"));
        }
        Ok(after.cost_ns)
    }

    /// A descriptor of the program of datagrams, to be attached to an interface.
    pub fn xdp_program(&self) -> Result<OwnedFd, Problem> {
        let program = self.object.progs().find(|program| program.name() == DATAGRAM);
        let program = program.ok_or_else(|| cannot_ask("it has no program of datagrams"))?;
        owned(program.as_fd())
    }

    /// The ring of the events.
    pub fn ring(&self) -> SourceRing<'_> {
        SourceRing { map: self.rings.fd(), offset: self.rings.offset(RING_EVENTS), bytes: element_bytes(SOURCE_CELLS) }
    }

    /// A reader of the BPF ring buffer, which passes each record to `take`.
    pub fn ringbuf(&self, take: impl FnMut(&[u8]) + 'static) -> Result<Ringbuf, Problem> {
        Ringbuf::open(&self.map("ringbuf")?, take)
    }

    /// The doorbell: the descriptors of the page with the flag, and of its ring buffer.
    pub fn doorbell(&self) -> Result<[OwnedFd; 2], Problem> {
        Ok([owned(self.map("bell_flags")?.as_fd())?, owned(self.map("bell")?.as_fd())?])
    }

    /// What the programs have counted.
    pub fn counts(&self) -> Result<Counts, Problem> {
        let found = self.map("counts")?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(cannot_ask)?;
        found.and_then(|bytes| Counts::of(&bytes)).ok_or_else(|| cannot_ask("it has another size"))
    }

    fn settings(&self) -> Settings {
        let port = if let Origin::Datagrams { port } = self.origin { port } else { 0 };
        Settings {
            interval_ns: 0,
            sink: Sink::Nothing,
            is_running: false,
            timer_flags: self.timer_flags.load(Relaxed),
            port,
            publishes: 0,
        }
    }

    fn settle(&self, settings: Settings) -> Result<(), Problem> {
        self.map("settings")?.update(&0_u32.to_ne_bytes(), &settings.bytes(), MapFlags::ANY).map_err(cannot_ask)
    }

    /// Runs a program in the kernel, and returns its result.
    fn run(&self, name: &str) -> Result<i32, Problem> {
        let failed = |why: String| Problem::failed(format!("cannot run {name} in the kernel"), why);
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let program = program.ok_or_else(|| failed("it was not loaded".into()))?;
        let output = program.test_run(ProgramInput::default()).map_err(|error| failed(format!("{error:#}")))?;
        Ok(output.return_value.cast_signed())
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, Problem> {
        self.object.maps().find(|map| map.name() == name).ok_or_else(|| cannot_ask(format!("it has no map {name}")))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // A timer ends with its map anyway: this only ends it sooner.
        if self.origin == Origin::Timer {
            let _ = self.stop_timer();
        }
    }
}

/// The memory of a source's ring: what [`sidestep_ring::Segment`] attaches to.
#[derive(Clone, Copy, Debug)]
pub struct SourceRing<'a> {
    /// The map.
    pub map: BorrowedFd<'a>,
    /// The offset of the ring in its memory, bytes.
    pub offset: u64,
    /// The size of the element, bytes.
    pub bytes: usize,
}

/// Leaves out the programs that this origin does not need or this kernel does not know.
fn choose(object: &mut OpenObject, origin: Origin, features: Features) {
    let has_timer = origin == Origin::Timer;
    for mut program in object.progs_mut() {
        let name = program.name().to_owned();
        let wanted = match name.to_str() {
            Some(START | STOP) => has_timer,
            Some(COST) => features.has_loop,
            _ => !has_timer,
        };
        program.set_autoload(wanted);
    }
    if !has_timer {
        for mut map in object.maps_mut().filter(|map| map.name() == "timers") {
            // An older kernel refuses the description of its value.
            let _ = map.set_autocreate(false);
        }
    }
}

fn owned(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Problem> {
    descriptor.try_clone_to_owned().map_err(|error| {
        Problem::failed("cannot copy a descriptor of a source", error).next("raise the limit of open files: ulimit -n")
    })
}

fn cannot_ask(why: impl std::fmt::Display) -> Problem {
    Problem::failed("cannot reach the source of events in the kernel", why)
}
