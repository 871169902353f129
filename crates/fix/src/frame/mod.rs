//! From a stream of bytes to messages.
//!
//! ```text
//! 8=FIX.4.4␁9=61␁ 35=A␁34=1␁ ... 108=30␁ 10=007␁
//!                 |<---- BodyLength ---->|
//! ```
//!
//! A message ends where BodyLength says, never at the first `10=`: data fields may hold anything. When there is no `10=`
//! in that place, the message is garbled and reaches up to the next `␁10=nnn␁`, so that a BodyLength that is too long takes
//! the next message with it (FIX session test case 2m, and what QuickFIX does). When the front is no
//! `8=...␁9=digits␁`, bytes are dropped up to the next place that is one.

use crate::SOH;

/// Largest message by default. Orders have 200 bytes, the largest lists and definitions seen in practice some 20 KiB.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// The most that a caller may ask for: a position must fit a `u32`, and one peer may not take all memory.
pub const MESSAGE_BYTES_LIMIT: usize = 16 * 1024 * 1024;

/// Room for what is read beyond one message, so that one call of the kernel brings many.
const READ_BYTES: usize = 64 * 1024;

/// Below this much room at the end the rest is moved to the front.
const SPARE_BYTES_MIN: usize = 4 * 1024;

/// Bytes of a BeginString ("FIXT.1.1" has 8). More is not FIX.
const BEGIN_STRING_BYTES_MAX: usize = 16;

/// Digits of a BodyLength that are read; leading zeros are allowed.
const BODY_LENGTH_DIGITS_MAX: usize = 10;

/// `10=nnn␁`.
pub(crate) const TRAILER_BYTES: usize = 7;

/// What is wrong with the bytes of a message. Such a message has no sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Bytes that belong to no message: they do not begin with `8=...␁9=digits␁`.
    Garbage,
    /// There is no `10=` where BodyLength says.
    BodyLength,
    /// CheckSum is not three digits, or not the sum.
    CheckSum,
    /// The third field is not MsgType.
    MsgType,
    /// A field without `=`, or with a tag that is no number.
    Field,
    /// More fields than the index holds.
    Fields,
    /// BodyLength is beyond the limit. The stream cannot be followed: disconnect.
    TooLong,
    /// Nothing but garbage for longer than the longest message. Disconnect.
    Endless,
}

/// A garbled message, or bytes that are none. It is ignored, and its sequence number is not counted (FIX session layer,
/// "garbled message"), unless it [is fatal](Self::is_fatal) or a [logon](Self::logon).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled {
    /// What is wrong.
    pub fault: Fault,
    /// The message says that it is a Logon: disconnect without an answer.
    pub logon: bool,
}

impl Garbled {
    /// The stream cannot be followed any further: disconnect.
    pub fn is_fatal(self) -> bool {
        matches!(self.fault, Fault::TooLong | Fault::Endless)
    }
}

/// What a [`Framer`] has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages handed out.
    pub messages: u64,
    /// Garbled messages dropped.
    pub garbled: u64,
    /// Bytes dropped, in garbled messages and between messages.
    pub garbled_bytes: u64,
}

/// A bounded receive buffer that is cut into messages.
#[derive(Debug)]
pub struct Framer {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    search: Search,
    /// Bytes dropped since the last message.
    dropped: usize,
    message_bytes_max: usize,
    fatal: Option<Garbled>,
    counters: Counters,
}

impl Default for Framer {
    fn default() -> Self {
        Self::new(MESSAGE_BYTES_MAX)
    }
}

/// How far from `start` the end of a garbled message was looked for: no byte is looked at twice, however few come at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    at: usize,
    /// `␁10=` stands before `at`; what is missing is the `␁` behind it, which may be far.
    in_trailer: bool,
}

enum Front {
    /// Body starts here, and ends there.
    Good(usize, usize),
    /// Could become one with more bytes.
    Partial,
    Bad,
    TooLong,
}

impl Framer {
    /// Accepts messages of up to `message_bytes_max` bytes (at least 64, at most [`MESSAGE_BYTES_LIMIT`]).
    pub fn new(message_bytes_max: usize) -> Self {
        let message_bytes_max = message_bytes_max.clamp(64, MESSAGE_BYTES_LIMIT);
        let buffer = vec![0; message_bytes_max + READ_BYTES].into_boxed_slice();
        Self { buffer, message_bytes_max, ..Self::empty() }
    }

    /// The same with a buffer of little more than one message: for one that is short, from who may be a stranger.
    pub(crate) fn small(message_bytes_max: usize) -> Self {
        let buffer = vec![0; message_bytes_max + SPARE_BYTES_MIN].into_boxed_slice();
        Self { buffer, message_bytes_max, ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            buffer: Box::default(),
            start: 0,
            end: 0,
            search: Search::default(),
            dropped: 0,
            message_bytes_max: 0,
            fatal: None,
            counters: Counters::default(),
        }
    }

    /// What came behind the last message that was handed out.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Where to read the next bytes into. Never empty once [`next`](Self::next) has returned `None`.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < SPARE_BYTES_MIN {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.buffer[self.end..]
    }

    /// Says that `count` bytes were read into [`spare`](Self::spare).
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// Takes what fits of `bytes`; returns how many. For bytes that are already in memory.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let spare = self.spare();
        let count = bytes.len().min(spare.len());
        spare[..count].copy_from_slice(&bytes[..count]);
        self.filled(count);
        count
    }

    /// The next whole message, `None` when more bytes are needed. Call it again after an error that is not fatal; a fatal
    /// one comes again until [`clear`](Self::clear). The checksum is the decoder's.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Garbled> {
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        let data = &self.buffer[self.start..self.end];
        if data.is_empty() {
            return Ok(None);
        }
        match front(data, self.message_bytes_max) {
            Front::Partial => Ok(None),
            Front::Bad => Err(self.skip_garbage()),
            Front::TooLong => Err(self.fail(Garbled { fault: Fault::TooLong, logon: false })),
            Front::Good(_, trailer) if is_trailer(data, trailer) => {
                let from = self.start;
                self.consume(trailer + TRAILER_BYTES);
                self.dropped = 0;
                self.counters.messages += 1;
                Ok(Some(&self.buffer[from..self.start]))
            }
            Front::Good(body, trailer) => self.garbled(body, trailer),
        }
    }

    /// Bytes that are waiting for the rest of their message.
    pub fn pending(&self) -> usize {
        self.end - self.start
    }

    /// What was seen so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Forgets all bytes and a fatal fault: a new connection.
    pub fn clear(&mut self) {
        (self.start, self.end, self.search, self.dropped, self.fatal) = (0, 0, Search::default(), 0, None);
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.search = Search::default();
    }

    fn drop_bytes(&mut self, count: usize) {
        self.consume(count);
        self.dropped += count;
        self.counters.garbled_bytes += count as u64;
    }

    fn fail(&mut self, garbled: Garbled) -> Garbled {
        self.fatal = Some(garbled);
        garbled
    }

    /// Drops bytes up to the next front of a message.
    fn skip_garbage(&mut self) -> Garbled {
        let data = &self.buffer[self.start..self.end];
        let is_front = |at: &usize| data[*at] == b'8' && !matches!(front(&data[*at..], usize::MAX), Front::Bad);
        let count = (1..data.len()).find(is_front).unwrap_or(data.len());
        self.drop_bytes(count);
        let garbage = Garbled { fault: Fault::Garbage, logon: false };
        if self.dropped > self.message_bytes_max {
            return self.fail(Garbled { fault: Fault::Endless, ..garbage });
        }
        garbage
    }

    /// No trailer where BodyLength says: the message ends behind the next `␁10=...␁`.
    fn garbled(&mut self, body: usize, trailer: usize) -> Result<Option<&[u8]>, Garbled> {
        let data = &self.buffer[self.start..self.end];
        let logon = data[body..].starts_with(b"35=A\x01");
        let in_place = data.get(trailer - 1..).is_some_and(|end| end.starts_with(b"\x0110="));
        let fault = if in_place { Fault::CheckSum } else { Fault::BodyLength };
        let Some(end) = self.search.end(data, trailer - 1) else {
            if data.len() > self.message_bytes_max {
                return Err(self.fail(Garbled { fault: Fault::TooLong, logon }));
            }
            return Ok(None);
        };
        self.drop_bytes(end);
        self.counters.garbled += 1;
        Err(Garbled { fault, logon })
    }
}

/// Reads `8=...␁9=digits␁` at the front.
fn front(data: &[u8], message_bytes_max: usize) -> Front {
    let Some(begin) = data.strip_prefix(b"8=") else { return prefix_of(data, b"8=") };
    let window = &begin[..begin.len().min(BEGIN_STRING_BYTES_MAX + 1)];
    let Some(length) = window.iter().position(|byte| *byte == SOH || *byte < b' ' || *byte == b'=') else {
        return if begin.len() > BEGIN_STRING_BYTES_MAX { Front::Bad } else { Front::Partial };
    };
    if length == 0 || begin[length] != SOH {
        return Front::Bad;
    }
    let after = &begin[length + 1..];
    let Some(digits) = after.strip_prefix(b"9=") else { return prefix_of(after, b"9=") };
    let Some(count) = digits.iter().take(BODY_LENGTH_DIGITS_MAX + 1).position(|byte| !byte.is_ascii_digit()) else {
        return if digits.len() > BODY_LENGTH_DIGITS_MAX { Front::Bad } else { Front::Partial };
    };
    if count == 0 || digits[count] != SOH {
        return Front::Bad;
    }
    let body = 2 + length + 1 + 2 + count + 1;
    let body_length = digits[..count].iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    match usize::try_from(body_length).ok().and_then(|length| length.checked_add(body)) {
        Some(trailer) if trailer <= message_bytes_max.saturating_sub(TRAILER_BYTES) => Front::Good(body, trailer),
        _ => Front::TooLong,
    }
}

fn prefix_of(data: &[u8], whole: &[u8]) -> Front {
    if whole.starts_with(data) { Front::Partial } else { Front::Bad }
}

/// Whether `␁10=nnn␁` ends the message whose body ends at `trailer`.
fn is_trailer(data: &[u8], trailer: usize) -> bool {
    data.get(trailer - 1..trailer + TRAILER_BYTES)
        .is_some_and(|end| end.starts_with(b"\x0110=") && end[TRAILER_BYTES] == SOH && !end[4..7].contains(&SOH))
}

impl Search {
    /// The end of the first `␁10=...␁` at or behind `from`, which is the same in each call for one message.
    fn end(&mut self, data: &[u8], from: usize) -> Option<usize> {
        if !self.in_trailer {
            let from = self.at.max(from);
            let found = data.get(from..).and_then(|tail| tail.windows(4).position(|four| four == b"\x0110="));
            // The last three bytes may be the beginning of it.
            self.at = found.map_or(data.len().saturating_sub(3), |at| from + at + 4);
            self.in_trailer = found.is_some();
        }
        let rest = data.get(self.at..).filter(|_| self.in_trailer)?;
        let end = rest.iter().position(|byte| *byte == SOH);
        let end = end.map(|count| self.at + count + 1);
        self.at = end.unwrap_or(data.len());
        end
    }
}

#[cfg(test)]
mod tests;
