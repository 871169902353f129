//! Reasons why bytes could not be parsed, or a header written.

use core::fmt;

/// The reason why a parser refused the bytes. Each reason has its own name, so that it can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Shorter than an Ethernet header, or than the VLAN tags it announces.
    EthernetTruncated,
    /// More VLAN tags than `crate::vlan::TAGS_MAX`.
    VlanTooManyTags,
    /// VLAN 4095, which IEEE 802.1Q reserves.
    VlanReserved,
    /// Shorter than an ARP packet for IPv4 over Ethernet.
    ArpTruncated,
    /// ARP for another network than IPv4 over Ethernet.
    ArpOtherNetwork,
    /// Shorter than the IPv4 header, or than the total length in it.
    Ipv4Truncated,
    /// The version field is not 4.
    Ipv4Version,
    /// The header length is below 20 bytes, or beyond the total length.
    Ipv4HeaderLength,
    /// The checksum of the IPv4 header is wrong.
    Ipv4Checksum,
    /// Shorter than the IPv6 header, or than the payload length in it.
    Ipv6Truncated,
    /// The version field is not 6.
    Ipv6Version,
    /// An extension header extends beyond the packet.
    Ipv6ExtensionTruncated,
    /// More extension headers than `crate::ipv6::EXTENSIONS_MAX`.
    Ipv6TooManyExtensions,
    /// Shorter than the UDP header, or than the length in it.
    UdpTruncated,
    /// The UDP length is below 8 bytes.
    UdpLength,
    /// The checksum of the UDP datagram is wrong.
    UdpChecksum,
    /// No UDP checksum over IPv6, which RFC 8200 section 8.1 forbids.
    UdpChecksumAbsent,
    /// Shorter than the TCP header with its options.
    TcpTruncated,
    /// The data offset is below 20 bytes.
    TcpDataOffset,
    /// The checksum of the TCP segment is wrong.
    TcpChecksum,
    /// Shorter than an ICMP header, or an error that quotes too little of its packet.
    IcmpTruncated,
    /// The checksum of the ICMP message is wrong.
    IcmpChecksum,
    /// The packet quoted by an ICMP error is not IP, or not a first fragment.
    IcmpQuoteUnusable,
}

impl Refusal {
    /// The reason as text.
    pub fn reason(self) -> &'static str {
        match self {
            Self::EthernetTruncated => "the frame ends within its Ethernet header or VLAN tags",
            Self::VlanTooManyTags => "the frame has more than two VLAN tags",
            Self::VlanReserved => "the frame is tagged with the reserved VLAN 4095",
            Self::ArpTruncated => "the ARP packet is too short",
            Self::ArpOtherNetwork => "the ARP packet is not about IPv4 over Ethernet",
            Self::Ipv4Truncated => "the packet is shorter than its IPv4 header says",
            Self::Ipv4Version => "the IP version is not 4",
            Self::Ipv4HeaderLength => "the IPv4 header length is impossible",
            Self::Ipv4Checksum => "the IPv4 header checksum is wrong",
            Self::Ipv6Truncated => "the packet is shorter than its IPv6 header says",
            Self::Ipv6Version => "the IP version is not 6",
            Self::Ipv6ExtensionTruncated => "an IPv6 extension header extends beyond the packet",
            Self::Ipv6TooManyExtensions => "the packet has too many IPv6 extension headers",
            Self::UdpTruncated => "the datagram is shorter than its UDP header says",
            Self::UdpLength => "the UDP length is impossible",
            Self::UdpChecksum => "the UDP checksum is wrong",
            Self::UdpChecksumAbsent => "the UDP checksum is absent, which IPv6 forbids",
            Self::TcpTruncated => "the segment is shorter than its TCP header says",
            Self::TcpDataOffset => "the TCP data offset is impossible",
            Self::TcpChecksum => "the TCP checksum is wrong",
            Self::IcmpTruncated => "the ICMP message is too short",
            Self::IcmpChecksum => "the ICMP checksum is wrong",
            Self::IcmpQuoteUnusable => "the packet quoted by the ICMP error is not IP, or not a first fragment",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.reason())
    }
}

impl core::error::Error for Refusal {}

/// The reason why a header could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuildError {
    /// The buffer ends before the header, or before the payload after it.
    NoRoom,
    /// The payload does not fit the 16 bits of a length field.
    TooLong,
    /// The options exceed the 40 bytes of a header.
    TooManyOptions,
    /// UDP over IPv6 must have a checksum (RFC 8200 section 8.1).
    ChecksumRequired,
    /// The packet to quote, or the addresses, are of another IP version.
    OtherVersion,
}

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoRoom => "the buffer is too small",
            Self::TooLong => "the payload does not fit the length field",
            Self::TooManyOptions => "the options do not fit the header",
            Self::ChecksumRequired => "UDP over IPv6 needs a checksum",
            Self::OtherVersion => "the addresses are of another IP version",
        })
    }
}

impl core::error::Error for BuildError {}
