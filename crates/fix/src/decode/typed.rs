//! Values as their types, from a message and from an entry of a group alike.

use super::{Entry, FieldError, Message};
use crate::value::{self, Decimal, UtcTimestamp};

macro_rules! typed {
    ($view:ident) => {
        impl<'a> $view<'a, '_> {
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
        }
    };
}

typed!(Message);
typed!(Entry);
