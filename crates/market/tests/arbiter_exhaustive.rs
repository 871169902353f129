//! Two lines and few messages: every framing of either line, every set of lost datagrams, every order of what is left.

use sidestep_market::arbiter::{Arbiter, Delivery, HELD_BYTES_MIN, Limits, LineKind, Placed};
use sidestep_market::units::{LineId, Nanos, Sequence};
use std::ops::Range;

/// A datagram: its line, its messages.
type Datagram = (u8, Range<u64>);

/// Every way in which a line can bring `messages`, numbered from 1: cut into datagrams anywhere, any of them lost.
fn streams(line: u8, messages: u64) -> Vec<Vec<Datagram>> {
    let mut streams = Vec::new();
    for cuts in 0..1_u64 << (messages - 1) {
        let mut datagrams = Vec::new();
        let mut first = 1;
        for next in 2..=messages + 1 {
            if next > messages || cuts >> (next - 2) & 1 == 1 {
                datagrams.push((line, first..next));
                first = next;
            }
        }
        for kept in 0..1_u64 << datagrams.len() {
            let kept = datagrams.iter().enumerate().filter(|(at, _)| kept >> at & 1 == 1);
            streams.push(kept.map(|(_, datagram)| datagram.clone()).collect());
        }
    }
    streams
}

struct Check {
    arbiter: Arbiter,
    messages: u64,
    runs: u64,
}

impl Check {
    fn new(messages: u64) -> Self {
        let limits = Limits { held_messages: 8, held_bytes: HELD_BYTES_MIN };
        let arbiter = Arbiter::new(&[LineKind::Live; 2], limits, Sequence(1)).expect("the limits are good");
        Self { arbiter, messages, runs: 0 }
    }

    /// After each datagram exactly the prefix without a gap of all that came is delivered.
    fn run(&mut self, datagrams: &[Datagram]) {
        self.runs += 1;
        self.arbiter.restart(Sequence(1));
        let (mut came, mut delivered) = (0_u64, 1);
        for (at, (line, range)) in datagrams.iter().enumerate() {
            range.clone().for_each(|sequence| came |= 1 << sequence);
            let bytes: Vec<[u8; 1]> = range.clone().map(|sequence| [sequence as u8]).collect();
            let messages = bytes.iter().map(|one| &one[..]);
            let mut deliver = |message: Delivery<'_>| {
                assert_eq!((message.sequence.0, message.bytes), (delivered, &[delivered as u8][..]), "{datagrams:?}");
                assert!(message.arrived.0 <= at as u64);
                delivered += 1;
            };
            let placed =
                self.arbiter.datagram(LineId(*line), Nanos(at as u64), Sequence(range.start), messages, &mut deliver);
            assert!(
                matches!(placed, Placed::Delivered | Placed::Duplicate | Placed::Held),
                "{datagrams:?}: {placed:?}"
            );
            assert_eq!(delivered, 1 + u64::from((came >> 1).trailing_ones()), "{datagrams:?} after {at}");
            let highest = 64 - u64::from((came | 1).leading_zeros());
            assert_eq!((self.arbiter.next().0, self.arbiter.highest().0), (delivered, highest), "{datagrams:?}");
            let missing = (delivered..highest).take_while(|sequence| came >> sequence & 1 == 0).count() as u64;
            let told = self.arbiter.missing(self.messages).map_or(0, |(_, count)| count);
            assert_eq!(told, missing, "{datagrams:?} after {at}");
        }
    }

    /// All merges of two streams, each in its own order.
    fn merges(&mut self, a: &[Datagram], b: &[Datagram], before: &mut Vec<Datagram>) {
        if a.is_empty() && b.is_empty() {
            return self.run(before);
        }
        for (take, rest_a, rest_b) in [(a, 1, 0), (b, 0, 1)] {
            if let Some(datagram) = take.first() {
                before.push(datagram.clone());
                self.merges(&a[rest_a..], &b[rest_b..], before);
                before.pop();
            }
        }
    }

    /// All orders.
    fn orders(&mut self, datagrams: &mut [Datagram], fixed: usize) {
        if fixed == datagrams.len() {
            return self.run(datagrams);
        }
        for at in fixed..datagrams.len() {
            datagrams.swap(fixed, at);
            self.orders(datagrams, fixed + 1);
            datagrams.swap(fixed, at);
        }
    }
}

#[test]
fn six_messages_by_two_lines_in_every_framing_loss_and_interleaving() {
    let mut check = Check::new(6);
    for a in streams(0, 6) {
        for b in streams(1, 6) {
            check.merges(&a, &b, &mut Vec::new());
        }
    }
    assert_eq!(check.runs, 2_455_220, "by counting compositions and subsets");
}

#[test]
fn four_messages_by_two_lines_in_every_framing_loss_and_order() {
    let mut check = Check::new(4);
    for a in streams(0, 4) {
        for b in streams(1, 4) {
            check.orders(&mut [a.clone(), b].concat(), 0);
        }
    }
    assert_eq!(check.runs, 228_752);
}
