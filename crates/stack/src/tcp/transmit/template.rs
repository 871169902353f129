//! The header that all segments of a connection share, with its part of the checksum already summed.

use crate::tcp::flow::Flow;
use sidestep_wire::checksum::Sum;
use sidestep_wire::{protocol, tcp};

/// Header and the timestamps option in the layout of RFC 7323 appendix A.
const BYTES_MAX: usize = 32;

/// Two bytes of padding, kind and length of the timestamps option.
const TIMESTAMPS: u32 = 0x0101_080a;

/// Ports and pseudo header do not change.
pub(crate) struct Template {
    ports: [u8; 4],
    /// Over the pseudo header without its length, and over the ports.
    sum: Sum,
}

impl Template {
    pub(crate) fn new(flow: &Flow) -> Self {
        let mut ports = [0; 4];
        ports[..2].copy_from_slice(&flow.local_port.to_be_bytes());
        ports[2..].copy_from_slice(&flow.remote_port.to_be_bytes());
        let sum = flow.addresses.pseudo_header(protocol::TCP, 0).with(&ports);
        Self { ports, sum }
    }

    /// Returns whether a header is of the common form: no options, or only timestamps.
    #[inline]
    pub(crate) fn fits(header: &tcp::Segment) -> bool {
        let options = &header.options;
        options.maximum_segment_size.is_none()
            && options.window_scale.is_none()
            && !options.sack_permitted
            && options.sack.is_empty()
            && header.urgent_pointer == 0
    }

    /// Bytes of a header of the common form.
    #[inline]
    pub(crate) fn header_bytes(header: &tcp::Segment) -> usize {
        if header.options.timestamps.is_some() { BYTES_MAX } else { tcp::HEADER_BYTES }
    }

    /// Writes a `header` of the common form and its payload; `None` if there is no room.
    #[inline]
    pub(crate) fn write(&self, header: &tcp::Segment, payload: [&[u8]; 2], out: &mut [u8]) -> Option<usize> {
        debug_assert!(Self::fits(header), "{header:?}");
        let header_bytes = Self::header_bytes(header);
        let length = u16::try_from(header_bytes + payload[0].len() + payload[1].len()).ok()?;
        let (place, behind) = out.get_mut(..usize::from(length))?.split_at_mut_checked(header_bytes)?;
        let (first, second) = behind.split_at_mut_checked(payload[0].len())?;
        first.copy_from_slice(payload[0]);
        if !second.is_empty() {
            second.copy_from_slice(payload[1]);
        }
        let sum = self.sum.with_u16(length).with(behind);
        // Of a length that the compiler knows it is a few moves, of any other a call.
        match (place.first_chunk_mut::<BYTES_MAX>(), header.options.timestamps) {
            (Some(place), Some(timestamps)) => self.write_stamped(header, &timestamps, sum, place),
            _ => self.write_bare(header, sum, place.first_chunk_mut()?),
        }
        Some(usize::from(length))
    }

    #[inline]
    fn write_stamped(
        &self,
        header: &tcp::Segment,
        timestamps: &tcp::Timestamps,
        sum: Sum,
        place: &mut [u8; BYTES_MAX],
    ) {
        let sum = sum.with_u32(TIMESTAMPS).with_u32(timestamps.value).with_u32(timestamps.echo);
        if let Some((front, options)) = place.split_first_chunk_mut::<{ tcp::HEADER_BYTES }>() {
            self.write_bare(header, sum, front);
            options[..4].copy_from_slice(&TIMESTAMPS.to_be_bytes());
            options[4..8].copy_from_slice(&timestamps.value.to_be_bytes());
            options[8..].copy_from_slice(&timestamps.echo.to_be_bytes());
        }
    }

    /// The sum is taken of the numbers, not of the bytes: those were written a moment ago in smaller pieces, and to load them in
    /// larger ones waits until they have reached the cache. For the same reason they are written where they belong.
    #[inline]
    fn write_bare(&self, header: &tcp::Segment, sum: Sum, place: &mut [u8; tcp::HEADER_BYTES]) {
        let (offset, flags) = ((Self::header_bytes(header) as u8 / 4) << 4, header.flags.0);
        let form = u16::from_be_bytes([offset, flags]);
        let sum = sum.with_u32(header.sequence.0).with_u32(header.acknowledgement.0);
        let checksum = sum.with_u16(form).with_u16(header.window).checksum();
        place[..4].copy_from_slice(&self.ports);
        place[4..8].copy_from_slice(&header.sequence.0.to_be_bytes());
        place[8..12].copy_from_slice(&header.acknowledgement.0.to_be_bytes());
        place[12..14].copy_from_slice(&form.to_be_bytes());
        place[14..16].copy_from_slice(&header.window.to_be_bytes());
        place[16..18].copy_from_slice(&checksum.to_be_bytes());
        place[18..].fill(0);
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
            six in any::<bool>(), cut in 0_usize..200, payload in prop::collection::vec(any::<u8>(), 0..200),
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
            let mut short = vec![0; long.len()];
            let bytes = tcp::build(&header, &flow.addresses, payload.len(), &mut long).unwrap();
            let pieces = payload.split_at(cut.min(payload.len()));
            let template = Template::new(&flow);
            prop_assert_eq!(template.write(&header, [pieces.0, pieces.1], &mut short), Some(bytes));
            prop_assert_eq!(&short, &long);
            prop_assert_eq!(template.write(&header, [pieces.0, pieces.1], &mut short[1..]), None);
        }
    }
}
