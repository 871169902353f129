//! Departure times (draft-ietf-ccwg-bbr-04 section 5.6.2): segments leave no faster than the pacing rate, in bursts of a quantum.
//!
//! A segment may leave when the time of the next departure has come; each segment moves that time on by its bytes at the rate. A
//! sender that comes late, by its timer or because it had nothing to send, may make up for a burst, not for more. So a message on
//! a connection that has been quiet for a moment leaves at once.

use crate::tcp::time::{Instant, MILLISECOND_NS, SECOND_NS};

/// The time whose bytes leave in one burst: 1 ms, as Linux (`sk_pacing_shift` 10) and section 5.6.3.
const QUANTUM_NS: u64 = MILLISECOND_NS;
/// The largest burst by the timer (section 5.6.3).
const QUANTUM_BYTES_MAX: u64 = 64 << 10;
/// The least lateness that is made up for: what a thread that sleeps until its next timer is late.
const LATENESS_NS_MIN: u64 = 250_000;
/// Bits behind the point of `ns_per_byte`.
const SHIFT: u32 = 16;

/// The departures of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// C.pacing_rate, bytes/s; at least 1.
    rate: u64,
    /// C.send_quantum, bytes.
    quantum: u32,
    /// The time that a byte takes at the rate, in 2^-16 ns.
    ns_per_byte: u64,
    /// C.next_send_time
    next: Instant,
}

impl Pacer {
    pub(crate) fn new(rate: u64, segment_bytes: u32) -> Self {
        let mut pacer = Self { rate: 1, quantum: 0, ns_per_byte: 0, next: Instant::default() };
        pacer.set_rate(rate, segment_bytes);
        pacer
    }

    /// C.pacing_rate, bytes/s.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// C.send_quantum, bytes.
    pub(crate) fn quantum(&self) -> u32 {
        self.quantum
    }

    /// Sets the rate, in bytes/s, and the quantum that follows from it (section 5.6.3).
    pub(crate) fn set_rate(&mut self, rate: u64, segment_bytes: u32) {
        self.rate = rate.max(1);
        self.ns_per_byte = (SECOND_NS << SHIFT) / self.rate;
        let worth = (self.rate / (SECOND_NS / QUANTUM_NS)).min(QUANTUM_BYTES_MAX);
        self.quantum = (worth as u32).max(segment_bytes.saturating_mul(2));
    }

    /// Returns whether a segment may leave now.
    #[inline]
    pub(crate) fn allows(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// The time for the timer, as long as no segment may leave: half a burst may leave then.
    pub(crate) fn wake_at(&self) -> Instant {
        self.next.after_ns(self.time_ns(self.quantum / 2))
    }

    /// A segment of `bytes` has left.
    #[inline]
    pub(crate) fn sent(&mut self, now: Instant, bytes: u32) {
        let credit_ns = (self.time_ns(self.quantum) * 3 / 2).max(LATENESS_NS_MIN);
        let oldest = Instant::from_nanos(now.as_nanos().saturating_sub(credit_ns));
        self.next = self.next.max(oldest).after_ns(self.time_ns(bytes));
    }

    #[inline]
    fn time_ns(&self, bytes: u32) -> u64 {
        self.ns_per_byte.saturating_mul(u64::from(bytes)) >> SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u32 = 1000;

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    /// Sends as much as is allowed at the times of its timer; returns the bytes.
    fn run(pacer: &mut Pacer, from_us: u64, to_us: u64, late_us: u64) -> (u64, u64) {
        let (mut now, mut bytes, mut turns) = (at(from_us), 0, 0);
        while now < at(to_us) {
            while pacer.allows(now) {
                pacer.sent(now, SEGMENT);
                bytes += u64::from(SEGMENT);
            }
            (now, turns) = (pacer.wake_at().after_ns(late_us * 1000), turns + 1);
        }
        (bytes, turns)
    }

    #[test]
    fn the_rate_is_kept_in_bursts() {
        let mut pacer = Pacer::new(25_000_000, SEGMENT);
        assert_eq!(pacer.quantum(), 25_000);
        let (bytes, turns) = run(&mut pacer, 10_000, 1_010_000, 0);
        assert!((24_900_000..25_100_000).contains(&bytes), "{bytes}");
        assert!((1900..2100).contains(&turns), "half a burst each half millisecond: {turns}");
    }

    #[test]
    fn a_late_timer_costs_nothing() {
        let (bytes, _) = run(&mut Pacer::new(25_000_000, SEGMENT), 10_000, 1_010_000, 900);
        assert!(bytes > 24_900_000, "{bytes}");
        let (bytes, _) = run(&mut Pacer::new(1_250_000_000, SEGMENT), 10_000, 1_010_000, 150);
        assert!(bytes > 1_240_000_000, "{bytes}");
    }

    #[test]
    fn silence_earns_one_burst() {
        let mut pacer = Pacer::new(1_000_000, SEGMENT);
        let mut burst = 0;
        while pacer.allows(at(60_000_000)) {
            pacer.sent(at(60_000_000), SEGMENT);
            burst += SEGMENT;
        }
        assert!(burst <= 2 * pacer.quantum(), "{burst}");
    }

    #[test]
    fn no_rate_and_any_rate_are_survived() {
        for rate in [0, 1, u64::MAX] {
            let mut pacer = Pacer::new(rate, u32::MAX);
            pacer.sent(Instant::from_nanos(u64::MAX), u32::MAX);
            pacer.sent(at(0), u32::MAX);
            assert!(pacer.rate() > 0 && pacer.wake_at() >= at(0));
        }
    }
}
