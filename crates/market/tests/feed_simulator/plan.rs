//! One schedule's circumstances.

use super::MS;
use super::dice::Dice;
use sidestep_market::feed::{Adoption, Join, Policy};
use sidestep_market::mold64::Session;
use sidestep_market::units::Alpha;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// Answers with as much as is asked for and fits one datagram.
    Honest,
    /// Answers with a half, or not at all.
    Half,
    /// Never answers.
    Dead,
    /// Refuses.
    Refusing,
    /// Answers something else.
    Lying,
}

#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) name: Session,
    /// When each message is sent.
    pub(super) times: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) lines: u8,
    pub(super) policy: Policy,
    pub(super) held_messages: usize,
    pub(super) sessions: Vec<Published>,
    /// Between both sessions.
    pub(super) pause_ns: u64,
    pub(super) has_end: bool,
    /// By line: the most messages of a datagram, delay, loss in percent, time without any datagram.
    pub(super) framing: Vec<u64>,
    pub(super) delays: Vec<u64>,
    pub(super) loss: Vec<u64>,
    pub(super) outages: Vec<(u64, u64)>,
    /// Percent of datagrams.
    pub(super) duplication: u64,
    pub(super) reorder: u64,
    pub(super) servers: Vec<ServerKind>,
    /// Percent of attempts.
    pub(super) snapshot_failure: u64,
    /// When the schedule ends.
    pub(super) end: u64,
}

fn pick<T: Copy>(dice: &mut Dice<'_>, choices: &[T]) -> T {
    choices[dice.below(choices.len() as u64) as usize]
}

fn times(dice: &mut Dice<'_>, from: u64) -> Vec<u64> {
    let count = pick(dice, &[1, 5, 30, 120, 400]);
    let pace = pick(dice, &[0, MS / 100, MS, 20 * MS]);
    let mut now = from;
    let mut one = || {
        now += if dice.chance(1) { dice.below(5000 * MS) } else { dice.below(pace + 1) };
        now
    };
    (0..count).map(|_| one()).collect()
}

fn policy(dice: &mut Dice<'_>) -> Policy {
    Policy {
        join: pick(dice, &[Join::Beginning, Join::Beginning, Join::FirstSeen]),
        adoption: pick(dice, &[Adoption::AfterEnd, Adoption::AfterEnd, Adoption::AtOnce, Adoption::Never]),
        gap_wait_ns: pick(dice, &[0, MS / 10, MS, 5 * MS]),
        servers: dice.below(4) as u8,
        request_count_max: pick(dice, &[1, 7, 100, 65_534]),
        request_span_max: pick(dice, &[5, 100, 100_000]),
        request_timeout_ns: pick(dice, &[2 * MS, 20 * MS]),
        request_tries: 1 + dice.below(5) as u32,
        rest_wait_ns: pick(dice, &[0, 0, MS]),
        has_snapshot: dice.chance(50),
        snapshot_timeout_ns: pick(dice, &[30 * MS, 5000 * MS]),
        snapshot_retry_ns: pick(dice, &[MS, 1000 * MS]),
        stale_after_ns: pick(dice, &[0, MS, 100 * MS]),
        ..Policy::default()
    }
}

impl Plan {
    pub(super) fn new(dice: &mut Dice<'_>) -> Self {
        let policy = policy(dice);
        let lines = 1 + dice.below(3) as u8;
        let mut sessions = vec![Published { name: Alpha(*b"SESSION001"), times: times(dice, MS) }];
        let first_end = sessions[0].times.last().copied().unwrap_or(0);
        let pause_ns = pick(dice, &[0, 500, 2000, 8000]) * MS;
        if dice.chance(25) {
            let from = first_end + pause_ns;
            sessions.push(Published { name: Alpha(*b"SESSION002"), times: times(dice, from) });
        }
        let last = sessions.iter().filter_map(|one| one.times.last()).max().copied().unwrap_or(0);
        let loss = pick(dice, &[0, 0, 2, 10, 40]);
        let kinds = [
            ServerKind::Honest,
            ServerKind::Honest,
            ServerKind::Half,
            ServerKind::Dead,
            ServerKind::Refusing,
            ServerKind::Lying,
        ];
        let by_line =
            |dice: &mut Dice<'_>, choices: &[u64]| (0..lines).map(|_| pick(dice, choices)).collect::<Vec<_>>();
        let outage = |dice: &mut Dice<'_>| match dice.chance(15) {
            true => Some(dice.below(last + 1)).map(|from| (from, from + dice.below(6000 * MS))),
            false => None,
        };
        Self {
            lines,
            policy,
            pause_ns,
            held_messages: pick(dice, &[4, 32, 1024]),
            has_end: dice.chance(70),
            framing: by_line(dice, &[1, 3, 20]),
            delays: by_line(dice, &[0, MS / 50, 3 * MS]),
            loss: by_line(dice, &[0, loss]),
            outages: (0..lines).map(|_| outage(dice).unwrap_or((0, 0))).collect(),
            duplication: pick(dice, &[0, 5]),
            reorder: pick(dice, &[0, 0, 5]),
            servers: (0..policy.servers).map(|_| pick(dice, &kinds)).collect(),
            snapshot_failure: pick(dice, &[0, 30, 100]),
            end: last + 60_000 * MS,
            sessions,
        }
    }

    /// The last session is adopted whatever happens.
    pub(super) fn is_adopted(&self) -> bool {
        match self.policy.adoption {
            // Where datagrams of both come at a time, the one that is late takes the feed.
            Adoption::AtOnce => self.sessions.len() == 1 || self.pause_ns >= 2000 * MS,
            // The second one may be over before the first one is.
            Adoption::AfterEnd | Adoption::Never => self.sessions.len() == 1,
        }
    }

    /// Whatever is lost, an honest server is asked and answers in time.
    pub(super) fn is_recoverable(&self) -> bool {
        let has_honest = self.servers.contains(&ServerKind::Honest);
        let tries = self.policy.request_tries as usize >= self.servers.len();
        has_honest && tries && !self.policy.has_snapshot && self.sessions.len() == 1
    }

    /// Every message comes by every line, so early that no other line need be asked.
    pub(super) fn is_lossless(&self) -> bool {
        let is_in_order = self.reorder == 0 && self.loss.iter().all(|loss| *loss == 0);
        is_in_order && self.outages.iter().all(|(from, to)| from == to) && self.sessions.len() == 1
    }
}
