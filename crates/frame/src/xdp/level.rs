//! The number of frames that are lent to the kernel for receiving.
//!
//! The kernel uses lent frames in the order in which they were lent. 2,048 of them do not stay in a cache of 2 MiB, and each copy into one
//! that is not there takes longer; of a few, a burst finds too few. So a link in copy mode begins with the most, lends fewer while frames
//! come one by one, and the most again as soon as a burst needs a quarter of them; what a burst has used up is too few for good. In
//! zero-copy mode the device writes to the frames itself, and has the most all the time.

use super::FILL_BATCH;

/// The fewest that a level falls to at first: a little less than the small datagrams that a socket of the kernel holds by default
/// (`net.core.rmem_default`).
const LEAST: u32 = 256;

/// Received frames, none of them in a burst, after which the level falls by half.
const CALM: u32 = 4096;

/// The level of one queue.
#[derive(Debug)]
pub(super) struct Level {
    now: u32,
    most: u32,
    least: u32,
    /// Frames received since the last burst, or since the level fell.
    calm: u32,
}

impl Level {
    /// A level that stays.
    pub(super) fn fixed(frames: u32) -> Self {
        Self { now: frames, most: frames, least: frames, calm: 0 }
    }

    /// A level that follows bursts.
    pub(super) fn following(most: u32) -> Self {
        Self { least: LEAST.min(most), ..Self::fixed(most) }
    }

    /// The frames that are to be lent now.
    #[inline]
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// The most frames that are ever lent.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// Takes note of a received frame, behind which so many more are ready.
    #[inline]
    pub(super) fn follow(&mut self, ready: u32) {
        self.calm += 1;
        if ready > self.now / 8 {
            self.calm = 0;
            if ready > self.now / 4 {
                self.rise(ready);
            }
        } else if self.calm >= CALM {
            self.calm = 0;
            self.now = (self.now / 2).max(self.least);
        }
    }

    /// A level that a burst has used up is not fallen to again: what interrupts the reader does so more than once.
    #[cold]
    fn rise(&mut self, ready: u32) {
        if ready + 2 * FILL_BATCH >= self.now {
            self.least = self.now.saturating_mul(2).min(self.most);
        }
        self.now = self.most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives so many frames with so many behind each; returns the level.
    fn after(level: &mut Level, frames: u32, ready: u32) -> u32 {
        (0..frames).for_each(|_| level.follow(ready));
        level.now()
    }

    #[test]
    fn it_falls_while_frames_come_one_by_one_and_rises_with_a_burst() {
        let mut level = Level::following(2048);
        assert_eq!((after(&mut level, CALM - 1, 0), level.most()), (2048, 2048));
        assert_eq!(after(&mut level, 1, 0), 1024);
        assert_eq!(after(&mut level, 100 * CALM, 3), LEAST, "and no further");
        assert_eq!(after(&mut level, 1, LEAST / 4), LEAST, "a quarter is there for a burst");
        assert_eq!(after(&mut level, 1, LEAST / 4 + 1), 2048);
        assert_eq!(after(&mut level, 100 * CALM, 2048 / 8 + 1), 2048, "bursts keep it where it is");
        assert_eq!(after(&mut level, CALM, 2048 / 8), 1024);
    }

    #[test]
    fn it_does_not_fall_again_to_what_a_burst_has_used_up() {
        let mut level = Level::following(2048);
        for least in [LEAST, 2 * LEAST, 4 * LEAST, 2048, 2048] {
            assert_eq!(after(&mut level, 100 * CALM, 0), least);
            assert_eq!(after(&mut level, 1, least - 1), 2048);
        }
    }

    #[test]
    fn it_stays_where_it_was_asked_for_and_where_there_are_few() {
        assert_eq!(after(&mut Level::fixed(2048), 100 * CALM, 0), 2048);
        assert_eq!(after(&mut Level::fixed(2048), 100 * CALM, 5_000), 2048);
        assert_eq!(after(&mut Level::following(16), 100 * CALM, 0), 16);
    }
}
