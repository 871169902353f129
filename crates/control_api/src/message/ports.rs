//! Local ports of outgoing connections, which control reserves for a stack in blocks.

use serde::{Deserialize, Serialize};

/// The ports of a block; its first is a multiple of this, so that a device can match a block by a mask.
pub const BLOCK_PORTS: u16 = 256;

const WORD_BITS: usize = u64::BITS as usize;

/// Some ports of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBlock {
    /// A multiple of [`BLOCK_PORTS`].
    first: u16,
    /// A bit for each port, from the lowest on.
    members: [u64; BLOCK_PORTS as usize / WORD_BITS],
}

impl PortBlock {
    /// The empty block around a port.
    pub fn around(port: u16) -> Self {
        Self { first: port - port % BLOCK_PORTS, members: [0; 4] }
    }

    /// Its lowest port, whether a member or not.
    pub fn first(&self) -> u16 {
        // A received block is rounded to its start, too.
        self.first - self.first % BLOCK_PORTS
    }

    /// Adds a port; ignores a port of another block.
    pub fn insert(&mut self, port: u16) {
        if let Some((word, bit)) = self.place(port) {
            self.members[word] |= bit;
        }
    }

    /// Returns whether a port is a member.
    pub fn has(&self, port: u16) -> bool {
        self.place(port).is_some_and(|(word, bit)| self.members[word] & bit != 0)
    }

    /// The members, in order.
    pub fn ports(&self) -> impl Iterator<Item = u16> + use<> {
        let block = *self;
        (0..BLOCK_PORTS).map(move |offset| block.first() + offset).filter(move |port| block.has(*port))
    }

    /// The number of members.
    pub fn len(&self) -> u32 {
        self.members.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&self, port: u16) -> Option<(usize, u64)> {
        let offset = usize::from(port.checked_sub(self.first())?);
        (offset < usize::from(BLOCK_PORTS)).then_some((offset / WORD_BITS, 1 << (offset % WORD_BITS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_ports_that_were_put_into_it() {
        for (port, first) in [(0, 0), (255, 0), (256, 256), (61_001, 60_928), (65_535, 65_280)] {
            let mut block = PortBlock::around(port);
            assert_eq!((block.first(), block.is_empty()), (first, true));
            block.insert(port);
            block.insert(first);
            block.insert(port ^ 0x8000);
            assert!(block.has(port) && block.has(first) && !block.has(port ^ 0x8000) && !block.has(first ^ 1));
            let mut both = vec![first, port];
            both.dedup();
            assert_eq!(block.ports().collect::<Vec<_>>(), both);
            let text = serde_json::to_string(&block).unwrap();
            assert_eq!(serde_json::from_str::<PortBlock>(&text).unwrap(), block);
        }
    }

    #[test]
    fn a_full_one_has_all_and_fits_a_packet() {
        let mut block = PortBlock::around(u16::MAX);
        (0..=u16::MAX).for_each(|port| block.insert(port));
        assert_eq!((block.len(), block.ports().last()), (256, Some(u16::MAX)));
        assert!(serde_json::to_string(&block).unwrap().len() < 200);
    }

    /// A block received from a stranger can start anywhere.
    #[test]
    fn a_crooked_one_is_taken_for_the_one_around_it() {
        let block: PortBlock =
            serde_json::from_str(r#"{"first":65535,"members":[1,0,0,9223372036854775808]}"#).unwrap();
        assert_eq!(block.ports().collect::<Vec<_>>(), [65_280, 65_535]);
    }
}
