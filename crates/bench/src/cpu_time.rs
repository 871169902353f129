//! CPU time of a thread per message: what a path costs beside its latency.

use serde::{Deserialize, Serialize};
use sidestep_report::schema::CpuTime;
use sidestep_sys::cpu;

/// CPU time of a thread, user and system, and the messages that it handled meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// CPU time, nanoseconds.
    pub ns: u64,
    /// Messages.
    pub messages: u64,
    /// The CPU on which the thread was at the end.
    #[serde(default)]
    pub last_cpu: Option<u32>,
}

/// The CPU time of the calling thread from here on.
#[derive(Clone, Copy)]
pub(crate) struct SpentSince(u64);

impl SpentSince {
    /// Begins to count.
    pub(crate) fn now() -> Self {
        Self(cpu::thread_time_ns())
    }

    /// Returns the time since the start, in which the thread handled `messages`.
    pub(crate) fn on(self, messages: u64) -> Spent {
        Spent { ns: cpu::thread_time_ns().saturating_sub(self.0), messages, last_cpu: cpu::current() }
    }
}

impl Spent {
    /// Adds that of another slice.
    pub(crate) fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.messages += other.messages;
        self.last_cpu = other.last_cpu.or(self.last_cpu);
    }

    fn per_message_ns(self) -> Option<f64> {
        (self.messages > 0 && self.ns > 0).then(|| self.ns as f64 / self.messages as f64)
    }
}

/// CPU time of both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BothSpent {
    /// Of the measuring end's thread, in the counted time.
    pub(crate) here: Spent,
    /// Of the peer's thread, in whole slices.
    pub(crate) peer: Spent,
}

impl BothSpent {
    /// Adds that of another slice.
    pub(crate) fn add(&mut self, other: Self) {
        self.here.add(other.here);
        self.peer.add(other.peer);
    }

    /// For the result file; none if the measuring end did not count.
    pub(crate) fn row(self) -> Option<CpuTime> {
        let per_message_ns = self.here.per_message_ns()?;
        Some(CpuTime { per_message_ns, peer_per_message_ns: self.peer.per_message_ns() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn who_works_spends_and_who_sleeps_does_not() {
        let (begin, since) = (Instant::now(), SpentSince::now());
        while since.on(1).ns < 5_000_000 {}
        assert!(begin.elapsed() >= Duration::from_millis(5), "a thread spends no more than the time that passes");
        let since = SpentSince::now();
        std::thread::sleep(Duration::from_millis(200));
        assert!(since.on(1).ns < 100_000_000);
    }

    #[test]
    fn slices_are_added_and_nothing_has_no_quotient() {
        let spent = |ns, messages| Spent { ns, messages, last_cpu: None };
        assert_eq!(BothSpent::default().row(), None);
        let mut both = BothSpent { here: spent(100, 1), peer: Spent::default() };
        both.add(BothSpent { here: spent(500, 2), peer: spent(90, 3) });
        assert_eq!(both.row(), Some(CpuTime { per_message_ns: 200.0, peer_per_message_ns: Some(30.0) }));
    }
}
