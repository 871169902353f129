//! The queues of a stack: requested, obtained, and those of other owners by which its packets may come.

use super::Mode;
use serde::{Deserialize, Serialize};

/// The most receive queues of a stack on one interface, and the limit of their numbers: the size of the steering
/// program's table.
pub const QUEUES_MAX: u32 = 64;

/// The most reasons reported for missing queues; those of the others are nearly always the same.
const MISSING_MAX: usize = 4;

/// The most queues reported that a stack does not have, of a device with more than can be steered.
pub const ELSEWHERE_MAX: usize = 128;

/// The longest text of such a reason, bytes: all of them and the queues fit one packet.
const REASON_BYTES_MAX: usize = 300;

/// The queues of the interface that a stack requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queues {
    /// One free queue.
    #[default]
    Any,
    /// These queues, as far as they are free.
    These(Vec<u32>),
    /// All queues that the interface receives by, as far as they are free.
    Every,
}

/// A queue of a stack, with its own AF_XDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFacts {
    /// Its number, from 0.
    pub queue: u32,
    /// Its mode.
    pub mode: Mode,
    /// Its NAPI instance; 0 if the device has none to poll.
    pub napi_id: u32,
}

/// Queues that were requested and not available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Their numbers.
    pub queues: Vec<u32>,
    /// The reason.
    pub reason: String,
}

/// Adds an unavailable queue to those with the same reason.
pub fn miss(missing: &mut Vec<Missing>, queue: u32, reason: &str) {
    let reason = bounded(reason);
    let is_full = missing.len() == MISSING_MAX;
    let same = missing.iter().position(|known| known.reason == reason).or(is_full.then_some(MISSING_MAX - 1));
    match same {
        Some(number) => missing[number].queues.push(queue),
        None => missing.push(Missing { queues: vec![queue], reason: reason.to_owned() }),
    }
}

/// The part of a reason that is reported.
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
