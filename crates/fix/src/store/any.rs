//! The stores that an engine's sessions can have, behind one type.

use super::journal::Journal;
use super::{MemoryStore, Store, Visit};
use sidestep_sys::Problem;
use std::ops::ControlFlow;

/// A store chosen by configuration.
#[derive(Debug)]
pub enum AnyStore {
    /// Forgotten with the process.
    Memory(MemoryStore),
    /// Kept in files.
    Journal(Box<Journal>),
}

impl AnyStore {
    /// Writes what was recorded since the last commit, before the bytes of those messages leave.
    ///
    /// # Errors
    /// It could not be written: nothing that was recorded since may leave.
    #[inline]
    pub fn commit(&mut self) -> Result<(), Problem> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Journal(journal) => journal.commit(),
        }
    }

    /// Prepares for the next messages, when nothing is urgent.
    #[inline]
    pub(crate) fn prepare(&mut self) {
        if let Self::Memory(memory) = self {
            memory.touch_ahead();
        }
    }

    /// Descriptors that it holds.
    pub fn descriptors(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Journal(_) => super::journal::DESCRIPTORS,
        }
    }

    /// Returns whether something was recorded since the last commit.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Journal(journal) => journal.is_dirty(),
        }
    }

    /// Returns whether what was committed is kept as promised.
    ///
    /// # Errors
    /// The disk refused.
    #[inline]
    pub fn is_durable(&mut self) -> Result<bool, Problem> {
        match self {
            Self::Memory(_) => Ok(true),
            Self::Journal(journal) => journal.is_durable(),
        }
    }

    /// The reason why the store will soon be full, while there is space for a Logout.
    pub fn nearly_full(&mut self) -> Option<Problem> {
        match self {
            Self::Memory(_) => None,
            Self::Journal(journal) => journal.nearly_full(),
        }
    }

    /// Records in `other`, which is new, what this one has.
    pub(crate) fn copy_to(&mut self, other: &mut Self) -> Result<(), Problem> {
        let mut result = Ok(());
        self.outbound(1, u64::MAX, &mut |seq, message| {
            result = other.record_outbound(seq, message);
            if result.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        result?;
        other.set_next_outbound(self.next_outbound())?;
        other.record_inbound(self.next_inbound())
    }

    fn inner(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => store,
            Self::Journal(store) => &**store,
        }
    }
}

impl Store for AnyStore {
    fn next_outbound(&self) -> u64 {
        self.inner().next_outbound()
    }

    fn next_inbound(&self) -> u64 {
        self.inner().next_inbound()
    }

    #[inline]
    fn record_outbound(&mut self, seq: u64, message: &[u8]) -> Result<(), Problem> {
        match self {
            Self::Memory(store) => store.record_outbound(seq, message),
            Self::Journal(store) => store.record_outbound(seq, message),
        }
    }

    #[inline]
    fn record_inbound(&mut self, next: u64) -> Result<(), Problem> {
        match self {
            Self::Memory(store) => store.record_inbound(next),
            Self::Journal(store) => store.record_inbound(next),
        }
    }

    fn set_next_outbound(&mut self, next: u64) -> Result<(), Problem> {
        match self {
            Self::Memory(store) => store.set_next_outbound(next),
            Self::Journal(store) => store.set_next_outbound(next),
        }
    }

    fn outbound(&mut self, from: u64, to: u64, visit: &mut Visit<'_>) -> Result<(), Problem> {
        match self {
            Self::Memory(store) => store.outbound(from, to, visit),
            Self::Journal(store) => store.outbound(from, to, visit),
        }
    }

    fn reset(&mut self, utc_ns: i64) -> Result<(), Problem> {
        match self {
            Self::Memory(store) => store.reset(utc_ns),
            Self::Journal(store) => store.reset(utc_ns),
        }
    }

    fn created_utc_ns(&self) -> i64 {
        self.inner().created_utc_ns()
    }

    fn keeps_bytes(&self) -> usize {
        self.inner().keeps_bytes()
    }
}
