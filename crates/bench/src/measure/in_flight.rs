//! Messages of an open loop under way, and what comes back for them. The peer is not trusted: whatever it sends is counted.

/// The most messages under way that are told apart; of more, the oldest counts as lost. A quarter of a second at 256,000 a second.
const SLOTS: usize = 1 << 16;

/// A message that was sent.
#[derive(Clone, Copy, Default)]
struct Slot {
    due: u64,
    left: u64,
    is_waiting: bool,
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A message under way, and the ticks since it was due and since it left. Not counted where it was sent while settling.
    Expected { response: u64, service: u64, is_counted: bool },
    /// One that was answered, or given up, before.
    Duplicate,
    /// None that was sent, or one so old that it is no longer known.
    Unknown,
}

/// The messages under way. Its memory does not grow.
pub(super) struct InFlight {
    slots: Vec<Slot>,
    /// The number of the next message.
    next: u64,
    /// The number of the first message that counts; none does before [`InFlight::begin`].
    counted_from: u64,
    /// The highest number answered, and one.
    answered_up_to: u64,
    waiting: usize,
    /// Answers to messages that count.
    pub(super) answered: u64,
    /// Answers to a message that was answered before.
    pub(super) duplicates: u64,
    /// Answers that came after that to a later message.
    pub(super) reordered: u64,
    /// Answers to no message.
    pub(super) unknown: u64,
}

impl InFlight {
    pub(super) fn new() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS],
            next: 0,
            counted_from: u64::MAX,
            answered_up_to: 0,
            waiting: 0,
            answered: 0,
            duplicates: 0,
            reordered: 0,
            unknown: 0,
        }
    }

    /// The number of the next message.
    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether there is nothing to wait for.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Messages that count and were sent.
    pub(super) fn sent(&self) -> u64 {
        self.next.saturating_sub(self.counted_from)
    }

    /// Counts from the next message on.
    pub(super) fn begin(&mut self) {
        self.counted_from = self.next;
    }

    /// Notes that the next message has left.
    #[inline]
    pub(super) fn send(&mut self, due: u64, left: u64) {
        let slot = &mut self.slots[self.next as usize % SLOTS];
        self.waiting += usize::from(!slot.is_waiting);
        *slot = Slot { due, left, is_waiting: true };
        self.next += 1;
    }

    /// Notes an answer that has come at `now`.
    #[inline]
    pub(super) fn answer(&mut self, number: u64, now: u64) -> Answer {
        if number >= self.next || self.next - number > SLOTS as u64 {
            self.unknown += 1;
            return Answer::Unknown;
        }
        let slot = &mut self.slots[number as usize % SLOTS];
        if !std::mem::take(&mut slot.is_waiting) {
            self.duplicates += 1;
            return Answer::Duplicate;
        }
        self.waiting -= 1;
        self.reordered += u64::from(number < self.answered_up_to);
        self.answered_up_to = self.answered_up_to.max(number + 1);
        let is_counted = number >= self.counted_from;
        self.answered += u64::from(is_counted);
        let (response, service) = (now.saturating_sub(slot.due), now.saturating_sub(slot.left));
        Answer::Expected { response, service, is_counted }
    }

    /// Notes an answer that cannot be read.
    pub(super) fn cannot_read(&mut self) {
        self.unknown += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Everything counts.
    fn begun() -> InFlight {
        let mut flight = InFlight::new();
        flight.begin();
        flight
    }

    #[test]
    fn response_counts_from_due_and_service_from_departure() {
        let mut flight = begun();
        flight.send(100, 130);
        flight.send(200, 210);
        assert_eq!(flight.answer(0, 150), Answer::Expected { response: 50, service: 20, is_counted: true });
        assert_eq!((flight.sent(), flight.answered, flight.is_empty()), (2, 1, false));
        assert_eq!(flight.answer(1, 0), Answer::Expected { response: 0, service: 0, is_counted: true }, "no underflow");
        assert!(flight.is_empty());
    }

    #[test]
    fn what_a_peer_makes_up_is_counted_and_is_no_sample() {
        let mut flight = begun();
        (0..4).for_each(|time| flight.send(time, time));
        assert!(matches!(flight.answer(2, 9), Answer::Expected { .. }));
        assert!(matches!(flight.answer(0, 9), Answer::Expected { .. }));
        assert_eq!(flight.answer(2, 9), Answer::Duplicate);
        assert_eq!((flight.answer(4, 9), flight.answer(u64::MAX, 9)), (Answer::Unknown, Answer::Unknown));
        flight.cannot_read();
        assert_eq!((flight.answered, flight.duplicates, flight.reordered, flight.unknown), (2, 1, 1, 3));
    }

    #[test]
    fn messages_sent_while_settling_do_not_count() {
        let mut flight = InFlight::new();
        (0..3).for_each(|time| flight.send(time, time));
        assert!(
            matches!(flight.answer(0, 6), Answer::Expected { is_counted: false, .. }),
            "answered before the counting begins"
        );
        assert_eq!((flight.sent(), flight.answered), (0, 0));
        flight.begin();
        flight.send(5, 5);
        assert!(matches!(flight.answer(1, 6), Answer::Expected { is_counted: false, .. }));
        assert!(matches!(flight.answer(3, 6), Answer::Expected { is_counted: true, .. }));
        assert_eq!((flight.sent(), flight.answered), (1, 1));
    }

    #[test]
    fn more_than_there_is_room_for_are_lost_not_mistaken() {
        let mut flight = begun();
        (0..SLOTS as u64 + 2).for_each(|time| flight.send(time, time));
        assert_eq!(flight.answer(1, 9), Answer::Unknown, "its place has been taken");
        assert!(matches!(flight.answer(2, 9), Answer::Expected { .. }));
        assert_eq!(flight.waiting, SLOTS - 1);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(numbers in prop::collection::vec(0_u64..60, 0..200), sent in 0_u64..50) {
            let mut flight = begun();
            (0..sent).for_each(|time| flight.send(time, time));
            let mut seen = HashSet::new();
            let (mut duplicates, mut unknown) = (0, 0);
            for number in numbers {
                flight.answer(number, number + 100);
                match number {
                    number if number >= sent => unknown += 1,
                    number => duplicates += u64::from(!seen.insert(number)),
                }
            }
            prop_assert_eq!((flight.answered, flight.duplicates, flight.unknown), (seen.len() as u64, duplicates, unknown));
            prop_assert_eq!(flight.waiting as u64, sent - seen.len() as u64);
        }
    }
}
