//! SYN cookies: a half-open connection that is remembered by the peer instead of by us (RFC 4987 section 3.6).
//!
//! ```text
//!  bits 31..27              26..24                   23..0
//!  | time, 64 s modulo 32 | index of segment size | keyed hash of flow, peer's number, time and index |
//! ```
//!
//! Window scale and SACK travel in the six low bits of our timestamp, if the peer uses timestamps; else they are lost, which
//! costs speed, not correctness.

use crate::tcp::demux::hash::{Secret, sip_hash, sip_hash_flow};
use crate::tcp::flow::Flow;
use crate::tcp::time::{Instant, SECOND_NS};
use sidestep_wire::tcp::{Options, SequenceNumber};

/// A cookie is good in the interval in which it was made and in the next.
const INTERVAL_NS: u64 = 64 * SECOND_NS;
const HASH_BITS: u32 = 24;
const HASH_MASK: u32 = (1 << HASH_BITS) - 1;
/// Segment sizes that a cookie can name: the largest that is not above the peer's is taken.
const SEGMENT_BYTES: [u16; 8] = [64, 512, 536, 1220, 1400, 1440, 1460, 8900];
const OPTION_BITS: u32 = 6;
const OPTION_MASK: u32 = (1 << OPTION_BITS) - 1;
const NO_SCALE: u32 = 15;
const SACK_BIT: u32 = 1 << 4;

pub(crate) struct Cookies {
    key: [u64; 2],
    /// The time at which the last one was sent: without any, no ACK is a cookie.
    last_sent: Option<Instant>,
}

impl Cookies {
    pub(crate) fn new(secret: &Secret) -> Self {
        let key = [10, 11].map(|number| sip_hash([secret.0[0], secret.0[3]], &[number]));
        Self { key, last_sent: None }
    }

    /// The number to answer a SYN with.
    pub(crate) fn make(
        &mut self,
        flow: &Flow,
        theirs: SequenceNumber,
        segment_bytes: u16,
        now: Instant,
    ) -> SequenceNumber {
        self.last_sent = Some(now);
        let index = SEGMENT_BYTES.iter().rposition(|&bytes| bytes <= segment_bytes).unwrap_or(0) as u32;
        self.at(flow, theirs, index, now.as_nanos() / INTERVAL_NS)
    }

    fn at(&self, flow: &Flow, theirs: SequenceNumber, index: u32, interval: u64) -> SequenceNumber {
        let more = interval << 35 | u64::from(index) << 32 | u64::from(theirs.0);
        let hash = sip_hash_flow(self.key, flow, more) as u32 & HASH_MASK;
        SequenceNumber((interval as u32 % 32) << 27 | index << HASH_BITS | hash)
    }

    /// The segment size that `cookie` names; `None` if it is none of ours, or too old.
    pub(crate) fn check(
        &self,
        flow: &Flow,
        theirs: SequenceNumber,
        cookie: SequenceNumber,
        now: Instant,
    ) -> Option<u16> {
        self.last_sent.filter(|sent| now.since_ns(*sent) < 2 * INTERVAL_NS)?;
        let index = cookie.0 >> HASH_BITS & 7;
        let interval = now.as_nanos() / INTERVAL_NS;
        let is_ours = [Some(interval), interval.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|interval| self.at(flow, theirs, index, interval) == cookie);
        is_ours.then(|| SEGMENT_BYTES[index as usize])
    }
}

/// Our timestamp `clock` with what the SYN offered in its low bits; not later than `clock`.
pub(crate) fn stamp(clock: u32, scale: Option<u8>, sack: bool) -> u32 {
    let bits = scale.map_or(NO_SCALE, u32::from) | if sack { SACK_BIT } else { 0 };
    let stamped = clock & !OPTION_MASK | bits;
    if stamped > clock { stamped.wrapping_sub(OPTION_MASK + 1) } else { stamped }
}

/// The options that the SYN offered, from the echo of such a timestamp. They are not verified: a peer that lies harms itself.
pub(crate) fn offered(echo: u32) -> Options {
    let scale = echo & NO_SCALE;
    Options {
        window_scale: (scale != NO_SCALE).then_some(scale as u8),
        sack_permitted: echo & SACK_BIT != 0,
        ..Options::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> Flow {
        Flow::new(([192, 0, 2, 1], 80).into(), ([192, 0, 2, 2], port).into()).unwrap()
    }

    /// RFC 4987 section 3.6
    #[test]
    fn only_what_we_made_and_not_long_ago() {
        let mut cookies = Cookies::new(&Secret([1, 2, 3, 4]));
        let (theirs, now) = (SequenceNumber(77), Instant::from_nanos(1000 * SECOND_NS));
        assert_eq!(cookies.check(&flow(1), theirs, cookies.at(&flow(1), theirs, 6, 15), now), None, "none was sent");
        let cookie = cookies.make(&flow(1), theirs, 1460, now);
        let check = |flow: &Flow, theirs, cookie, after_s| {
            cookies.check(flow, theirs, cookie, now.after_ns(after_s * SECOND_NS))
        };
        assert_eq!(check(&flow(1), theirs, cookie, 0), Some(1460));
        assert_eq!(check(&flow(1), theirs, cookie, 60), Some(1460));
        assert_eq!(check(&flow(1), theirs, cookie, 128), None);
        assert_eq!(check(&flow(2), theirs, cookie, 0), None);
        assert_eq!(check(&flow(1), theirs + 1, cookie, 0), None);
        assert_eq!(check(&flow(1), theirs, cookie + 1, 0), None);
        assert_eq!(check(&flow(1), theirs, cookie + (1 << HASH_BITS), 0), None, "the size is covered, too");
    }

    #[test]
    fn sizes_are_rounded_down() {
        let mut cookies = Cookies::new(&Secret([1, 2, 3, 4]));
        let (theirs, now) = (SequenceNumber(77), Instant::default());
        for (asked, given) in [(0, 64), (535, 512), (1459, 1440), (1460, 1460), (u16::MAX, 8900)] {
            let cookie = cookies.make(&flow(1), theirs, asked, now);
            assert_eq!(cookies.check(&flow(1), theirs, cookie, now), Some(given));
        }
    }

    #[test]
    fn options_come_back_in_the_clock() {
        for clock in [0, 5, 1 << 20, u32::MAX] {
            for (scale, sack) in [(None, true), (Some(0), false), (Some(14), true)] {
                let stamped = stamp(clock, scale, sack);
                assert!(clock.wrapping_sub(stamped) < 128, "never ahead of the clock");
                let options = offered(stamped);
                assert_eq!((options.window_scale, options.sack_permitted), (scale, sack));
            }
        }
    }
}
