//! One message, indexed in place.
//!
//! The index remembers where each field's value stands; nothing is copied and nothing is allocated. CheckSum, BodyLength
//! and the first three fields are checked on the way, so that what comes out is no garbled message.

use crate::SOH;
use crate::frame::{Fault, Garbled, TRAILER_BYTES};
use crate::tag;
use crate::value::{self, Decimal, UtcTimestamp};

/// Fields of one message by default: an order has 20, a list of 64 securities some 2,000.
pub const FIELDS_MAX: usize = 4096;

/// Digits of a tag that are read; the largest tags in use have five.
const TAG_DIGITS_MAX: usize = 9;

#[derive(Clone, Copy, Debug, Default)]
struct Field {
    tag: u32,
    start: u32,
    end: u32,
}

/// A field that is missing, or that cannot be what its type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// There is no such field: SessionRejectReason 1.
    Missing(u32),
    /// There is no value: SessionRejectReason 4.
    Empty(u32),
    /// The value is none of its type: SessionRejectReason 6.
    Format(u32),
}

/// Where the fields of a message stand; made once, used for message after message.
#[derive(Debug)]
pub struct Index {
    fields: Box<[Field]>,
}

impl Default for Index {
    fn default() -> Self {
        Self::new(FIELDS_MAX)
    }
}

/// A decoded message: the bytes, and where its fields are in them.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a, 'i> {
    raw: &'a [u8],
    fields: &'i [Field],
}

impl Index {
    /// Takes messages of up to `fields_max` fields (at least 8).
    pub fn new(fields_max: usize) -> Self {
        Self { fields: vec![Field::default(); fields_max.max(8)].into_boxed_slice() }
    }

    /// Indexes one whole message as a [`Framer`](crate::Framer) cuts it.
    pub fn decode<'a, 'i>(&'i mut self, raw: &'a [u8]) -> Result<Message<'a, 'i>, Garbled> {
        match self.index(raw) {
            Ok(count) => Ok(Message { raw, fields: &self.fields[..count] }),
            Err(fault) => Err(Garbled { fault, logon: is_logon(raw) }),
        }
    }

    fn index(&mut self, raw: &[u8]) -> Result<usize, Fault> {
        let body_end = raw.len().checked_sub(TRAILER_BYTES).ok_or(Fault::BodyLength)?;
        if raw.len() > u32::MAX as usize {
            return Err(Fault::TooLong);
        }
        check_sum(raw, body_end)?;
        let (mut at, mut count) = (0, 0);
        let mut data_bytes = None;
        while at < raw.len() {
            let field = one_field(raw, at, data_bytes)?;
            let slot = self.fields.get_mut(count).ok_or(Fault::Fields)?;
            *slot = field;
            data_bytes = data_length(raw, field);
            count += 1;
            at = field.end as usize + 1;
        }
        check_frame(raw, &self.fields[..count], body_end)?;
        Ok(count)
    }
}

fn is_logon(raw: &[u8]) -> bool {
    let third = raw.splitn(4, |byte| *byte == SOH).nth(2);
    third == Some(b"35=A")
}

/// `10=nnn␁` at the end, and the sum of all bytes before it.
fn check_sum(raw: &[u8], body_end: usize) -> Result<(), Fault> {
    let [b'1', b'0', b'=', hundreds, tens, ones, SOH] = raw[body_end..] else { return Err(Fault::CheckSum) };
    let digits = [hundreds, tens, ones];
    let stated = value::unsigned(&digits).ok_or(Fault::CheckSum)?;
    if stated == u64::from(sum(&raw[..body_end])) { Ok(()) } else { Err(Fault::CheckSum) }
}

/// The sum of bytes modulo 256, which is what CheckSum holds.
pub(crate) fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

/// The field at `at`, whose value has `data_bytes` bytes if the field before said so.
fn one_field(raw: &[u8], at: usize, data_bytes: Option<(u32, usize)>) -> Result<Field, Fault> {
    let (tag, start) = read_tag(raw, at)?;
    if let Some((data_tag, length)) = data_bytes {
        let end = start.saturating_add(length);
        if tag == data_tag && raw.get(end) == Some(&SOH) && end < raw.len() - TRAILER_BYTES {
            return Ok(Field { tag, start: start as u32, end: end as u32 });
        }
    }
    let length = raw[start..].iter().position(|byte| *byte == SOH).ok_or(Fault::Field)?;
    Ok(Field { tag, start: start as u32, end: (start + length) as u32 })
}

/// Reads `tag=`; a negative number is tag 0, which no message may have (SessionRejectReason 0).
fn read_tag(raw: &[u8], at: usize) -> Result<(u32, usize), Fault> {
    let mut tag = 0;
    let is_negative = raw[at] == b'-';
    let first = at + usize::from(is_negative);
    for (count, byte) in raw[first..].iter().take(TAG_DIGITS_MAX + 1).enumerate() {
        match byte {
            b'0'..=b'9' if count < TAG_DIGITS_MAX => tag = tag * 10 + u32::from(byte - b'0'),
            b'=' if count > 0 => return Ok((if is_negative { 0 } else { tag }, first + count + 1)),
            _ => return Err(Fault::Field),
        }
    }
    Err(Fault::Field)
}

/// If the field is the length of a data field: that field's tag, and its bytes.
fn data_length(raw: &[u8], field: Field) -> Option<(u32, usize)> {
    let data_tag = data_tag(field.tag)?;
    let length = value::unsigned(&raw[field.start as usize..field.end as usize])?;
    Some((data_tag, usize::try_from(length).ok()?))
}

/// The data field that a length field announces.
fn data_tag(length_tag: u32) -> Option<u32> {
    match length_tag {
        90 | 95 | 212 | 348 | 350 | 352 | 354 | 356 | 358 | 360 | 362 | 364 | 445 | 618 => Some(length_tag + 1),
        93 => Some(89),
        621 => Some(622),
        1184 | 1277 | 1281 | 1397 | 1401 | 1403 | 1468 | 1525 | 1578 | 1620 | 1664 | 1678 | 1697 => {
            Some(length_tag + 1)
        }
        _ => None,
    }
}

/// The first three fields and the place of the last (FIX session layer: what is otherwise is garbled).
fn check_frame(raw: &[u8], fields: &[Field], body_end: usize) -> Result<(), Fault> {
    let [begin, length, kind, .., last] = fields else { return Err(Fault::MsgType) };
    if begin.tag != tag::BEGIN_STRING || length.tag != tag::BODY_LENGTH {
        return Err(Fault::BodyLength);
    }
    if kind.tag != tag::MSG_TYPE {
        return Err(Fault::MsgType);
    }
    let stated = value::unsigned(&raw[length.start as usize..length.end as usize]);
    let counted = body_end.checked_sub(length.end as usize + 1).map(|bytes| bytes as u64);
    if stated.is_none() || stated != counted {
        return Err(Fault::BodyLength);
    }
    // A data field that reaches over the trailer has no field 10 behind it.
    if last.tag != tag::CHECK_SUM || last.start as usize != body_end + 3 { Err(Fault::CheckSum) } else { Ok(()) }
}

impl<'a> Message<'a, '_> {
    /// The whole message.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// All fields in order, from BeginString to CheckSum: tag and value. Tag 0 stands for a tag that was negative or 0.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (u32, &'a [u8])> + DoubleEndedIterator + Clone + use<'a, '_> {
        let raw = self.raw;
        self.fields.iter().map(move |field| (field.tag, &raw[field.start as usize..field.end as usize]))
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Never: a message has four fields at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The field at this place; places count from 0.
    pub fn field(&self, place: usize) -> Option<(u32, &'a [u8])> {
        self.fields.get(place).map(|field| (field.tag, self.value(field)))
    }

    /// The tag at this place as it was written, also when it is negative.
    pub fn written_tag(&self, place: usize) -> Option<i64> {
        let start = self.fields.get(place)?.start as usize;
        let from = self.raw[..start].iter().rposition(|byte| *byte == SOH).map_or(0, |at| at + 1);
        value::integer(&self.raw[from..start - 1])
    }

    /// The place of the first field with this tag.
    pub fn position(&self, tag: u32) -> Option<usize> {
        self.fields.iter().position(|field| field.tag == tag)
    }

    /// The value of the first field with this tag.
    pub fn get(&self, tag: u32) -> Option<&'a [u8]> {
        self.fields.iter().find(|field| field.tag == tag).map(|field| self.value(field))
    }

    /// BeginString (8).
    pub fn begin_string(&self) -> &'a [u8] {
        self.value(&self.fields[0])
    }

    /// MsgType (35).
    pub fn msg_type(&self) -> &'a [u8] {
        self.value(&self.fields[2])
    }

    /// MsgSeqNum (34).
    pub fn seq_num(&self) -> Result<u64, FieldError> {
        self.unsigned(tag::MSG_SEQ_NUM)
    }

    /// The value of a field that has to be there and not empty.
    pub fn required(&self, tag: u32) -> Result<&'a [u8], FieldError> {
        match self.get(tag) {
            None => Err(FieldError::Missing(tag)),
            Some([]) => Err(FieldError::Empty(tag)),
            Some(value) => Ok(value),
        }
    }

    /// A number without sign: `SeqNum`, `Length`, `NumInGroup`.
    pub fn unsigned(&self, tag: u32) -> Result<u64, FieldError> {
        value::unsigned(self.required(tag)?).ok_or(FieldError::Format(tag))
    }

    /// An `int`.
    pub fn integer(&self, tag: u32) -> Result<i64, FieldError> {
        value::integer(self.required(tag)?).ok_or(FieldError::Format(tag))
    }

    /// A `float`, `Price`, `Qty` or `Amt`.
    pub fn decimal(&self, tag: u32) -> Result<Decimal, FieldError> {
        Decimal::parse(self.required(tag)?).ok_or(FieldError::Format(tag))
    }

    /// A `char`.
    pub fn character(&self, tag: u32) -> Result<u8, FieldError> {
        value::character(self.required(tag)?).ok_or(FieldError::Format(tag))
    }

    /// A `Boolean`.
    pub fn boolean(&self, tag: u32) -> Result<bool, FieldError> {
        value::boolean(self.required(tag)?).ok_or(FieldError::Format(tag))
    }

    /// A `UTCTimestamp`.
    pub fn timestamp(&self, tag: u32) -> Result<UtcTimestamp, FieldError> {
        UtcTimestamp::parse(self.required(tag)?).ok_or(FieldError::Format(tag))
    }

    fn value(&self, field: &Field) -> &'a [u8] {
        &self.raw[field.start as usize..field.end as usize]
    }
}

#[cfg(test)]
pub(crate) mod tests;
