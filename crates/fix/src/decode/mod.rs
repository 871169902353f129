//! One message, indexed in place.
//!
//! The index remembers where each field's value stands; nothing is copied and nothing is allocated. CheckSum, BodyLength
//! and the first three fields are checked on the way, so that what comes out is no garbled message.

use crate::SOH;
pub use data::DataFields;
use delimiters::Delimiters;
pub use group::{Entries, Entry};
mod data;
mod delimiters;
mod group;
mod typed;

use crate::frame::{Fault, Garbled, TRAILER_BYTES};
use crate::tag;
use crate::value;

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

/// The places of a message's fields; reused for message after message.
#[derive(Debug)]
pub struct Index {
    fields: Box<[Field]>,
    data: DataFields,
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
    /// There are more fields than these.
    is_cut: bool,
}

impl Index {
    /// Takes messages of up to `fields_max` fields (at least 8).
    pub fn new(fields_max: usize) -> Self {
        Self::with_data(fields_max, &[])
    }

    /// Knows these data fields beside the standard's: length field, data field
    /// ([`Dictionary::data_fields`](crate::dictionary::Dictionary::data_fields)).
    pub fn with_data(fields_max: usize, data: &[(u32, u32)]) -> Self {
        let fields = vec![Field::default(); fields_max.max(8)].into_boxed_slice();
        Self { fields, data: DataFields::with(data) }
    }

    /// Indexes one whole message as a [`Framer`](crate::Framer) cuts it.
    pub fn decode<'a, 'i>(&'i mut self, raw: &'a [u8]) -> Result<Message<'a, 'i>, Garbled> {
        Self::decode_into(&mut self.fields, &self.data, raw)
    }

    /// The same with other data fields, of a session that has a dictionary of its own; `None` for this index's.
    pub fn decode_as<'a, 'i>(
        &'i mut self,
        raw: &'a [u8],
        data: Option<&DataFields>,
    ) -> Result<Message<'a, 'i>, Garbled> {
        Self::decode_into(&mut self.fields, data.unwrap_or(&self.data), raw)
    }

    /// The same of at most `fields_max` fields. Of a message that has more, whose CheckSum is right, the first ones are given:
    /// it [is cut](Message::is_cut), and is to be rejected by its number.
    pub(crate) fn decode_first<'a, 'i>(
        &'i mut self,
        raw: &'a [u8],
        data: Option<&DataFields>,
        fields_max: usize,
    ) -> Result<Message<'a, 'i>, Garbled> {
        let Self { fields, data: own } = self;
        let most = fields.len().min(fields_max);
        let fields = &mut fields[..most];
        match index(fields, data.unwrap_or(own), raw) {
            Ok(count) => Ok(Message { raw, fields: &fields[..count], is_cut: false }),
            // The first three fields are where they have to be, as for any message; CheckSum was verified before.
            Err(Fault::Fields) if is_front(raw, fields) => Ok(Message { raw, fields, is_cut: true }),
            Err(fault) => Err(Garbled { fault, logon: is_logon(raw) }),
        }
    }

    /// Has room for so many fields.
    pub(crate) fn reserve(&mut self, fields_max: usize) {
        if self.fields.len() < fields_max {
            self.fields = vec![Field::default(); fields_max].into_boxed_slice();
        }
    }

    fn decode_into<'a, 'i>(
        fields: &'i mut [Field],
        data: &DataFields,
        raw: &'a [u8],
    ) -> Result<Message<'a, 'i>, Garbled> {
        match index(fields, data, raw) {
            Ok(count) => Ok(Message { raw, fields: &fields[..count], is_cut: false }),
            Err(fault) => Err(Garbled { fault, logon: is_logon(raw) }),
        }
    }
}

/// Fills in where the fields stand; how many there are.
fn index(fields: &mut [Field], data: &DataFields, raw: &[u8]) -> Result<usize, Fault> {
    let body_end = raw.len().checked_sub(TRAILER_BYTES).filter(|end| *end > 0).ok_or(Fault::BodyLength)?;
    if raw.len() > u32::MAX as usize {
        return Err(Fault::TooLong);
    }
    check_sum(raw, body_end)?;
    let (mut at, mut count) = (0, 0);
    // The data field that the field before announced, and how long it is to be.
    let (mut data_tag, mut data_bytes) = (0, 0);
    let mut delimiters = Delimiters::new(raw, body_end);
    while let Some(mut end) = delimiters.next() {
        let (tag, start) = tag_at(raw, at)?;
        if tag == data_tag && tag != 0 {
            end = data_end(raw, start, data_bytes).unwrap_or(end);
            delimiters.pass(end);
        }
        data_tag = 0;
        if let Some(announced) = data.announced_by(tag) {
            (data_tag, data_bytes) = (announced, value::unsigned(&raw[start..end]).unwrap_or(u64::MAX));
        }
        let slot = fields.get_mut(count).ok_or(Fault::Fields)?;
        // One by one: a store of the whole would wait for its parts.
        slot.tag = tag;
        slot.start = start as u32;
        slot.end = end as u32;
        count += 1;
        at = end + 1;
    }
    let trailer = Field { tag: tag::CHECK_SUM, start: body_end as u32 + 3, end: raw.len() as u32 - 1 };
    *fields.get_mut(count).ok_or(Fault::Fields)? = trailer;
    check_front(raw, &fields[..=count], body_end)?;
    Ok(count + 1)
}

/// The end of a data field's value, if a delimiter is in that place. An impossible length is ignored: the field then
/// ends like any other, and the dictionary checks the rest.
fn data_end(raw: &[u8], start: usize, bytes: u64) -> Option<usize> {
    let end = usize::try_from(bytes).ok()?.checked_add(start)?;
    (end < raw.len() - TRAILER_BYTES && raw[end] == SOH).then_some(end)
}

fn is_logon(raw: &[u8]) -> bool {
    let third = raw.splitn(4, |byte| *byte == SOH).nth(2);
    third == Some(b"35=A")
}

/// `␁10=nnn␁` at the end, and the sum of all bytes before it.
fn check_sum(raw: &[u8], body_end: usize) -> Result<(), Fault> {
    let [SOH, b'1', b'0', b'=', hundreds, tens, ones, SOH] = raw[body_end - 1..] else { return Err(Fault::CheckSum) };
    let digits = [hundreds, tens, ones];
    let stated = value::unsigned(&digits).ok_or(Fault::CheckSum)?;
    if stated == u64::from(sum(&raw[..body_end])) { Ok(()) } else { Err(Fault::CheckSum) }
}

/// The sum of bytes modulo 256, which is what CheckSum holds. The compiler adds many at once.
pub(crate) fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

/// The tag at `at`, and where its value starts: before the next delimiter, for one in front of the equals sign is no digit. `at` is
/// before the trailer, so that a read of eight bytes stays within the message.
#[inline(always)]
fn tag_at(raw: &[u8], at: usize) -> Result<(u32, usize), Fault> {
    let word = load(raw, at).ok_or(Fault::Field)?;
    let equals = first(word, b'=');
    let digits = (equals / 8) as usize;
    if equals == 64 || digits > LONGEST_SHORT_TAG {
        return long_tag(raw, at);
    }
    let tag = short_tag(word, equals).map_or_else(|| signed_tag(raw, at, digits), Ok)?;
    Ok((tag, at + digits + 1))
}

/// Tags of up to this many digits are read by one multiplication.
const LONGEST_SHORT_TAG: usize = 4;

#[inline]
fn load(raw: &[u8], at: usize) -> Option<u64> {
    raw.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The index of the first such byte in bits; 64 if there is none. (Subtraction borrows only from later bytes.)
#[inline]
fn first(word: u64, byte: u8) -> u32 {
    let zero_there = word ^ (ONES * u64::from(byte));
    (zero_there.wrapping_sub(ONES) & !zero_there & HIGHS).trailing_zeros() & !7
}

/// The number in front of the equals sign that is `equals` bits into the word; `None` if there is none, or other bytes.
#[inline]
fn short_tag(word: u64, equals: u32) -> Option<u32> {
    if equals == 0 {
        return None;
    }
    // The last digit goes to the highest byte, and zeros stand before the first.
    let aligned = (word as u32) << (32 - equals);
    let digits = aligned ^ (0x3030_3030 << (32 - equals));
    // A byte above 9 reaches the high bit when 0x76 is added; none carries into the next unless its own high bit was set.
    if (digits.wrapping_add(0x7676_7676) | digits) & 0x8080_8080 != 0 {
        return None;
    }
    let pairs = (digits & 0x00ff_00ff) * 10 + ((digits >> 8) & 0x00ff_00ff);
    Some((pairs & 0xff) * 100 + (pairs >> 16))
}

/// A tag that is no short number: `-5` is tag 0, everything else no tag at all.
#[cold]
fn signed_tag(raw: &[u8], at: usize, digits: usize) -> Result<u32, Fault> {
    match raw[at..at + digits].split_first() {
        Some((b'-', number)) if value::unsigned(number).is_some() => Ok(0),
        _ => Err(Fault::Field),
    }
}

/// A long tag, byte by byte.
#[cold]
fn long_tag(raw: &[u8], at: usize) -> Result<(u32, usize), Fault> {
    let digits = raw[at..].iter().take(TAG_DIGITS_MAX + 2).position(|byte| *byte == b'=').ok_or(Fault::Field)?;
    let text = &raw[at..at + digits];
    let tag = match text.strip_prefix(b"-") {
        Some(number) => value::unsigned(number).map(|_| 0),
        None if digits <= TAG_DIGITS_MAX => value::unsigned(text).and_then(|tag| u32::try_from(tag).ok()),
        None => None,
    };
    Ok((tag.ok_or(Fault::Field)?, at + digits + 1))
}

/// The first three fields (FIX session layer: what is otherwise is garbled).
fn check_front(raw: &[u8], fields: &[Field], body_end: usize) -> Result<(), Fault> {
    let [begin, length, kind, _, ..] = fields else { return Err(Fault::MsgType) };
    if begin.tag != tag::BEGIN_STRING || length.tag != tag::BODY_LENGTH {
        return Err(Fault::BodyLength);
    }
    if kind.tag != tag::MSG_TYPE {
        return Err(Fault::MsgType);
    }
    let stated = value::unsigned(&raw[length.start as usize..length.end as usize]);
    let counted = (body_end - length.end as usize - 1) as u64;
    if stated == Some(counted) { Ok(()) } else { Err(Fault::BodyLength) }
}

fn is_front(raw: &[u8], fields: &[Field]) -> bool {
    check_front(raw, fields, raw.len() - TRAILER_BYTES).is_ok()
}

impl<'a> Message<'a, '_> {
    /// Returns whether it has more fields than are indexed.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The whole message.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// All fields in order, from BeginString to CheckSum: tag and value. Tag 0 stands for a tag that was negative or 0.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (u32, &'a [u8])> + DoubleEndedIterator + Clone + use<'a, '_> {
        let raw = self.raw;
        self.fields.iter().map(move |field| (field.tag, &raw[field.start as usize..field.end as usize]))
    }

    /// The number of fields.
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

    fn value(&self, field: &Field) -> &'a [u8] {
        &self.raw[field.start as usize..field.end as usize]
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
pub(crate) mod tests;
