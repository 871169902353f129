//! Sending while a received frame is being read: an answer is written directly into another frame.

use super::XdpLink;
use crate::accounting::Place;
use crate::{FrameLink, Outgoing, Received};
use std::io;

/// The sending half of a link while a received frame is read. It cannot release that frame.
#[derive(Debug)]
pub struct Sending<'l> {
    link: &'l mut XdpLink,
}

impl XdpLink {
    /// The sending half alone.
    #[inline]
    pub fn sending(&mut self) -> Sending<'_> {
        Sending { link: self }
    }

    /// The bytes of a received frame, and the half of the link that can send other frames meanwhile.
    #[inline]
    pub fn read_and_send(&mut self, frame: &Received) -> (&[u8], Sending<'_>) {
        let place = self.locate(frame.index, frame.offset, frame.len(), Place::Lent);
        // SAFETY: the bytes lie inside of one frame of a mapping, which lives as long as the link, and that frame is with
        // the caller: it is in no ring, so the kernel does not write to it. `Sending` has the link for as long as the slice
        // lives and writes to frames in the place Held only, which this one cannot reach meanwhile: releasing and answering
        // it take the link itself.
        let bytes = place.map_or(&[][..], |place| unsafe { std::slice::from_raw_parts(place.as_ptr(), frame.len()) });
        (bytes, Sending { link: self })
    }
}

impl Sending<'_> {
    /// Calls [`XdpLink::allocate_for`].
    #[inline]
    pub fn allocate_for(&mut self, bytes: usize) -> Option<Outgoing> {
        self.link.allocate_for(bytes)
    }

    /// Calls [`FrameLink::buffer`].
    #[inline]
    pub fn buffer(&mut self, frame: &Outgoing) -> &mut [u8] {
        self.link.buffer(frame)
    }

    /// Calls [`FrameLink::send`]; a frame that cannot be sent now is discarded, and false is returned.
    #[inline]
    pub fn send(&mut self, frame: Outgoing, len: usize) -> bool {
        match self.link.send(frame, len) {
            Ok(()) => true,
            Err(unsent) => {
                self.link.discard(unsent.frame);
                false
            }
        }
    }

    /// Calls [`FrameLink::discard`].
    #[inline]
    pub fn discard(&mut self, frame: Outgoing) {
        self.link.discard(frame);
    }

    /// Calls [`FrameLink::flush`].
    #[inline]
    pub fn flush(&mut self) -> io::Result<()> {
        self.link.flush()
    }
}
