//! Chance, from a seed or from a fuzzer's bytes.

#[derive(Clone, Debug)]
pub(crate) enum Dice<'a> {
    Seed(u64),
    /// Zero once they are used up.
    Bytes(&'a [u8]),
}

impl Dice<'_> {
    fn word(&mut self) -> u64 {
        match self {
            // SplitMix64.
            Self::Seed(state) => {
                *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut word = *state;
                word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
                word ^ word >> 31
            }
            Self::Bytes(bytes) => {
                let (now, rest) = bytes.split_at(bytes.len().min(2));
                *bytes = rest;
                now.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
            }
        }
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.word() % end.max(1)
    }

    /// True in `percent` of all cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn is_used_up(&self) -> bool {
        matches!(self, Self::Bytes(bytes) if bytes.is_empty())
    }
}
