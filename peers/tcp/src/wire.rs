//! One direction of a wire in memory: frames in the order they were put in, in memory that is there already.

/// Frames under way at the most; a sender that finds the wire full is told so.
pub const FRAMES: usize = 64;
/// An Ethernet frame of 1500 bytes fits.
const FRAME_BYTES: usize = 2048;
/// Ethernet, IPv4 and TCP with timestamps: a longer frame carries data.
const HEADER_BYTES: usize = 14 + 20 + 32;

/// The wire.
pub struct Wire {
    frames: Vec<[u8; FRAME_BYTES]>,
    lengths: [usize; FRAMES],
    first: usize,
    count: usize,
    /// Frames put in so far.
    pub carried: u64,
    /// Those of them with data.
    pub with_data: u64,
}

impl Wire {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            frames: vec![[0; FRAME_BYTES]; FRAMES],
            lengths: [0; FRAMES],
            first: 0,
            count: 0,
            carried: 0,
            with_data: 0,
        }
    }

    /// Whether another frame fits.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.count < FRAMES
    }

    /// The place of the next frame; it is on the wire after [`Wire::sent`].
    #[inline]
    pub fn place(&mut self) -> Option<&mut [u8]> {
        if self.count == FRAMES {
            return None;
        }
        Some(&mut self.frames[(self.first + self.count) % FRAMES])
    }

    /// What was written to the place is a frame of `bytes`.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        self.lengths[(self.first + self.count) % FRAMES] = bytes;
        self.count += 1;
        self.carried += 1;
        self.with_data += u64::from(bytes > HEADER_BYTES);
    }

    /// The frame that arrives next.
    #[inline]
    pub fn front(&self) -> Option<&[u8]> {
        (self.count != 0).then(|| &self.frames[self.first][..self.lengths[self.first]])
    }

    /// The same, for a reader that writes into it.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut [u8]> {
        (self.count != 0).then(|| &mut self.frames[self.first][..self.lengths[self.first]])
    }

    /// It has been read.
    #[inline]
    pub fn pop(&mut self) {
        if self.count != 0 {
            self.first = (self.first + 1) % FRAMES;
            self.count -= 1;
        }
    }
}
