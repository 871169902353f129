//! One direction of the link: what it loses, damages, delays and refuses.

use super::dice::Dice;
use super::plan::LinkPlan;
use sidestep_wire::Addresses;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A packet that arrives at a time.
pub struct Packet {
    pub addresses: Addresses,
    pub bytes: Vec<u8>,
    /// Set if it was damaged on the way: the receiver must drop it.
    pub is_damaged: bool,
}

pub struct Link {
    pub plan: LinkPlan,
    heal_ns: u64,
    /// Arrival and number; the packet stands in `packets` at the number's place.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    packets: Vec<Option<Packet>>,
    /// When the last byte of the queue has left.
    free_at_ns: u64,
    pub carried: u64,
    pub dropped: u64,
}

/// What became of a packet.
pub enum Fate {
    /// Under way, or lost.
    Taken,
    /// The sink has no room.
    Refused,
    /// Larger than the path's `mtu`; the message of the router comes at a time, if it comes.
    TooBig { mtu: u16, told_at_ns: Option<u64> },
}

impl Link {
    pub fn new(plan: LinkPlan, heal_ns: u64) -> Self {
        let (order, packets) = (BinaryHeap::new(), Vec::new());
        Self { plan, heal_ns, order, packets, free_at_ns: 0, carried: 0, dropped: 0 }
    }

    pub fn take(&mut self, dice: &mut Dice<'_>, now_ns: u64, addresses: Addresses, bytes: Vec<u8>) -> Fate {
        let is_wild = now_ns < self.heal_ns;
        let plan = &self.plan;
        if is_wild && dice.percent(plan.refusal) {
            return Fate::Refused;
        }
        let ip_bytes = bytes.len() + if matches!(addresses, Addresses::V4 { .. }) { 20 } else { 40 };
        let mtu = if now_ns < plan.mtus[1].0 { plan.mtus[0].1 } else { plan.mtus[0].1.min(plan.mtus[1].1) };
        if ip_bytes > usize::from(mtu) {
            self.dropped += 1;
            let told = !is_wild || dice.percent(plan.told);
            return Fate::TooBig { mtu, told_at_ns: told.then_some(now_ns + plan.delay_ns) };
        }
        let waiting = self.free_at_ns.saturating_sub(now_ns).checked_div(plan.byte_ns).unwrap_or(0);
        let is_dark = (plan.blackout_ns.0..plan.blackout_ns.1).contains(&now_ns);
        if waiting > plan.queue_bytes || is_wild && (is_dark || dice.percent(plan.loss)) {
            self.dropped += 1;
            return Fate::Taken;
        }
        self.free_at_ns = self.free_at_ns.max(now_ns) + plan.byte_ns * ip_bytes as u64;
        self.carry(dice, addresses, bytes, is_wild);
        Fate::Taken
    }

    fn carry(&mut self, dice: &mut Dice<'_>, addresses: Addresses, mut bytes: Vec<u8>, is_wild: bool) {
        let plan = self.plan.clone();
        let is_damaged = is_wild && dice.percent(plan.corruption);
        if is_damaged {
            damage(dice, &mut bytes);
        }
        let copies = if is_wild && dice.percent(plan.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            let mut at = self.free_at_ns + plan.delay_ns + if is_wild { dice.below(plan.jitter_ns + 1) } else { 0 };
            if is_wild && dice.percent(plan.late) {
                at += dice.below(plan.late_ns);
            }
            self.carried += 1;
            self.order.push(Reverse((at, self.packets.len())));
            self.packets.push(Some(Packet { addresses, bytes: bytes.clone(), is_damaged }));
        }
    }

    pub fn next_at_ns(&self) -> Option<u64> {
        self.order.peek().map(|Reverse((at, _))| *at)
    }

    /// What has arrived.
    pub fn arrive(&mut self, now_ns: u64) -> Option<Packet> {
        if self.next_at_ns()? > now_ns {
            return None;
        }
        let Reverse((_, number)) = self.order.pop()?;
        let packet = self.packets[number].take();
        if self.order.is_empty() {
            self.packets.clear();
        }
        packet
    }
}

/// Flips a few neighbouring bits, fewer than sixteen: damage that the Internet checksum always finds.
fn damage(dice: &mut Dice<'_>, bytes: &mut [u8]) {
    let first = dice.below(bytes.len() as u64 * 8) as usize;
    let pattern = dice.number() as u16 & 0x7fff | 1;
    for bit in (0..15).filter(|bit| pattern >> bit & 1 == 1).map(|bit| first + bit) {
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 0x80 >> (bit % 8);
        }
    }
}
