//! A line: one multicast group's datagrams, cut from the history in its own way.

use super::History;
use crate::mold::{self, END_OF_SESSION, PAYLOAD_MAX, Packer, Session};
use crate::random::Random;

/// The longest silence, ns: then a heartbeat tells the next sequence number (MoldUDP64: about once per second).
pub const HEARTBEAT_NS: u64 = 1_000_000_000;

/// Datagrams of a line that do not leave, on purpose.
#[derive(Debug)]
struct Loss {
    random: Random,
    /// Of a million.
    parts: u32,
}

/// Counts of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Datagrams that left, heartbeats included.
    pub datagrams: u64,
    /// Heartbeats and ends of session among them.
    pub heartbeats: u64,
    /// Messages that left.
    pub messages: u64,
    /// Datagrams that were dropped on purpose.
    pub dropped: u64,
}

/// The sender's side of one line.
#[derive(Debug)]
pub struct Line {
    session: Session,
    packer: Packer,
    per_packet: u16,
    loss: Loss,
    said_ns: u64,
    has_ended: bool,
    empty: [u8; mold::HEADER],
    counters: LineCounters,
}

impl Line {
    /// A line of datagrams of up to `per_packet` messages, of which `loss_ppm` in a million are dropped, by `seed`.
    pub fn new(session: Session, per_packet: u16, loss_ppm: u32, seed: u64, now_ns: u64) -> Self {
        Self {
            session,
            packer: Packer::new(session, 1, PAYLOAD_MAX),
            per_packet: per_packet.max(1),
            loss: Loss { random: Random::new(seed), parts: loss_ppm },
            said_ns: now_ns,
            has_ended: false,
            empty: [0; mold::HEADER],
            counters: LineCounters::default(),
        }
    }

    /// The next datagram to leave: messages that have not left, or a heartbeat after a second of silence. Call it until
    /// it is `None`.
    pub fn next(&mut self, now_ns: u64, history: &History) -> Option<&[u8]> {
        loop {
            self.packer.clear();
            if self.packer.first() < history.oldest() {
                self.packer.restart(history.oldest());
            }
            let from = self.packer.first();
            let messages = (from..history.next()).map_while(|sequence| history.message(sequence));
            let taken = messages.take(usize::from(self.per_packet)).take_while(|message| self.packer.push(message));
            if taken.count() == 0 {
                break;
            }
            self.said_ns = now_ns;
            if self.is_lost() {
                self.counters.dropped += 1;
                continue;
            }
            self.counters.datagrams += 1;
            self.counters.messages += u64::from(self.packer.count());
            return self.packer.packet();
        }
        if now_ns.saturating_sub(self.said_ns) < HEARTBEAT_NS {
            return None;
        }
        Some(self.empty(now_ns, history))
    }

    /// Messages that have not left yet.
    pub fn behind(&self, history: &History) -> u64 {
        let next = self.packer.first() + u64::from(self.packer.count());
        history.next().saturating_sub(next)
    }

    /// The session has ended: instead of heartbeats, the end is told, at once and each second.
    pub fn end(&mut self) {
        self.has_ended = true;
        self.said_ns = 0;
    }

    /// What it has sent.
    pub fn counters(&self) -> LineCounters {
        self.counters
    }

    fn empty(&mut self, now_ns: u64, history: &History) -> &[u8] {
        self.said_ns = now_ns;
        self.counters.datagrams += 1;
        self.counters.heartbeats += 1;
        let count = if self.has_ended { END_OF_SESSION } else { 0 };
        self.empty = mold::empty(self.session, history.next(), count);
        &self.empty
    }

    fn is_lost(&mut self) -> bool {
        self.loss.parts > 0 && self.loss.random.below(1_000_000) < u64::from(self.loss.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Session = *b"VENUE00001";

    fn history(messages: u64) -> History {
        let mut history = History::new(100);
        (1..=messages).for_each(|number| history.push(&number.to_be_bytes()));
        history
    }

    /// First sequence number and count of each datagram.
    fn sent(line: &mut Line, now_ns: u64, history: &History) -> Vec<(u64, u16)> {
        let mut sent = Vec::new();
        while let Some(packet) = line.next(now_ns, history) {
            let count = u16::from_be_bytes(packet[18..20].try_into().unwrap());
            sent.push((u64::from_be_bytes(packet[10..18].try_into().unwrap()), count));
        }
        sent
    }

    #[test]
    fn lines_have_the_same_messages_in_other_datagrams() {
        let history = history(10);
        let (mut a, mut b) = (Line::new(SESSION, 4, 0, 1, 0), Line::new(SESSION, 7, 0, 1, 0));
        assert_eq!((a.behind(&history), a.next(5, &history).is_some(), a.behind(&history)), (10, true, 6));
        a = Line::new(SESSION, 4, 0, 1, 0);
        assert_eq!(sent(&mut a, 5, &history), [(1, 4), (5, 4), (9, 2)]);
        assert_eq!(sent(&mut b, 5, &history), [(1, 7), (8, 3)]);
        assert_eq!((a.counters().messages, b.counters().messages), (10, 10));
        assert!(sent(&mut a, 6, &history).is_empty() && a.behind(&history) == 0);
    }

    #[test]
    fn silence_of_a_second_is_broken_and_the_end_is_repeated() {
        let history = history(3);
        let mut line = Line::new(SESSION, 4, 0, 1, 0);
        sent(&mut line, 5, &history);
        assert!(sent(&mut line, HEARTBEAT_NS + 4, &history).is_empty());
        assert_eq!(sent(&mut line, HEARTBEAT_NS + 5, &history), [(4, 0)]);
        line.end();
        assert_eq!(sent(&mut line, HEARTBEAT_NS + 6, &history), [(4, END_OF_SESSION)]);
        assert!(sent(&mut line, HEARTBEAT_NS + 7, &history).is_empty());
        assert_eq!(sent(&mut line, 2 * HEARTBEAT_NS + 6, &history), [(4, END_OF_SESSION)]);
    }

    #[test]
    fn a_line_loses_what_it_was_told_to_and_only_that() {
        let mut history = History::new(1_000);
        let mut line = Line::new(SESSION, 1, 250_000, 7, 0);
        for _ in 0..10 {
            (0..1_000_u64).for_each(|number| history.push(&number.to_be_bytes()));
            sent(&mut line, 0, &history);
        }
        let LineCounters { datagrams, dropped, .. } = line.counters();
        assert_eq!(datagrams + dropped, 10_000);
        assert!((2_300..2_700).contains(&dropped), "{dropped}");
    }

    #[test]
    fn a_line_that_fell_behind_the_history_goes_on_with_the_oldest_message() {
        let mut line = Line::new(SESSION, 60, 0, 1, 0);
        assert_eq!(sent(&mut line, 0, &history(250)), [(151, 60), (211, 40)]);
    }
}
