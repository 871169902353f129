//! The sink of segments, which the caller supplies.

use crate::Service;
use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::flow::Flow;
use crate::tcp::transmit::template::Template;
use sidestep_wire::{BuildError, tcp};

/// The sink has no place now (its ring is full). The segment was not sent; a connection's segment is tried again in the
/// next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// A sink of segments.
pub trait Output {
    /// Sends one segment now. It is complete: the sink writes it behind an IP header with [`Outgoing::write`].
    fn segment(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom>;
}

impl<F: FnMut(&Outgoing<'_>) -> Result<(), NoRoom>> Output for F {
    fn segment(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        self(segment)
    }
}

/// A segment to send.
pub struct Outgoing<'a> {
    /// The connection it belongs to; `None` for answers of the stack itself (RST, SYN cookie, TIME_WAIT).
    pub connection: Option<ConnectionId>,
    /// From where to where: the IP header's addresses.
    pub flow: &'a Flow,
    /// The fields of the IP header that the connection's user has chosen.
    pub service: Service,
    /// The TCP header.
    pub header: tcp::Segment,
    /// The payload in at most two pieces, to be sent one behind the other.
    pub payload: [&'a [u8]; 2],
    /// The header that all segments of the connection share, if this one has the common form.
    pub(crate) template: Option<&'a Template>,
}

impl Outgoing<'_> {
    /// Bytes of the payload.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.payload[0].len() + self.payload[1].len()
    }

    /// Bytes of header, options and payload.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.header.header_bytes() + self.payload_bytes()
    }

    /// Writes header, options, checksum and payload to the beginning of `out`; gives their length.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        if let Some(template) = self.template {
            return template.write(&self.header, self.payload, out).ok_or(BuildError::NoRoom);
        }
        let header_bytes = self.header.header_bytes();
        let place = out.get_mut(header_bytes..self.bytes()).ok_or(BuildError::NoRoom)?;
        let (first, second) = place.split_at_mut(self.payload[0].len());
        first.copy_from_slice(self.payload[0]);
        second.copy_from_slice(self.payload[1]);
        tcp::build(&self.header, &self.flow.addresses, self.payload_bytes(), out)
    }
}
