//! Whole messages on their way from the stream to the session.

use crate::clock::Now;
use crate::decode::Index;
use crate::frame::Framer;
use crate::session::{Application, Session};
use crate::store::AnyStore;

/// The session that takes messages, and what they are cut and decoded with.
pub(super) struct Intake<'a, A: ?Sized> {
    pub(super) session: &'a mut Session<AnyStore>,
    pub(super) framer: &'a mut Framer,
    pub(super) index: &'a mut Index,
    pub(super) app: &'a mut A,
    pub(super) now: Now,
}

impl<A: Application + ?Sized> Intake<'_, A> {
    /// Hands over the messages that wait in the framer and those of `bytes`, as long as the session takes them and has less than
    /// `output_bytes` to be written. Takes what is done off the front of `bytes`. Returns how many there were, and whether no whole
    /// message is left.
    #[inline]
    pub(super) fn hand_over(&mut self, bytes: &mut &[u8], output_bytes: usize) -> (usize, bool) {
        let Self { session, framer, index, app, now } = self;
        let mut count = 0;
        while session.ending().is_none() {
            if session.output().len() >= output_bytes || !session.takes_input() {
                return (count, false);
            }
            match framer.next_in(bytes) {
                Ok(None) => break,
                Ok(Some(raw)) => match session.decode(index, raw) {
                    Ok(message) => session.on_message(&message, *now, *app),
                    Err(garbled) => session.on_garbled(garbled, *now, *app),
                },
                Err(garbled) => session.on_garbled(garbled, *now, *app),
            }
            count += 1;
        }
        (count, true)
    }
}
