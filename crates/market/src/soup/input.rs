//! A packet that came in pieces. What is complete when it comes is read where it stands.

use super::packet::{LENGTH_BYTES, Malformed};

/// The pieces so far, in a buffer that does not grow.
#[derive(Debug)]
pub(super) struct Input {
    buffer: Box<[u8]>,
    filled: usize,
}

impl Input {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { buffer: vec![0; bytes_max].into(), filled: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }

    /// The packet, once it is complete.
    pub(super) fn filled(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Takes from `bytes` what the packet lacks; whether it is complete then.
    pub(super) fn fill(&mut self, bytes: &mut &[u8]) -> Result<bool, Malformed> {
        self.fill_to(LENGTH_BYTES, bytes);
        let Some(length) = self.filled().first_chunk::<LENGTH_BYTES>() else { return Ok(false) };
        let length = usize::from(u16::from_be_bytes(*length));
        let whole = LENGTH_BYTES + length;
        match length {
            0 => return Err(Malformed::NoType),
            bytes if whole > self.buffer.len() => return Err(Malformed::TooLong { bytes }),
            _ => self.fill_to(whole, bytes),
        }
        Ok(self.filled == whole)
    }

    fn fill_to(&mut self, whole: usize, bytes: &mut &[u8]) {
        let lacks = whole.saturating_sub(self.filled).min(bytes.len());
        let (piece, rest) = bytes.split_at(lacks);
        self.buffer[self.filled..self.filled + lacks].copy_from_slice(piece);
        self.filled += lacks;
        *bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_complete_with_its_last_byte() {
        let mut input = Input::new(8);
        for byte in b"\0\x03Sa" {
            assert_eq!(input.fill(&mut &[*byte][..]), Ok(false));
        }
        let mut bytes = &b"bX"[..];
        assert_eq!(input.fill(&mut bytes), Ok(true));
        assert_eq!((input.filled(), bytes), (&b"\0\x03Sab"[..], &b"X"[..]));
    }

    #[test]
    fn a_packet_that_never_fits_is_refused_by_its_length() {
        assert_eq!(Input::new(8).fill(&mut &b"\0\x07"[..]), Err(Malformed::TooLong { bytes: 7 }));
        assert_eq!(Input::new(8).fill(&mut &b"\0\0"[..]), Err(Malformed::NoType));
        assert_eq!(Input::new(8).fill(&mut &b"\0\x06S"[..]), Ok(false));
    }
}
