//! The frames that travel: Ethernet II, IPv4 without options, UDP, every checksum complete.
//!
//! ```text
//!  0           6          12     14        34        42
//!  +-----------+----------+------+---------+---------+----------
//!  | MAC to    | MAC from | 0800 | IPv4    | UDP     | message, padded to a frame of 60 bytes
//!  +-----------+----------+------+---------+---------+----------
//! ```

use sidestep_wire::checksum::{Sum, udp_form};
use std::net::SocketAddrV4;

/// Ethernet, IPv4, UDP.
pub(crate) const HEADERS_BYTES: usize = 42;
/// The shortest frame that a cable carries, without its check sequence.
pub(crate) const FRAME_BYTES_MIN: usize = 60;
/// The protocol number of UDP.
const UDP: u8 = 17;
/// Addresses and port of the sender, and the receiver's address: `source[4] destination[4] port[2]` in a frame.
const SENDER: std::ops::Range<usize> = 26..36;

/// The two ends of the conversation, as one of them sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) local: SocketAddrV4,
    pub(crate) remote: SocketAddrV4,
}

/// The headers of messages of one size, at most [`super::SIZE_MAX`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    bytes: [u8; HEADERS_BYTES],
    /// Of the pseudo header and the UDP header.
    sum: Sum,
}

impl Headers {
    /// Of messages of `size` bytes that `flow.local` sends.
    pub(super) fn new(flow: &Flow, [from, to]: [[u8; 6]; 2], size: usize) -> Self {
        let mut bytes = [0; HEADERS_BYTES];
        bytes[..6].copy_from_slice(&to);
        bytes[6..12].copy_from_slice(&from);
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        let udp_bytes = (8 + size) as u16;
        bytes[14] = 0x45; // Version 4, five words.
        bytes[16..18].copy_from_slice(&(20 + udp_bytes).to_be_bytes());
        bytes[20] = 0x40; // Don't fragment.
        bytes[22..24].copy_from_slice(&[64, UDP]); // Hops, protocol.
        bytes[26..30].copy_from_slice(&flow.local.ip().octets());
        bytes[30..34].copy_from_slice(&flow.remote.ip().octets());
        let sum = Sum::ZERO.with(&bytes[14..34]).checksum();
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        bytes[34..36].copy_from_slice(&flow.local.port().to_be_bytes());
        bytes[36..38].copy_from_slice(&flow.remote.port().to_be_bytes());
        bytes[38..40].copy_from_slice(&udp_bytes.to_be_bytes());
        let sum = Sum::ZERO.with_u16(UDP.into()).with_u16(udp_bytes).with(&bytes[26..42]);
        Self { bytes, sum }
    }

    /// Writes them before `message` into a frame that holds both.
    #[inline]
    pub(super) fn write(&self, message: &[u8], frame: &mut [u8]) {
        frame[..HEADERS_BYTES].copy_from_slice(&self.bytes);
        frame[HEADERS_BYTES..HEADERS_BYTES + message.len()].copy_from_slice(message);
        let checksum = udp_form(self.sum.with(message).checksum());
        frame[40..42].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl Flow {
    /// The bytes by which a frame is known to come from the peer.
    pub(super) fn sender(&self) -> [u8; SENDER.end - SENDER.start] {
        let mut bytes = [0; SENDER.end - SENDER.start];
        bytes[..4].copy_from_slice(&self.remote.ip().octets());
        bytes[4..8].copy_from_slice(&self.local.ip().octets());
        bytes[8..].copy_from_slice(&self.remote.port().to_be_bytes());
        bytes
    }
}

/// The message in a frame of that sender, by the length that its UDP header says; none in a frame of others, or one that
/// cannot hold it.
#[inline]
pub(super) fn payload<'a>(frame: &'a [u8], sender: &[u8]) -> Option<&'a [u8]> {
    if frame.get(SENDER)? != sender {
        return None;
    }
    let len = usize::from(u16::from_be_bytes(*frame.get(38..40)?.first_chunk()?));
    frame.get(HEADERS_BYTES..34 + len)
}

/// Makes an answer of a frame, in place: whoever sent it gets it back, by the way it came. No checksum changes by that.
#[inline]
pub(crate) fn turn_round(frame: &mut [u8]) {
    if let Some(headers) = frame.first_chunk_mut::<HEADERS_BYTES>() {
        for (one, two, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
            for byte in 0..len {
                headers.swap(one + byte, two + byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    fn flow() -> Flow {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(198, 18, 0, host), port);
        Flow { local: end(1, 7411), remote: end(2, 7412) }
    }

    fn back(flow: Flow) -> Flow {
        Flow { local: flow.remote, remote: flow.local }
    }

    fn frame(flow: &Flow, macs: [[u8; 6]; 2], message: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADERS_BYTES + message.len()];
        Headers::new(flow, macs, message.len()).write(message, &mut frame);
        frame
    }

    /// As a receiver sums them (RFC 768, RFC 791).
    fn is_intact(frame: &[u8]) -> bool {
        let udp_bytes = u16::from_be_bytes([frame[38], frame[39]]);
        let udp = Sum::ZERO
            .with_u16(17)
            .with_u16(udp_bytes)
            .with(&frame[26..34])
            .with(&frame[34..34 + usize::from(udp_bytes)]);
        Sum::ZERO.with(&frame[14..34]).is_good() && udp.is_good() && frame[40..42] != [0, 0]
    }

    #[test]
    fn every_checksum_is_complete() {
        for size in [8, 9, 64, 1471, 1472] {
            let message: Vec<u8> = (0..size).map(|at| (at * 31 + 7) as u8).collect();
            let mut frame = frame(&flow(), MACS, &message);
            assert!(is_intact(&frame), "{size}");
            assert_eq!(usize::from(u16::from_be_bytes([frame[16], frame[17]])), size + 28);
            turn_round(&mut frame);
            assert!(is_intact(&frame), "{size} back");
            frame[HEADERS_BYTES] ^= 1;
            assert!(!is_intact(&frame));
        }
    }

    #[test]
    fn an_answer_is_what_the_other_end_would_send() {
        let mut there = frame(&flow(), MACS, &[7; 64]);
        assert_eq!(payload(&there, &back(flow()).sender()), Some(&[7; 64][..]));
        turn_round(&mut there);
        let [a, b] = MACS;
        assert_eq!(there, frame(&back(flow()), [b, a], &[7; 64]));
    }

    #[test]
    fn only_the_peer_is_heard() {
        let frame = frame(&flow(), MACS, &[7; 64]);
        let mut stranger = back(flow());
        stranger.remote.set_port(9);
        assert_eq!(payload(&frame, &stranger.sender()), None);
        stranger = back(flow());
        stranger.remote.set_ip(Ipv4Addr::new(198, 18, 0, 9));
        assert_eq!(payload(&frame, &stranger.sender()), None);
    }

    #[test]
    fn a_frame_that_lies_about_its_length_has_no_message() {
        let (mut frame, sender) = (frame(&flow(), MACS, &[0; 18]), back(flow()).sender());
        assert_eq!(payload(&frame, &sender).map(<[u8]>::len), Some(18));
        for lie in [0_u16, 7, 27, u16::MAX] {
            frame[38..40].copy_from_slice(&lie.to_be_bytes());
            assert_eq!(payload(&frame, &sender), None, "{lie}");
        }
        assert_eq!(payload(&frame[..35], &sender), None);
        turn_round(&mut frame[..41]);
    }
}
