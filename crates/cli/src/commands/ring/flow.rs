//! `sidestep ring tail --flow`.

use super::dump::Printer;
use super::tail::{End, NAP, end, form, unprintable};
use crate::args::{FlowFlags, FlowTarget, RingTail};
use crate::signal;
use sidestep_socket::Reason;
use sidestep_socket::ring_flow::{Entry, EntryId, EntryPath, Flow, FlowOptions, Packet, Protocol, Statistics, Verdict};
use sidestep_sys::problem::{Problem, say};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two looks at the path: it changes with the control plane.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn run(args: &RingTail, target: FlowTarget) -> Result<u8, Problem> {
    let flags = &args.flow;
    let interface = flags.interface.as_deref().unwrap_or_default();
    let mut flow = Flow::open(&FlowOptions::on(interface).feed(&flags.feed))?;
    let entry = add(&mut flow, flags, target)?;
    let mut tail = Tail {
        path: flow.path(entry),
        entry,
        target,
        wanted: Wanted {
            protocol: target.protocol,
            local: flow.local(entry).unwrap_or(target.local),
            peer: flags.peer,
            source: flags.source,
        },
        printer: Printer::new(form(args)),
        clock: Clock::now(),
        flow,
        left: args.count.unwrap_or(u64::MAX),
        seen: 0,
    };
    if let EntryPath::Nothing { detail, reason } = &tail.path {
        let why = if detail.is_empty() { reason.to_string() } else { detail.clone() };
        return Err(Problem::failed(format!("cannot tap {} on {interface}", target.local), why).next(match reason {
            Reason::ControlAbsent | Reason::ControlSilent => "start sidestep control",
            _ => "taps are for root, and for groups of sidestep control --allow-tap-gid",
        }));
    }
    tail.say_path();
    let stop = signal::stop_flag()?;
    let read = tail.read(&stop);
    let read = match tail.printer.flush() {
        Err(error) if !matches!(read, End::Failed(_)) => unprintable(error),
        _ => read,
    };
    end(read, &tail.summary())
}

/// Adds what the flags ask for.
fn add(flow: &mut Flow, flags: &FlowFlags, target: FlowTarget) -> Result<EntryId, Problem> {
    let FlowTarget { protocol, local } = target;
    let verdict = if flags.drop { Verdict::Drop } else { Verdict::Pass };
    let is_group = local.ip().is_multicast();
    let is_tap = flags.tap || protocol == Protocol::Tcp;
    if flags.drop && is_tap {
        let why = "a tap has no socket that shows whom a drop would deprive, and TCP sends what is dropped again";
        return Err(Problem::usage("cannot drop what is tapped", why).next("leave --drop away"));
    }
    if flags.source.is_some() && !is_group {
        return Err(Problem::usage("cannot select a sender", "--source is for groups").next("use --peer with its port"));
    }
    match flags.peer {
        Some(_) if is_group => {
            Err(Problem::usage("cannot tap a flow", "a group has no other end").next("use --source with the sender"))
        }
        Some(_) if !is_tap => Err(Problem::usage("cannot select a sender", "packets of one sender are tapped")
            .next("add --tap, or leave --peer away")),
        Some(remote) => flow.tap(Entry::Flow { protocol, local, remote, vlan: None }, verdict),
        None if is_tap && is_group => flow.tap(Entry::Multicast { group: local, source: None, vlan: None }, verdict),
        None if is_tap => flow.tap(Entry::Listener { protocol, local, vlan: None }, verdict),
        None if is_group => flow.join(local, flags.source, verdict),
        None => flow.bind(local, verdict),
    }
}

/// The packets that were asked for. All packets of a feed come to all who share it.
#[derive(Clone, Copy)]
struct Wanted {
    protocol: Protocol,
    local: SocketAddr,
    peer: Option<SocketAddr>,
    source: Option<IpAddr>,
}

impl Wanted {
    fn has(&self, packet: &Packet<'_>) -> bool {
        let (destination, source) = (packet.destination(), packet.source());
        self.protocol == packet.protocol()
            && self.local.port() == destination.port()
            && (self.local.ip().is_unspecified() || self.local.ip() == destination.ip())
            && self.peer.is_none_or(|peer| peer == source)
            && self.source.is_none_or(|address| address == source.ip())
    }
}

struct Tail {
    flow: Flow,
    entry: EntryId,
    path: EntryPath,
    target: FlowTarget,
    wanted: Wanted,
    printer: Printer,
    clock: Clock,
    left: u64,
    seen: u64,
}

impl Tail {
    fn read(&mut self, stop: &AtomicBool) -> End {
        let wanted = self.wanted;
        let mut looked = Instant::now();
        while self.left > 0 {
            if stop.load(Ordering::Relaxed) {
                return End::Stopped;
            }
            let printed = match self.flow.receive() {
                // Of another reader of the same feed.
                Some(packet) if !wanted.has(&packet) => Ok(()),
                Some(packet) => {
                    let gap = match packet.lost_before() {
                        0 => Ok(()),
                        lost => self.printer.note(format_args!("{lost} packets lost{}", queue_of(&packet))),
                    };
                    let number = self.seen;
                    (self.seen, self.left) = (self.seen + 1, self.left - 1);
                    let head = Head { number, packet: &packet, clock: self.clock };
                    gap.and_then(|()| self.printer.packet(&head, packet.payload()))
                }
                None => {
                    if looked.elapsed() >= LOOK {
                        looked = Instant::now();
                        self.look_at_path();
                    }
                    let flushed = self.printer.flush();
                    sleep(NAP);
                    flushed
                }
            };
            if let Err(error) = printed {
                return unprintable(error);
            }
        }
        End::Counted
    }

    fn look_at_path(&mut self) {
        let path = self.flow.path(self.entry);
        if path != self.path {
            self.path = path;
            self.say_path();
        }
    }

    fn say_path(&self) {
        say(format!("{} {}: {}", self.target.protocol, self.target.local, self.path));
    }

    fn summary(&self) -> String {
        summary(self.flow.statistics(), self.flow.dropped())
    }
}

fn summary(statistics: &Statistics, dropped: u64) -> String {
    let mut text = format!("{} packets, {} lost", statistics.packets(), statistics.lost());
    for (number, queue) in statistics.queues.iter().enumerate() {
        let _ = write!(text, "; queue {number}: {}, {} lost", queue.packets, queue.lost);
    }
    let counts = [
        (statistics.by_kernel, "by the kernel"),
        (statistics.bad_checksums, "with wrong checksums, skipped"),
        (statistics.malformed, "malformed, skipped"),
        (dropped, "too long for the ring, or come while it was busy"),
        (statistics.fallbacks, "times without rings"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, "; {count} {what}");
    }
    text
}

fn queue_of(packet: &Packet<'_>) -> String {
    packet.queue().map_or_else(String::new, |queue| format!(" of queue {queue}"))
}

/// The facts of a packet as text.
struct Head<'a> {
    number: u64,
    packet: &'a Packet<'a>,
    clock: Clock,
}

impl std::fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, packet, clock } = self;
        let received = clock.since_1970_ns(packet.received_ns());
        write!(f, "#{number} {}.{:09}", received / 1_000_000_000, received % 1_000_000_000)?;
        write!(f, " {} {} > {}", packet.protocol(), packet.source(), packet.destination())?;
        write!(f, " {} bytes{}", packet.payload().len(), queue_of(packet))?;
        packet.vlan().map_or(Ok(()), |id| write!(f, " vlan {id}"))
    }
}

/// Both clocks at one instant.
#[derive(Clone, Copy)]
struct Clock {
    monotonic_ns: u64,
    since_1970_ns: u64,
}

impl Clock {
    fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            monotonic_ns: sidestep_sys::clock::monotonic_ns(),
            since_1970_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    fn since_1970_ns(self, monotonic_ns: u64) -> u64 {
        self.since_1970_ns.wrapping_add(monotonic_ns.wrapping_sub(self.monotonic_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_socket::ring_flow::QueueStatistics;

    #[test]
    fn the_summary_has_every_queue_and_what_was_skipped() {
        let queues = vec![QueueStatistics { packets: 3, lost: 2, lost_bytes: 96 }, QueueStatistics::default()];
        let statistics = Statistics { queues, by_kernel: 1, bad_checksums: 4, ..Statistics::default() };
        assert_eq!(
            summary(&statistics, 7),
            "4 packets, 2 lost; queue 0: 3, 2 lost; queue 1: 0, 0 lost; 1 by the kernel; 4 with wrong checksums, skipped; \
             7 too long for the ring, or come while it was busy"
        );
    }

    #[test]
    fn times_are_told_by_the_other_clock() {
        let clock = Clock { monotonic_ns: 500, since_1970_ns: 10_000 };
        assert_eq!([400, 500, 750].map(|ns| clock.since_1970_ns(ns)), [9_900, 10_000, 10_250]);
    }
}
