//! Where chance comes from: a seed, or the bytes that a fuzzer has made.

/// Numbers by chance. The same seed, or the same bytes, give the same numbers on every machine.
pub enum Dice<'a> {
    /// SplitMix64: small, and good enough to choose what a network does.
    Seed(u64),
    /// What is left of a fuzzer's input.
    Bytes(&'a [u8]),
}

impl Dice<'_> {
    /// Whether a fuzzer's input is used up; then only zeroes come. A seed goes on for ever.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Bytes([]))
    }

    fn next(&mut self) -> u64 {
        match self {
            Self::Seed(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^ mixed >> 31
            }
            Self::Bytes(bytes) => {
                let (first, rest) = bytes.split_at(bytes.len().min(2));
                *bytes = rest;
                // Two bytes choose among the small, the middle and the large alike.
                let number = first.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                number.wrapping_mul(0x0001_0001_0001_0001)
            }
        }
    }

    /// 0 to `end - 1`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// `least` to `most`, each power of two as likely as the next.
    pub fn magnitude(&mut self, least: u64, most: u64) -> u64 {
        let bits = self.between(u64::from(least.max(1).ilog2()), u64::from(most.max(1).ilog2()));
        self.between(1 << bits, (2 << bits) - 1).clamp(least, most)
    }

    /// True in so many of a hundred.
    pub fn percent(&mut self, percent: u8) -> bool {
        percent > 0 && self.below(100) < u64::from(percent)
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Any number of 32 bits.
    pub fn number(&mut self) -> u32 {
        (self.next() >> 7) as u32
    }
}
