//! Interfaces of a capture: the link's headers and the unit of its times.

use std::fmt;

/// The headers with which packets begin (the registry of tcpdump.org).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6, told by the version.
    pub const RAW: Self = Self(101);
    /// Linux "cooked", of the pseudo-device `any`.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4.
    pub const IPV4: Self = Self(228);
    /// IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked", version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link type {}", self.0)
    }
}

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The headers of its packets.
    pub link: LinkType,
    /// Its name; empty if it is not told.
    pub name: String,
    /// The most bytes of a packet that were captured; 0 if there was no limit.
    pub snapshot_bytes: u32,
    /// The unit of times, as `if_tsresol` has it: a power of ten, or with the highest bit of two, negated.
    pub(super) resolution: u8,
    /// Seconds that are added to each time.
    pub(super) offset_s: i64,
}

impl Interface {
    /// An interface whose times are in so many decimals of a second.
    pub(super) fn new(link: LinkType, snapshot_bytes: u32, decimals: u8) -> Self {
        Self { link, name: String::new(), snapshot_bytes, resolution: decimals, offset_s: 0 }
    }

    /// A time of this interface, ns since 1970, within what 64 bits hold.
    pub(super) fn time_ns(&self, ticks: u64) -> u64 {
        let (ticks, power) = (u128::from(ticks), u32::from(self.resolution & 0x7f));
        let ns = match (self.resolution & 0x80, power) {
            (0, 0..=9) => ticks * 10_u128.pow(9 - power),
            // Ticks below the nanosecond; of 10^-39 s and less none counts.
            (0, _) => 10_u128.checked_pow(power - 9).map_or(0, |per_ns| ticks / per_ns),
            _ => (ticks * 1_000_000_000) >> power,
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        ns.clamp(0, i128::from(u64::MAX)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_unit_are_nanoseconds_and_none_overflows() {
        let time = |resolution, offset_s, ticks| {
            Interface { resolution, offset_s, ..Interface::new(LinkType::RAW, 0, 0) }.time_ns(ticks)
        };
        assert_eq!(
            (time(6, 0, 1_500_000), time(9, 1, 7), time(0, 0, 2)),
            (1_500_000_000, 1_000_000_007, 2_000_000_000)
        );
        assert_eq!((time(12, 0, 7_999), time(0x80 | 10, 0, 512), time(0x80, 0, 3)), (7, 500_000_000, 3_000_000_000));
        assert_eq!((time(0x7f, 0, u64::MAX), time(0xff, 0, u64::MAX)), (0, 0));
        assert_eq!((time(0, 0, u64::MAX), time(9, i64::MIN, 5), time(9, i64::MAX, 5)), (u64::MAX, 0, u64::MAX));
    }
}
