//! The channel: record 0 of the array, as locate 0 is no instrument.
//!
//! ```text
//!  0       1          2         4      8          16              26  32         40        48
//!  | state | decimals | 0       | date | sequence | session (10)  | 0 | time ns  | 0       | 0 |
//! ```

use super::{RECORD_WORDS, State};
use crate::units::{Alpha, Sequence};

/// The state of a channel and what its numbers mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The state, which counts for every instrument.
    pub state: State,
    /// Digits behind the point of its prices.
    pub decimals: u8,
    /// The exchange's day, as 20261129; 0 if it is not known. Times are ns since its midnight, where the feed counts so.
    pub date: u32,
    /// The message that changed the state.
    pub sequence: Sequence,
    /// Its time at the venue, ns.
    pub time_ns: u64,
    /// The session.
    pub session: Alpha<10>,
}

impl Channel {
    pub(super) fn words(&self) -> [u64; RECORD_WORDS] {
        let mut session = [0; 16];
        session[..10].copy_from_slice(&self.session.0);
        let [low, high] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| session[at + byte])));
        let facts = self.state as u64 | u64::from(self.decimals) << 8 | u64::from(self.date) << 32;
        [facts, self.sequence.0, low, high, self.time_ns, 0, 0]
    }

    pub(super) fn of_words(words: &[u64; RECORD_WORDS]) -> Self {
        let &[facts, sequence, low, high, time_ns, ..] = words;
        let session = [low.to_le_bytes(), high.to_le_bytes()];
        Self {
            state: State::of_code(facts as u8),
            decimals: (facts >> 8) as u8,
            date: (facts >> 32) as u32,
            sequence: Sequence(sequence),
            time_ns,
            session: Alpha(std::array::from_fn(|at| session[at / 8][at % 8])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_read_as_it_was_written() {
        let session = Alpha::new("000001234A").unwrap();
        let (sequence, time_ns) = (Sequence(u64::MAX), 5);
        let channel = Channel { state: State::Stale, decimals: 4, date: 20_261_129, sequence, time_ns, session };
        assert_eq!(Channel::of_words(&channel.words()), channel);
        assert_eq!(Channel::of_words(&[0; RECORD_WORDS]).state, State::Unknown);
    }
}
