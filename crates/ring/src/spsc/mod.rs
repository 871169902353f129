//! One writer, one reader, messages of any size.
//!
//! ```
//! let (mut producer, mut consumer) = sidestep_ring::spsc::pair(64 << 10, Default::default())?;
//! let mut claim = producer.try_claim(5)?;
//! claim.copy_from_slice(b"35=D|");
//! claim.commit();
//! assert_eq!(&*consumer.try_read()?, b"35=D|");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod consumer;
mod producer;

pub use batch::Batch;
pub use consumer::{Consumer, Message, Resume};
pub use producer::{Claim, Producer};

use crate::ring::Ring;
use crate::role::Side;
use crate::sync::Arc;

/// Makes a ring inside this process: at least `bytes` of cells, rounded up to a power of two.
#[cfg(not(loom))]
pub fn pair(bytes: usize, waking: crate::Waking) -> Result<(Producer, Consumer), sidestep_sys::Problem> {
    pair_of(crate::Cell::Line, bytes, waking)
}

/// Makes a ring as [`pair`] does, of cells of this size.
#[cfg(not(loom))]
pub fn pair_of(
    cell: crate::Cell,
    bytes: usize,
    waking: crate::Waking,
) -> Result<(Producer, Consumer), sidestep_sys::Problem> {
    Ok(over(crate::private::private(&crate::Options { kind: crate::Kind::Spsc, cell, bytes, waking })?))
}

/// Both sides of a new ring.
pub(crate) fn over(ring: Ring) -> (Producer, Consumer) {
    let ring = Arc::new(ring);
    let producer = Producer::resume(&ring, Side::writer());
    let consumer = Consumer::resume(ring, Side::reader(), Resume::Unread);
    (producer.expect("zeroed memory is an empty ring"), consumer.expect("zeroed memory is an empty ring"))
}
