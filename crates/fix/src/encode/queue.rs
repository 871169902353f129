//! What the session does with messages that are already written: sends a stored one again, holds one back.

use super::Encoder;

impl Encoder {
    /// Puts finished messages behind those that wait to leave. `false` if there is no room; nothing was put then.
    pub(crate) fn append(&mut self, messages: &[u8]) -> bool {
        self.make_room();
        let Some(room) = self.buffer.get_mut(self.end..self.end + messages.len()) else { return false };
        room.copy_from_slice(messages);
        self.end += messages.len();
        true
    }

    /// Takes the last `count` bytes back, which are the last message.
    pub(crate) fn retract(&mut self, count: usize) {
        self.end -= count.min(self.end - self.start);
        self.sent(0);
    }
}
