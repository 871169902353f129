//! Both ends and what happens to them.

use super::side::Side;
use fastrand::Rng;
use sidestep_fix::Now;
use sidestep_fix::session::{Phase, Role, Session, SessionId, SessionSettings};
use sidestep_fix::store::MemoryStore;

const START_UTC_NS: i64 = 1_709_899_200_000_000_000;
const MS: u64 = 1_000_000;

/// Rounds after which everything has to be at rest: a resend takes some, an endless conversation takes all.
const ROUNDS_MAX: usize = 4000;

/// What all schedules together went through.
#[derive(Debug, Default)]
pub(crate) struct Total {
    pub(crate) cuts: u64,
    pub(crate) delivered: u64,
    pub(crate) resent: u64,
    pub(crate) held: u64,
    pub(crate) early: u64,
    pub(crate) resend_requests: u64,
    pub(crate) gap_fills: u64,
    pub(crate) logons: u64,
}

pub(crate) struct Pair {
    now: Now,
    /// Initiator and acceptor.
    sides: [Side; 2],
    connected: bool,
    cuts: u64,
}

fn session(role: Role, now: Now, chosen: &SessionSettings) -> Session<MemoryStore> {
    let id = SessionId::new("FIX.4.4", "US", "THEM");
    let id = if role == Role::Initiator { id } else { id.reversed() };
    let settings = SessionSettings { role, id, ..chosen.clone() };
    Session::new(settings, MemoryStore::with_bytes(now.utc_ns, 1 << 20), None, now).expect("the settings are good")
}

impl Pair {
    pub(crate) fn new(random: &mut Rng) -> Self {
        let now = Now { utc_ns: START_UTC_NS, mono_ns: 0 };
        let mut chosen = SessionSettings::new(Role::Initiator, SessionId::new("FIX.4.4", "US", "THEM"));
        chosen.heart_bt_int_s = 5;
        chosen.resend_request_chunk_size = [0, 0, 1, 7][random.usize(..4)];
        chosen.next_expected_msg_seq_num = random.u8(..4) == 0;
        chosen.last_msg_seq_num_processed = random.u8(..4) == 0;
        chosen.closed_resend_interval = random.bool();
        chosen.send_when_logged_off = random.bool();
        chosen.early_bytes_max = [1 << 20, 300][random.usize(..2)];
        chosen.resend_requests_per_second = [100, 5][random.usize(..2)];
        let sides = [Role::Initiator, Role::Acceptor].map(|role| Side::new(session(role, now, &chosen)));
        Self { now, sides, connected: false, cuts: 0 }
    }

    /// One thing happens.
    pub(crate) fn step(&mut self, random: &mut Rng) -> Result<(), String> {
        let side = random.usize(..2);
        match random.u8(..100) {
            0..30 => self.send(side, random.usize(1..6)),
            30..60 => self.carry(side, random.usize(1..700)),
            60..72 => (0..2).for_each(|side| self.carry(side, usize::MAX)),
            72..84 => self.pass(random.u64(1..4000) * MS),
            84..90 => self.cut(),
            90..97 => self.connect(),
            97..99 => self.sides[side].session.logout("", self.now, &mut self.sides[side].app),
            _ => self.send(side, 300),
        }
        self.end_what_ends();
        self.check()
    }

    /// Everything is connected again and comes to rest; then nothing may be missing.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        for round in 0..ROUNDS_MAX {
            self.connect();
            for side in [0, 1] {
                self.carry(side, usize::MAX);
            }
            self.pass(if round % 4 == 0 { 1100 * MS } else { MS });
            self.end_what_ends();
            self.check()?;
            let arrived = |from: &Side, to: &Side| from.order == to.app.expected;
            let quiet = self.sides.iter().all(|side| side.wire.is_empty() && side.session.output().is_empty());
            let on = self.sides.iter().all(|side| side.session.phase() == Phase::LoggedOn);
            let [one, other] = &self.sides;
            if quiet && on && arrived(one, other) && arrived(other, one) && round > 8 {
                return Ok(());
            }
        }
        let state = |side: &Side| {
            format!(
                "sent {} got {} {:?} {:?}",
                side.order,
                side.app.expected,
                side.session.phase(),
                side.session.counters()
            )
        };
        Err(format!("no rest:\n {}\n {}", state(&self.sides[0]), state(&self.sides[1])))
    }

    pub(crate) fn count(&self, total: &mut Total) {
        total.cuts += self.cuts;
        for side in &self.sides {
            let counters = side.session.counters();
            total.delivered += counters.delivered;
            total.resent += counters.resent;
            total.held += counters.held;
            total.early += counters.early;
            total.resend_requests += counters.resend_requests;
            total.gap_fills += counters.gap_fills_sent;
            total.logons += counters.logons;
        }
    }

    /// Orders; those that are refused were never sent.
    fn send(&mut self, side: usize, count: usize) {
        for _ in 0..count {
            self.sides[side].send(self.now);
        }
    }

    /// Bytes of the other side arrive at this one.
    fn carry(&mut self, side: usize, count: usize) {
        if !self.connected {
            return;
        }
        let bytes = self.sides[1 - side].written(count, self.now);
        self.sides[side].wire.extend(bytes);
        self.sides[side].receive(count, self.now);
    }

    fn pass(&mut self, ns: u64) {
        self.now.mono_ns += ns;
        self.now.utc_ns += ns as i64;
        for side in &mut self.sides {
            side.tick(self.now);
        }
    }

    fn connect(&mut self) {
        if !self.connected {
            self.connected = true;
            self.sides.iter_mut().for_each(|side| side.connect(self.now));
        }
    }

    /// The transport is gone, and what was on it.
    fn cut(&mut self) {
        if self.connected {
            self.connected = false;
            self.cuts += 1;
            self.sides.iter_mut().for_each(|side| side.disconnect(self.now));
        }
    }

    /// A side that wants the end gets it, once its last bytes are written; the other side reads them first.
    fn end_what_ends(&mut self) {
        for side in [0, 1] {
            if self.connected && self.sides[side].session.ending().is_some() {
                self.carry(1 - side, usize::MAX);
                self.cut();
            }
        }
    }

    fn check(&mut self) -> Result<(), String> {
        self.sides.iter_mut().try_for_each(Side::check)
    }
}
