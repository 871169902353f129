//! Messages in a byte stream, and their fields: as little as the client needs, and nothing that a peer can make
//! grow.

use super::message::{SOH, checksum};
use sidestep_sys::Problem;
use std::ops::Range;

/// Size of the receive buffer: some hundred reports.
const ROOM: usize = 64 << 10;
/// The longest frame that an acceptor may send here.
const FRAME_MAX: usize = 8 << 10;
/// The longest first two fields: `8=FIXT.1.1`, `9=` and six digits.
const HEAD_MAX: usize = 24;
/// `10=nnn` and its delimiter.
const TRAILER_LENGTH: usize = 7;

/// Received bytes that are not yet read.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
    frames: u64,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; ROOM], begin: 0, end: 0, frames: 0 }
    }

    /// Returns the free space of the buffer. Frames stay in place until [`Inbox::release`].
    #[inline]
    pub(super) fn spare(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Frees the space of the frames that were read; there is then space for at least one more.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        } else if ROOM - self.end < FRAME_MAX {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
    }

    /// Adds bytes that were received into [`Inbox::spare`].
    #[inline]
    pub(super) fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// Returns the next complete frame, if there is one. It is valid until the next call of [`Inbox::release`].
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Place>, Problem> {
        let waiting = &self.bytes[self.begin..self.end];
        let Some((head, body)) = lengths(waiting)? else { return Ok(None) };
        let length = head + body + TRAILER_LENGTH;
        if waiting.len() < length {
            return Ok(None);
        }
        let kind = match waiting[head..] {
            [b'3', b'5', b'=', kind, SOH, ..] => kind,
            _ => 0,
        };
        let range = self.begin..self.begin + length;
        self.begin += length;
        self.frames += 1;
        Ok(Some(Place { range, kind, index: self.frames }))
    }

    /// The bytes of a frame.
    pub(super) fn frame(&self, place: &Place) -> Frame<'_> {
        Frame(&self.bytes[place.range.clone()])
    }
}

/// The position of a frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    range: Range<usize>,
    /// Its MsgType, if that is one character; else 0.
    pub(super) kind: u8,
    /// Its number among all frames of the connection, from 1.
    pub(super) index: u64,
}

/// The lengths of the first two fields and of the body of the frame that `bytes` begin with, as soon as these two are there.
#[inline]
fn lengths(bytes: &[u8]) -> Result<Option<(usize, usize)>, Problem> {
    let head = &bytes[..bytes.len().min(HEAD_MAX)];
    let Some(first) = head.iter().position(|byte| *byte == SOH) else { return incomplete(bytes) };
    let Some(second) = head[first + 1..].iter().position(|byte| *byte == SOH) else { return incomplete(bytes) };
    let digits = head[first + 1..first + 1 + second].strip_prefix(b"9=");
    let number = |digits: &[u8]| {
        digits
            .iter()
            .try_fold(0_usize, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + usize::from(digit - b'0')))
    };
    match digits.and_then(number) {
        Some(body) if head.starts_with(b"8=FIX") && body <= FRAME_MAX - HEAD_MAX - TRAILER_LENGTH => {
            Ok(Some((first + second + 2, body)))
        }
        _ => Err(garbled(bytes)),
    }
}

/// Refuses an incomplete head that is too long.
fn incomplete(bytes: &[u8]) -> Result<Option<(usize, usize)>, Problem> {
    if bytes.len() < HEAD_MAX { Ok(None) } else { Err(garbled(bytes)) }
}

fn garbled(bytes: &[u8]) -> Problem {
    let shown = Frame(&bytes[..bytes.len().min(80)]).to_string();
    Problem::failed("the acceptor does not speak FIX", format!("it sent {shown:?}"))
}

/// A whole frame.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a>(&'a [u8]);

impl<'a> Frame<'a> {
    /// The first field of that tag.
    pub(super) fn field(&self, tag: u32) -> Option<&'a [u8]> {
        let fields = self.0.split(|byte| *byte == SOH).filter_map(|field| {
            let equals = field.iter().position(|byte| *byte == b'=')?;
            Some((std::str::from_utf8(&field[..equals]).ok()?.parse::<u32>().ok()?, &field[equals + 1..]))
        });
        fields.into_iter().find_map(|(one, value)| (one == tag).then_some(value))
    }

    /// The frame from BeginString to the end of CheckSum.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// A field that is a number.
    pub(super) fn number(&self, tag: u32) -> Option<u64> {
        std::str::from_utf8(self.field(tag)?).ok()?.parse().ok()
    }

    /// Returns whether its checksum is right.
    pub(super) fn is_sound(&self) -> bool {
        let Some(end) = self.0.len().checked_sub(TRAILER_LENGTH) else { return false };
        let sum = checksum(&self.0[..end]);
        self.0[end..] == *format!("10={sum:03}\u{1}").as_bytes()
    }
}

impl std::fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0).replace(char::from(SOH), "|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fix::message::{Header, Stamp, Template};

    fn messages(count: u64) -> Vec<u8> {
        let header = Header { begin_string: "FIXT.1.1", sender: "A", target: "B" };
        let mut order = Template::order(&header);
        (1..=count).flat_map(|sequence| order.stamp(sequence, sequence, &mut Stamp::default()).to_vec()).collect()
    }

    #[test]
    fn frames_come_out_whole_however_they_come_in() {
        let stream = messages(500);
        for step in [1, 7, 100, 4096] {
            let (mut inbox, mut sequence) = (Inbox::new(), 0);
            for piece in stream.chunks(step) {
                inbox.spare()[..piece.len()].copy_from_slice(piece);
                inbox.filled(piece.len());
                while let Some(place) = inbox.next().expect("it is FIX") {
                    sequence += 1;
                    let frame = inbox.frame(&place);
                    assert_eq!((frame.number(34), place.kind, frame.is_sound()), (Some(sequence), b'D', true));
                    assert_eq!(frame.field(49), Some(&b"A"[..]));
                    assert_eq!((frame.field(4), place.index), (None, sequence));
                }
                inbox.release();
            }
            assert_eq!(sequence, 500, "pieces of {step}");
        }
    }

    #[test]
    fn what_is_not_fix_is_an_error_and_not_a_long_wait() {
        for bad in [
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            b"8=FIX.4.4\x019=99999999\x0135=",
            b"8=FIX.4.4\x019=-1\x01",
            b"8=FIX.4.4\x0135=A\x01",
        ] {
            let mut inbox = Inbox::new();
            inbox.spare()[..bad.len()].copy_from_slice(bad);
            inbox.filled(bad.len());
            assert!(inbox.next().is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_wrong_sum_is_seen() {
        let mut message = messages(1);
        assert!(Frame(&message).is_sound());
        message[40] ^= 1;
        assert!(!Frame(&message).is_sound());
        assert!(!Frame(b"").is_sound());
    }
}
