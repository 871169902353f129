//! Congestion control: one trait, and its implementations.
//!
//! Reno and CUBIC decide about a window. BBR is a model of the path as well: it looks at each segment that leaves, arrives or is lost
//! (`model.rs`), and has segments leave at a rate (`transmit/pacing.rs`).

mod bbr;
mod cubic;
pub(crate) mod delivery_rate;
mod hystart;
mod model;
mod pacer;
mod reno;
mod usage;

pub(crate) use bbr::Bbr;
pub use cubic::Cubic;
pub use reno::Reno;
pub(crate) use usage::Usage;

use super::options::Congestion;
use super::time::Instant;
use sidestep_wire::tcp::SequenceNumber;

/// The inputs of an ACK.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Now.
    pub now: Instant,
    /// Bytes that it newly acknowledges.
    pub acknowledged_bytes: u32,
    /// The smoothed round trip, in ns.
    pub rtt_ns: u64,
    /// The round trip that it measures, in ns; `None` if it acknowledges what was sent twice (Karn's algorithm).
    pub rtt_sample_ns: Option<u64>,
    /// SND.UNA behind it.
    pub una: SequenceNumber,
    /// SND.NXT.
    pub nxt: SequenceNumber,
    /// The window held the sender back: one that is not used does not grow (RFC 9438 section 5.8).
    pub is_limited: bool,
}

#[cfg(test)]
impl Progress {
    /// Of an ACK that measures no round trip.
    pub(crate) fn unmeasured(now: Instant, acknowledged_bytes: u32, rtt_ns: u64, is_limited: bool) -> Self {
        let (una, nxt) = (SequenceNumber(0), SequenceNumber(0));
        Self { now, acknowledged_bytes, rtt_ns, rtt_sample_ns: None, una, nxt, is_limited }
    }
}

/// Decides how many bytes may be in the network. Windows are in bytes.
pub trait CongestionControl {
    /// The congestion window.
    fn window_bytes(&self) -> u32;
    /// The slow start threshold.
    fn threshold_bytes(&self) -> u32;
    /// New data was acknowledged, outside of fast recovery.
    fn on_progress(&mut self, progress: &Progress);
    /// A loss was seen, fast recovery begins: lower the threshold and the window to it.
    fn on_loss(&mut self, now: Instant, in_flight_bytes: u32);
    /// The retransmission timer expired: the window is one segment. `first` of a row: only then the threshold changes.
    fn on_timeout(&mut self, now: Instant, in_flight_bytes: u32, first: bool);
    /// Nothing was sent for `idle_ns`, longer than a retransmission timeout of `rto_ns` (RFC 5681 section 4.1).
    fn on_idle(&mut self, idle_ns: u64, rto_ns: u64);
    /// The application has paused: time that did not count (RFC 9438 section 5.8).
    fn on_pause(&mut self, _pause_ns: u64) {}
    /// The segment size has changed.
    fn on_segment_bytes(&mut self, segment_bytes: u32);
}

/// The chosen one; no allocation and no indirect call per segment.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    Reno(Reno),
    Cubic(Cubic),
    /// Apart: it is as large as all the rest of a connection's congestion control and loss recovery.
    Bbr(Box<Bbr>),
}

impl Controller {
    pub(crate) fn new(kind: Congestion, segment_bytes: u32, initial_segments: u32) -> Self {
        let window = initial_window_bytes(segment_bytes, initial_segments);
        match kind {
            Congestion::Reno => Self::Reno(Reno::new(segment_bytes, window)),
            Congestion::Cubic | Congestion::Host => Self::Cubic(Cubic::new(segment_bytes, window)),
            Congestion::Bbr => Self::Bbr(Box::new(Bbr::new(segment_bytes, window))),
        }
    }

    pub(crate) fn kind(&self) -> Congestion {
        match self {
            Self::Reno(_) => Congestion::Reno,
            Self::Cubic(_) => Congestion::Cubic,
            Self::Bbr(_) => Congestion::Bbr,
        }
    }

    /// The model of the path, if it is one that has a model.
    #[inline]
    pub(crate) fn model(&mut self) -> Option<&mut Bbr> {
        match self {
            Self::Bbr(bbr) => Some(bbr),
            Self::Reno(_) | Self::Cubic(_) => None,
        }
    }

    #[inline]
    pub(crate) fn has_model(&self) -> bool {
        matches!(self, Self::Bbr(_))
    }

    /// The time at which the next burst may leave; `None`: a segment may leave now.
    #[inline]
    pub(crate) fn departure(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::Bbr(bbr) if !bbr.allows_departure(now) => Some(bbr.next_departure()),
            _ => None,
        }
    }

    /// The rate at which segments leave, bytes/s; `None`: as the window allows.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        match self {
            Self::Bbr(bbr) => Some(bbr.pacing_rate()),
            Self::Reno(_) | Self::Cubic(_) => None,
        }
    }

    /// The state before a recovery. A model keeps its own, so that nothing is allocated.
    pub(crate) fn saved(&self) -> Option<Self> {
        (!self.has_model()).then(|| self.clone())
    }

    /// The recovery before which `saved` was taken was a mistake.
    pub(crate) fn undo(&mut self, saved: Option<&Self>) {
        match saved {
            Some(saved) if saved.window_bytes() > self.window_bytes() => *self = saved.clone(),
            Some(_) => {}
            None => {
                if let Some(model) = self.model() {
                    model.undo();
                }
            }
        }
    }
}

/// RFC 6928 section 2: min(10 * MSS, max(2 * MSS, 14600)), with another number of segments if the profile says so.
fn initial_window_bytes(segment_bytes: u32, segments: u32) -> u32 {
    let most = segments.saturating_mul(1460).max(2 * segment_bytes);
    segments.saturating_mul(segment_bytes).min(most)
}

macro_rules! each {
    ($self:ident, $inner:ident => $call:expr) => {
        match $self {
            Controller::Reno($inner) => $call,
            Controller::Cubic($inner) => $call,
            Controller::Bbr($inner) => $call,
        }
    };
}

impl CongestionControl for Controller {
    #[inline]
    fn window_bytes(&self) -> u32 {
        each!(self, inner => inner.window_bytes())
    }

    #[inline]
    fn threshold_bytes(&self) -> u32 {
        each!(self, inner => inner.threshold_bytes())
    }

    #[inline]
    fn on_progress(&mut self, progress: &Progress) {
        each!(self, inner => inner.on_progress(progress));
    }

    fn on_loss(&mut self, now: Instant, in_flight_bytes: u32) {
        each!(self, inner => inner.on_loss(now, in_flight_bytes));
    }

    fn on_timeout(&mut self, now: Instant, in_flight_bytes: u32, first: bool) {
        each!(self, inner => inner.on_timeout(now, in_flight_bytes, first));
    }

    fn on_idle(&mut self, idle_ns: u64, rto_ns: u64) {
        each!(self, inner => inner.on_idle(idle_ns, rto_ns));
    }

    fn on_pause(&mut self, pause_ns: u64) {
        each!(self, inner => inner.on_pause(pause_ns));
    }

    fn on_segment_bytes(&mut self, segment_bytes: u32) {
        each!(self, inner => inner.on_segment_bytes(segment_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6928 section 2
    #[test]
    fn the_initial_window_is_ten_segments() {
        assert_eq!(initial_window_bytes(1460, 10), 14_600);
        assert_eq!(initial_window_bytes(536, 10), 5_360);
        assert_eq!(initial_window_bytes(9000, 10), 18_000);
        assert_eq!(Controller::new(Congestion::Reno, 1000, 10).window_bytes(), 10_000);
    }
}
