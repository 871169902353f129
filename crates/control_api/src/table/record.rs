//! The records of the mirror: the part of the kernel's tables that a process needs to send without asking the kernel.
//!
//! A record is a fixed number of words. Readers check what they decode: a value out of range is rejected.

pub use sidestep_stack::route::{Address, NeighbourState, RouteKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A kind of record.
pub(super) trait Record: Sized + Clone {
    /// The size of one record, words.
    const WORDS: usize;
    /// Stores the record to `words`, which are [`Self::WORDS`] long.
    fn encode(&self, words: &mut [u64]);
    /// Loads a record; `None` for values that the writer never stores.
    fn decode(words: &[u64]) -> Option<Self>;
    /// The bits of word `index` whose change can invalidate a resolved route.
    fn material_bits(_index: usize) -> u64 {
        u64::MAX
    }
}

/// The longest name of an interface, bytes (IFNAMSIZ less the terminator).
const NAME_BYTES: usize = 15;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Ethernet address; zero if the device has none.
    pub mac: [u8; 6],
    /// The MTU, bytes of IP packet.
    pub mtu: u32,
    /// Administratively up and with carrier (IFF_UP and IFF_LOWER_UP or IFF_RUNNING).
    pub is_up: bool,
    /// IFF_LOOPBACK.
    pub is_loopback: bool,
    /// True for an Ethernet device that is not a bridge, bond, tunnel or the like: frames can be built for it.
    pub is_plain_ethernet: bool,
    /// Receive queues.
    pub receive_queues: u16,
    /// Transmit queues.
    pub transmit_queues: u16,
    /// For a VLAN device: the interface below it and the 802.1Q id.
    pub vlan: Option<(u32, u16)>,
    /// The device of which this one is a port (bridge, bond), which then gets its traffic; 0 for none.
    pub master: u32,
}

/// One next hop of a route. A route with several (ECMP) has as many consecutive records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// RT_TABLE_*: 255 local, 254 main, 253 default. No other tables are mirrored.
    pub table: u32,
    /// First address of the prefix.
    pub destination: IpAddr,
    /// Bits of the prefix.
    pub prefix_len: u8,
    /// The type of service that it is for; 0 for any.
    pub tos: u8,
    /// Its kind.
    pub kind: RouteKind,
    /// RT_SCOPE_*.
    pub scope: u8,
    /// RTPROT_*: 2 kernel, 3 boot, 4 static ...
    pub protocol: u8,
    /// The metric: the least wins among prefixes of one length (RTA_PRIORITY).
    pub metric: u32,
    /// The gateway; `None` if the destination itself is the neighbour. May be of the other family (RTA_VIA).
    pub gateway: Option<IpAddr>,
    /// The outgoing interface; 0 for routes that refuse.
    pub interface: u32,
    /// The preferred source address (RTA_PREFSRC).
    pub preferred_source: Option<IpAddr>,
    /// MTU of the route, bytes; 0 for the interface's (RTAX_MTU).
    pub mtu: u32,
    /// Share of this next hop among those of the route, 1..=256.
    pub weight: u16,
    /// True if the gateway is on the link, whatever the addresses (RTNH_F_ONLINK).
    pub is_onlink: bool,
    /// True if dead or without carrier (RTNH_F_DEAD, RTNH_F_LINKDOWN): not to be used.
    pub is_dead: bool,
    /// True if the record before this one is another next hop of the same route.
    pub is_continuation: bool,
}

/// A neighbour: an entry of the ARP or NDP cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The interface that leads to it.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address; valid if usable.
    pub mac: [u8; 6],
    /// The state for a sender.
    pub state: NeighbourState,
    /// The kernel's state, NUD_* (linux/neighbour.h). Changes of it alone do not change the table's generation.
    pub nud: u16,
}

impl Record for Link {
    const WORDS: usize = 6;

    fn encode(&self, words: &mut [u64]) {
        let flags = bits([self.is_up, self.is_loopback, self.is_plain_ethernet, self.vlan.is_some()]);
        let (parent, vlan_id) = self.vlan.unwrap_or_default();
        words[0] = u64::from(self.index) | flags << 32 | u64::from(vlan_id) << 48;
        words[1] = u64::from(self.mtu) | u64::from(self.receive_queues) << 32 | u64::from(self.transmit_queues) << 48;
        words[2] = mac_word(self.mac);
        words[3] = u64::from(parent) | u64::from(self.master) << 32;
        let mut name = [0; 16];
        let length = self.name.len().min(NAME_BYTES);
        name[..length].copy_from_slice(&self.name.as_bytes()[..length]);
        [words[4], words[5]] = halves(u128::from_le_bytes(name));
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let name = whole(words[4], words[5]).to_le_bytes();
        let length = name.iter().position(|&byte| byte == 0)?;
        let flag = |bit: u32| words[0] >> 32 >> bit & 1 == 1;
        Some(Self {
            index: words[0] as u32,
            name: std::str::from_utf8(&name[..length]).ok()?.to_owned(),
            mac: word_mac(words[2]),
            mtu: words[1] as u32,
            is_up: flag(0),
            is_loopback: flag(1),
            is_plain_ethernet: flag(2),
            receive_queues: (words[1] >> 32) as u16,
            transmit_queues: (words[1] >> 48) as u16,
            vlan: flag(3).then_some((words[3] as u32, (words[0] >> 48) as u16)),
            master: (words[3] >> 32) as u32,
        })
    }
}

impl Record for Address {
    const WORDS: usize = 3;

    fn encode(&self, words: &mut [u64]) {
        let flags = bits([self.is_avoided, self.is_secondary, self.address.is_ipv6(), false]);
        words[0] =
            u64::from(self.interface) | flags << 32 | u64::from(self.prefix_len) << 40 | u64::from(self.scope) << 48;
        [words[1], words[2]] = ip_words(self.address);
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let flag = |bit: u32| words[0] >> 32 >> bit & 1 == 1;
        let address = words_ip(flag(2), words[1], words[2]);
        Some(Self {
            interface: words[0] as u32,
            address,
            prefix_len: prefix_len((words[0] >> 40) as u8, address)?,
            scope: (words[0] >> 48) as u8,
            is_avoided: flag(0),
            is_secondary: flag(1),
        })
    }
}

/// Route flags, from bit 32 of word 1.
const IPV6: u32 = 0;
const GATEWAY: u32 = 1;
const GATEWAY_IPV6: u32 = 2;
const SOURCE: u32 = 3;
const SOURCE_IPV6: u32 = 4;
const ONLINK: u32 = 5;
const DEAD: u32 = 6;
const CONTINUATION: u32 = 7;

const ROUTE_KINDS: [RouteKind; 9] = [
    RouteKind::Unicast,
    RouteKind::Local,
    RouteKind::Broadcast,
    RouteKind::Multicast,
    RouteKind::Anycast,
    RouteKind::Unreachable,
    RouteKind::Prohibit,
    RouteKind::Blackhole,
    RouteKind::Other,
];

impl Record for Route {
    const WORDS: usize = 10;

    fn encode(&self, words: &mut [u64]) {
        let is_v6 = |address: Option<IpAddr>| address.is_some_and(|address| address.is_ipv6());
        let flags = [
            (IPV6, self.destination.is_ipv6()),
            (GATEWAY, self.gateway.is_some()),
            (GATEWAY_IPV6, is_v6(self.gateway)),
            (SOURCE, self.preferred_source.is_some()),
            (SOURCE_IPV6, is_v6(self.preferred_source)),
            (ONLINK, self.is_onlink),
            (DEAD, self.is_dead),
            (CONTINUATION, self.is_continuation),
        ];
        let flags = flags.iter().fold(0, |word, (bit, is_set)| word | u64::from(*is_set) << bit);
        let kind = ROUTE_KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(ROUTE_KINDS.len() - 1);
        words[0] = u64::from(self.table) | u64::from(self.metric) << 32;
        words[1] = u64::from(self.prefix_len)
            | (kind as u64) << 8
            | u64::from(self.scope) << 16
            | u64::from(self.protocol) << 24
            | flags << 32
            | u64::from(self.tos) << 48;
        [words[2], words[3]] = ip_words(self.destination);
        [words[4], words[5]] = self.gateway.map_or([0, 0], ip_words);
        [words[6], words[7]] = self.preferred_source.map_or([0, 0], ip_words);
        words[8] = u64::from(self.interface) | u64::from(self.weight) << 32;
        words[9] = u64::from(self.mtu);
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let flag = |bit: u32| words[1] >> 32 >> bit & 1 == 1;
        let destination = words_ip(flag(IPV6), words[2], words[3]);
        Some(Self {
            table: words[0] as u32,
            destination,
            prefix_len: prefix_len(words[1] as u8, destination)?,
            tos: (words[1] >> 48) as u8,
            kind: *ROUTE_KINDS.get(usize::from((words[1] >> 8) as u8))?,
            scope: (words[1] >> 16) as u8,
            protocol: (words[1] >> 24) as u8,
            metric: (words[0] >> 32) as u32,
            gateway: flag(GATEWAY).then(|| words_ip(flag(GATEWAY_IPV6), words[4], words[5])),
            interface: words[8] as u32,
            preferred_source: flag(SOURCE).then(|| words_ip(flag(SOURCE_IPV6), words[6], words[7])),
            mtu: words[9] as u32,
            weight: (words[8] >> 32) as u16,
            is_onlink: flag(ONLINK),
            is_dead: flag(DEAD),
            is_continuation: flag(CONTINUATION),
        })
    }
}

impl Record for Neighbour {
    const WORDS: usize = 4;

    fn encode(&self, words: &mut [u64]) {
        let state = self.state as u64;
        words[0] = u64::from(self.interface) | state << 32 | u64::from(self.address.is_ipv6()) << 40;
        [words[1], words[2]] = ip_words(self.address);
        words[3] = mac_word(self.mac) | u64::from(self.nud) << 48;
    }

    fn decode(words: &[u64]) -> Option<Self> {
        let state = match (words[0] >> 32) as u8 {
            0 => NeighbourState::Usable,
            1 => NeighbourState::Pending,
            2 => NeighbourState::Failed,
            _ => return None,
        };
        Some(Self {
            interface: words[0] as u32,
            address: words_ip(words[0] >> 40 & 1 == 1, words[1], words[2]),
            mac: word_mac(words[3]),
            state,
            nud: (words[3] >> 48) as u16,
        })
    }

    /// A neighbour alternates between reachable and stale every half minute; its address stays.
    fn material_bits(index: usize) -> u64 {
        if index == 3 { (1 << 48) - 1 } else { u64::MAX }
    }
}

fn bits(flags: [bool; 4]) -> u64 {
    flags.iter().enumerate().fold(0, |word, (bit, is_set)| word | u64::from(*is_set) << bit)
}

fn prefix_len(length: u8, address: IpAddr) -> Option<u8> {
    (length <= if address.is_ipv6() { 128 } else { 32 }).then_some(length)
}

fn mac_word(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn word_mac(word: u64) -> [u8; 6] {
    let [_, _, mac @ ..] = word.to_be_bytes();
    mac
}

fn ip_words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(address) => [u64::from(address.to_bits()), 0],
        IpAddr::V6(address) => halves(address.to_bits()),
    }
}

fn words_ip(is_v6: bool, low: u64, high: u64) -> IpAddr {
    if is_v6 { Ipv6Addr::from_bits(whole(low, high)).into() } else { Ipv4Addr::from_bits(low as u32).into() }
}

fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

fn whole(low: u64, high: u64) -> u128 {
    u128::from(low) | u128::from(high) << 64
}
