//! Two sides that both send and answer as much as they may, over transports of any size, in any order of steps, in virtual time:
//! they never wait for each other. Time stands still as long as anything can move; where nothing can, it goes on to the next
//! deadline, and no deadline may be further away than giving way takes.
//!
//! A run that fails names its seed: `SIDESTEP_SEED=n cargo test -p sidestep-fix --test session floods`.

use fastrand::Rng;
use sidestep_fix::session::{Application, End, Outbox, Refusal, Role, SendError, Session, SessionId, SessionSettings};
use sidestep_fix::store::MemoryStore;
use sidestep_fix::{Framer, Index, Message, Now};
use std::collections::VecDeque;

const RUNS: u64 = 1500;
/// For how long everything may stand still: an initiator gives way after 10 ms, an acceptor after 50 ms.
const STILL_MAX_NS: [u64; 2] = [10_000_000, 50_000_000];
/// More than any run needs.
const ROUNDS_MAX: u64 = 10_000_000;
const START_UTC_NS: i64 = 1_709_899_200_000_000_000;

const ORDER: u32 = 11;
const TEXT: u32 = 58;

/// Answers each order with so many reports.
struct Trader {
    answers: u64,
    text: String,
    orders_came: u64,
    reports_sent: u64,
    reports_came: u64,
    refused: u64,
    ends: Vec<End>,
}

impl Application for Trader {
    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        let order = message.unsigned(ORDER)?;
        if message.msg_type() == b"8" {
            self.reports_came += 1;
            return Ok(());
        }
        assert_eq!(order, self.orders_came, "orders come once and in order");
        self.orders_came += 1;
        for _ in 0..self.answers {
            let sent = out.send(b"8", &mut |report| {
                report.unsigned(ORDER, order).str(TEXT, &self.text);
            });
            self.reports_sent += u64::from(sent.is_ok());
            self.refused += u64::from(sent.is_err());
        }
        Ok(())
    }

    fn on_logout(&mut self, _: &SessionId, why: End) {
        self.ends.push(why);
    }
}

struct Side {
    session: Session<MemoryStore>,
    app: Trader,
    framer: Framer,
    index: Index,
    /// Bytes on their way to this side, and how many may be.
    pipe: VecDeque<u8>,
    capacity: usize,
    orders: u64,
    sent: u64,
    /// A program of another make that reads only when it has written everything.
    blocks: bool,
}

impl Side {
    fn takes(&self) -> bool {
        self.session.takes_input() && (!self.blocks || self.session.output().is_empty())
    }

    /// What it has already read, then so many bytes more; whether there was anything.
    fn read(&mut self, most: usize, now: Now) -> bool {
        let mut moved = self.process(now);
        if !self.takes() {
            return moved;
        }
        let count = most.min(self.pipe.len());
        let bytes: Vec<u8> = self.pipe.iter().copied().take(count).collect();
        let taken = self.framer.push(&bytes);
        self.pipe.drain(..taken);
        moved |= taken > 0;
        self.process(now) || moved
    }

    fn process(&mut self, now: Now) -> bool {
        let mut moved = false;
        while self.takes() {
            let Some(raw) = self.framer.next().expect("an engine of ours wrote it") else { break };
            let message = self.index.decode(raw).expect("an engine of ours wrote it");
            self.session.on_message(&message, now, &mut self.app);
            moved = true;
        }
        moved
    }

    fn send(&mut self, most: u64, now: Now) -> bool {
        let (from, text) = (self.sent, self.app.text.clone());
        while self.session.is_logged_on() && self.sent < self.orders.min(from.saturating_add(most)) {
            let order = self.sent;
            match self.session.send(b"D", now, |builder| _ = builder.unsigned(ORDER, order).str(TEXT, &text)) {
                Ok(_) => self.sent += 1,
                Err(SendError::Full) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        self.sent > from
    }

    fn tick(&mut self, now: Now) -> bool {
        let is_due = self.session.next_deadline().is_some_and(|due_ns| due_ns <= now.mono_ns);
        if is_due {
            self.session.on_timer(now, &mut self.app);
        }
        is_due
    }

    fn state(&self) -> String {
        format!(
            "{} of {} sent, {} came, {} reports came, takes input {}, {} bytes wait, {} in the pipe of {}, {:?}, {:?}",
            self.sent,
            self.orders,
            self.app.orders_came,
            self.app.reports_came,
            self.session.takes_input(),
            self.session.output().len(),
            self.pipe.len(),
            self.capacity,
            self.app.ends,
            self.session.counters(),
        )
    }
}

struct Pair {
    sides: [Side; 2],
    now: Now,
}

impl Pair {
    fn new(random: &mut Rng, blocking: Option<usize>) -> Self {
        let now = Now { utc_ns: START_UTC_NS, mono_ns: 1 };
        let limits = [1, 100, 1000, 5_000, 128 << 10];
        let capacity = random.choice([1, 64, 1000, 4096, 20_000]).unwrap_or(1);
        let most = if capacity < 100 { 20 } else { 200 };
        let sides = [0, 1].map(|side| {
            let role = if side == 0 { Role::Initiator } else { Role::Acceptor };
            let id = SessionId::new("FIX.4.4", "US", "THEM");
            let id = if role == Role::Initiator { id } else { id.reversed() };
            let mut settings = SessionSettings::new(role, id);
            let blocks = blocking == Some(side);
            settings.output_bytes_max = if blocks { 4 << 20 } else { random.choice(limits).unwrap_or(1) };
            let store = MemoryStore::with_bytes(now.utc_ns, 8 << 20);
            let app = Trader {
                answers: random.u64(..4),
                text: "x".repeat(random.choice([1, 20, 300, 1000]).unwrap_or(1)),
                orders_came: 0,
                reports_sent: 0,
                reports_came: 0,
                refused: 0,
                ends: Vec::new(),
            };
            Side {
                session: Session::new(settings, store, None, now).expect("the settings are good"),
                app,
                framer: Framer::new(4096),
                index: Index::new(64),
                pipe: VecDeque::new(),
                capacity,
                orders: if random.u8(..4) == 0 { 0 } else { random.u64(..most) },
                sent: 0,
                blocks,
            }
        });
        let mut pair = Self { sides, now };
        pair.sides.iter_mut().rev().for_each(|side| side.session.connected(now, &mut side.app));
        pair
    }

    fn write(&mut self, side: usize, most: usize) -> bool {
        let [one, other] = &mut self.sides;
        let (from, to) = if side == 0 { (one, other) } else { (other, one) };
        let count = from.session.output().len().min(to.capacity - to.pipe.len()).min(most);
        if count == 0 {
            return false;
        }
        to.pipe.extend(&from.session.output()[..count]);
        from.session.sent(count, self.now);
        if from.session.waits_for_room() {
            from.session.on_timer(self.now, &mut from.app);
        }
        true
    }

    fn step(&mut self, side: usize, action: u8, most: usize) -> bool {
        match action {
            0 => self.sides[side].read(most, self.now),
            1 => self.write(side, most),
            2 => self.sides[side].send(most as u64, self.now),
            _ => self.sides[side].tick(self.now),
        }
    }

    fn is_done(&self) -> bool {
        let [one, other] = &self.sides;
        let arrived = |from: &Side, to: &Side| {
            from.sent == from.orders && to.app.orders_came == from.sent && from.app.reports_came == to.app.reports_sent
        };
        arrived(one, other) && arrived(other, one)
    }

    /// Everything that can happen now happens; whether anything did.
    fn everything(&mut self) -> bool {
        let steps = [0, 1].into_iter().flat_map(|side| (0..4).map(move |action| (side, action)));
        steps.fold(false, |moved, (side, action)| self.step(side, action, usize::MAX) || moved)
    }

    /// Goes on to the next deadline; how far that was.
    fn pass(&mut self) -> Option<u64> {
        let due_ns = self.sides.iter().filter_map(|side| side.session.next_deadline()).min()?;
        let ns = due_ns.saturating_sub(self.now.mono_ns);
        self.now = Now { utc_ns: self.now.utc_ns + i64::try_from(ns).ok()?, mono_ns: self.now.mono_ns + ns };
        Some(ns)
    }
}

/// How often a side gave way.
fn run(seed: u64, blocking: Option<usize>) -> Result<u64, String> {
    let mut random = Rng::with_seed(seed);
    let mut pair = Pair::new(&mut random, blocking);
    // A program that blocks is waited for by whoever it talks to.
    let still_max_ns = if blocking == Some(0) { STILL_MAX_NS[1] } else { STILL_MAX_NS[0] };
    let (mut still_ns, mut rounds) = (0, 0);
    let state = |pair: &Pair| format!("{}\n{}", pair.sides[0].state(), pair.sides[1].state());
    while !pair.is_done() {
        rounds += 1;
        let chance = random.u32(..40);
        let mut moved = (0..chance).fold(false, |moved, _| {
            let (side, action, most) = (random.usize(..2), random.u8(..4), random.usize(..8000));
            pair.step(side, action, most) || moved
        });
        if !moved {
            moved = pair.everything();
        }
        if moved {
            still_ns = 0;
        } else {
            still_ns += pair.pass().unwrap_or(u64::MAX / 2);
        }
        if still_ns > still_max_ns || rounds > ROUNDS_MAX {
            return Err(format!("they wait for each other, {still_ns} ns, round {rounds}\n{}", state(&pair)));
        }
    }
    if pair.sides.iter().any(|side| side.app.refused > 0 || !side.app.ends.is_empty()) {
        return Err(state(&pair));
    }
    Ok(pair.sides.iter().map(|side| side.session.counters().gave_way).sum())
}

fn runs(blocking: Option<usize>) {
    let one = std::env::var("SIDESTEP_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = one.map_or(0..RUNS, |seed| seed..seed + 1);
    let gave_way: u64 =
        seeds.map(|seed| run(seed, blocking).unwrap_or_else(|why| panic!("SIDESTEP_SEED={seed}: {why}"))).sum();
    println!("{gave_way} times given way");
    assert!(one.is_some() || gave_way > 0, "it must be tested, too");
}

#[test]
fn two_engines_never_wait_for_each_other() {
    runs(None);
}

#[test]
fn an_acceptor_that_reads_only_when_it_has_written_is_not_waited_for() {
    runs(Some(1));
}

#[test]
fn an_initiator_that_reads_only_when_it_has_written_is_not_waited_for() {
    runs(Some(0));
}

/// What who sends all the time and hardly reads is given: it reads a byte just before it would be cut off, for an hour.
#[test]
fn what_is_kept_for_who_hardly_reads_has_an_end() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    const SIP_NS: u64 = 4_900_000_000;
    const TURNS_MAX: u64 = 100_000;
    let mut pair = Pair::new(&mut Rng::with_seed(1), Some(0));
    pair.sides.iter_mut().for_each(|side| side.orders = 0);
    while !pair.sides.iter().all(|side| side.session.is_logged_on()) {
        pair.everything();
    }
    pair.sides[0].orders = u64::MAX;
    pair.sides[1].app.answers = 3;
    pair.sides[1].app.text = "x".repeat(100);
    let (end_ns, mut sip_ns, mut turns) = (pair.now.mono_ns + HOUR_NS, pair.now.mono_ns, 0);
    while pair.now.mono_ns < end_ns {
        turns += 1;
        assert!(turns < TURNS_MAX, "time stands still\n{}", pair.sides[1].state());
        if pair.now.mono_ns >= sip_ns {
            sip_ns = pair.now.mono_ns + SIP_NS;
            pair.write(1, 1);
        }
        let moves = [(0, 2), (0, 1), (1, 0), (1, 3)];
        let moved = moves.into_iter().fold(false, |moved, (side, action)| pair.step(side, action, usize::MAX) || moved);
        if !moved {
            let due_ns = pair.sides[1].session.next_deadline().unwrap_or(u64::MAX).min(sip_ns);
            let ns = due_ns.saturating_sub(pair.now.mono_ns);
            pair.now = Now { utc_ns: pair.now.utc_ns + i64::try_from(ns).unwrap(), mono_ns: pair.now.mono_ns + ns };
        }
    }
    let side = &pair.sides[1];
    let kept = side.app.reports_sent * side.app.text.len() as u64;
    // The store keeps 4 MiB; from half of that on nothing is read, and one read brings 64 KiB.
    assert!(
        side.session.is_logged_on() && side.app.refused == 0 && kept > 1 << 19 && kept < 3 << 20,
        "{}",
        side.state()
    );
    assert!(side.session.output().len() < 512 << 10, "{}", side.state());
}
