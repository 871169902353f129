//! The number of descriptors that one sending call moves.

/// Descriptors that a call sends in copy mode; a frame of several buffers has several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget(u32);

impl Budget {
    pub(super) fn new(descriptors: u32) -> Self {
        Self(descriptors.max(1))
    }

    /// Calls that send so many.
    #[inline]
    pub(super) fn calls(self, descriptors: u32) -> u32 {
        descriptors.div_ceil(self.0)
    }
}
