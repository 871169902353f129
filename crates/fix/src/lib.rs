//! L4: FIX 4.0 to 4.4 and FIXT.1.1 with 5.0, 5.0 SP1 and 5.0 SP2.
//!
//! Nothing here does input or output, or reads a clock: bytes and [`clock::Now`] go in, bytes and decisions come out.
//!
//! [`frame`] cuts a stream of bytes into messages by BodyLength. [`decode`] indexes one message in place. [`encode`]
//! writes messages one after the other into one buffer. [`value`] holds FIX's data types. [`dictionary`] holds the
//! definitions of a version of FIX; [`validate`] checks a message against them.
//!
//! Input from the counterparty is bounded and checked; no allocation happens on a message's path.
#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod decode;
pub mod dictionary;
pub mod encode;
pub mod engine;
pub mod exchange;
pub mod frame;
pub mod metrics;
pub mod names;
pub mod schedule;
pub mod session;
pub mod store;
pub mod tag;
pub mod transcript;
pub mod validate;
pub mod value;

/// The delimiter of fields. FIX tag=value encoding, "field delimiter".
pub const SOH: u8 = 1;

pub use clock::Now;
pub use decode::{DataFields, FieldError, Index, Message};
pub use encode::{Builder, Encoder, Rejected};
pub use frame::{Fault, Framer, Garbled};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
