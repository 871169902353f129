//! Queueing of messages that are already encoded: a stored one is sent again, another is held back.

use super::Encoder;

impl Encoder {
    /// Appends finished messages to those that wait to be sent. Returns `false`, and appends nothing, if they do not
    /// fit.
    pub(crate) fn append(&mut self, messages: &[u8]) -> bool {
        let Some(room) = self.buffer.get_mut(self.end..self.end + messages.len()) else { return false };
        room.copy_from_slice(messages);
        self.end += messages.len();
        true
    }

    /// Moves what waits to the front: a counterparty that always leaves some bytes unread must not use the buffer up.
    pub(super) fn move_to(&mut self, first: usize) {
        self.buffer.copy_within(self.start..self.end, first);
        self.end -= self.start - first;
        self.start = first;
    }

    /// Takes the last `count` bytes back, which are the last message.
    pub(crate) fn retract(&mut self, count: usize) {
        self.end -= count.min(self.end - self.start);
        self.sent(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Encoder, Parties};
    use crate::clock::Now;
    use crate::value::Precision;

    fn encoder() -> Encoder {
        let parties = Parties {
            begin_string: "FIX.4.4".to_owned(),
            sender: "A".to_owned(),
            target: "B".to_owned(),
            ..Parties::default()
        };
        Encoder::new(&parties, Precision::Millis).unwrap()
    }

    fn heartbeat(encoder: &mut Encoder, seq: u64) -> Vec<u8> {
        encoder.message(b"0").finish(seq, Now::default()).unwrap().to_vec()
    }

    #[test]
    fn a_reader_that_never_takes_all_does_not_use_the_buffer_up() {
        let mut encoder = encoder();
        let (mut expected, mut got) = (heartbeat(&mut encoder, 1), Vec::new());
        for seq in 2..20_000 {
            expected.extend(heartbeat(&mut encoder, seq));
            let take = encoder.output().len() - 7;
            got.extend_from_slice(&encoder.output()[..take]);
            encoder.sent(take);
        }
        got.extend_from_slice(encoder.output());
        assert!(got == expected, "bytes were lost or moved");
    }

    #[test]
    fn what_is_taken_back_was_never_there() {
        let mut encoder = encoder();
        for seq in 1..20_000 {
            let message = heartbeat(&mut encoder, seq);
            encoder.retract(message.len());
            assert!(encoder.output().is_empty());
        }
        let first = heartbeat(&mut encoder, 1);
        let second = heartbeat(&mut encoder, 2);
        encoder.retract(second.len());
        assert!(encoder.append(&second));
        assert_eq!(encoder.output(), [first, second].concat());
    }
}
