//! What can be chosen per connection.

use super::time::SECOND_NS;

/// Which congestion control a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681 with RFC 6582: simple, and the yardstick.
    Reno,
    /// RFC 9438.
    #[default]
    Cubic,
}

impl Congestion {
    /// The one with this name, as `TCP_CONGESTION` and the profiles write it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "reno" => Some(Self::Reno),
            "cubic" => Some(Self::Cubic),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
        }
    }
}

/// When an idle connection is asked whether its peer still lives (RFC 9293 section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first probe, in ns. `TCP_KEEPIDLE`
    pub idle_ns: u64,
    /// Time between probes, in ns. `TCP_KEEPINTVL`
    pub interval_ns: u64,
    /// Unanswered probes after which the connection is given up. `TCP_KEEPCNT`
    pub probes_max: u32,
}

impl Default for KeepAlive {
    /// Two hours (RFC 9293 MUST-28), 75 s, nine probes: as Linux.
    fn default() -> Self {
        Self { idle_ns: 7200 * SECOND_NS, interval_ns: 75 * SECOND_NS, probes_max: 9 }
    }
}

/// What can be chosen per connection, and changed while it is open. [`super::Config::options`] gives the profile's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Small segments leave at once, without waiting for ACKs (Nagle's algorithm off, RFC 9293 section 3.7.4). `TCP_NODELAY`
    pub nodelay: bool,
    /// Nothing but full segments leave, for at most 200 ms. `TCP_CORK`
    pub cork: bool,
    /// ACKs are not delayed: they ride on data sent before the next poll, or leave in that poll. `TCP_QUICKACK`
    pub quickack: bool,
    /// Keep-alive probes. `SO_KEEPALIVE`
    pub keepalive: Option<KeepAlive>,
    /// How long sent data may remain unacknowledged before the connection is given up, in ns; 0: by the number of
    /// retransmissions (RFC 9293 section 3.8.3, RFC 5482 locally). `TCP_USER_TIMEOUT`
    pub user_timeout_ns: u64,
    /// `close` aborts instead of closing in order. `SO_LINGER` with zero seconds
    pub abort_on_close: bool,
    /// The largest segment to send and to ask for, without options; 0: what the path allows. `TCP_MAXSEG`
    pub segment_bytes_max: u16,
    /// Bytes that may wait to be sent and acknowledged. `SO_SNDBUF`
    pub send_buffer_bytes: u32,
    /// Bytes that may wait to be read: up to here the window grows. Fixes the window scale, so it counts when the connection
    /// is made; later it can be lowered. `SO_RCVBUF`
    pub receive_buffer_bytes: u32,
    /// Congestion control; counts when the connection is made, later changes begin anew from the present window.
    /// `TCP_CONGESTION`
    pub congestion: Congestion,
}
