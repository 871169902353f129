//! The stack's settings. One table gives the fields, their defaults (as Linux), their limits, their help, and the names that
//! `profiles/*.toml` use.

use super::congestion::Controller;
use super::options::{Congestion, KeepAlive, Options};
use super::setting::{Field, Setting, SettingError, Value};
use crate::Service;

const MICROSECOND_NS: u64 = 1000;
const MILLISECOND_NS: u64 = 1_000_000;
/// The greatest time in microseconds: about 71 minutes.
const US: u32 = u32::MAX;
/// Buffers stay below the greatest window (RFC 7323 section 2.3: less than 2^30).
const BUFFER: u32 = (1 << 30) - 1;

macro_rules! settings {
    ($( #[doc = $help:literal] $name:ident: $kind:ty = $default:expr, $least:expr, $greatest:expr; )*) => {
        /// The stack's settings and limits.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $( #[doc = $help] pub $name: $kind, )*
        }

        impl Default for Config {
            /// As Linux: `profiles/default.toml`.
            fn default() -> Self {
                Self { $( $name: $default, )* }
            }
        }

        impl Config {
            /// All settings, in the order of the profiles.
            pub const SETTINGS: &'static [Setting] = &[
                $( Setting { name: stringify!($name), help: $help, least: $least, greatest: $greatest }, )*
            ];

            /// Sets one by its name.
            pub fn set(&mut self, name: &str, value: &Value) -> Result<(), SettingError> {
                match name {
                    $( stringify!($name) => self.$name = Field::read(value, $least, $greatest)?, )*
                    _ => return Err(SettingError::Unknown),
                }
                Ok(())
            }

            /// One by its name.
            pub fn value(&self, name: &str) -> Option<Value> {
                match name {
                    $( stringify!($name) => Some(self.$name.show()), )*
                    _ => None,
                }
            }
        }
    };
}

settings! {
    #[doc = "New connections send small segments at once (Nagle's algorithm off)."]
    nodelay: bool = false, 0, 1;
    #[doc = "New connections do not delay ACKs: they ride on data sent before the next poll, or leave in that poll."]
    quickack: bool = false, 0, 1;
    #[doc = "How long an ACK waits for data to ride on, where ACKs are delayed (RFC 9293 MUST-59: less than 0.5 s)."]
    delayed_ack_us: u32 = 40_000, 0, 499_999;
    #[doc = "Full segments after which an ACK leaves at once (RFC 9293 SHLD-18: two); from two on one leaves behind the burst."]
    ack_segments_max: u32 = 2, 2, 64;
    #[doc = "A burst is over when no segment has come for so long: ACKs that wait for a poll leave then; 0: in the next poll."]
    burst_gap_us: u32 = 0, 0, 1_000;
    #[doc = "Retransmission timeout before the round trip is known (RFC 6298 section 2.1)."]
    rto_initial_us: u32 = 1_000_000, 1_000, US;
    #[doc = "The least retransmission timeout (RFC 6298 section 2.4 asks for 1 s; Linux has 200 ms)."]
    rto_min_us: u32 = 200_000, 100, US;
    #[doc = "The greatest retransmission timeout, and time between probes of a window (RFC 6298 section 2.5: at least 60 s)."]
    rto_max_us: u32 = 120_000_000, 1_000_000, US;
    #[doc = "Probes for a lost tail (RFC 8985 section 7)."]
    tail_probe: bool = true, 0, 1;
    #[doc = "The least time before a tail probe."]
    tail_probe_min_us: u32 = 2_000, 10, US;
    #[doc = "How long a peer may delay an ACK: added to the tail probe's time when one segment is in flight."]
    peer_delayed_ack_us: u32 = 200_000, 0, US;
    #[doc = "Begin with the initial window again when nothing was sent for a retransmission timeout (RFC 5681 section 4.1)."]
    slow_start_after_idle: bool = true, 0, 1;
    #[doc = "The initial congestion window, in segments (RFC 6928)."]
    initial_window_segments: u32 = 10, 1, 1000;
    #[doc = "Congestion control of new connections: reno, cubic, bbr, or host, as net.ipv4.tcp_congestion_control says."]
    congestion: Congestion = Congestion::Host, 0, 0;
    #[doc = "Bytes of a connection that may wait to be sent and acknowledged."]
    send_buffer_bytes: u32 = 4 << 20, 4096, BUFFER;
    #[doc = "The send buffer to begin with: it grows to send_buffer_bytes with the congestion window (as tcp_wmem of Linux)."]
    send_buffer_initial_bytes: u32 = 128 << 10, 4096, BUFFER;
    #[doc = "Bytes of a connection that may wait to be read: up to here its window grows."]
    receive_buffer_bytes: u32 = 6 << 20, 4096, BUFFER;
    #[doc = "The receive window to begin with."]
    receive_window_initial_bytes: u32 = 64 << 10, 4096, BUFFER;
    #[doc = "New connections probe an idle peer."]
    keepalive: bool = false, 0, 1;
    #[doc = "Silence before the first keep-alive probe."]
    keepalive_idle_ms: u32 = 7_200_000, 1, US;
    #[doc = "Time between keep-alive probes."]
    keepalive_interval_ms: u32 = 75_000, 1, US;
    #[doc = "Unanswered keep-alive probes after which the connection is given up."]
    keepalive_probes_max: u32 = 9, 1, 127;
    #[doc = "How long data may stay unacknowledged before the connection is given up; 0: by retries_max."]
    user_timeout_ms: u32 = 0, 0, US;
    #[doc = "When a connection is given up (RFC 9293 section 3.8.3, R2): the time of so many retransmissions from 200 ms on; 15: 924.6 s."]
    retries_max: u32 = 15, 1, 255;
    #[doc = "When an attempt to connect is given up: the time of so many retransmissions from 1 s on; 6: 127 s."]
    syn_retries_max: u32 = 6, 0, 127;
    #[doc = "When a SYN-ACK is forgotten: the time of so many retransmissions from 1 s on; 5: 63 s."]
    syn_ack_retries_max: u32 = 5, 0, 127;
    #[doc = "When a closed connection is given up, after close and the last progress: as retries_max; 8: 102.2 s."]
    orphan_retries_max: u32 = 8, 1, 255;
    #[doc = "Closed connections whose data is not all acknowledged; beyond it the oldest are reset (Linux tcp_max_orphans)."]
    orphans_max: u32 = 8192, 1, 1 << 24;
    #[doc = "Bytes of memory that they may hold together; beyond it the oldest are reset (Linux tcp_mem)."]
    orphan_bytes_max: u32 = 256 << 20, 4096, US;
    #[doc = "How long a closed connection waits in FIN-WAIT-2 for the peer's FIN."]
    fin_wait_2_us: u32 = 60_000_000, 0, US;
    #[doc = "How long TIME-WAIT lasts (RFC 9293: 2 MSL, which it calls 4 minutes; Linux has 60 s)."]
    time_wait_us: u32 = 60_000_000, 0, US;
    #[doc = "How long a cork holds a part of a segment."]
    cork_us: u32 = 200_000, 0, US;
    #[doc = "Offer and accept timestamps (RFC 7323)."]
    timestamps: bool = true, 0, 1;
    #[doc = "Offer and accept window scaling (RFC 7323)."]
    window_scaling: bool = true, 0, 1;
    #[doc = "Offer and accept selective acknowledgements (RFC 2018)."]
    sack: bool = true, 0, 1;
    #[doc = "The largest IP packet of the link, where the caller gives no path MTU."]
    mtu_bytes: u32 = 1500, 576, 65_535;
    #[doc = "The least path MTU that ICMP may ask for: smaller ones would be an attack on the sender's CPU."]
    mtu_min_bytes: u32 = 552, 68, 1500;
    #[doc = "Connections that the stack holds, those in TIME-WAIT not counted."]
    connections_max: u32 = 65_536, 1, 1 << 24;
    #[doc = "Connections in TIME-WAIT; beyond it they are closed at once."]
    time_wait_max: u32 = 16_384, 0, 1 << 24;
    #[doc = "Half-open connections of a listener; beyond it SYNs get a cookie or are dropped."]
    syn_queue_max: u32 = 1024, 1, 1 << 20;
    #[doc = "Answer SYNs beyond the SYN queue with cookies (RFC 4987 section 3.6) instead of dropping them."]
    syn_cookies: bool = true, 0, 1;
    #[doc = "Ranges that a connection keeps beyond holes: bounds the search per segment."]
    out_of_order_ranges_max: u32 = 128, 1, 4096;
    #[doc = "Segments of a connection that may be in flight: bounds what is kept about them, 48 bytes each."]
    in_flight_segments_max: u32 = 8192, 4, 1 << 20;
    #[doc = "ACKs per second and connection in answer to segments that could be forged (RFC 5961 section 7)."]
    challenge_acks_per_second: u32 = 10, 1, 1000;
    #[doc = "Answer segments for no connection with a RST (RFC 9293 section 3.10.7.1)."]
    reset_unknown: bool = true, 0, 1;
}

impl Config {
    /// For the lowest latency: `profiles/latency.toml`, where the reasons stand.
    pub fn latency() -> Self {
        Self {
            nodelay: true,
            quickack: true,
            ack_segments_max: 16,
            burst_gap_us: 4,
            rto_min_us: 5_000,
            rto_max_us: 2_000_000,
            rto_initial_us: 200_000,
            tail_probe_min_us: 200,
            peer_delayed_ack_us: 2_000,
            slow_start_after_idle: false,
            keepalive: true,
            keepalive_idle_ms: 30_000,
            keepalive_interval_ms: 30_000,
            keepalive_probes_max: 30,
            ..Self::default()
        }
    }

    /// The congestion control of a connection that begins with `segments` segments.
    pub(crate) fn controller(&self, options: &Options, segment_bytes: u32, segments: u32) -> Controller {
        let kind = if options.congestion == Congestion::Host { self.congestion } else { options.congestion };
        Controller::new(kind, segment_bytes, segments)
    }

    /// The options of new connections and listeners.
    pub fn options(&self) -> Options {
        let keepalive = KeepAlive {
            idle_ns: u64::from(self.keepalive_idle_ms) * MILLISECOND_NS,
            interval_ns: u64::from(self.keepalive_interval_ms) * MILLISECOND_NS,
            probes_max: self.keepalive_probes_max,
        };
        Options {
            nodelay: self.nodelay,
            cork: false,
            quickack: self.quickack,
            keepalive: self.keepalive.then_some(keepalive),
            user_timeout_ns: u64::from(self.user_timeout_ms) * MILLISECOND_NS,
            abort_on_close: false,
            urgent_held: false,
            service: Service::default(),
            segment_bytes_max: 0,
            send_buffer_bytes: self.send_buffer_bytes,
            send_buffer_initial_bytes: self.send_buffer_initial_bytes,
            receive_buffer_bytes: self.receive_buffer_bytes,
            congestion: self.congestion,
        }
    }
}

/// A time of the settings, in ns.
#[inline]
pub(crate) fn us(time_us: u32) -> u64 {
    u64::from(time_us) * MICROSECOND_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines `key = value` of a profile: all that the files use of TOML.
    fn read(text: &str) -> Config {
        let mut config = Config::default();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let mut seen = Vec::new();
        for (key, value) in lines.filter_map(|line| line.split_once('=')) {
            let (key, value) = (key.trim(), value.trim());
            let value = match value.trim_matches('"') {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                text if value.starts_with('"') => Value::Text(text.to_owned()),
                number => Value::Integer(number.replace('_', "").parse().expect(key)),
            };
            assert_eq!(config.set(key, &value), Ok(()), "{key}");
            seen.push(key.to_owned());
        }
        let all: Vec<_> = Config::SETTINGS.iter().map(|setting| setting.name.to_owned()).collect();
        assert_eq!(seen, all, "a profile has every setting once, in the order of the table");
        config
    }

    #[test]
    fn the_profiles_are_what_the_code_says() {
        assert_eq!(read(include_str!("../../profiles/default.toml")), Config::default());
        assert_eq!(read(include_str!("../../profiles/latency.toml")), Config::latency());
    }

    #[test]
    fn defaults_are_within_their_limits() {
        for config in [Config::default(), Config::latency()] {
            for setting in Config::SETTINGS {
                let value = config.value(setting.name).expect("a setting has a value");
                assert_eq!(config.clone().set(setting.name, &value), Ok(()), "{}", setting.name);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut config = Config::default();
        assert_eq!(config.set("no_delay", &Value::Boolean(true)), Err(SettingError::Unknown));
        assert_eq!(config.set("nodelay", &Value::Integer(1)), Err(SettingError::Kind));
        assert_eq!(config.set("delayed_ack_us", &Value::Integer(500_000)), Err(SettingError::Range));
        assert_eq!(config.set("congestion", &Value::Text("vegas".into())), Err(SettingError::Range));
        assert_eq!(config, Config::default());
    }
}
