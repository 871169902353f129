//! A venue, its lines, its servers and a feed in virtual time, all by one seed.
//!
//! The venue publishes one or two sessions on lines that frame, delay, drop, duplicate and reorder on their own. Re-request servers answer,
//! answer in part, answer something else, or are dead. Snapshots come, come late, are too old, fail. `hostile` knows no venue: it gives a feed
//! anything.

#![allow(dead_code)]

pub(crate) mod consumer;
pub(crate) mod dice;
pub(crate) mod hostile;
mod plan;

use consumer::{Consumer, content};
use dice::Dice;
use plan::{Plan, ServerKind};
use sidestep_market::arbiter::{HELD_BYTES_MIN, Limits, LineKind};
use sidestep_market::feed::{Action, Feed, State};
use sidestep_market::mold64::{Mold64, Packet, PacketWriter, Session};
use sidestep_market::units::{LineId, Nanos, Sequence};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub(crate) const MS: u64 = 1_000_000;
/// Steps after which a schedule has run away.
const STEPS_MAX: u64 = 200_000;

/// What happens at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Datagram { line: u8, bytes: Vec<u8> },
    Refused { server: u8 },
    SnapshotMessage { attempt: u32 },
    SnapshotDone { attempt: u32, next: u64 },
    SnapshotFailed { attempt: u32 },
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) delivered: u64,
    pub(crate) skipped: u64,
    pub(crate) requests: u64,
    pub(crate) snapshots: u64,
    pub(crate) gaps: u64,
    pub(crate) sessions: u64,
    pub(crate) digest: u64,
}

struct World<'a> {
    dice: Dice<'a>,
    plan: Plan,
    feed: Feed<Mold64>,
    consumer: Consumer,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Number of the next event, so that those of one time keep their order.
    number: u64,
    now: u64,
    is_traced: bool,
}

/// Runs one schedule.
pub(crate) fn run(seed: u64, is_traced: bool) -> Result<Tally, String> {
    let mut dice = Dice::Seed(seed);
    let plan = Plan::new(&mut dice);
    let lines: Vec<LineKind> =
        (0..plan.lines).map(|_| LineKind::Live).chain(std::iter::once(LineKind::Recovery)).collect();
    let limits = Limits { held_messages: plan.held_messages, held_bytes: HELD_BYTES_MIN };
    let feed = Feed::new(&lines, limits, plan.policy, Nanos(0)).map_err(|problem| problem.brief())?;
    let consumer = Consumer { is_content_known: true, ..Consumer::default() };
    if is_traced {
        eprintln!("{plan:?}");
    }
    let mut world = World { dice, plan, feed, consumer, events: BinaryHeap::new(), number: 0, now: 0, is_traced };
    world.publish();
    world.play()?;
    world.judge()
}

impl World<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    /// All datagrams of all lines, before they are impaired on their way.
    fn publish(&mut self) {
        for index in 0..self.plan.sessions.len() {
            for line in 0..self.plan.lines {
                self.publish_line(index, line);
            }
        }
    }

    fn publish_line(&mut self, index: usize, line: u8) {
        let (session, times) = (self.plan.sessions[index].name, self.plan.sessions[index].times.clone());
        let delay = self.plan.delays[usize::from(line)];
        let mut first = 0;
        let mut last_sent = times.first().copied().unwrap_or(0);
        while first < times.len() {
            let count =
                (1 + self.dice.below(self.plan.framing[usize::from(line)])).min((times.len() - first) as u64) as usize;
            let sent = times[first + count - 1];
            let mut beat = last_sent + 1000 * MS;
            while beat < times[first] {
                let bytes = packet(session, first as u64 + 1, 0);
                self.travel(line, beat + delay, &bytes);
                beat += 1000 * MS;
            }
            let bytes = packet(session, first as u64 + 1, count as u64);
            self.travel(line, sent + delay, &bytes);
            (first, last_sent) = (first + count, sent);
        }
        self.publish_end(session, line, times.len() as u64 + 1, last_sent);
    }

    /// Heartbeats after the last message, and the end of the session: these arrive.
    fn publish_end(&mut self, session: Session, line: u8, next: u64, last_sent: u64) {
        for beat in 1..=3 {
            let time = last_sent + beat * 300 * MS + self.plan.delays[usize::from(line)];
            let bytes = if self.plan.has_end && beat > 1 { end(session, next) } else { packet(session, next, 0) };
            self.at(time, Event::Datagram { line, bytes });
        }
    }

    /// A datagram on its way by a line.
    fn travel(&mut self, line: u8, time: u64, bytes: &[u8]) {
        let plan = &self.plan;
        let outage = plan.outages[usize::from(line)];
        let is_lost = self.dice.chance(plan.loss[usize::from(line)]) || (outage.0..outage.1).contains(&time);
        let copies = if is_lost { 0 } else { 1 + u64::from(self.dice.chance(plan.duplication)) };
        for _ in 0..copies {
            let late = if self.dice.chance(self.plan.reorder) { self.dice.below(3 * MS) } else { 0 };
            self.at(time + late, Event::Datagram { line, bytes: bytes.to_vec() });
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let mut steps = 0;
        while steps < STEPS_MAX {
            steps += 1;
            self.react();
            if let Some(fault) = self.consumer.fault.take() {
                return Err(fault);
            }
            let next = self.events.peek().map_or(self.plan.end, |Reverse((time, ..))| *time);
            let poll = self.feed.next_poll().0;
            if poll <= next && poll <= self.plan.end {
                if self.feed.next_poll().0 > self.now {
                    self.now = poll;
                }
                self.feed.poll(Nanos(self.now), &mut self.consumer);
                continue;
            }
            let Some(Reverse((time, _, event))) = self.events.pop() else { return Ok(()) };
            self.now = self.now.max(time);
            self.happen(event);
        }
        Err(format!("no end after {steps} steps: {:?}", self.feed.state()))
    }

    fn happen(&mut self, event: Event) {
        if self.is_traced {
            match &event {
                Event::Datagram { line, bytes } => {
                    let packet = Packet::parse(bytes).map(|packet| (packet.session(), packet.first(), packet.body()));
                    eprintln!("{:>12} {line}: {packet:?}", self.now);
                }
                _ => eprintln!("{:>12} {event:?}", self.now),
            }
        }
        let (now, consumer) = (Nanos(self.now), &mut self.consumer);
        match event {
            Event::Datagram { line, bytes } => self.feed.datagram(LineId(line), now, now, &bytes, consumer),
            Event::Refused { server } => self.feed.request_refused(server, now, consumer),
            Event::SnapshotMessage { attempt } => {
                let _ = self.feed.snapshot_message(attempt, now, b"an order", consumer);
            }
            Event::SnapshotDone { attempt, next } => {
                // The consumer learns of the end before messages that follow.
                consumer.snapshot_ends(attempt);
                let done = self.feed.snapshot_done(attempt, now, Sequence(next), consumer);
                consumer.snapshot_ended(done.is_ok());
            }
            Event::SnapshotFailed { attempt } => self.feed.snapshot_failed(attempt, now, consumer),
        }
    }

    /// Does what the feed wants done.
    fn react(&mut self) {
        while let Some(action) = self.consumer.todo.pop_front() {
            if self.is_traced {
                eprintln!("{:>12} -> {action:?}", self.now);
            }
            match action {
                Action::Request { server, session, first, count } => {
                    self.serve(server, session, first.0, u64::from(count));
                }
                Action::OpenSnapshot { attempt, session, from } => self.spin(attempt, session, from.0),
                _ => {}
            }
        }
    }

    /// The messages of a session that are sent by now.
    fn sent(&self, session: Session) -> u64 {
        let known = self.plan.sessions.iter().find(|one| one.name == session);
        known.map_or(0, |one| one.times.partition_point(|time| *time <= self.now) as u64)
    }

    fn serve(&mut self, server: u8, session: Session, first: u64, count: u64) {
        let line = self.plan.lines;
        let later = self.now + MS / 2 + self.dice.below(self.plan.policy.request_timeout_ns - MS);
        let there = (self.sent(session) + 1).saturating_sub(first).min(count);
        let answer = |world: &mut Self, first, count| {
            world.at(later, Event::Datagram { line, bytes: packet(session, first, count) });
        };
        match self.plan.servers[usize::from(server)] {
            ServerKind::Honest => answer(self, first, there.min(40)),
            ServerKind::Half => {
                let count = there.div_ceil(2).min(40);
                if !self.dice.chance(20) {
                    answer(self, first, count);
                }
            }
            ServerKind::Dead => {}
            ServerKind::Refusing => self.at(later, Event::Refused { server }),
            ServerKind::Lying => {
                let bytes = match self.dice.below(4) {
                    0 => packet(session, first.saturating_sub(self.dice.below(20)).max(1), 1),
                    1 => packet(Session::new("OTHER").expect("it is short"), first, there.min(3)),
                    2 => packet(session, first + self.dice.below(1 << 40), 0),
                    _ => packet(session, first, there.min(3))[..19].to_vec(),
                };
                self.at(later, Event::Datagram { line, bytes });
            }
        }
    }

    fn spin(&mut self, attempt: u32, session: Session, from: u64) {
        let opened = self.now + self.dice.below(20 * MS);
        if self.dice.chance(self.plan.snapshot_failure) {
            let next = match self.dice.below(4) {
                0 => return,
                1 => return self.at(opened, Event::SnapshotFailed { attempt }),
                2 => from.saturating_sub(self.dice.below(99)),
                // Further ahead than lines can be behind; what lies less far ahead cannot be told from the truth.
                _ => from + (1 << (16 + self.dice.below(40))),
            };
            return self.at(opened, Event::SnapshotDone { attempt, next });
        }
        let known = self.plan.sessions.iter().find(|one| one.name == session);
        let taken = known.map_or(0, |one| one.times.partition_point(|time| *time <= opened) as u64);
        let mut time = opened;
        for _ in 0..self.dice.below(4) {
            time += self.dice.below(10 * MS);
            self.at(time, Event::SnapshotMessage { attempt });
        }
        time += self.dice.below(10 * MS);
        self.at(time, Event::SnapshotDone { attempt, next: taken + 1 });
    }

    /// What must be true when nothing comes any more.
    fn judge(&self) -> Result<Tally, String> {
        let (consumer, counters) = (&self.consumer, self.feed.counters());
        let last = self.plan.sessions.last().expect("there is a session");
        let (all, state) = (last.times.len() as u64 + 1, self.feed.state());
        let is_complete = consumer.session == Some(last.name) && consumer.next == all;
        if self.plan.is_adopted() && consumer.session != Some(last.name) {
            return Err(format!("{:?} instead of the last session in {state:?}", consumer.session));
        }
        if self.plan.has_end && self.plan.is_adopted() && !(is_complete && self.feed.is_over()) {
            return Err(format!("{} of {all} at the end of the session in {state:?}", consumer.next));
        }
        if !is_complete && consumer.session == Some(last.name) && !matches!(state, State::Stale { .. }) {
            return Err(format!("{} of {all}, and yet {state:?}", consumer.next));
        }
        if self.plan.is_recoverable() && consumer.skipped > 0 {
            return Err(format!("{} messages were skipped that a server has", consumer.skipped));
        }
        if self.plan.is_lossless() && consumer.requests + consumer.snapshots + consumer.skipped > 0 {
            return Err(format!("requests without a loss: {counters:?}"));
        }
        if counters.skipped != consumer.skipped || counters.requests != consumer.requests {
            return Err(format!("counted: {counters:?}, told: {consumer:?}"));
        }
        Ok(Tally {
            delivered: consumer.delivered,
            skipped: consumer.skipped,
            requests: consumer.requests,
            snapshots: consumer.snapshots,
            gaps: counters.gaps,
            sessions: consumer.sessions,
            digest: consumer.digest,
        })
    }
}

fn packet(session: Session, first: u64, count: u64) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 12];
    let mut writer = PacketWriter::new(&mut buffer, session, Sequence(first)).expect("it has room");
    (first..first + count).for_each(|sequence| assert!(writer.push(&content(session, sequence))));
    writer.finish().to_vec()
}

fn end(session: Session, next: u64) -> Vec<u8> {
    let mut buffer = [0; 20];
    PacketWriter::new(&mut buffer, session, Sequence(next)).expect("it has room").end_of_session().to_vec()
}
