//! The heartbeat of the owner thread. Without it the steering program passes the packets to the kernel (dead-man switch).

use rustix::time::{ClockId, clock_gettime};
use sidestep_control_api::heartbeat::{Heartbeat, monotonic_ns};

/// Turns between two readings of the clock, at the most: a program that suddenly polls every 10 ms still beats in time for a
/// deadline of a second, and one that spins pays a nanosecond a turn.
const TURNS_MAX: u32 = 32;

/// A turn that takes longer than this counts as slow polling: the clock is then read in every turn. TCP's timers are looked
/// at with the clock just read, so this and the turns say how late they can be: 64 us.
const SLOW_TURN_NS: u64 = 2_000;

/// Between two stores of the sign of life, at the least. The steering program reads its cache line for each frame, on
/// another processor: each store costs the next frame a miss.
const BEAT_NS: u64 = 100_000;

/// Writes the heartbeat when it is due.
#[derive(Debug)]
pub(crate) struct HeartbeatWriter {
    /// The page that the steering program reads.
    heartbeat: Option<Heartbeat>,
    left: u32,
    stride: u32,
    now_ns: u64,
    /// The time of the last store.
    told_ns: u64,
}

impl HeartbeatWriter {
    /// Starts the heartbeat of a stack, with a first beat.
    pub(crate) fn start(heartbeat: Heartbeat) -> Self {
        let mut heartbeat = Self { heartbeat: Some(heartbeat), ..Self::without() };
        heartbeat.beat();
        heartbeat
    }

    /// A clock without a heartbeat to write.
    pub(crate) fn without() -> Self {
        Self { heartbeat: None, left: 0, stride: 1, now_ns: monotonic_ns(), told_ns: 0 }
    }

    /// One turn; true when the clock was read.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        if self.left > 1 {
            self.left -= 1;
            return false;
        }
        self.beat();
        true
    }

    /// Has the next turn read the clock: the owner has slept.
    pub(crate) fn wake(&mut self) {
        (self.left, self.stride) = (0, 1);
    }

    /// Turns since the last beat, when one has just been made.
    pub(crate) fn stride(&self) -> u32 {
        self.stride
    }

    fn beat(&mut self) {
        let now_ns = monotonic_ns();
        let turn_ns = now_ns.saturating_sub(self.now_ns) / u64::from(self.stride);
        self.stride = if turn_ns > SLOW_TURN_NS { 1 } else { (2 * self.stride).min(TURNS_MAX) };
        (self.left, self.now_ns) = (self.stride, now_ns);
        if now_ns.saturating_sub(self.told_ns) >= BEAT_NS {
            self.told_ns = now_ns;
            self.heartbeat.iter().for_each(|heartbeat| heartbeat.beat_at(now_ns));
        }
    }

    /// The time of the last reading: CLOCK_MONOTONIC, ns.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

/// CLOCK_REALTIME, the clock of timestamps.
#[inline]
pub(crate) fn realtime_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_spins_reads_the_clock_seldom() {
        let mut heartbeat = HeartbeatWriter::without();
        let readings = (0..64_000).filter(|_| heartbeat.turn()).count();
        assert!((1000..4000).contains(&readings), "{readings}");
    }

    #[test]
    fn the_sign_of_life_is_stored_seldom() {
        let mut heartbeat = HeartbeatWriter::without();
        for _ in 0..64_000 {
            let before_ns = heartbeat.told_ns;
            heartbeat.turn();
            let gap_ns = heartbeat.told_ns - before_ns;
            assert!(gap_ns == 0 || gap_ns >= BEAT_NS, "{gap_ns}");
        }
        assert_ne!(heartbeat.told_ns, 0);
    }

    #[test]
    fn who_polls_slowly_reads_it_always() {
        let mut heartbeat = HeartbeatWriter::without();
        for _ in 0..TURNS_MAX {
            heartbeat.turn();
        }
        heartbeat.now_ns = heartbeat.now_ns.saturating_sub(u64::from(TURNS_MAX) * 10 * SLOW_TURN_NS);
        heartbeat.left = 0;
        assert!(heartbeat.turn());
        assert_eq!(heartbeat.stride, 1, "the next turn reads it again");
    }
}
