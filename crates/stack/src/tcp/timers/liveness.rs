//! Signs of life: when each side was last heard, and what the peer has left unanswered since.

use crate::tcp::time::Instant;

pub(crate) struct Liveness {
    last_sent_at: Instant,
    last_heard_at: Instant,
    /// Since when the peer owes an acknowledgement.
    waiting_since: Instant,
    /// Expiries of the retransmission timer without progress.
    timeouts: u32,
    /// Outages that ended without progress.
    outages: u32,
    /// Unanswered probes into a closed window.
    window_probes: u32,
    /// Unanswered keep-alive probes.
    keepalive_probes: u32,
}

impl Liveness {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last_sent_at: now,
            last_heard_at: now,
            waiting_since: Instant::default(),
            timeouts: 0,
            outages: 0,
            window_probes: 0,
            keepalive_probes: 0,
        }
    }

    #[inline]
    pub(crate) fn last_sent_at(&self) -> Instant {
        self.last_sent_at
    }

    #[inline]
    pub(crate) fn last_heard_at(&self) -> Instant {
        self.last_heard_at
    }

    /// A segment has left.
    #[inline]
    pub(crate) fn note_sent(&mut self, now: Instant) {
        self.last_sent_at = now;
    }

    /// An acceptable segment has arrived.
    #[inline]
    pub(crate) fn note_heard(&mut self, now: Instant) {
        self.last_heard_at = now;
        self.keepalive_probes = 0;
    }

    /// The time since the peer was last heard, in ns.
    #[inline]
    pub(crate) fn silent_ns(&self, now: Instant) -> u64 {
        now.since_ns(self.last_heard_at)
    }

    pub(crate) fn waiting_since(&self) -> Instant {
        self.waiting_since
    }

    /// From now on the peer owes an acknowledgement.
    #[inline]
    pub(crate) fn wait_from(&mut self, now: Instant) {
        self.waiting_since = now;
    }

    #[inline]
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    pub(crate) fn note_timeout(&mut self) {
        self.timeouts += 1;
    }

    #[inline]
    pub(crate) fn reset_timeouts(&mut self) {
        self.timeouts = 0;
    }

    pub(crate) fn outages(&self) -> u32 {
        self.outages
    }

    pub(crate) fn note_outage(&mut self) {
        self.outages += 1;
    }

    /// The peer has acknowledged something new.
    #[inline]
    pub(crate) fn note_progress(&mut self) {
        self.outages = 0;
        self.window_probes = 0;
    }

    pub(crate) fn window_probes(&self) -> u32 {
        self.window_probes
    }

    pub(crate) fn note_window_probe(&mut self) {
        self.window_probes += 1;
    }

    /// The peer has answered while nothing was in flight.
    #[inline]
    pub(crate) fn reset_window_probes(&mut self) {
        self.window_probes = 0;
    }

    pub(crate) fn keepalive_probes(&self) -> u32 {
        self.keepalive_probes
    }

    pub(crate) fn note_keepalive_probe(&mut self) {
        self.keepalive_probes += 1;
    }
}
