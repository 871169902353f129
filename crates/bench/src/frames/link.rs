//! The measuring end as a transport of the measuring loop.

use super::end::End;
use super::packet::{Address, FRAME_BYTES_MIN, HEADERS_BYTES, headers, payload};
use crate::link::Link;
use sidestep_frame::FrameLink;
use std::io::{self, ErrorKind};

/// A connection in bare frames.
pub(crate) struct FramesLink {
    end: End,
    from: Address,
    to: Address,
    /// Headers and size of the last message: all messages of a slice have the same.
    headers: [u8; HEADERS_BYTES],
    size: usize,
}

impl FramesLink {
    pub(crate) fn new(end: End, from: Address, to: Address) -> Self {
        Self { end, headers: headers(&from, &to, 0), size: 0, from, to }
    }
}

impl Link for FramesLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() != self.size {
            (self.headers, self.size) = (headers(&self.from, &self.to, bytes.len()), bytes.len());
        }
        let link = &mut self.end.link;
        let Some(frame) = link.allocate() else {
            link.poll()?;
            return Err(ErrorKind::WouldBlock.into());
        };
        let len = (HEADERS_BYTES + bytes.len()).max(FRAME_BYTES_MIN);
        let buffer = link.buffer(&frame);
        buffer[..HEADERS_BYTES].copy_from_slice(&self.headers);
        buffer[HEADERS_BYTES..HEADERS_BYTES + bytes.len()].copy_from_slice(bytes);
        if let Err(unsent) = link.send(frame, len) {
            link.discard(unsent.frame);
            link.poll()?;
            return Err(ErrorKind::WouldBlock.into());
        }
        link.flush()?;
        Ok(bytes.len())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let link = &mut self.end.link;
        let Some(frame) = link.receive() else {
            link.poll()?;
            return Err(ErrorKind::WouldBlock.into());
        };
        let message = payload(link.bytes(&frame)).unwrap_or_default();
        let count = message.len().min(buffer.len());
        buffer[..count].copy_from_slice(&message[..count]);
        link.release(frame);
        Ok(count)
    }
}
