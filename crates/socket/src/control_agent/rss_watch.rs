//! Watch over the device's distribution of packets over its queues (RSS), while some of them are not ours.
//!
//! The thread beside the owner was started in the interface's network namespace; the owner may poll from elsewhere.

use super::{Event, Shared};
use sidestep_control_api::rss::Spread;
use sidestep_sys::interface::name_of_index;
use std::time::{Duration, Instant};

/// Between two looks: anybody with the privilege may change it, and nobody is told before Linux 6.17.
const LOOK: Duration = Duration::from_secs(2);

/// Before the second look at a change. A table is changed in several steps by those who change fields and rules with it, and what
/// is to be ended for it does not come back.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The distribution last read, and that last told to the owner.
pub(super) struct RssWatch {
    /// Number of the interface, which may get another name.
    interface: u32,
    /// `None` where the owner is to be told in any case.
    told: Option<Spread>,
    /// Found once, and other than what was told.
    found: Option<Spread>,
    look_at: Instant,
}

/// Reads the distribution of the device with this number. Of one that is gone nothing can be read.
pub(crate) fn spread_of(interface: u32) -> Spread {
    Spread::read(&name_of_index(interface).unwrap_or_default())
}

impl RssWatch {
    /// Goes on from what the owner knows.
    pub(super) fn after(interface: u32, told: Spread) -> Self {
        Self { interface, told: Some(told), found: None, look_at: Instant::now() + LOOK }
    }

    /// Control sees it otherwise, or has seen it so for a moment: the owner is told at the next look, changed or not.
    pub(super) fn invalidate(&mut self) {
        self.told = None;
    }

    /// Looks when it is time; the owner is told of a change.
    pub(super) fn look(&mut self, shared: &Shared) {
        let now = Instant::now();
        if now < self.look_at {
            return;
        }
        let events = self.find(spread_of(self.interface));
        self.look_at = now + if self.found.is_some() { LOOK_AGAIN } else { LOOK };
        if let Some(spread) = events {
            shared.post(Event::Spread(Box::new(spread)));
        }
    }

    /// Takes note of a reading; returns the change to tell.
    fn find(&mut self, spread: Spread) -> Option<Spread> {
        // A device that is being reset answers no question (ENODEV), or not each (EIO): nothing is known to have changed.
        if !spread.is_answer() || self.told.as_ref() == Some(&spread) {
            self.found = None;
            return None;
        }
        if self.found.take().as_ref() != Some(&spread) {
            self.found = Some(spread);
            return None;
        }
        self.told = Some(spread.clone());
        Some(spread)
    }

    /// The time of the next reading.
    pub(super) fn due(&self) -> Instant {
        self.look_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_agent::spread_over;

    #[test]
    fn a_change_is_told_when_it_is_found_twice_and_a_device_that_does_not_answer_has_not_changed() {
        let (before, after) = (spread_over(&[0]), spread_over(&[1]));
        let gone = spread_of(0x7fff_0000);
        let mut watch = RssWatch::after(1, before.clone());
        assert_eq!(watch.find(before.clone()), None);
        for passing in [&before, &gone, &spread_over(&[0, 1])] {
            assert_eq!(watch.find(after.clone()), None);
            assert_eq!(watch.find(passing.clone()), None, "it was there for a moment");
            assert_eq!(watch.find(before.clone()), None);
        }
        assert_eq!((watch.find(after.clone()), watch.find(after.clone())), (None, Some(after.clone())));
        assert_eq!(watch.find(after.clone()), None, "told once");
        watch.invalidate();
        assert_eq!((watch.find(after.clone()), watch.find(after.clone())), (None, Some(after)));
    }
}
