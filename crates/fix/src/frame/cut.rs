//! The next message at the front of some bytes, wherever they stand.

use crate::SOH;

/// Bytes of a BeginString ("FIXT.1.1" has 8). More is not FIX.
const BEGIN_STRING_BYTES_MAX: usize = 16;

/// Digits of a BodyLength that are read; leading zeros are allowed.
const BODY_LENGTH_DIGITS_MAX: usize = 10;

/// `10=nnn␁`.
pub(crate) const TRAILER_BYTES: usize = 7;

/// Bytes added to an incomplete front before it is read again: those of nearly every `8=...␁9=...␁`.
const FRONT_BYTES: usize = 24;

/// The fault in the bytes of a message. Such a message has no sequence number.
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
    /// The fault.
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

/// The messages and the garbled bytes of a [`Framer`](super::Framer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages handed out.
    pub messages: u64,
    /// Garbled messages dropped.
    pub garbled: u64,
    /// Bytes dropped, in garbled messages and between messages.
    pub garbled_bytes: u64,
}

/// The progress of the search for the end of a garbled message: no byte is read twice, however few come at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    at: usize,
    /// `␁10=` is before `at`; the `␁` after it is missing, and may be far.
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

/// The result of a search in the bytes after the last message.
pub(super) enum Cut {
    /// More bytes are needed.
    Partial,
    /// A message of so many bytes.
    Message(usize),
    /// So many bytes to be dropped, and why.
    Garbled(usize, Garbled),
}

/// Cuts a stream into messages; remembers of it only what it must not do twice.
#[derive(Debug)]
pub(super) struct Cutter {
    message_bytes_max: usize,
    search: Search,
    /// Bytes dropped since the last message.
    dropped: usize,
    fatal: Option<Garbled>,
    counters: Counters,
}

impl Cutter {
    pub(super) fn new(message_bytes_max: usize) -> Self {
        Self { message_bytes_max, search: Search::default(), dropped: 0, fatal: None, counters: Counters::default() }
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Forgets the stream: a new one begins.
    pub(super) fn forget(&mut self) {
        (self.search, self.dropped, self.fatal) = (Search::default(), 0, None);
    }

    /// Cuts the front of `data`, which begins after the bytes cut before. After [`Cut::Partial`] the same bytes must be
    /// passed again, with more after them.
    pub(super) fn cut(&mut self, data: &[u8]) -> Cut {
        if let Some(fatal) = self.fatal {
            return Cut::Garbled(0, fatal);
        }
        if data.is_empty() {
            return Cut::Partial;
        }
        match front(data, self.message_bytes_max) {
            Front::Partial => Cut::Partial,
            Front::Bad => self.skip_garbage(data),
            Front::TooLong => self.fail(0, Garbled { fault: Fault::TooLong, logon: false }),
            Front::Good(_, trailer) if is_trailer(data, trailer) => {
                (self.search, self.dropped) = (Search::default(), 0);
                self.counters.messages += 1;
                Cut::Message(trailer + TRAILER_BYTES)
            }
            Front::Good(body, trailer) => self.garbled(data, body, trailer),
        }
    }

    /// Returns the bytes to add to `data` before another search can succeed; more than a message may have where that is not known.
    pub(super) fn lacking(&self, data: &[u8]) -> usize {
        match front(data, self.message_bytes_max) {
            Front::Partial => FRONT_BYTES,
            Front::Good(_, trailer) if data.len() < trailer + TRAILER_BYTES => trailer + TRAILER_BYTES - data.len(),
            Front::Good(_, trailer) if !is_trailer(data, trailer) => usize::MAX,
            Front::Good(..) | Front::Bad | Front::TooLong => 0,
        }
    }

    fn drop_bytes(&mut self, count: usize) {
        self.search = Search::default();
        self.dropped += count;
        self.counters.garbled_bytes += count as u64;
    }

    fn fail(&mut self, count: usize, garbled: Garbled) -> Cut {
        self.fatal = Some(garbled);
        Cut::Garbled(count, garbled)
    }

    /// Drops bytes up to the next front of a message.
    fn skip_garbage(&mut self, data: &[u8]) -> Cut {
        let is_front = |at: &usize| data[*at] == b'8' && !matches!(front(&data[*at..], usize::MAX), Front::Bad);
        let count = (1..data.len()).find(is_front).unwrap_or(data.len());
        self.drop_bytes(count);
        let garbage = Garbled { fault: Fault::Garbage, logon: false };
        if self.dropped > self.message_bytes_max {
            return self.fail(count, Garbled { fault: Fault::Endless, ..garbage });
        }
        Cut::Garbled(count, garbage)
    }

    /// No trailer where BodyLength says: the message ends after the next `␁10=...␁`.
    fn garbled(&mut self, data: &[u8], body: usize, trailer: usize) -> Cut {
        let logon = data[body..].starts_with(b"35=A\x01");
        let in_place = data.get(trailer - 1..).is_some_and(|end| end.starts_with(b"\x0110="));
        let fault = if in_place { Fault::CheckSum } else { Fault::BodyLength };
        let Some(end) = self.search.end(data, trailer - 1) else {
            if data.len() > self.message_bytes_max {
                return self.fail(0, Garbled { fault: Fault::TooLong, logon });
            }
            return Cut::Partial;
        };
        self.drop_bytes(end);
        self.counters.garbled += 1;
        Cut::Garbled(end, Garbled { fault, logon })
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

/// Returns whether `␁10=nnn␁` ends the message whose body ends at `trailer`.
fn is_trailer(data: &[u8], trailer: usize) -> bool {
    data.get(trailer - 1..trailer + TRAILER_BYTES)
        .is_some_and(|end| end.starts_with(b"\x0110=") && end[TRAILER_BYTES] == SOH && !end[4..7].contains(&SOH))
}

impl Search {
    /// The end of the first `␁10=...␁` at or after `from`, which is the same in each call for one message.
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
