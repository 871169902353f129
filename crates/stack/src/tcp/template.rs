//! The header that all segments of a connection share, with its part of the checksum already summed.

use super::flow::Flow;
use sidestep_wire::checksum::Sum;
use sidestep_wire::{protocol, tcp};

/// Header and the timestamps option in the layout of RFC 7323 appendix A.
const BYTES_MAX: usize = 32;

/// Two bytes of padding, kind and length of the timestamps option.
const TIMESTAMPS: u32 = 0x0101_080a;

/// Ports, options' frame and pseudo header do not change; writing patches the rest.
pub(super) struct Template {
    bytes: [u8; BYTES_MAX],
    /// Over the pseudo header without its length, and over the ports.
    sum: Sum,
}

impl Template {
    pub(super) fn new(flow: &Flow) -> Self {
        let mut bytes = [0; BYTES_MAX];
        bytes[..2].copy_from_slice(&flow.local_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&flow.remote_port.to_be_bytes());
        bytes[20..24].copy_from_slice(&TIMESTAMPS.to_be_bytes());
        let sum = flow.addresses.pseudo_header(protocol::TCP, 0).with(&bytes[..4]);
        Self { bytes, sum }
    }

    /// Writes `header` in front of the payload that stands in `out` already; `None` if it is not of the common form (no
    /// options, or only timestamps).
    #[inline]
    pub(super) fn write(&self, header: &tcp::Segment, payload_bytes: usize, out: &mut [u8]) -> Option<usize> {
        let options = &header.options;
        if options.maximum_segment_size.is_some()
            || options.window_scale.is_some()
            || options.sack_permitted
            || !options.sack.is_empty()
            || header.urgent_pointer != 0
        {
            return None;
        }
        let header_bytes = if options.timestamps.is_some() { BYTES_MAX } else { tcp::HEADER_BYTES };
        let length = u16::try_from(header_bytes + payload_bytes).ok()?;
        let (place, payload) = out.get_mut(..usize::from(length))?.split_at_mut_checked(header_bytes)?;
        // The sum is taken of the numbers, not of the bytes: those were written a moment ago in smaller pieces, and to load
        // them in larger ones waits until they have reached the cache.
        let mut sum = self.sum.with_u16(length).with_u32(header.sequence.0).with_u32(header.acknowledgement.0);
        let mut bytes = self.bytes;
        let (offset, flags) = ((header_bytes as u8 / 4) << 4, header.flags.0);
        sum = sum.with_u16(u16::from_be_bytes([offset, flags])).with_u16(header.window);
        bytes[4..8].copy_from_slice(&header.sequence.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&header.acknowledgement.0.to_be_bytes());
        (bytes[12], bytes[13]) = (offset, flags);
        bytes[14..16].copy_from_slice(&header.window.to_be_bytes());
        if let Some(timestamps) = options.timestamps {
            sum = sum.with_u32(TIMESTAMPS).with_u32(timestamps.value).with_u32(timestamps.echo);
            bytes[24..28].copy_from_slice(&timestamps.value.to_be_bytes());
            bytes[28..32].copy_from_slice(&timestamps.echo.to_be_bytes());
        }
        bytes[16..18].copy_from_slice(&sum.with(payload).checksum().to_be_bytes());
        // Of a length that the compiler knows it is a few moves, of any other a call.
        match place.first_chunk_mut::<BYTES_MAX>() {
            Some(place) => *place = bytes,
            None => place.copy_from_slice(&bytes[..header_bytes]),
        }
        Some(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sidestep_wire::tcp::{Flags, Options, Segment, SequenceNumber, Timestamps};

    proptest! {
        /// The short way writes what the long way writes.
        #[test]
        fn agrees_with_build(
            numbers in any::<[u32; 4]>(), window in any::<u16>(), flags in any::<u8>(), stamped in any::<bool>(),
            six in any::<bool>(), payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let (local, remote) = if six { ("[2001:db8::1]:7", "[2001:db8::2]:9") } else { ("192.0.2.1:7", "192.0.2.2:9") };
            let flow = Flow::new(local.parse().unwrap(), remote.parse().unwrap()).unwrap();
            let timestamps = stamped.then_some(Timestamps { value: numbers[2], echo: numbers[3] });
            let header = Segment {
                source_port: 7, destination_port: 9, sequence: SequenceNumber(numbers[0]),
                acknowledgement: SequenceNumber(numbers[1]), flags: Flags(flags), window, urgent_pointer: 0,
                options: Options { timestamps, ..Options::NONE },
            };
            let at = header.header_bytes();
            let mut long = vec![0; at + payload.len()];
            long[at..].copy_from_slice(&payload);
            let mut short = long.clone();
            let bytes = tcp::build(&header, &flow.addresses, payload.len(), &mut long).unwrap();
            prop_assert_eq!(Template::new(&flow).write(&header, payload.len(), &mut short), Some(bytes));
            prop_assert_eq!(short, long);
        }
    }
}
