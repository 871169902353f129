//! The exchange over real sockets: one thread, which is polled.
//!
//! * `lines`: two groups and the port for re-requests.
//! * `door`: listeners and connections of OUCH and GLIMPSE.
//! * [`ReadAhead`]: a recording, read by a thread.
//! * [`Stats`]: what was done.

mod door;
mod lines;
mod read_ahead;
mod stats;

pub use read_ahead::ReadAhead;
pub use stats::{LineStats, Stats};

use crate::exchange::{Day, DaySettings};
use crate::feed::{Line, Rerequest};
use crate::fix::Fix;
use crate::glimpse::Glimpse;
use crate::load::Recording;
use crate::ouch::{Ouch, OuchSettings};
use crate::service::Time;
use door::Door;
use lines::{Requests, Sender};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_socket::stream::{Endpoint, Io, Options};
use sidestep_sys::idle::{Idle, IdleStrategy};
use sidestep_sys::{Problem, clock};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two looks for new connections, snapshots to be made, and connections that say nothing.
const CHORES_EVERY_NS: u64 = 100_000;

/// The longest sleep. FIX sessions wake nobody here, so they wait as long as that at most.
const PARK_MAX: Duration = Duration::from_micros(500);

/// Messages that the slower line may be behind: some ms of sending. Beyond, neither the load nor a client adds more until they have left;
/// orders wait in their connections. A line that fell behind by the whole history would lose messages that nobody can ask for again.
const BEHIND_MAX: u64 = 4_096;

/// How long the end of the session is told, and re-requests are still answered: the last chance for whoever lost the last messages.
const END_NS: u64 = 2_500_000_000;

/// How long FIX sessions may take for their Logouts.
const LOGOUT_MAX: Duration = Duration::from_millis(500);

/// Settings of an exchange.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Books, load and history.
    pub day: DaySettings,
    /// MoldUDP64's and SoupBinTCP's session.
    pub session: [u8; 10],
    /// The interface that the feed leaves by.
    pub interface: String,
    /// The groups of the two lines; `None`: a line that is not sent.
    pub groups: [Option<SocketAddr>; 2],
    /// Hops that the feed may go.
    pub ttl: u32,
    /// Messages of a datagram of line A; those of line B hold half as many again, plus one.
    pub messages_per_packet: u16,
    /// Datagrams of a million that each line drops on purpose.
    pub loss_ppm: [u32; 2],
    /// Where re-requests are taken.
    pub rerequest: Option<SocketAddr>,
    /// Where snapshots are given.
    pub glimpse: Option<Endpoint>,
    /// Where orders are taken by OUCH.
    pub ouch: Option<Endpoint>,
    /// Its settings.
    pub ouch_settings: OuchSettings,
    /// Where orders are taken by FIX.
    pub fix: Option<Endpoint>,
    /// Waiting of the thread.
    pub idle: IdleStrategy,
}

/// An exchange with its sockets.
pub struct Exchange {
    day: Day,
    senders: Vec<Sender>,
    requests: Option<Requests>,
    glimpse: Option<Door<Glimpse>>,
    ouch: Option<Door<Ouch>>,
    fix: Option<Fix>,
    io: Io,
    idle: IdleStrategy,
    chores_ns: u64,
    started_ns: u64,
}

/// The time now: monotonic, and since midnight UTC.
fn now() -> (Time, i64) {
    let utc_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let time = Time { mono_ns: clock::monotonic_ns(), day_ns: utc_ns % crate::units::DAY_NS };
    (time, utc_ns.cast_signed())
}

/// Messages of a datagram of line B, given those of line A: other boundaries almost everywhere.
fn other_framing(messages_per_packet: u16) -> u16 {
    messages_per_packet.saturating_add(messages_per_packet / 2).saturating_add(1)
}

impl Exchange {
    /// Opens all sockets. Nothing is sent before [`Self::run`] or [`Self::poll`].
    ///
    /// # Errors
    ///
    /// An address or the interface cannot be had.
    pub fn open(settings: &Settings) -> Result<Self, Problem> {
        Self::with_day(settings, Day::new(&settings.day, now().0.mono_ns))
    }

    /// Opens all sockets for a recorded day. It ends with the recording.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_recorded(settings: &Settings, recording: Recording) -> Result<Self, Problem> {
        Self::with_day(settings, Day::recorded(recording, &settings.day, now().0.mono_ns))
    }

    /// The memory of the books is made before, when nobody waits for it.
    fn with_day(settings: &Settings, day: Day) -> Result<Self, Problem> {
        let (time, _) = now();
        let Settings { session, loss_ppm, .. } = *settings;
        let framing = [settings.messages_per_packet, other_framing(settings.messages_per_packet)];
        let mut senders = Vec::new();
        for at in 0..2 {
            let seed = settings.day.load.seed ^ (at as u64 + 1);
            let line = Line::new(session, framing[at], loss_ppm[at], seed, time.mono_ns);
            if let Some(group) = settings.groups[at] {
                senders.push(Sender::open(line, &settings.interface, group, settings.ttl)?);
            }
        }
        let mut io = Io::named("sidestep market exchange");
        let options = Options::default().for_idle(settings.idle);
        let requests =
            settings.rerequest.map(|address| Requests::open(Rerequest::new(session), address)).transpose()?;
        let glimpse = settings.glimpse.as_ref();
        let glimpse = glimpse.map(|at| Door::listen(&mut io, at, &options, Glimpse::new(session))).transpose()?;
        let ouch = || Ouch::new(session, settings.ouch_settings);
        let ouch = settings.ouch.as_ref().map(|at| Door::listen(&mut io, at, &options, ouch())).transpose()?;
        let fix = settings.fix.as_ref().map(|at| Fix::listen(at, &options)).transpose()?;
        let idle = settings.idle;
        Ok(Self { day, senders, requests, glimpse, ouch, fix, io, idle, chores_ns: 0, started_ns: now().0.mono_ns })
    }

    /// Where it sends and listens, as `name address`.
    pub fn places(&self) -> Vec<(&'static str, String)> {
        let lines = ["line A", "line B"].into_iter().zip(self.senders.iter().map(|sender| sender.group().to_string()));
        let requests = self.requests.iter().map(|requests| ("re-requests", requests.address().to_string()));
        let glimpse = self.glimpse.iter().map(|door| ("GLIMPSE", door.endpoint().to_string()));
        let ouch = self.ouch.iter().map(|door| ("OUCH", door.endpoint().to_string()));
        let fix = self.fix.iter().flat_map(|fix| fix.endpoints()).map(|endpoint| ("FIX", endpoint));
        lines.chain(requests).chain(glimpse).chain(ouch).chain(fix).collect()
    }

    /// Polls until `stop` is set, `duration` is over or a recording has ended, then tells the end of the session for two seconds and a half.
    pub fn run(&mut self, stop: &AtomicBool, duration: Option<Duration>) {
        let end_ns = duration.map_or(u64::MAX, |length| self.started_ns.saturating_add(length.as_nanos() as u64));
        let mut idle = Idle::new(self.idle);
        while !stop.load(Ordering::Relaxed) && !self.day.is_over() && now().0.mono_ns < end_ns {
            match self.poll() {
                0 => {
                    let sleep = |limit: Duration| self.sleep(limit.min(PARK_MAX));
                    idle.next_pause().take(sleep);
                }
                _ => idle.reset(),
            }
        }
        self.end();
    }

    /// Does all that can be done now. Returns how much that was; 0 for nothing.
    pub fn poll(&mut self) -> usize {
        let (time, utc_ns) = now();
        let mut work = 0;
        if !self.is_behind() {
            work += self.day.poll(time);
            work += self.take_orders(time, utc_ns);
        }
        work += self.publish(time);
        if time.mono_ns >= self.chores_ns {
            self.chores_ns = time.mono_ns + CHORES_EVERY_NS;
            work += self.do_chores(time);
        }
        let core = &mut self.day.core;
        if let Some(door) = &mut self.ouch {
            work += door.write(&mut self.io, time, core);
        }
        if let Some(door) = &mut self.glimpse {
            work += door.write(&mut self.io, time, core);
        }
        // Connections past the kernel that were not read.
        let _ = self.io.poll();
        work
    }

    /// A line has more to send than may wait.
    fn is_behind(&self) -> bool {
        let history = &self.day.core.output.history;
        let behind = self.senders.iter().map(|sender| sender.line.behind(history)).max();
        behind.is_some_and(|behind| behind > BEHIND_MAX.min(history.limit() / 2))
    }

    /// Orders in, answers to whoever they are for.
    fn take_orders(&mut self, time: Time, utc_ns: i64) -> usize {
        let core = &mut self.day.core;
        let mut work = 0;
        if let Some(door) = &mut self.ouch {
            work += door.read(&mut self.io, time, core);
        }
        if let Some(fix) = &mut self.fix {
            work += fix.poll(time, utc_ns, core);
        }
        let mut answers = Vec::new();
        core.take_answers_of(|_| true, &mut answers);
        for (owner, answer) in &answers {
            match (&mut self.ouch, &mut self.fix) {
                (Some(door), _) if Ouch::owns(*owner) => door.service.hear(time, *owner, answer),
                (_, Some(fix)) if Fix::owns(*owner) => fix.hear(utc_ns, *owner, answer),
                _ => {}
            }
        }
        if let Some(fix) = &mut self.fix {
            fix.flush();
        }
        work + answers.len()
    }

    fn publish(&mut self, time: Time) -> usize {
        let history = &self.day.core.output.history;
        let sent: usize = self.senders.iter_mut().map(|sender| sender.poll(time.mono_ns, history)).sum();
        sent + self.requests.as_mut().map_or(0, |requests| requests.poll(time.mono_ns, history))
    }

    fn do_chores(&mut self, time: Time) -> usize {
        let core = &mut self.day.core;
        let mut work = 0;
        if let Some(door) = &mut self.ouch {
            work += door.accept(&mut self.io, time);
        }
        if let Some(door) = &mut self.glimpse {
            work += door.accept(&mut self.io, time) + door.read(&mut self.io, time, core);
            door.service.make(time, core);
        }
        work
    }

    /// Sleeps until something comes or is due, at most for `limit`.
    fn sleep(&self, limit: Duration) {
        let due_ns = self.day.due_in_ns(now().0.mono_ns).unwrap_or(u64::MAX);
        let limit = limit.min(Duration::from_nanos(due_ns));
        let requests = self.requests.iter().map(Requests::descriptor);
        let ouch = self.ouch.iter().flat_map(Door::descriptors);
        let descriptors = requests.chain(ouch).chain(self.glimpse.iter().flat_map(Door::descriptors));
        let mut polled: Vec<_> = descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal, or too little memory for the kernel: looked at again at once.
        let _ = poll(&mut polled, Timespec::try_from(limit).ok().as_ref());
    }

    /// The end of the day, told to all for a while.
    fn end(&mut self) {
        let (time, _) = now();
        self.day.close(time);
        self.publish(time);
        self.senders.iter_mut().for_each(|sender| sender.line.end());
        if let Some(door) = &mut self.ouch {
            door.end(time);
        }
        if let Some(door) = &mut self.glimpse {
            door.end(time);
        }
        if let Some(fix) = &mut self.fix {
            fix.flush();
            fix.shut_down(LOGOUT_MAX);
        }
        while now().0.mono_ns - time.mono_ns < END_NS {
            if self.poll() == 0 {
                self.sleep(Duration::from_millis(1));
            }
        }
    }
}
