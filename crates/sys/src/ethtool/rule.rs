//! An ntuple flow rule: the device applies it before the hash (`struct ethtool_rx_flow_spec`).

use super::abi::rule::{BYTES, COOKIE, FLOW_TYPE, LOCATION, MASKS, UNION_BYTES, V4, V6, VALUES};
use std::net::{IpAddr, SocketAddr};

/// Kinds of packets (TCP_V4_FLOW and so on), and the flags beside them.
const TCP4: u32 = 1;
const UDP4: u32 = 2;
const TCP6: u32 = 5;
const UDP6: u32 = 6;
/// IP_USER_FLOW, IPV6_USER_FLOW and ETHER_FLOW: rules of other shapes, which can match TCP and UDP.
const OF_OTHER_SHAPES: [u32; 3] = [0x0d, 0x0e, 0x12];
/// FLOW_EXT, FLOW_MAC_EXT and FLOW_RSS: further fields to match, or a context instead of a queue.
const FLAGS: u32 = 0xe000_0000;
const FLOW_RSS: u32 = 0x2000_0000;
/// RX_CLS_FLOW_DISC.
const DISCARD: u64 = u64::MAX;
/// The largest cookie that is a queue number. Above it: a virtual function, RX_CLS_FLOW_DISC, RX_CLS_FLOW_WAKE.
const QUEUE_MAX: u64 = 0xffff_ffff;

/// A rule as the device reports it.
#[derive(Clone, PartialEq, Eq)]
pub struct FlowRule([u8; BYTES]);

/// The effect of a rule on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The rule does not match.
    No,
    /// The packet goes to this queue.
    Queue(u32),
    /// The rule may match, or does something other than select a queue.
    Perhaps,
}

impl std::fmt::Debug for FlowRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FlowRule({} at {}, cookie {:#x})", self.kind(), self.location(), self.cookie())
    }
}

impl FlowRule {
    /// Bytes of `struct ethtool_rx_flow_spec`.
    pub const BYTES: usize = BYTES;

    /// Wraps a rule in the kernel's layout.
    pub fn of_bytes(bytes: [u8; BYTES]) -> Self {
        Self(bytes)
    }

    /// The location of the rule. Of several that match, the lowest location applies.
    pub fn location(&self) -> u32 {
        self.word(LOCATION)
    }

    fn kind(&self) -> u32 {
        self.word(FLOW_TYPE)
    }

    fn cookie(&self) -> u64 {
        let bytes = self.0[COOKIE..].first_chunk();
        bytes.map_or(u64::MAX, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn word(&self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// The queue for packets that match; `Some(None)` if they are dropped. `None` if the rule does something else with
    /// them: a context's hash, or a virtual function.
    pub fn target(&self) -> Option<Option<u32>> {
        match self.cookie() {
            DISCARD => Some(None),
            queue @ 0..=QUEUE_MAX if self.kind() & FLOW_RSS == 0 => Some(Some(queue as u32)),
            _ => None,
        }
    }

    /// The effect on a TCP packet, or else a UDP packet, that is received from `remote` for `local`.
    pub fn matches(&self, is_tcp: bool, remote: SocketAddr, local: SocketAddr) -> Match {
        let kind = self.kind() & !FLAGS;
        if OF_OTHER_SHAPES.contains(&kind) {
            return Match::Perhaps;
        }
        let (flow, fields, packet) = match (remote.ip(), local.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                (if is_tcp { TCP4 } else { UDP4 }, V4, [&from.octets()[..], &to.octets()].concat())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                (if is_tcp { TCP6 } else { UDP6 }, V6, [&from.octets()[..], &to.octets()].concat())
            }
            _ => return Match::No,
        };
        let packet = [&packet[..], &remote.port().to_be_bytes(), &local.port().to_be_bytes()].concat();
        if kind != flow || !self.agrees(&packet) {
            return Match::No;
        }
        // Fields after the ports (the type of service) are unknown for a packet that has yet to come.
        let has_more = self.0[MASKS..MASKS + UNION_BYTES][fields[4]..].iter().any(|byte| *byte != 0);
        match self.cookie() {
            queue @ 0..=QUEUE_MAX if !has_more && self.kind() & FLAGS == 0 => Match::Queue(queue as u32),
            _ => Match::Perhaps,
        }
    }

    /// Returns whether a packet has the values under the mask.
    fn agrees(&self, packet: &[u8]) -> bool {
        let wanted = self.0[VALUES..].iter().zip(&self.0[MASKS..]);
        wanted.zip(packet).all(|((value, mask), has)| (value ^ has) & mask == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: u32, values: &[(usize, &[u8])], masks: &[(usize, &[u8])], cookie: u64) -> FlowRule {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[COOKIE..COOKIE + 8].copy_from_slice(&cookie.to_ne_bytes());
        for (base, list) in [(VALUES, values), (MASKS, masks)] {
            for (at, field) in list {
                bytes[base + at..base + at + field.len()].copy_from_slice(field);
            }
        }
        FlowRule(bytes)
    }

    fn packet(rule: &FlowRule, is_tcp: bool, remote: &str, local: &str) -> Match {
        rule.matches(is_tcp, remote.parse().unwrap(), local.parse().unwrap())
    }

    #[test]
    fn a_block_of_ports_goes_to_its_queue() {
        for (kind, port, remote, local) in [
            (TCP4, V4[3], "192.0.2.1:80", "198.51.100.1"),
            (UDP4, V4[3], "192.0.2.1:80", "198.51.100.1"),
            (TCP6, V6[3], "[2001:db8::1]:80", "[2001:db8::2]"),
            (UDP6, V6[3], "[2001:db8::1]:80", "[2001:db8::2]"),
        ] {
            let is_tcp = [TCP4, TCP6].contains(&kind);
            let block = rule(kind, &[(port, &[0x80, 0])], &[(port, &[0xff, 0xc0])], 3);
            for (number, expected) in [(0x8000, Match::Queue(3)), (0x803f, Match::Queue(3)), (0x8040, Match::No)] {
                assert_eq!(
                    packet(&block, is_tcp, remote, &format!("{local}:{number}")),
                    expected,
                    "{block:?} {number}"
                );
            }
            assert_eq!(packet(&block, !is_tcp, remote, &format!("{local}:32768")), Match::No);
        }
    }

    #[test]
    fn what_is_not_understood_may_match() {
        let tcp = |rule: &FlowRule| packet(rule, true, "192.0.2.1:80", "198.51.100.1:5000");
        assert_eq!(tcp(&rule(TCP4, &[], &[], 2)), Match::Queue(2));
        assert_eq!(tcp(&rule(TCP4 | 0x8000_0000, &[], &[], 2)), Match::Perhaps, "a VLAN");
        assert_eq!(tcp(&rule(TCP4 | 0x2000_0000, &[], &[], 2)), Match::Perhaps, "a context");
        assert_eq!(tcp(&rule(TCP4, &[], &[(V4[4], &[0xff])], 2)), Match::Perhaps, "a type of service");
        assert_eq!(tcp(&rule(TCP4, &[], &[], u64::MAX)), Match::Perhaps, "dropped");
        assert_eq!(tcp(&rule(TCP4, &[], &[], 1 << 32)), Match::Perhaps, "a virtual function");
        assert_eq!(tcp(&rule(0x12, &[], &[], 2)), Match::Perhaps, "Ethernet");
        assert_eq!(tcp(&rule(3, &[], &[], 2)), Match::No, "SCTP");
        let targets =
            [(TCP4, 2), (0x12, 3), (TCP4 | FLOW_RSS, 2), (TCP4, DISCARD), (TCP4, DISCARD - 1), (TCP4, 1 << 32)];
        let targets = targets.map(|(kind, cookie)| rule(kind, &[], &[], cookie).target());
        assert_eq!(targets, [Some(Some(2)), Some(Some(3)), None, Some(None), None, None]);
        let from = rule(TCP4, &[(V4[0], &[192, 0, 2, 9])], &[(V4[0], &[255; 4])], 2);
        assert_eq!(tcp(&from), Match::No, "another sender");
    }
}
