//! Memory for datagrams that are in no frame of ours: what the kernel delivered, and copies for further members of a group.

/// The longest UDP payload, bytes.
const BUFFER_BYTES: usize = 65_535;

/// Datagrams out of the kernel, or copied, that a program may hold at a time. With all of them held the rest waits in the
/// kernel's socket buffer; 4 MiB when all have been used.
pub(crate) const BUFFERS_MAX: usize = 64;

/// Half of them, for copies: the rest is for what the kernel delivers, whoever leaves copies unread.
pub(crate) const COPIES_MAX: u32 = BUFFERS_MAX as u32 / 2;

/// Buffers, made when first needed and used again.
#[derive(Debug)]
pub(crate) struct Buffers {
    buffers: Vec<Box<[u8]>>,
    free: Vec<u16>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { buffers: Vec::with_capacity(BUFFERS_MAX), free: Vec::with_capacity(BUFFERS_MAX) }
    }

    /// A buffer to fill; `None` when all are held.
    pub(crate) fn take(&mut self) -> Option<u16> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        if self.buffers.len() == BUFFERS_MAX {
            return None;
        }
        self.buffers.push(vec![0; BUFFER_BYTES].into());
        Some(self.buffers.len() as u16 - 1)
    }

    /// The number of buffers held.
    pub(crate) fn held(&self) -> u32 {
        (self.buffers.len() - self.free.len()) as u32
    }

    pub(crate) fn bytes(&self, number: u16) -> &[u8] {
        self.buffers.get(usize::from(number)).map_or(&[], |buffer| buffer)
    }

    pub(crate) fn bytes_mut(&mut self, number: u16) -> &mut [u8] {
        self.buffers.get_mut(usize::from(number)).map_or(&mut [], |buffer| buffer)
    }

    /// Takes a buffer back; one of another engine's is not ours to give out.
    pub(crate) fn give(&mut self, number: u16) {
        if usize::from(number) < self.buffers.len() && !self.free.contains(&number) {
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_end_and_come_back() {
        let mut buffers = Buffers::new();
        let taken: Vec<u16> = std::iter::from_fn(|| buffers.take()).collect();
        assert_eq!(taken.len(), BUFFERS_MAX);
        buffers.bytes_mut(taken[3])[0] = 7;
        buffers.give(taken[3]);
        assert_eq!(buffers.take(), Some(taken[3]));
        assert_eq!((buffers.bytes(taken[3])[0], buffers.take()), (7, None));
    }
}
