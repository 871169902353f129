//! How the device spreads what it receives over its queues: read while connections are made from here.
//!
//! The thread beside the owner was started in the interface's network namespace; the owner may poll from elsewhere.

use super::{Event, Shared};
use sidestep_plane::rss::Spread;
use sidestep_sys::interface::name_of_index;
use std::time::{Duration, Instant};

/// Between two looks: anybody with the privilege may change it, and nobody is told before Linux 6.17.
const LOOK: Duration = Duration::from_secs(2);

/// What was read last.
pub(super) struct Spreading {
    interface: String,
    last: Spread,
    look_at: Instant,
}

impl Spreading {
    /// Reads it for the first time.
    pub(super) fn begin(interface: u32, shared: &Shared) -> Self {
        // Of one that is gone nothing can be read, under whatever name.
        let interface = name_of_index(interface).unwrap_or_default();
        let last = Spread::read(&interface);
        shared.post(Event::Spread(Box::new(last.clone())));
        Self { interface, last, look_at: Instant::now() + LOOK }
    }

    /// Reads it again when it is time; the owner is told of a change.
    pub(super) fn look(&mut self, shared: &Shared) {
        if Instant::now() < self.look_at {
            return;
        }
        self.look_at = Instant::now() + LOOK;
        let now = Spread::read(&self.interface);
        if now != self.last {
            self.last = now;
            shared.post(Event::Spread(Box::new(self.last.clone())));
        }
    }

    /// When that is.
    pub(super) fn due(&self) -> Instant {
        self.look_at
    }
}
