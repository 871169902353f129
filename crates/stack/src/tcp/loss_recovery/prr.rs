//! Proportional rate reduction (RFC 9937, before it RFC 6937): during fast recovery sending goes on in proportion to what
//! arrives, without a silence and without a burst.

/// The state of one recovery; bytes.
#[derive(Debug, Default)]
pub(crate) struct Prr {
    /// RecoverFS
    flight: u32,
    delivered: u32,
    out: u32,
    /// The bytes that may be sent now.
    budget: u32,
}

/// The inputs of one ACK in recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) delivered: u32,
    pub(crate) pipe: u32,
    pub(crate) threshold: u32,
    pub(crate) segment: u32,
    /// SND.UNA has advanced, and no further loss was found (SafeACK).
    pub(crate) is_safe: bool,
}

impl Prr {
    pub(crate) fn begin(&mut self, flight: u32) {
        *self = Self { flight: flight.max(1), ..Self::default() };
    }

    /// RFC 9937 section 6.2
    pub(crate) fn step(&mut self, step: &Step) {
        self.delivered = self.delivered.saturating_add(step.delivered);
        let send = if step.pipe > step.threshold {
            let share = u64::from(self.delivered) * u64::from(step.threshold);
            (share.div_ceil(u64::from(self.flight)) as u32).saturating_sub(self.out)
        } else {
            let owed = self.delivered.saturating_sub(self.out).max(step.delivered);
            let limit = owed.saturating_add(if step.is_safe { step.segment } else { 0 });
            (step.threshold - step.pipe).min(limit)
        };
        // The fast retransmission itself always goes.
        self.budget = if self.out == 0 { send.max(step.segment) } else { send };
    }

    /// Allows one segment without waiting for an ACK: the reordering timer has found it lost.
    pub(crate) fn open(&mut self, segment: u32) {
        self.budget = self.budget.max(segment);
    }

    #[inline]
    pub(crate) fn budget(&self) -> u32 {
        self.budget
    }

    pub(crate) fn sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
        self.budget = self.budget.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9937: with a threshold of seven tenths, seven segments leave for ten that arrive.
    #[test]
    fn sending_is_proportional_to_what_arrives() {
        let (mut prr, mut sent) = (Prr::default(), 0);
        prr.begin(100_000);
        let mut pipe = 99_000;
        for _ in 0..29 {
            pipe -= 1000;
            prr.step(&Step { delivered: 1000, pipe, threshold: 70_000, segment: 1000, is_safe: false });
            while prr.budget() >= 1000 {
                prr.sent(1000);
                (sent, pipe) = (sent + 1, pipe + 1000);
            }
        }
        assert!((19..=21).contains(&sent), "{sent}");
    }

    #[test]
    fn the_first_retransmission_always_goes() {
        let mut prr = Prr::default();
        prr.begin(4000);
        prr.step(&Step { delivered: 0, pipe: 3000, threshold: 2000, segment: 1000, is_safe: false });
        assert_eq!(prr.budget(), 1000);
    }

    /// RFC 9937: below the threshold a segment more than what arrives, if that is safe.
    #[test]
    fn below_the_threshold_it_catches_up() {
        let mut prr = Prr::default();
        prr.begin(10_000);
        prr.sent(1000);
        let step = Step { delivered: 2000, pipe: 1000, threshold: 7000, segment: 1000, is_safe: true };
        prr.step(&step);
        assert_eq!(prr.budget(), 3000);
        prr.step(&Step { pipe: 6500, ..step });
        assert_eq!(prr.budget(), 500);
    }
}
