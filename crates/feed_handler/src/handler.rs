//! The handler: sockets and channel on one thread.

use crate::application::Application;
use crate::channel::{Channel, ChannelOptions};
use crate::line::Line;
use crate::lines::{LineOptions, Lines};
use crate::publication::Publication;
use crate::requests::{Requests, SERVERS_MAX};
use crate::snapshot::{SnapshotServer, Snapshots};
use sidestep_market::arbiter::LineKind;
use sidestep_market::units::{LineId, Nanos};
use sidestep_sys::Problem;
use sidestep_sys::clock::monotonic_ns;
use sidestep_sys::idle::{Idle, IdleStrategy};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often paths of lines and errors of servers are looked at, and readers get a sign of life, ns.
const LOOK_NS: u64 = 100_000_000;
/// The longest sleep while a snapshot is being connected to.
const CONNECTING_SLEEP: Duration = Duration::from_millis(1);

/// Options of a feed handler.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The lines.
    pub lines: Vec<Line>,
    /// Their sockets.
    pub line: LineOptions,
    /// Re-request servers (MoldUDP64), asked in turn; none: what no line brings is left to the snapshot, or lost.
    pub rerequest: Vec<SocketAddr>,
    /// A source of snapshots (GLIMPSE).
    pub snapshot: Option<SnapshotServer>,
    /// Bounds and rules.
    pub channel: ChannelOptions,
    /// Where events and best bids and offers are published for other processes of this host; nowhere by default.
    pub publish: Option<Publication>,
}

impl Options {
    /// A handler of these lines, with everything else as it serves a MoldUDP64 feed of ITCH.
    pub fn of(lines: impl IntoIterator<Item = Line>) -> Self {
        Self { lines: lines.into_iter().collect(), ..Self::default() }
    }
}

/// A feed handler, owned and polled by one thread.
///
/// All memory is taken when it is opened: 410 MB for the default limits of a whole market ([`ChannelOptions`]). Poll it at least every
/// few hundred milliseconds ([`sidestep_socket::Engine`]).
pub struct FeedHandler {
    lines: Lines,
    requests: Requests,
    snapshots: Option<Snapshots>,
    channel: Channel,
    look_at: Nanos,
}

impl FeedHandler {
    /// Joins the lines, opens the sockets, takes the memory.
    ///
    /// # Errors
    /// A line cannot be joined; limits or rules that cannot be; memory that is not there.
    pub fn open(options: &Options) -> Result<Self, Problem> {
        let mut lines = Lines::open(&options.lines, &options.line)?;
        let requests = Requests::open(lines.engine(), &options.rerequest)?;
        let mut channel = options.channel;
        channel.policy.servers = options.rerequest.len() as u8;
        channel.policy.has_snapshot = options.snapshot.is_some();
        let now = Nanos(monotonic_ns());
        let mut channel = Channel::new(&line_kinds(lines.len()), &channel, now)?;
        if let Some(publication) = &options.publish {
            channel.publish(publication)?;
        }
        let snapshots = options.snapshot.as_ref().map(Snapshots::new).transpose()?;
        Ok(Self { lines, requests, snapshots, channel, look_at: now })
    }

    /// Handles what has come and what is due; returns the number of datagrams and other things done, 0 if there was nothing.
    ///
    /// # Errors
    /// This process was forked from the one that opened the handler.
    pub fn poll(&mut self, application: &mut impl Application) -> Result<usize, Problem> {
        let Self { lines, requests, channel, snapshots, .. } = self;
        let count = lines.len();
        let mut done = lines.poll(&mut |arrival| {
            let line = LineId((arrival.line + if arrival.by_twin { count } else { 0 }) as u8);
            let arrived = Nanos(arrival.arrived_ns);
            channel.datagram(line, arrived, arrived, arrival.payload, application);
        })?;
        done += requests.poll(lines.engine(), recovery_line(count), channel, application)?;
        if let Some(snapshots) = snapshots {
            done += usize::from(snapshots.poll(channel, application));
        }
        let now = Nanos(monotonic_ns());
        if now >= channel.next_poll() {
            channel.poll(now, application);
        }
        if now >= self.look_at {
            self.look_at = now.after(LOOK_NS);
            self.channel.beat();
            self.lines.look_at_paths();
            self.requests.look_for_errors(self.lines.engine(), &mut self.channel, application);
        }
        // A request that cannot be sent is one for the next server at once: as often as there are servers.
        for _ in 0..SERVERS_MAX {
            let Some(wanted) = self.channel.take_request() else { break };
            self.requests.send(self.lines.engine(), wanted, &mut self.channel, application);
        }
        Ok(done)
    }

    /// Sleeps until something has come or is due, at most so long and at most 50 ms. Call it when a poll has found nothing.
    ///
    /// # Errors
    /// The kernel refused to, or this process was forked.
    pub fn sleep(&mut self, longest: Duration) -> Result<(), Problem> {
        let due = Duration::from_nanos(self.channel.next_poll().since(Nanos(monotonic_ns())));
        let is_connecting = self.snapshots.as_ref().is_some_and(Snapshots::is_connecting);
        let limit = if is_connecting { CONNECTING_SLEEP } else { due };
        let snapshot = self.snapshots.as_ref().and_then(Snapshots::descriptor);
        self.lines.sleep_with(longest.min(limit), snapshot, &self.requests)
    }

    /// Polls until `stop` is set.
    ///
    /// # Errors
    /// As [`FeedHandler::poll`] and [`FeedHandler::sleep`].
    pub fn run(
        &mut self,
        application: &mut impl Application,
        idle: IdleStrategy,
        stop: &AtomicBool,
    ) -> Result<(), Problem> {
        let mut idle = Idle::new(idle);
        while !stop.load(Ordering::Relaxed) {
            if self.poll(application)? > 0 {
                idle.reset();
                continue;
            }
            let mut slept = Ok(());
            idle.next_pause().take(|longest| slept = self.sleep(longest));
            slept?;
        }
        Ok(())
    }

    /// As [`Channel::take_snapshot`]; the next poll connects.
    pub fn take_snapshot(&mut self, application: &mut impl Application) -> bool {
        self.channel.take_snapshot(Nanos(monotonic_ns()), application)
    }

    /// The channel: books, instruments, state, counters.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The lines: places and paths.
    pub fn sockets(&self) -> &Lines {
        &self.lines
    }

    /// The same, also for the counters of their sockets.
    pub fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    /// Why the last snapshot failed; nothing if none did, or if one has succeeded since.
    pub fn snapshot_failure(&self) -> Option<&str> {
        self.snapshots.as_ref()?.failure()
    }
}

/// The kinds of a channel's lines: the lines, their kernel twins, answers to requests.
pub fn line_kinds(lines: usize) -> Vec<LineKind> {
    let twins = std::iter::repeat_n(LineKind::Twin, lines);
    std::iter::repeat_n(LineKind::Live, lines).chain(twins).chain([LineKind::Recovery]).collect()
}

/// The line of answers to requests, of a handler with so many lines.
pub fn recovery_line(lines: usize) -> LineId {
    LineId(2 * lines as u8)
}
