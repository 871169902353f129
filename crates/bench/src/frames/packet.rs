//! The frames that travel: Ethernet II, IPv4 without options, UDP without checksum (which RFC 768 allows).
//!
//! ```text
//!  0           6          12     14        34        42
//!  +-----------+----------+------+---------+---------+----------
//!  | MAC to    | MAC from | 0800 | IPv4    | UDP     | message, padded to a frame of 60 bytes
//!  +-----------+----------+------+---------+---------+----------
//! ```

use std::net::Ipv4Addr;

/// Ethernet, IPv4, UDP.
pub(crate) const HEADERS_BYTES: usize = 42;
/// The shortest frame that a cable carries, without its check sequence.
pub(crate) const FRAME_BYTES_MIN: usize = 60;

/// The addresses of one end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) mac: [u8; 6],
    pub(crate) ip: Ipv4Addr,
    pub(crate) port: u16,
}

/// The headers before a message of `size` bytes, at most [`super::SIZE_MAX`].
pub(crate) fn headers(from: &Address, to: &Address, size: usize) -> [u8; HEADERS_BYTES] {
    let mut headers = [0; HEADERS_BYTES];
    headers[..6].copy_from_slice(&to.mac);
    headers[6..12].copy_from_slice(&from.mac);
    headers[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip_bytes = (20 + 8 + size) as u16;
    headers[14] = 0x45; // Version 4, five words.
    headers[16..18].copy_from_slice(&ip_bytes.to_be_bytes());
    headers[20] = 0x40; // Don't fragment.
    headers[22..24].copy_from_slice(&[64, 17]); // Hops, UDP.
    headers[26..30].copy_from_slice(&from.ip.octets());
    headers[30..34].copy_from_slice(&to.ip.octets());
    let sum = checksum(&headers[14..34]);
    headers[24..26].copy_from_slice(&sum.to_be_bytes());
    headers[34..36].copy_from_slice(&from.port.to_be_bytes());
    headers[36..38].copy_from_slice(&to.port.to_be_bytes());
    headers[38..40].copy_from_slice(&((8 + size) as u16).to_be_bytes());
    headers
}

/// RFC 1071, over an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) as u16 + (folded >> 16) as u16)
}

/// The message in a frame, by the length that its UDP header says; none in a frame that cannot hold it.
#[inline]
pub(crate) fn payload(frame: &[u8]) -> Option<&[u8]> {
    let len = usize::from(u16::from_be_bytes(*frame.get(38..40)?.first_chunk()?));
    frame.get(HEADERS_BYTES..34 + len)
}

/// Makes an answer of a frame, in place: whoever sent it gets it back. No checksum changes by that.
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

    const A: Address = Address { mac: [2, 0, 0, 0, 0, 1], ip: Ipv4Addr::new(198, 18, 0, 1), port: 7411 };
    const B: Address = Address { mac: [2, 0, 0, 0, 0, 2], ip: Ipv4Addr::new(198, 18, 0, 2), port: 7412 };

    #[test]
    fn an_answer_is_what_the_other_end_would_send() {
        let mut frame = headers(&A, &B, 64).to_vec();
        frame.extend([7; 64]);
        assert_eq!(payload(&frame), Some(&[7; 64][..]));
        turn_round(&mut frame);
        assert_eq!(frame[..HEADERS_BYTES], headers(&B, &A, 64));
    }

    #[test]
    fn the_header_sums_to_zero() {
        let headers = headers(&A, &B, 1472);
        assert_eq!(checksum(&headers[14..34]), 0);
        assert_eq!(u16::from_be_bytes([headers[16], headers[17]]), 1500);
    }

    #[test]
    fn a_frame_that_lies_about_its_length_has_no_message() {
        let mut frame = headers(&A, &B, 18).to_vec();
        frame.extend([0; 18]);
        assert_eq!(payload(&frame).map(<[u8]>::len), Some(18));
        for lie in [0_u16, 7, 27, u16::MAX] {
            frame[38..40].copy_from_slice(&lie.to_be_bytes());
            assert_eq!(payload(&frame), None, "{lie}");
        }
        assert_eq!(payload(&frame[..39]), None);
        turn_round(&mut frame[..41]);
    }
}
