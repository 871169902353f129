//! The program's side of a session: QuickFIX's Application, with decisions returned instead of thrown.

use super::counters::End;
use super::identity::SessionId;
use super::text::BusinessReason;
use crate::decode::{FieldError, Message};
use crate::encode::{Builder, Rejected};
use crate::validate::Reason;
use sidestep_sys::Problem;
use std::fmt;

/// A program's answer to a message that it cannot take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A Reject (35=3).
    Session {
        /// SessionRejectReason (373)
        reason: Reason,
        /// RefTagID (371), if one field is to blame.
        tag: Option<u32>,
    },
    /// A BusinessMessageReject (35=j); a Reject before FIX 4.2, which does not know it.
    Business {
        /// BusinessRejectReason (380)
        reason: BusinessReason,
        /// Text (58), if not the usual one of the reason.
        text: Option<&'static str>,
    },
    /// A BusinessMessageReject (35=j) because this field is missing, a Reject before FIX 4.2: "conditionally required".
    Missing(u32),
    /// A Logout with this text and the end of the connection: the answer to a Logon that is not wanted.
    Logout(&'static str),
}

impl Refusal {
    /// The application does not know this MsgType.
    pub const UNSUPPORTED: Self = Self::Business { reason: BusinessReason::UnsupportedMessageType, text: None };
}

/// A field that the application cannot read: a missing one is "conditionally required", as QuickFIX sees it.
impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        match error {
            FieldError::Missing(tag) => Self::Missing(tag),
            FieldError::Empty(tag) => Self::Session { reason: Reason::TagWithoutValue, tag: Some(tag) },
            FieldError::Format(tag) => Self::Session { reason: Reason::IncorrectDataFormat, tag: Some(tag) },
        }
    }
}

/// The reason why a message of the application was not sent. It has no sequence number then.
#[derive(Debug, Clone)]
pub enum SendError {
    /// The counterparty is not logged on.
    NotLoggedOn,
    /// The output queue is full: [`Application::on_room`] is called when it has drained.
    Full,
    /// The message itself is wrong.
    Rejected(Rejected),
    /// It could not be kept, so it must not leave. The session ends.
    Store(Problem),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoggedOn => f.write_str("the session is not logged on"),
            Self::Full => f.write_str("as many bytes wait to be written as may (SlowConsumerBytes)"),
            Self::Rejected(why) => write!(f, "the message is wrong: {why}"),
            Self::Store(problem) => f.write_str(&problem.brief()),
        }
    }
}

/// Sends from within a callback of a session's application. These messages are sent together with the other effects of
/// the inbound message, in one write.
pub trait Outbox {
    /// Whose session it is.
    fn id(&self) -> &SessionId;

    /// Sends a message of this MsgType (35) whose body `fill` writes. Returns its MsgSeqNum (34).
    ///
    /// # Errors
    /// See [`SendError`].
    fn send(&mut self, msg_type: &[u8], fill: &mut dyn FnMut(&mut Builder<'_>)) -> Result<u64, SendError>;

    /// Begins a Logout with this text, empty for none.
    fn logout(&mut self, text: &str);
}

/// A program's side of its sessions. Every method has a default that does nothing or agrees.
///
/// Callbacks run on the thread that drives the session and must not block: whatever waits, waits for them.
// The names are QuickFIX's, which are known.
#[allow(unused_variables, clippy::wrong_self_convention)]
pub trait Application {
    /// A session exists, before anything is connected.
    fn on_create(&mut self, id: &SessionId) {}

    /// Both Logons are exchanged.
    fn on_logon(&mut self, out: &mut dyn Outbox) {}

    /// A session that a template made for a Logon does not come to be (the Logon was refused, or the session cannot be kept), or
    /// is let go, as there are too many and it has been disconnected for longest. At its next Logon it is made again.
    /// What [`on_create`](Self::on_create) began for it can go.
    fn on_discard(&mut self, id: &SessionId) {}

    /// There is room again after a message was refused with [`SendError::Full`]: what was refused may be sent now. Called once
    /// for any number of refusals.
    fn on_room(&mut self, out: &mut dyn Outbox) {}

    /// The session is no longer logged on.
    fn on_logout(&mut self, id: &SessionId, why: End) {}

    /// Both sequence numbers became 1.
    fn on_reset(&mut self, id: &SessionId) {}

    /// Cancel what is open: the counterparty went and did not come back (`CancelOnDisconnect`).
    fn on_cancel(&mut self, id: &SessionId) {}

    /// Something could not be kept. The session stops.
    fn on_problem(&mut self, id: &SessionId, problem: &Problem) {}

    /// An administrative message is about to leave; fields may be added.
    fn to_admin(&mut self, id: &SessionId, msg_type: &[u8], message: &mut Builder<'_>) {}

    /// An administrative message came, already checked. A Logon comes here before it changes anything, whatever its number is:
    /// a password is checked here.
    ///
    /// # Errors
    /// It is refused: of a Logon, the connection ends.
    fn from_admin(&mut self, id: &SessionId, message: &Message<'_, '_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// An application message came, in order and checked.
    ///
    /// # Errors
    /// The Logon is refused, and the counterparty gets the reason.
    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal>;

    /// Returns whether the stored message may be sent again; if not, a gap fill takes its place. QuickFIX's toApp and its
    /// DoNotSend.
    fn may_resend(&mut self, id: &SessionId, seq: u64, message: &[u8]) -> bool {
        true
    }
}
