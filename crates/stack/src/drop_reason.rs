//! Reasons for which a received frame is dropped, and their counters.

use sidestep_wire::Refusal;

macro_rules! reasons {
    ($($name:ident $text:literal $zero:ident $description:literal,)+) => {
        /// The reason for which a received frame was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum DropReason {
            $(#[doc = $description] $name,)+
        }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name in lists.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// One line for people.
            pub fn description(self) -> &'static str {
                match self { $(Self::$name => $description,)+ }
            }

            /// Returns whether its counter should be 0 on a healthy network, behind steering that passes our own flows alone.
            pub fn should_be_zero(self) -> bool {
                match self { $(Self::$name => reasons!(@ $zero),)+ }
            }
        }
    };
    (@ zero) => { true };
    (@ some) => { false };
}

reasons! {
    EthernetTruncated "ethernet_truncated" zero "the frame ends within its Ethernet header or VLAN tags",
    VlanTooManyTags "vlan_too_many_tags" zero "the frame has more than two VLAN tags",
    VlanReserved "vlan_reserved" zero "the frame is tagged with the reserved VLAN 4095",
    VlanUnknown "vlan_unknown" zero "the frame is of a VLAN that this host has no interface in",
    OtherStation "other_station" zero "the frame is for another station's Ethernet address",
    NotIp "not_ip" zero "the frame carries neither IPv4 nor IPv6",
    Ipv4Truncated "ipv4_truncated" zero "the packet is shorter than its IPv4 header says",
    Ipv4Version "ipv4_version" zero "the IP version is not 4 in a frame of IPv4",
    Ipv4HeaderLength "ipv4_header_length" zero "the IPv4 header length is impossible",
    Ipv4Checksum "ipv4_checksum" zero "the IPv4 header checksum is wrong",
    Ipv4Options "ipv4_options" zero "the packet has IPv4 options that are the kernel's: of a datagram, broken, or a source route",
    Ipv6Truncated "ipv6_truncated" zero "the packet is shorter than its IPv6 header says",
    Ipv6Version "ipv6_version" zero "the IP version is not 6 in a frame of IPv6",
    Ipv6ExtensionTruncated "ipv6_extension_truncated" zero "an IPv6 extension header ends behind the packet",
    Ipv6TooManyExtensions "ipv6_too_many_extensions" zero "the packet has too many IPv6 extension headers",
    Ipv6Extensions "ipv6_extensions" zero "the packet has IPv6 extension headers, which are the kernel's",
    Fragment "fragment" zero "the packet is a fragment, which the kernel reassembles",
    SourceImpossible "source_impossible" zero "the source is a group, a broadcast, nobody, loopback or this host itself",
    OtherAddress "other_address" zero "the packet is for an address that this host does not have",
    Broadcast "broadcast" zero "the packet is a broadcast, which is the kernel's",
    OtherProtocol "other_protocol" zero "the packet carries a protocol that the stack does not have",
    UdpTruncated "udp_truncated" zero "the datagram is shorter than its UDP header says",
    UdpLength "udp_length" zero "the UDP length is impossible",
    UdpChecksum "udp_checksum" zero "the UDP checksum is wrong",
    UdpChecksumAbsent "udp_checksum_absent" zero "the UDP checksum is absent, which IPv6 forbids",
    TcpTruncated "tcp_truncated" zero "the segment is shorter than its TCP header says",
    TcpDataOffset "tcp_data_offset" zero "the TCP data offset is impossible",
    TcpChecksum "tcp_checksum" zero "the TCP checksum is wrong",
    IcmpTruncated "icmp_truncated" zero "the ICMP message is too short",
    IcmpChecksum "icmp_checksum" zero "the ICMP checksum is wrong",
    IcmpQuoteUnusable "icmp_quote_unusable" zero "the packet quoted by the ICMP error cannot be identified",
    IcmpOther "icmp_other" some "an ICMP message that is no error, which is the kernel's",
    IcmpNoFlow "icmp_no_flow" some "an ICMP error about a flow that is not open (any more)",
    NoSocket "no_socket" some "no open socket wants it: steered shortly before or after one was open",
    NoMember "no_member" some "no open socket has joined the group for this source",
}

impl From<Refusal> for DropReason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::EthernetTruncated => Self::EthernetTruncated,
            Refusal::VlanTooManyTags => Self::VlanTooManyTags,
            Refusal::VlanReserved => Self::VlanReserved,
            Refusal::Ipv4Truncated => Self::Ipv4Truncated,
            Refusal::Ipv4Version => Self::Ipv4Version,
            Refusal::Ipv4HeaderLength => Self::Ipv4HeaderLength,
            Refusal::Ipv4Checksum => Self::Ipv4Checksum,
            Refusal::Ipv6Truncated => Self::Ipv6Truncated,
            Refusal::Ipv6Version => Self::Ipv6Version,
            Refusal::Ipv6ExtensionTruncated => Self::Ipv6ExtensionTruncated,
            Refusal::Ipv6TooManyExtensions => Self::Ipv6TooManyExtensions,
            Refusal::UdpTruncated => Self::UdpTruncated,
            Refusal::UdpLength => Self::UdpLength,
            Refusal::UdpChecksum => Self::UdpChecksum,
            Refusal::UdpChecksumAbsent => Self::UdpChecksumAbsent,
            Refusal::TcpTruncated => Self::TcpTruncated,
            Refusal::TcpDataOffset => Self::TcpDataOffset,
            Refusal::TcpChecksum => Self::TcpChecksum,
            Refusal::IcmpTruncated => Self::IcmpTruncated,
            Refusal::IcmpChecksum => Self::IcmpChecksum,
            Refusal::IcmpQuoteUnusable => Self::IcmpQuoteUnusable,
            Refusal::ArpTruncated | Refusal::ArpOtherNetwork => Self::NotIp,
        }
    }
}

/// The counters of received frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameCounters {
    /// Datagrams for at least one socket, and segments.
    pub delivered: u64,
    /// ICMP errors about a datagram of a socket.
    pub errors: u64,
    refused: [u64; DropReason::ALL.len()],
}

impl Default for FrameCounters {
    fn default() -> Self {
        Self { delivered: 0, errors: 0, refused: [0; DropReason::ALL.len()] }
    }
}

impl FrameCounters {
    /// The number of frames dropped for `reason`.
    pub fn refused(&self, reason: DropReason) -> u64 {
        self.refused[reason as usize]
    }

    /// The number of frames dropped for any reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    #[inline]
    pub(crate) fn refuse(&mut self, reason: DropReason) {
        self.refused[reason as usize] += 1;
    }
}
