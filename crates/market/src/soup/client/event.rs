//! What a session tells: its state, its events, its end.

use super::super::login::{Rejection, SessionName};
use super::super::packet::Malformed;
use crate::units::Sequence;
use std::fmt::{self, Display, Formatter};

/// The progress of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no transport.
    Disconnected,
    /// The login request is not answered yet.
    LoginSent,
    /// Messages go both ways.
    LoggedIn,
    /// The server is to close the transport; sequenced messages still come.
    LogoutSent,
    /// The caller is to close the transport, and to say [`Client::disconnected`](super::Client::disconnected).
    Ended(End),
}

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The login is rejected.
    Rejected(Rejection),
    /// The session is over; the next login asks for another one.
    EndOfSession,
    /// Nothing came for [`Settings::silence_ns`](crate::soup::Settings::silence_ns): the server is considered dead.
    Silent,
    /// The login was not answered within [`Settings::login_ns`](crate::soup::Settings::login_ns).
    LoginTimeout,
    /// The server sent bytes that are not SoupBinTCP.
    Malformed(Malformed),
    /// The server offers another session than the one asked for.
    OtherSession {
        /// The session asked for.
        asked: SessionName,
        /// The session offered.
        told: SessionName,
    },
    /// The server goes on at another number than the one asked for: messages are lost, or come twice.
    OtherSequence {
        /// The number asked for.
        asked: Sequence,
        /// The number offered.
        told: Sequence,
    },
}

impl Display for End {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(why) => write!(out, "login rejected: {why}"),
            Self::EndOfSession => out.write_str("end of session"),
            Self::Silent => out.write_str("the server is silent"),
            Self::LoginTimeout => out.write_str("the login is not answered"),
            Self::Malformed(why) => write!(out, "malformed: {why}"),
            Self::OtherSession { asked, told } => write!(out, "session {asked} was asked for, {told} is offered"),
            Self::OtherSequence { asked, told } => {
                write!(out, "message {} was asked for, {} is offered", asked.0, told.0)
            }
        }
    }
}

/// What a session tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The login is accepted.
    LoggedIn {
        /// The session.
        session: SessionName,
        /// The number of the message that comes next.
        next: Sequence,
    },
    /// A message of the session, in order and once.
    Sequenced {
        /// Its number.
        sequence: Sequence,
        /// The message; no byte at all is legal.
        message: &'a [u8],
    },
    /// A message outside of the session's numbers.
    Unsequenced(&'a [u8]),
    /// The connection is over: the caller closes the transport.
    Ended(End),
}

/// Counts since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Logins that were accepted.
    pub logins: u64,
    /// Sequenced messages received.
    pub sequenced: u64,
    /// Unsequenced messages received.
    pub unsequenced: u64,
    /// Heartbeats received.
    pub heartbeats: u64,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Packets ignored: debug text and unknown types.
    pub ignored: u64,
}
