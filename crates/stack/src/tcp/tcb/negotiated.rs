//! The options that both SYNs carried.

use super::timestamps::TimestampClock;
use crate::tcp::config::Config;
use crate::tcp::time::Instant;
use sidestep_wire::tcp::{Options, SequenceNumber, Timestamps};

/// Agreed on, or, before the peer's SYN, offered.
pub(crate) struct Negotiated {
    timestamps: Option<TimestampClock>,
    sack: bool,
    window_scaling: bool,
}

impl Negotiated {
    /// The offer. `clock_offset`: the offset of our timestamps.
    pub(crate) fn offer(config: &Config, clock_offset: u32) -> Self {
        let timestamps = config.timestamps.then(|| TimestampClock::new(clock_offset));
        Self { timestamps, sack: config.sack, window_scaling: config.window_scaling }
    }

    /// Keeps what the peer's SYN offers, too (RFC 7323 section 1.3, RFC 2018 section 2).
    pub(crate) fn agree(&mut self, theirs: &Options, now: Instant) {
        self.window_scaling &= theirs.window_scale.is_some();
        self.sack &= theirs.sack_permitted;
        match (&mut self.timestamps, theirs.timestamps) {
            (Some(ours), Some(theirs)) => ours.begin(theirs.value, now),
            _ => self.timestamps = None,
        }
    }

    /// Takes over what another TCP has agreed on. Our clock goes on from the record's.
    #[cfg(feature = "audit")]
    pub(crate) fn resume(&mut self, record: &crate::tcp::Handover, now: Instant) {
        self.sack = record.sack;
        self.window_scaling = record.send_shift != 0 || record.receive_shift != 0;
        self.timestamps = record.timestamps.map(|clock| {
            let mut ours = TimestampClock::new(0);
            ours = TimestampClock::new(clock.value.wrapping_add(2).wrapping_sub(ours.value(now)));
            ours.begin(clock.echo, now);
            ours
        });
    }

    #[inline]
    pub(crate) fn sack(&self) -> bool {
        self.sack
    }

    #[inline]
    pub(crate) fn window_scaling(&self) -> bool {
        self.window_scaling
    }

    #[inline]
    pub(crate) fn timestamps(&self) -> Option<&TimestampClock> {
        self.timestamps.as_ref()
    }

    /// The timestamps option of a segment sent at `now`.
    #[inline]
    pub(crate) fn timestamps_option(&self, now: Instant) -> Option<Timestamps> {
        self.timestamps.map(|timestamps| timestamps.option(now))
    }

    /// The bytes that timestamps take of each segment.
    #[inline]
    pub(crate) fn option_bytes(&self) -> u32 {
        if self.timestamps.is_some() { 12 } else { 0 }
    }

    /// Takes the peer's clock from an acceptable segment (RFC 7323 section 4.3).
    #[inline]
    pub(crate) fn update_clock(
        &mut self,
        clock: Option<Timestamps>,
        seq: SequenceNumber,
        last_ack_sent: SequenceNumber,
        now: Instant,
    ) {
        if let (Some(ours), Some(theirs)) = (&mut self.timestamps, clock) {
            ours.update(theirs.value, seq, last_ack_sent, now);
        }
    }
}
