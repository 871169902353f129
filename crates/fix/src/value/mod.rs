//! FIX's data types, read from and written as bytes without allocation and without floating point.
//!
//! Every reader takes the whole value of a field and accepts what the FIX specification's data type allows, nothing else;
//! what it refuses is `None`, which the session answers with SessionRejectReason 6, "Incorrect data format for value".

mod decimal;
mod number;
mod time;

pub use decimal::Decimal;
pub use number::{boolean, character, integer, unsigned};
pub use time::{Precision, UtcDate, UtcTime, UtcTimestamp};

pub(crate) use decimal::{is_float, is_int};
pub(crate) use number::{Digits, two_digits, write_left};
pub(crate) use time::{CachedTime, TIMESTAMP_BYTES_MAX};
