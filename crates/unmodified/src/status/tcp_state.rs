//! The states of TCP (RFC 9293 section 3.3.2), numbered as Linux numbers them in TCP_INFO (net/tcp_states.h).

/// A state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TcpState {
    /// ESTABLISHED.
    Established = 1,
    /// SYN-SENT.
    SynSent = 2,
    /// SYN-RECEIVED.
    SynReceived = 3,
    /// FIN-WAIT-1.
    FinWait1 = 4,
    /// FIN-WAIT-2.
    FinWait2 = 5,
    /// TIME-WAIT.
    TimeWait = 6,
    /// CLOSED.
    Closed = 7,
    /// CLOSE-WAIT.
    CloseWait = 8,
    /// LAST-ACK.
    LastAck = 9,
    /// LISTEN.
    Listen = 10,
    /// CLOSING.
    Closing = 11,
}

impl TcpState {
    const NAMES: [(Self, &'static str); 11] = [
        (Self::Established, "ESTABLISHED"),
        (Self::SynSent, "SYN-SENT"),
        (Self::SynReceived, "SYN-RECEIVED"),
        (Self::FinWait1, "FIN-WAIT-1"),
        (Self::FinWait2, "FIN-WAIT-2"),
        (Self::TimeWait, "TIME-WAIT"),
        (Self::Closed, "CLOSED"),
        (Self::CloseWait, "CLOSE-WAIT"),
        (Self::LastAck, "LAST-ACK"),
        (Self::Listen, "LISTEN"),
        (Self::Closing, "CLOSING"),
    ];

    /// Returns the name in the RFC.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }

    pub(super) fn numbered(number: u64) -> Option<Self> {
        Self::NAMES.iter().map(|(state, _)| *state).find(|state| *state as u64 == number)
    }
}
