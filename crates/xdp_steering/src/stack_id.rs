//! Numbers of stacks.

use crate::layout::STACKS_MAX;
use std::fmt;

/// The number of a stack, 0..[`STACKS_MAX`]. Numbers are reused after a stack is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub(crate) u32);

impl StackId {
    /// Makes a stack's number; `None` if out of range.
    pub fn from_number(number: u32) -> Option<Self> {
        (number < STACKS_MAX).then_some(Self(number))
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn key(self) -> [u8; 4] {
        self.0.to_ne_bytes()
    }
}

impl fmt::Display for StackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stack {}", self.0)
    }
}
