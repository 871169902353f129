//! The header fields that are the same in every message of a session, as they are written.

use super::text::has_control;
use crate::SOH;
use crate::tag;
use crate::value::{Digits, Precision};

/// The two parties of a session: header fields that are the same in every message. Empty ones are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parties {
    /// BeginString (8): `FIX.4.4`, `FIXT.1.1`.
    pub begin_string: String,
    /// SenderCompID (49).
    pub sender: String,
    /// SenderSubID (50).
    pub sender_sub: String,
    /// SenderLocationID (142).
    pub sender_location: String,
    /// TargetCompID (56).
    pub target: String,
    /// TargetSubID (57).
    pub target_sub: String,
    /// TargetLocationID (143).
    pub target_location: String,
}

/// The value of this field has a control byte.
#[derive(Debug)]
pub(super) struct ControlByte(pub(super) u32);

impl Parties {
    /// `8=FIX.4.4␁9=`.
    pub(super) fn front(&self) -> Result<Vec<u8>, ControlByte> {
        let mut text = Vec::new();
        put(&mut text, tag::BEGIN_STRING, &self.begin_string)?;
        text.extend_from_slice(b"9=");
        Ok(text)
    }

    /// Everything between MsgSeqNum and the body, with the delimiter before it, and the place of SendingTime in it.
    pub(super) fn behind_number(&self, precision: Precision) -> Result<(Vec<u8>, usize), ControlByte> {
        let mut text = vec![SOH];
        put(&mut text, tag::SENDER_COMP_ID, &self.sender)?;
        put(&mut text, tag::SENDER_SUB_ID, &self.sender_sub)?;
        text.extend_from_slice(b"52=");
        let time_at = text.len();
        text.resize(time_at + time_bytes(precision), b'0');
        text.push(SOH);
        put(&mut text, tag::TARGET_COMP_ID, &self.target)?;
        put(&mut text, tag::TARGET_SUB_ID, &self.target_sub)?;
        put(&mut text, tag::SENDER_LOCATION_ID, &self.sender_location)?;
        put(&mut text, tag::TARGET_LOCATION_ID, &self.target_location)?;
        Ok((text, time_at))
    }
}

/// Appends `tag=value␁`; nothing for an empty value.
fn put(into: &mut Vec<u8>, tag: u32, value: &str) -> Result<(), ControlByte> {
    if value.is_empty() {
        return Ok(());
    }
    if has_control(value.as_bytes()) {
        return Err(ControlByte(tag));
    }
    into.extend_from_slice(Digits::of(u64::from(tag)).as_bytes());
    into.push(b'=');
    into.extend_from_slice(value.as_bytes());
    into.push(SOH);
    Ok(())
}

/// Bytes of SendingTime.
pub(super) const fn time_bytes(precision: Precision) -> usize {
    [17, 21, 24, 27][precision as usize]
}
