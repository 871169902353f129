//! A Logon that would be accepted, were there room for its session.

use super::super::channel::Channel;
use super::{Line, Slot};
use crate::clock::Now;
use crate::decode::{Index, Message};
use crate::encode::Builder;
use crate::frame::Framer;
use crate::session::{Application, Outbox, Refusal, SessionId};
use sidestep_socket::stream::Io;

/// Text (58) of the Logout.
const TOO_MANY_SESSIONS: &str = "Too many sessions";

/// Refuses what the application would accept.
struct Full<'a, A: ?Sized> {
    app: &'a mut A,
    was_accepted: bool,
}

impl<A: Application + ?Sized> Application for Full<'_, A> {
    fn from_admin(&mut self, id: &SessionId, message: &Message<'_, '_>) -> Result<(), Refusal> {
        self.app.from_admin(id, message)?;
        self.was_accepted = true;
        Err(Refusal::Logout(TOO_MANY_SESSIONS))
    }

    fn to_admin(&mut self, id: &SessionId, msg_type: &[u8], message: &mut Builder<'_>) {
        self.app.to_admin(id, msg_type, message);
    }

    fn from_app(&mut self, _: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        Err(Refusal::UNSUPPORTED)
    }
}

impl Slot {
    /// Answers `first`, a Logon, with a Logout and ends the connection. Who would not have been accepted gets no answer. Whether
    /// it was answered.
    pub(in crate::engine) fn turn_away<A: Application + ?Sized>(
        &mut self,
        io: &mut Io,
        index: &mut Index,
        parts: (Channel, Framer, String),
        first: &[u8],
        app: &mut A,
    ) -> bool {
        let now = Now::system();
        let mut full = Full { app, was_accepted: false };
        self.begin(Line::new(parts), index, Some(first), now, &mut full);
        if full.was_accepted {
            self.settle(io, now, &mut full);
        }
        self.hang_up(io, &mut full);
        full.was_accepted
    }
}
