//! The queues of a stack: which it is to have, which it got, and by which others its packets may come.

use super::Mode;
use serde::{Deserialize, Serialize};

/// Receive queues of one interface that a stack may have, and the highest number of one, less one: what the steering program
/// has places for.
pub const QUEUES_MAX: u32 = 64;

/// Reasons told for queues that could not be had; those of others are the same nearly always.
const MISSING_MAX: usize = 4;

/// Queues told that a stack does not have, of a device that has more than can be steered.
pub const ELSEWHERE_MAX: usize = 128;

/// Longest text of such a reason, bytes: all of them and the queues fit one packet.
const REASON_BYTES_MAX: usize = 300;

/// Which queues of its interface a stack is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    /// One, whichever is free.
    #[default]
    Any,
    /// These, as far as they are free.
    These(Vec<u32>),
    /// Every one that the interface receives by, as far as they are free.
    Every,
}

/// A queue of a stack: it has an AF_XDP socket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFacts {
    /// Its number, from 0.
    pub queue: u32,
    /// The mode that it got.
    pub mode: Mode,
    /// Its NAPI instance; 0 where the device has none to poll.
    pub napi_id: u32,
}

/// Queues that were wanted and could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Their numbers.
    pub queues: Vec<u32>,
    /// Why.
    pub reason: String,
}

/// Adds a queue that could not be had to those for the same reason.
pub fn miss(missing: &mut Vec<Missing>, queue: u32, reason: &str) {
    let reason = bounded(reason);
    let is_full = missing.len() == MISSING_MAX;
    let same = missing.iter().position(|known| known.reason == reason).or(is_full.then_some(MISSING_MAX - 1));
    match same {
        Some(number) => missing[number].queues.push(queue),
        None => missing.push(Missing { queues: vec![queue], reason: reason.to_owned() }),
    }
}

/// As much of a reason as is told.
pub(super) fn bounded(reason: &str) -> &str {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|&end| reason.is_char_boundary(end)).unwrap_or(0);
    &reason[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_in_bounds() {
        let mut missing = Vec::new();
        (0..4).for_each(|queue| miss(&mut missing, queue, "busy"));
        assert_eq!(missing, [Missing { queues: vec![0, 1, 2, 3], reason: "busy".into() }]);
        (4..QUEUES_MAX).for_each(|queue| miss(&mut missing, queue, &format!("{queue}{}", "ä".repeat(1000))));
        assert_eq!(missing.len(), MISSING_MAX);
        assert!(missing.iter().all(|one| one.reason.len() <= REASON_BYTES_MAX));
        assert_eq!(missing.iter().map(|one| one.queues.len()).sum::<usize>(), QUEUES_MAX as usize);
    }
}
