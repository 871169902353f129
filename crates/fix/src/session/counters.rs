//! The counters of a session, and the ways in which connections end. Every dropped message is counted here.

use std::fmt;

/// Counted since the session was made; all only rise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages written, also those sent again.
    pub sent: u64,
    /// Well-formed messages that came.
    pub received: u64,
    /// Application messages handed to the application.
    pub delivered: u64,
    /// Garbled messages: ignored, their numbers not counted.
    pub garbled: u64,
    /// Messages with PossDupFlag that had come before.
    pub duplicates: u64,
    /// Messages beyond a gap.
    pub early: u64,
    /// Of those, kept until the gap is filled.
    pub early_kept: u64,
    /// Of those, dropped: there was no room; they will be asked for again.
    pub early_dropped: u64,
    /// Messages whose number was too low, without PossDupFlag.
    pub too_low: u64,
    /// Messages that came while the connection was ending, or before there was one.
    pub ignored: u64,
    /// Rejects sent (35=3).
    pub rejects: u64,
    /// BusinessMessageRejects sent (35=j).
    pub business_rejects: u64,
    /// Invalid messages taken nevertheless, by `RejectInvalidMessage=N`.
    pub invalid_taken: u64,
    /// Application messages beyond the throttle.
    pub throttled: u64,
    /// ResendRequests that came.
    pub resend_requests: u64,
    /// Of those, joined with one that was not yet answered.
    pub resend_requests_joined: u64,
    /// Of those, answered later because too many came.
    pub resend_requests_delayed: u64,
    /// ResendRequests sent.
    pub resend_requests_sent: u64,
    /// Messages sent again.
    pub resent: u64,
    /// SequenceResets with GapFillFlag sent.
    pub gap_fills_sent: u64,
    /// Messages that waited in the store, behind a resend or for room in the output.
    pub held: u64,
    /// Answers of the application after our Logout: kept, to be asked for after the next Logon.
    pub kept: u64,
    /// Times a side read on although its output was full and stood still.
    pub gave_way: u64,
    /// Sends refused because too many bytes waited.
    pub full: u64,
    /// Heartbeats sent without being asked.
    pub heartbeats_sent: u64,
    /// TestRequests sent.
    pub test_requests_sent: u64,
    /// Times both sequence numbers became 1.
    pub resets: u64,
    /// Logons that were refused.
    pub logons_refused: u64,
    /// Times the session was logged on.
    pub logons: u64,
}

/// The reason for the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both Logouts were exchanged.
    LoggedOut,
    /// The transport ended first.
    Disconnected,
    /// There was no Logon in time.
    LogonTimeout,
    /// The Logout was not answered in time.
    LogoutTimeout,
    /// Nothing came for too long.
    HeartbeatTimeout,
    /// The first message was no Logon, or a Logon came where none may.
    LogonExpected,
    /// The Logon was not acceptable.
    LogonRefused,
    /// A sequence number was lower than it can be, or missing.
    SequenceTooLow,
    /// The counterparty reads too slowly.
    SlowConsumer,
    /// Too much that is no FIX, or a stream that cannot be followed.
    Garbled,
    /// The schedule says that there is no session now.
    OutsideSchedule,
    /// A ResendRequest was never answered.
    NotResent,
    /// The store could not be written.
    StoreFailed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LoggedOut => "logged out",
            Self::Disconnected => "disconnected",
            Self::LogonTimeout => "no Logon in time",
            Self::LogoutTimeout => "no answer to the Logout in time",
            Self::HeartbeatTimeout => "no message in time",
            Self::LogonExpected => "no Logon where one must be, or one where none may be",
            Self::LogonRefused => "the Logon was refused",
            Self::SequenceTooLow => "MsgSeqNum too low or missing",
            Self::SlowConsumer => "the counterparty reads too slowly",
            Self::Garbled => "too much that is no FIX",
            Self::OutsideSchedule => "outside of the schedule",
            Self::NotResent => "missing messages were not resent",
            Self::StoreFailed => "the store failed",
        })
    }
}
