//! Options of a connection.

use super::error::Error;
use super::time::SECOND_NS;
use crate::Service;

/// The congestion control of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681 with RFC 6582: simple, and the yardstick.
    Reno,
    /// RFC 9438.
    #[default]
    Cubic,
    /// BBR version 3, draft-ietf-ccwg-bbr-04: a model of the path, with pacing.
    Bbr,
    /// As the host has it, `net.ipv4.tcp_congestion_control`: what that is finds out whoever opens the stack (`sidestep_socket`), and
    /// writes it into its [`Config`](super::Config). CUBIC where nobody did, or the host has one that is none of these.
    Host,
}

impl Congestion {
    /// The one with this name, as the profiles write it; but for `host`, as `TCP_CONGESTION` does.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "reno" => Some(Self::Reno),
            "cubic" => Some(Self::Cubic),
            "bbr" => Some(Self::Bbr),
            "host" => Some(Self::Host),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Host => "host",
        }
    }
}

/// The times of keep-alive (RFC 9293 section 3.8.4).
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

/// A segment size below this is not taken: it would be all headers. Linux has the same limit for `TCP_MAXSEG`.
const SEGMENT_BYTES_MIN: u16 = 88;

/// The least time between keep-alive probes. With none a connection would ask for itself without end.
const INTERVAL_NS_MIN: u64 = 1000;

/// The options of a connection, which can be changed while it is open. [`super::Config::options`] gives the profile's values.
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
    /// The time that sent data may remain unacknowledged before the connection is given up, in ns; 0: by the number of
    /// retransmissions (RFC 9293 section 3.8.3, RFC 5482 locally). `TCP_USER_TIMEOUT`
    pub user_timeout_ns: u64,
    /// `close` aborts instead of closing in order. `SO_LINGER` with zero seconds
    pub abort_on_close: bool,
    /// Segments with urgent data are not taken, and [`super::Readiness::URGENT`] tells of them: the caller hands the connection to a TCP
    /// that follows the urgent pointer. Otherwise the data stays in line (RFC 6093).
    pub urgent_held: bool,
    /// Hop limit and class of the connection's packets.
    pub service: Service,
    /// The largest segment to send and to ask for, without options; 0: what the path allows. `TCP_MAXSEG`
    pub segment_bytes_max: u16,
    /// Bytes that may wait to be sent and acknowledged, at the most. `SO_SNDBUF`, which sets the initial ones to the same.
    pub send_buffer_bytes: u32,
    /// So many at least, if they are not more than the most: beyond them the buffer grows with the congestion window, so that a peer
    /// which takes nothing costs little memory.
    pub send_buffer_initial_bytes: u32,
    /// Bytes that may wait to be read: up to here the window grows. Fixes the window scale, so it counts when the connection
    /// is made; later it can be lowered. `SO_RCVBUF`
    pub receive_buffer_bytes: u32,
    /// Congestion control; counts when the connection is made, later changes begin anew from the present window.
    /// `TCP_CONGESTION`
    pub congestion: Congestion,
}

impl Options {
    /// Refuses values that no connection can work with: [`Error::InvalidOption`].
    pub fn check(&self) -> Result<(), Error> {
        let is_segment_possible = self.segment_bytes_max == 0 || self.segment_bytes_max >= SEGMENT_BYTES_MIN;
        let has_buffers =
            self.send_buffer_bytes > 0 && self.send_buffer_initial_bytes > 0 && self.receive_buffer_bytes > 0;
        let can_ask = |keepalive: KeepAlive| {
            keepalive.idle_ns > 0 && keepalive.interval_ns >= INTERVAL_NS_MIN && keepalive.probes_max > 0
        };
        let is_possible = is_segment_possible && has_buffers && self.keepalive.is_none_or(can_ask);
        if is_possible { Ok(()) } else { Err(Error::InvalidOption) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Config;

    #[test]
    fn what_no_connection_can_work_with_is_refused() {
        let sound = Config::default().options();
        let asking = |idle_ns, interval_ns, probes_max| Options {
            keepalive: Some(KeepAlive { idle_ns, interval_ns, probes_max }),
            ..sound
        };
        for possible in [sound, asking(1, 1000, 1), Options { segment_bytes_max: 88, ..sound }] {
            assert_eq!(possible.check(), Ok(()));
        }
        for impossible in [
            asking(0, 1000, 1),
            asking(1, 0, 1),
            asking(1, 1000, 0),
            Options { segment_bytes_max: 1, ..sound },
            Options { send_buffer_bytes: 0, ..sound },
            Options { send_buffer_initial_bytes: 0, ..sound },
            Options { receive_buffer_bytes: 0, ..sound },
        ] {
            assert_eq!(impossible.check(), Err(Error::InvalidOption), "{impossible:?}");
        }
    }
}
