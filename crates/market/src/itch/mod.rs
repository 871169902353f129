//! Nasdaq TotalView-ITCH 5.0: views of its 23 messages.
//!
//! All numbers are unsigned and big-endian. Every message begins alike:
//!
//! ```text
//!  0      1              3                 5                       11
//!  | type | stock locate | tracking number | ns since midnight (6) | ...
//! ```
//!
//! A view borrows the bytes; its getters cannot fail. Later amendments bring new types: [`Message::Unknown`] is skipped by its
//! length, which the framing tells (MoldUDP64, SoupBinTCP, BinaryFILE). A known type that is longer than this version says is read
//! by its first bytes.

mod field;
mod message;
mod value;
mod views;

pub use message::{Malformed, Message};
pub use value::Value;
pub use views::*;

/// Digits behind the point of a Price(4).
pub const PRICE_DECIMALS: u8 = 4;
/// Digits behind the point of a Price(8), which only [`MwcbDeclineLevel`] has.
pub const LEVEL_DECIMALS: u8 = 8;
/// Bytes that every message has.
pub const COMMON_BYTES: usize = 11;
/// The longest message of this version, bytes.
pub const MESSAGE_BYTES_MAX: usize = 50;
