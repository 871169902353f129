//! The longest messages that the interfaces of two ends carry in one frame.

use sidestep_sys::{interface, xdp};
use std::net::IpAddr;

/// IPv4 and UDP.
const HEADERS_V4: u32 = 20 + 8;
/// IPv6 and UDP.
const HEADERS_V6: u32 = 40 + 8;
/// Headers of each fragment: IPv4, or IPv6 with its fragment header.
const FRAGMENT_V4: u32 = 20;
const FRAGMENT_V6: u32 = 40 + 8;
/// The part of UDP's header that fragments carry as they carry the message.
const UDP_HEADER: u32 = 8;

/// The MTUs of the two ends; none if they are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mtus {
    /// The value of the measuring end.
    pub(crate) here: Option<u32>,
    /// The value of the peer.
    pub(crate) peer: Option<u32>,
    /// Set if the ends use IPv6.
    pub(crate) is_ipv6: bool,
}

/// Length of the IP and UDP headers of a message.
pub(crate) fn headers(is_ipv6: bool) -> u32 {
    if is_ipv6 { HEADERS_V6 } else { HEADERS_V4 }
}

/// Returns the MTU of the interface by which `local` reaches `remote`, in the namespace of the calling thread.
pub(crate) fn of_way(local: IpAddr, remote: IpAddr) -> Option<u32> {
    // A host reaches its own addresses by loopback.
    let name = if local == remote { Some("lo".to_owned()) } else { interface::of_address(local) };
    xdp::device(&name?).ok().map(|device| device.mtu).filter(|mtu| *mtu > 0)
}

impl Mtus {
    /// Returns the smaller MTU.
    pub(crate) fn least(&self) -> Option<u32> {
        self.here.into_iter().chain(self.peer).min()
    }

    /// Returns the longest message of a datagram in one frame.
    pub(crate) fn datagram_max(&self) -> Option<u32> {
        self.least().map(|mtu| mtu.saturating_sub(headers(self.is_ipv6)))
    }

    /// Returns the number of fragments of a datagram of `size` bytes, if it is longer than a frame.
    pub(crate) fn fragments(&self, size: u32) -> Option<u32> {
        let (mtu, longest) = (self.least()?, self.datagram_max()?);
        let header = if self.is_ipv6 { FRAGMENT_V6 } else { FRAGMENT_V4 };
        // Each but the last carries a multiple of eight bytes (RFC 791, RFC 8200).
        let room = (mtu.saturating_sub(header) / 8 * 8).max(8);
        (size > longest).then(|| (size + UDP_HEADER).div_ceil(room))
    }

    /// Returns both MTUs if they differ and a datagram of `size` bytes exceeds the smaller: an interface drops such frames
    /// of a larger one.
    pub(crate) fn disagreement(&self, size: u32) -> Option<(u32, u32)> {
        let (here, peer) = (self.here?, self.peer?);
        (here != peer && size > self.datagram_max()?).then_some((here, peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn mtus(here: u32, peer: u32, is_ipv6: bool) -> Mtus {
        Mtus { here: Some(here), peer: Some(peer), is_ipv6 }
    }

    #[test]
    fn a_frame_holds_the_mtu_less_the_headers() {
        for (mtu, is_ipv6, longest) in
            [(1500, false, 1472), (1500, true, 1452), (9000, false, 8972), (9000, true, 8952), (20, false, 0)]
        {
            assert_eq!(mtus(mtu, mtu, is_ipv6).datagram_max(), Some(longest));
        }
        assert_eq!(mtus(9000, 1500, false).datagram_max(), Some(1472));
        assert_eq!(Mtus::default().datagram_max(), None);
    }

    #[test]
    fn longer_messages_are_cut() {
        for (mtu, is_ipv6, size, count) in [
            (1500, false, 1472, None),
            (1500, false, 1473, Some(2)),
            (1500, false, 8972, Some(7)),
            (1500, true, 1453, Some(2)),
            (65_536, false, 65_507, None),
        ] {
            assert_eq!(mtus(mtu, mtu, is_ipv6).fragments(size), count, "{size} at {mtu}");
        }
    }

    #[test]
    fn ends_disagree_about_what_only_one_takes() {
        assert_eq!(mtus(9000, 1500, false).disagreement(1472), None);
        assert_eq!(mtus(9000, 1500, false).disagreement(1473), Some((9000, 1500)));
        assert_eq!(mtus(1500, 9000, false).disagreement(8972), Some((1500, 9000)));
        assert_eq!(mtus(1500, 1500, false).disagreement(8972), None);
        assert_eq!(Mtus { peer: None, ..mtus(9000, 0, false) }.disagreement(8972), None);
    }

    #[test]
    fn a_host_reaches_itself_by_loopback() {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert!(of_way(here, here).is_some_and(|mtu| mtu >= 16_384));
        assert_eq!(of_way(Ipv4Addr::new(203, 0, 113, 77).into(), here), None);
    }
}
