//! EtherTypes: the protocol of a frame's payload.

/// The protocol of a frame's payload (below 0x600 it is a length of IEEE 802.3, and nothing that we read).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// A tag of IEEE 802.1Q.
    pub(crate) const CUSTOMER_TAG: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// A tag of IEEE 802.1ad.
    pub(crate) const SERVICE_TAG: Self = Self(0x88a8);
}
