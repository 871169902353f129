//! The states of a connection (RFC 9293 section 3.3.2), and what each allows.

/// A connection's state. LISTEN is a listener's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The connection does not exist, or has ended.
    Closed,
    /// A SYN was sent.
    SynSent,
    /// A SYN was sent and received.
    SynReceived,
    /// Data goes both ways.
    Established,
    /// This side has finished; the peer does not know yet.
    FinWait1,
    /// This side has finished, and the peer knows.
    FinWait2,
    /// The peer has finished.
    CloseWait,
    /// Both have finished at the same time.
    Closing,
    /// The peer had finished, now this side has, too; the peer does not know yet.
    LastAck,
    /// Both have finished; late segments are waited out.
    TimeWait,
}

impl State {
    /// Returns whether both initial sequence numbers are known: the tests of RFC 9293 section 3.10.7.4 apply.
    #[inline]
    pub fn is_synchronized(self) -> bool {
        !matches!(self, Self::Closed | Self::SynSent)
    }

    /// Returns whether the application may still hand over data.
    #[inline]
    pub fn can_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// Returns whether the peer may still send data (RFC 9293 section 3.10.7.4, seventh check).
    #[inline]
    pub fn can_receive(self) -> bool {
        matches!(self, Self::SynReceived | Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// The state after this side has finished sending (RFC 9293 section 3.10.4).
    #[must_use]
    pub(crate) fn after_close(self) -> Self {
        match self {
            Self::SynReceived | Self::Established => Self::FinWait1,
            Self::CloseWait => Self::LastAck,
            other => other,
        }
    }

    /// The state after the peer's FIN (RFC 9293 section 3.10.7.4, eighth check).
    #[must_use]
    pub(crate) fn after_fin(self) -> Self {
        match self {
            Self::SynReceived | Self::Established => Self::CloseWait,
            Self::FinWait1 => Self::Closing,
            Self::FinWait2 => Self::TimeWait,
            other => other,
        }
    }

    /// The state after the peer has acknowledged our FIN (RFC 9293 section 3.10.7.4, fifth check).
    #[must_use]
    pub(crate) fn after_fin_acknowledged(self) -> Self {
        match self {
            Self::FinWait1 => Self::FinWait2,
            Self::Closing => Self::TimeWait,
            Self::LastAck => Self::Closed,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9293 figure 5, the lower half.
    #[test]
    fn closing_goes_the_ways_of_the_figure() {
        let active = State::Established.after_close();
        assert_eq!(active.after_fin_acknowledged().after_fin(), State::TimeWait);
        assert_eq!(active.after_fin(), State::Closing);
        assert_eq!(active.after_fin().after_fin_acknowledged(), State::TimeWait);
        let passive = State::Established.after_fin();
        assert_eq!(passive, State::CloseWait);
        assert_eq!(passive.after_close().after_fin_acknowledged(), State::Closed);
        assert!(!passive.can_receive() && passive.can_send());
        assert!(active.can_receive() && !active.can_send());
    }
}
