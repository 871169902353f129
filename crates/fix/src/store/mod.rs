//! The persistent state of a session: its two sequence numbers and the messages it sent.
//!
//! A session calls [`Store::record_outbound`] before the bytes of a message can leave, and [`Store::record_inbound`] before
//! anything that answers a message can leave. What a store promises beyond that (nothing, the page cache, the disk) is its
//! own matter.

mod any;
pub mod journal;
mod memory;

pub use any::AnyStore;
pub use memory::{MEMORY_BYTES_DEFAULT, MemoryStore};

use sidestep_sys::Problem;
use std::ops::ControlFlow;

/// Receives one stored message: its MsgSeqNum (34) and its bytes as they were first sent, from `8=` to the SOH behind `10=`.
/// `Break` ends the walk.
pub type Visit<'a> = dyn FnMut(u64, &[u8]) -> ControlFlow<()> + 'a;

/// The memory of one session. Sequence numbers start at 1 (FIX session layer, "message sequence numbers").
pub trait Store {
    /// MsgSeqNum (34) that the next message we send will carry.
    fn next_outbound(&self) -> u64;

    /// MsgSeqNum (34) that we expect next.
    fn next_inbound(&self) -> u64;

    /// Keeps what is about to be sent, and makes `seq + 1` the next number. `message` is empty when only the number is kept
    /// (`PersistMessages=N`): such a message is later replaced by a gap fill.
    ///
    /// # Errors
    /// It could not be kept: the message must not leave.
    fn record_outbound(&mut self, seq: u64, message: &[u8]) -> Result<(), Problem>;

    /// Keeps the number that is expected next. It goes back only by a reset of an operator.
    ///
    /// # Errors
    /// It could not be kept: the session must not go on.
    fn record_inbound(&mut self, next: u64) -> Result<(), Problem>;

    /// Makes `next` the number of the next message sent, without a message: an operator's correction.
    ///
    /// # Errors
    /// It could not be kept.
    fn set_next_outbound(&mut self, next: u64) -> Result<(), Problem>;

    /// Shows the stored messages `from..=to` in rising order; numbers without a message are left out.
    ///
    /// # Errors
    /// What was stored cannot be read.
    fn outbound(&mut self, from: u64, to: u64, visit: &mut Visit<'_>) -> Result<(), Problem>;

    /// Forgets all messages; both numbers become 1; the session is created anew at `utc_ns` (since 1970, UTC).
    ///
    /// # Errors
    /// The reset could not be kept.
    fn reset(&mut self, utc_ns: i64) -> Result<(), Problem>;

    /// The time at which the session was created or last reset, ns since 1970, UTC. A schedule compares it with now.
    fn created_utc_ns(&self) -> i64;

    /// The number of bytes of the newest messages that are certainly kept: messages that wait to be written are sent
    /// from here.
    fn keeps_bytes(&self) -> usize {
        usize::MAX
    }

    /// Reads again what another process may have written (`RefreshOnLogon`).
    ///
    /// # Errors
    /// It cannot be read.
    fn refresh(&mut self) -> Result<(), Problem> {
        Ok(())
    }
}
