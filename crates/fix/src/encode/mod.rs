//! Writing messages behind each other into one buffer that leaves in one write.
//!
//! ```text
//! | sent | 8=FIX.4.4␁9=101␁35=8␁34=7␁49=S␁52=...␁56=T␁ | 37=...␁ ... 10=123␁ | next |
//!          <---- written last, from right to left ---->  <- written first ->
//! ```
//!
//! The body comes first, because BodyLength stands before it. Room for the header is left by the length that it will
//! have if the sequence number and BodyLength have as many digits as expected; only when they do not, a second message in
//! the buffer is moved by a byte or two, so that messages stay without gaps.
//!
//! Header fields are in the order of their tags behind 8, 9 and 35, as QuickFIX writes them. What the builder is given comes
//! behind them in the order given.

mod parties;
mod text;

pub use parties::Parties;

use crate::SOH;
use crate::clock::Now;
use crate::decode::sum;
use crate::tag;
use crate::value::{CachedTime, Decimal, Precision, TIMESTAMP_BYTES_MAX, UtcTimestamp, two_digits, write_left};
use parties::{ControlByte, time_bytes};
use std::fmt;
use text::{TAG_BYTES_MAX, TagText, copy, copy_text, has_control};

/// Largest message written, unless said otherwise: what a counterparty's framer takes by default.
pub const MESSAGE_BYTES_MAX: usize = crate::frame::MESSAGE_BYTES_MAX;

/// Room for messages that wait to leave together, unless more is asked for: an acknowledgement, a fill and a heartbeat take
/// 1 KiB, a batch of a hundred orders 25 KiB.
const WAITING_BYTES: usize = 256 * 1024;

/// `10=nnn␁`.
const TRAILER_BYTES: usize = 7;

/// The most that a header has beside the texts of its parties: two numbers of 20 digits, MsgType, a time, tags.
const NUMBERS_BYTES_MAX: usize = 128;

/// Bytes that the first header will most likely have beside its texts.
const HEADER_NUMBERS_BYTES: usize = 35;

/// The reason why a message was not written. Nothing of it is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The value of this field holds a control byte: it would end the field early (SOH), or forge another.
    ControlByte(u32),
    /// The field has no value; FIX knows no empty ones.
    Empty(u32),
    /// This tag is written by the encoder itself, or is 0.
    Tag(u32),
    /// The message is longer than the limit.
    TooLong,
    /// Too many messages wait to leave.
    Full,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlByte(tag) => write!(f, "the value of field {tag} holds a control byte"),
            Self::Empty(tag) => write!(f, "field {tag} has no value"),
            Self::Tag(tag) => write!(f, "field {tag} is written by the encoder, or is no field"),
            Self::TooLong => f.write_str("it is longer than the limit"),
            Self::Full => f.write_str("too many messages wait to leave"),
        }
    }
}

impl From<ControlByte> for Rejected {
    fn from(ControlByte(tag): ControlByte) -> Self {
        Self::ControlByte(tag)
    }
}

/// Writes the messages of one session.
#[derive(Debug)]
pub struct Encoder {
    buffer: Vec<u8>,
    /// The start of the first message, with room before it for its header to grow.
    first: usize,
    /// The range of the messages that wait to leave.
    start: usize,
    end: usize,
    /// `8=FIX.4.4␁9=`.
    front: Vec<u8>,
    /// `␁49=..␁50=..␁52=..␁56=..␁57=..␁142=..␁143=..␁`: what follows MsgSeqNum, the same in all messages of one moment.
    parties: Vec<u8>,
    /// The place of SendingTime in it, and the moment that stands there.
    time_at: usize,
    stamped: Option<UtcTimestamp>,
    time: CachedTime,
    precision: Precision,
    message_bytes_max: usize,
    /// Bytes of the last header, which the next one will most likely have, too.
    header_bytes: usize,
}

/// One message while it is written.
#[derive(Debug)]
pub struct Builder<'e> {
    encoder: &'e mut Encoder,
    msg_type: MsgType,
    poss_dup: bool,
    /// The start of the body, and the place of the next byte.
    body: usize,
    at: usize,
    limit: usize,
    fault: Option<Rejected>,
}

/// MsgType has at most this many bytes; the longest in use has two.
const MSG_TYPE_BYTES_MAX: usize = 8;

#[derive(Clone, Copy, Debug)]
struct MsgType {
    text: [u8; MSG_TYPE_BYTES_MAX],
    length: u8,
}

impl Encoder {
    /// An encoder for this session. A control byte in a name is refused.
    pub fn new(parties: &Parties, precision: Precision) -> Result<Self, Rejected> {
        Self::with_room(parties, precision, 0)
    }

    /// The same with room for a whole message behind `waiting_bytes` that wait to leave, wherever they stand in the buffer.
    pub(crate) fn with_room(parties: &Parties, precision: Precision, waiting_bytes: usize) -> Result<Self, Rejected> {
        // A quarter may be in front of what waits: see `sent`.
        let waiting = WAITING_BYTES.max((waiting_bytes + MESSAGE_BYTES_MAX).div_ceil(3) * 4);
        let (front, (parties, time_at)) = (parties.front()?, parties.behind_number(precision)?);
        let texts = front.len() + parties.len() - time_bytes(precision);
        let room = texts + NUMBERS_BYTES_MAX;
        Ok(Self {
            buffer: vec![0; room + waiting],
            first: room,
            start: room,
            end: room,
            front,
            parties,
            time_at,
            stamped: None,
            time: CachedTime::new(),
            precision,
            message_bytes_max: MESSAGE_BYTES_MAX,
            header_bytes: texts + HEADER_NUMBERS_BYTES,
        })
    }

    /// Digits behind the seconds of SendingTime.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Begins a message. What was begun and not finished is forgotten.
    pub fn message(&mut self, msg_type: &[u8]) -> Builder<'_> {
        let body = self.end + self.header_bytes;
        let limit = self.buffer.len().saturating_sub(TRAILER_BYTES);
        let mut builder = Builder {
            msg_type: MsgType { text: [0; MSG_TYPE_BYTES_MAX], length: 0 },
            poss_dup: false,
            body,
            at: body,
            limit: limit.min(body + self.message_bytes_max),
            fault: (body >= limit).then_some(Rejected::Full),
            encoder: self,
        };
        builder.set_type(msg_type);
        builder
    }

    /// The finished messages that wait to leave, without gaps between them.
    pub fn output(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Says that `count` bytes of [`output`](Self::output) have left.
    pub fn sent(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.end);
        let first = self.first;
        if self.start == self.end {
            (self.start, self.end) = (first, first);
        } else if self.start.saturating_sub(first) > (self.buffer.len() - first) / 4 {
            self.move_to(first);
        }
    }

    /// Forgets what waits to leave: the connection is gone.
    pub fn clear(&mut self) {
        self.sent(usize::MAX);
    }
}

impl<'e> Builder<'e> {
    /// Sets PossDupFlag (43) to Y.
    pub fn poss_dup(&mut self) -> &mut Self {
        self.poss_dup = true;
        self
    }

    /// A text: `String`, `char`, `MultipleValueString`, or any value already in FIX's form. Not empty, no control bytes.
    #[inline(always)]
    pub fn bytes(&mut self, tag: u32, value: &[u8]) -> &mut Self {
        self.text(TagText::of(tag), value)
    }

    /// A value as the counterparty has sent it: only SOH cannot stand in it, and that would have ended its field.
    pub(crate) fn echo(&mut self, tag: u32, value: &[u8]) -> &mut Self {
        debug_assert!(!value.contains(&SOH), "it comes out of a field");
        self.raw(TagText::of(tag), value)
    }

    /// A text.
    #[inline(always)]
    pub fn str(&mut self, tag: u32, value: &str) -> &mut Self {
        self.bytes(tag, value.as_bytes())
    }

    /// A `char`.
    #[inline(always)]
    pub fn char(&mut self, tag: u32, value: u8) -> &mut Self {
        self.bytes(tag, &[value])
    }

    /// A `Boolean`.
    #[inline(always)]
    pub fn bool(&mut self, tag: u32, value: bool) -> &mut Self {
        self.raw(TagText::of(tag), if value { b"Y" } else { b"N" })
    }

    /// A number without sign: `SeqNum`, `Length`, `NumInGroup`.
    #[inline(always)]
    pub fn unsigned(&mut self, tag: u32, value: u64) -> &mut Self {
        self.number(TagText::of(tag), false, value)
    }

    /// An `int`.
    #[inline(always)]
    pub fn int(&mut self, tag: u32, value: i64) -> &mut Self {
        self.number(TagText::of(tag), value < 0, value.unsigned_abs())
    }

    /// A `float`, `Price`, `Qty` or `Amt`.
    pub fn decimal(&mut self, tag: u32, value: Decimal) -> &mut Self {
        let mut text = [0; Decimal::BYTES_MAX];
        let length = value.write(&mut text);
        self.raw(TagText::of(tag), &text[..length])
    }

    /// A `UTCTimestamp` with this precision.
    pub fn timestamp_with(&mut self, tag: u32, value: UtcTimestamp, precision: Precision) -> &mut Self {
        let mut text = [0; TIMESTAMP_BYTES_MAX];
        let length = self.encoder.time.write(value, precision, &mut text);
        self.raw(TagText::of(tag), &text[..length])
    }

    /// A `UTCTimestamp` with the session's precision.
    pub fn timestamp(&mut self, tag: u32, value: UtcTimestamp) -> &mut Self {
        self.timestamp_with(tag, value, self.encoder.precision)
    }

    /// A data field behind its length field; the value may hold any byte.
    pub fn data(&mut self, length_tag: u32, data_tag: u32, value: &[u8]) -> &mut Self {
        self.unsigned(length_tag, value.len() as u64);
        self.raw(TagText::of(data_tag), value)
    }

    /// The bytes of the body so far.
    pub fn body_bytes(&self) -> usize {
        self.at - self.body
    }

    /// Writes the header and the trailer. Returns the message, which now waits in [`Encoder::output`]; the buffer is as it was
    /// before the message began when the message is rejected.
    pub fn finish(self, seq_num: u64, now: Now) -> Result<&'e [u8], Rejected> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let Self { encoder, body, at: body_end, poss_dup, msg_type, .. } = self;
        let header = Header { msg_type, poss_dup, seq_num, now };
        let start = encoder.place(body, body_end, &header)?;
        let body_end = start + encoder.header_bytes + (body_end - body);
        encoder.write_header(start + encoder.header_bytes, body_end, &header);
        Ok(encoder.close(start, body_end))
    }

    fn set_type(&mut self, msg_type: &[u8]) {
        if msg_type.is_empty() || msg_type.len() > MSG_TYPE_BYTES_MAX {
            self.fail(Rejected::Empty(tag::MSG_TYPE));
        } else if has_control(msg_type) {
            self.fail(Rejected::ControlByte(tag::MSG_TYPE));
        } else {
            self.msg_type.text[..msg_type.len()].copy_from_slice(msg_type);
            self.msg_type.length = msg_type.len() as u8;
        }
    }

    /// The first fault is the one that is reported.
    fn fail(&mut self, fault: Rejected) {
        self.fault.get_or_insert(fault);
    }

    /// `tag=value␁` with a text.
    fn text(&mut self, tag: TagText, value: &[u8]) -> &mut Self {
        match self.open(tag, value.len()).map(|to| copy_text(to, value)) {
            Some(false) => {}
            _ if has_control(value) => self.fail(Rejected::ControlByte(tag.number)),
            _ => self.refuse(tag, value.len()),
        }
        self
    }

    /// `tag=value␁`, whatever the value holds.
    fn raw(&mut self, tag: TagText, value: &[u8]) -> &mut Self {
        match self.open(tag, value.len()) {
            Some(to) => copy(to, value),
            None => self.refuse(tag, value.len()),
        }
        self
    }

    /// `tag=value␁` with a number.
    fn number(&mut self, tag: TagText, is_negative: bool, value: u64) -> &mut Self {
        let length = decimal_digits(value) + usize::from(is_negative);
        match self.open(tag, length) {
            Some(to) => {
                to[0] = b'-';
                write_left(to, length, value);
            }
            None => self.refuse(tag, length),
        }
        self
    }

    /// Writes `tag=` and the delimiter around room for a value of that many bytes; `None` where no such field can be.
    #[inline(always)]
    fn open(&mut self, tag: TagText, bytes: usize) -> Option<&mut [u8]> {
        if bytes == 0 || is_ours(tag.number) {
            return None;
        }
        let room = self.encoder.buffer.get_mut(self.at..self.limit)?.get_mut(..bytes.saturating_add(FIELD_BYTES))?;
        let start = tag.write(room);
        let (end, value) = room[start..=start + bytes].split_last_mut()?;
        *end = SOH;
        self.at += start + bytes + 1;
        Some(value)
    }

    /// Says why no such field can be.
    #[cold]
    fn refuse(&mut self, tag: TagText, bytes: usize) {
        let needs = self.at.saturating_add(bytes).saturating_add(FIELD_BYTES);
        self.fail(match bytes {
            0 => Rejected::Empty(tag.number),
            _ if is_ours(tag.number) => Rejected::Tag(tag.number),
            _ if needs <= self.body + self.encoder.message_bytes_max => Rejected::Full,
            _ => Rejected::TooLong,
        });
    }
}

/// The most that a field takes beside its value: tag, equals sign, delimiter.
const FIELD_BYTES: usize = TAG_BYTES_MAX + 2;

/// Returns whether the encoder itself writes this tag.
#[inline]
fn is_ours(tag: u32) -> bool {
    matches!(
        tag,
        0 | tag::BEGIN_STRING
            | tag::BODY_LENGTH
            | tag::CHECK_SUM
            | tag::MSG_TYPE
            | tag::MSG_SEQ_NUM
            | tag::SENDING_TIME
            | tag::SENDER_COMP_ID
            | tag::TARGET_COMP_ID
            | tag::POSS_DUP_FLAG
    )
}

/// The part of a header that is known only when its message is finished.
struct Header {
    msg_type: MsgType,
    poss_dup: bool,
    seq_num: u64,
    now: Now,
}

impl Encoder {
    /// Bytes of the header before a body of that many bytes.
    fn header_length(&self, body_bytes: usize, header: &Header) -> usize {
        let counted = b"35=\x0134=".len()
            + usize::from(header.msg_type.length)
            + decimal_digits(header.seq_num)
            + if header.poss_dup { POSS_DUP.len() } else { 0 }
            + self.parties.len();
        self.front.len() + decimal_digits((counted + body_bytes) as u64) + 1 + counted
    }

    /// Moves the body to where its header fits exactly behind the message before; returns where the message starts. Without a
    /// message before it, the body stays where it is.
    fn place(&mut self, body: usize, body_end: usize, header: &Header) -> Result<usize, Rejected> {
        let length = self.header_length(body_end - body, header);
        if length + (body_end - body) + TRAILER_BYTES > self.message_bytes_max {
            return Err(Rejected::TooLong);
        }
        self.header_bytes = length;
        if self.start == self.end {
            return Ok(body - length);
        }
        let to = self.end + length;
        if to != body {
            if to + (body_end - body) + TRAILER_BYTES > self.buffer.len() {
                return Err(Rejected::Full);
            }
            self.buffer.copy_within(body..body_end, to);
        }
        Ok(self.end)
    }

    /// Writes the header from right to left so that it ends where the body begins.
    fn write_header(&mut self, body: usize, body_end: usize, header: &Header) {
        self.stamp(header.now.utc());
        let buffer = &mut self.buffer[..];
        let mut at = body;
        put_left(buffer, &mut at, &self.parties);
        if header.poss_dup {
            put_left(buffer, &mut at, POSS_DUP);
        }
        at = write_left(buffer, at, header.seq_num);
        put_left(buffer, &mut at, b"\x0134=");
        put_left(buffer, &mut at, &header.msg_type.text[..usize::from(header.msg_type.length)]);
        put_left(buffer, &mut at, b"35=");
        let length = (body_end - at) as u64;
        put_left(buffer, &mut at, &[SOH]);
        at = write_left(buffer, at, length);
        put_left(buffer, &mut at, &self.front);
    }

    /// Makes this moment the SendingTime.
    fn stamp(&mut self, moment: UtcTimestamp) {
        if self.stamped != Some(moment) {
            self.stamped = Some(moment);
            let mut text = [0; TIMESTAMP_BYTES_MAX];
            let length = self.time.write(moment, self.precision, &mut text);
            self.parties[self.time_at..self.time_at + length].copy_from_slice(&text[..length]);
        }
    }

    /// Writes the trailer; the message now waits to leave.
    fn close(&mut self, start: usize, body_end: usize) -> &[u8] {
        let end = body_end + TRAILER_BYTES;
        let total = sum(&self.buffer[start..body_end]);
        let [tens, ones] = two_digits(usize::from(total % 100));
        self.buffer[body_end..end].copy_from_slice(&[b'1', b'0', b'=', b'0' + total / 100, tens, ones, SOH]);
        if self.start == self.end {
            self.start = start;
        }
        self.end = end;
        &self.buffer[start..end]
    }
}

/// Between MsgSeqNum and its delimiter, which is the first byte of what follows.
const POSS_DUP: &[u8] = b"\x0143=Y";

#[inline]
fn decimal_digits(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn put_left(buffer: &mut [u8], at: &mut usize, bytes: &[u8]) {
    let end = *at;
    *at -= bytes.len();
    copy(&mut buffer[*at..end], bytes);
}

mod queue;
#[cfg(test)]
mod tests;
