//! One writer that never waits, and any number of readers, each of which knows exactly which messages it lost.
//!
//! ```
//! use sidestep_ring::{ReadError, broadcast};
//! let (mut publisher, mut subscriber) = broadcast::pair(64 << 10, Default::default())?;
//! publisher.publish(b"tick")?;
//! let mut buffer = [0; 64];
//! assert_eq!(subscriber.try_read(&mut buffer)?, 4);
//! assert_eq!(subscriber.try_read(&mut buffer), Err(ReadError::Empty));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(loom))]
mod by_doorbell;
mod publisher;
mod subscriber;

pub use publisher::Publisher;
pub use subscriber::{Start, Subscriber};

use crate::ring::Ring;
use crate::role::Side;
use crate::sync::Arc;

/// A broadcast ring inside this process. Clone the subscriber for more readers.
#[cfg(not(loom))]
pub fn pair(bytes: usize, waking: crate::Waking) -> Result<(Publisher, Subscriber), sidestep_sys::Problem> {
    pair_of(crate::Cell::Line, bytes, waking)
}

/// Makes a ring as [`pair`] does, of cells of this size.
#[cfg(not(loom))]
pub fn pair_of(
    cell: crate::Cell,
    bytes: usize,
    waking: crate::Waking,
) -> Result<(Publisher, Subscriber), sidestep_sys::Problem> {
    Ok(over(crate::private::private(&crate::Options { kind: crate::Kind::Broadcast, cell, bytes, waking })?))
}

/// Writer and first reader of a new ring.
pub(crate) fn over(ring: Ring) -> (Publisher, Subscriber) {
    let ring = Arc::new(ring);
    let publisher = Publisher::resume(Arc::clone(&ring), Side::writer());
    let subscriber = Subscriber::new(ring, Start::Oldest);
    (publisher.expect("zeroed memory is an empty ring"), subscriber.expect("zeroed memory is an empty ring"))
}
