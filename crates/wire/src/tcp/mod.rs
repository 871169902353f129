//! TCP segments (RFC 9293 section 3.1) and their options.
//!
//! ```text
//!  0             2                  4          8                 12       13      14       16         18       20
//!  | source port | destination port | sequence | acknowledgement | offset | flags | window | checksum | urgent | options
//! ```

mod build;
mod flags;
mod options;
mod sequence;
mod view;

pub use build::{Segment, build};
pub use flags::Flags;
pub use options::{Options, SackBlock, SackBlocks, Timestamps};
pub use sequence::SequenceNumber;
pub use view::View;

/// The length of the header without options, bytes.
pub const HEADER_BYTES: usize = 20;

/// The most bytes of options: the data offset has four bits and counts four bytes.
pub const OPTIONS_BYTES_MAX: usize = 40;

/// The segment size of a peer that announces none, over IPv4 (RFC 9293 section 3.7.1).
pub const DEFAULT_SEGMENT_BYTES_V4: u16 = 536;

/// The segment size of a peer that announces none, over IPv6 (RFC 9293 section 3.7.1).
pub const DEFAULT_SEGMENT_BYTES_V6: u16 = 1220;

/// The largest window shift; a larger one in an option is taken as this one (RFC 7323 section 2.3).
pub const WINDOW_SCALE_MAX: u8 = 14;
