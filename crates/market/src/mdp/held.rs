//! Packets held while books are stale, to be applied after a snapshot.

use sidestep_sys::memory;
use std::collections::TryReserveError;

/// Bytes of a packet: what a datagram in an Ethernet frame of 1,500 bytes has.
pub const PACKET_BYTES_MAX: usize = 1_472;

#[derive(Clone, Debug)]
struct Slot {
    bytes: [u8; PACKET_BYTES_MAX],
    length: usize,
}

/// The memory of so many packets, bytes.
pub(super) fn bytes(packets: usize) -> usize {
    packets.saturating_mul(size_of::<Slot>())
}

/// A ring of packets whose sequences follow each other without a gap.
#[derive(Debug)]
pub(super) struct Held {
    slots: Box<[Slot]>,
    /// The sequence of the oldest packet.
    first: u32,
    count: usize,
}

impl Held {
    /// Room for so many packets.
    pub(super) fn new(packets: usize) -> Result<Self, TryReserveError> {
        let slot = Slot { bytes: [0; PACKET_BYTES_MAX], length: 0 };
        Ok(Self { slots: memory::filled(slot, packets)?.into_boxed_slice(), first: 0, count: 0 })
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Holds a packet. One that does not follow the last one begins anew; the oldest gives way.
    pub(super) fn push(&mut self, sequence: u32, bytes: &[u8]) {
        let follows = u64::from(sequence) == u64::from(self.first) + self.count as u64;
        if self.count == 0 || !follows {
            (self.first, self.count) = (sequence, 0);
        }
        if self.slots.is_empty() || bytes.len() > PACKET_BYTES_MAX {
            return self.clear();
        }
        if self.count == self.slots.len() {
            self.first += 1;
            self.count -= 1;
        }
        let at = sequence as usize % self.slots.len();
        let slot = &mut self.slots[at];
        slot.bytes[..bytes.len()].copy_from_slice(bytes);
        slot.length = bytes.len();
        self.count += 1;
    }

    /// Returns whether every packet after this one, up to the newest, is held.
    pub(super) fn has_all_after(&self, sequence: u32) -> bool {
        self.count > 0 && u64::from(sequence) + 1 >= u64::from(self.first)
    }

    /// The packets after this one, with their sequences.
    pub(super) fn after(&self, sequence: u32) -> impl Iterator<Item = (u32, &[u8])> {
        let end = u64::from(self.first) + self.count as u64;
        let begin = (u64::from(sequence) + 1).max(u64::from(self.first));
        (begin..end).map(|sequence| {
            let slot = &self.slots[(sequence % self.slots.len() as u64) as usize];
            (sequence as u32, &slot.bytes[..slot.length])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(held: &Held, after: u32) -> Vec<u32> {
        held.after(after).map(|(sequence, bytes)| sequence * u32::from(bytes == [sequence as u8])).collect()
    }

    #[test]
    fn the_oldest_packets_give_way() {
        let mut held = Held::new(3).unwrap();
        assert!(!held.has_all_after(0) && sequences(&held, 0).is_empty());
        (5..10).for_each(|sequence| held.push(sequence, &[sequence as u8]));
        assert_eq!(
            (sequences(&held, 0), sequences(&held, 7), sequences(&held, 9)),
            (vec![7, 8, 9], vec![8, 9], vec![])
        );
        assert_eq!([5, 6, 9, 10].map(|after| held.has_all_after(after)), [false, true, true, true]);
    }

    #[test]
    fn a_gap_and_a_packet_too_long_begin_anew() {
        let mut held = Held::new(4).unwrap();
        [1, 2, 4].into_iter().for_each(|sequence| held.push(sequence, &[sequence as u8]));
        assert_eq!((sequences(&held, 0), held.has_all_after(2)), (vec![4], false));
        held.push(5, &[0; PACKET_BYTES_MAX + 1]);
        assert!(!held.has_all_after(4));
        held.push(u32::MAX, &[255]);
        assert_eq!((held.has_all_after(u32::MAX), held.after(u32::MAX).count()), (true, 0));
        let mut none = Held::new(0).unwrap();
        none.push(1, &[1]);
        assert!(!none.has_all_after(0) && none.after(0).count() == 0);
    }
}
