//! Bytes that are no message, and messages that cannot be written.

use std::fmt::{self, Display, Formatter};

/// Bytes that are no message of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The message ends inside a part.
    Truncated {
        /// The message, group or data.
        part: &'static str,
        /// Bytes that the part needs.
        needs: usize,
        /// Bytes that are left.
        bytes: usize,
    },
    /// A block length that does not cover the fields which every version has.
    Block {
        /// The message or group.
        part: &'static str,
        /// Bytes of those fields.
        needs: usize,
        /// The block length that was received.
        block_length: usize,
    },
    /// Entries of no bytes: their number alone would be the work.
    EmptyEntries {
        /// The group.
        part: &'static str,
    },
    /// A message of another schema.
    Schema {
        /// The schema's id in the header.
        schema: u16,
    },
}

impl Display for Malformed {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { part, needs, bytes } => write!(out, "{part} needs {needs} bytes, {bytes} are left"),
            Self::Block { part, needs, block_length } => {
                write!(out, "the fields of {part} have {needs} bytes, its block length is {block_length}")
            }
            Self::EmptyEntries { part } => write!(out, "the entries of {part} have no bytes"),
            Self::Schema { schema } => write!(out, "a message of schema {schema}"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A message that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The buffer is too short.
    Full {
        /// Bytes needed so far.
        needs: usize,
        /// Bytes of the buffer.
        bytes: usize,
    },
    /// More entries than the group's dimension can count.
    TooManyEntries {
        /// The greatest number.
        max: u32,
    },
    /// More data than its length field can tell.
    TooLong {
        /// The greatest length, bytes.
        max: u32,
    },
}

impl Display for Unwritable {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { needs, bytes } => write!(out, "the message needs {needs} bytes, the buffer has {bytes}"),
            Self::TooManyEntries { max } => write!(out, "the group has {max} entries, and cannot have more"),
            Self::TooLong { max } => write!(out, "var-data has at most {max} bytes"),
        }
    }
}

impl std::error::Error for Unwritable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_part_and_the_lengths() {
        let truncated = Malformed::Truncated { part: "Legs", needs: 8, bytes: 3 };
        assert_eq!(truncated.to_string(), "Legs needs 8 bytes, 3 are left");
        let block = Malformed::Block { part: "Legs", needs: 8, block_length: 4 };
        assert_eq!(block.to_string(), "the fields of Legs have 8 bytes, its block length is 4");
        assert_eq!(Malformed::EmptyEntries { part: "Legs" }.to_string(), "the entries of Legs have no bytes");
        assert_eq!(Malformed::Schema { schema: 7 }.to_string(), "a message of schema 7");
        assert_eq!(Unwritable::Full { needs: 9, bytes: 4 }.to_string(), "the message needs 9 bytes, the buffer has 4");
        let many = Unwritable::TooManyEntries { max: 254 };
        assert_eq!(many.to_string(), "the group has 254 entries, and cannot have more");
        assert_eq!(Unwritable::TooLong { max: 254 }.to_string(), "var-data has at most 254 bytes");
    }
}
