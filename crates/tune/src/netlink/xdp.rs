//! What a driver says of its XDP, by the netdev family (linux/netdev.h; Linux 6.3). Nothing is attached to find out.

use super::attribute::{Attributes, find};
use super::generic::Family;
use std::io::{self, ErrorKind};

const DEV_GET: u8 = 1;
const IFINDEX: u16 = 1;
const FEATURES: u16 = 3;

/// `enum netdev_xdp_act`.
const BASIC: u64 = 1;
const REDIRECT: u64 = 1 << 1;
const ZERO_COPY: u64 = 1 << 3;
const SEVERAL_BUFFERS: u64 = 1 << 5;

/// What a driver says of its XDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// It runs programs, and redirects frames by them: AF_XDP in copy mode at least.
    pub native: bool,
    /// It reads and writes the memory of AF_XDP sockets itself.
    pub zero_copy: bool,
    /// It receives frames of several buffers by a program.
    pub several_buffers: bool,
}

/// Asks the driver of an interface of the calling thread's namespace.
///
/// # Errors
/// Fails where the kernel has no such question (before Linux 6.3), or there is no such interface.
pub fn xdp_features(ifindex: u32) -> io::Result<XdpFeatures> {
    let answers = Family::open("netdev")?.ask(DEV_GET, Attributes::default().u32(IFINDEX, ifindex))?;
    answers.first().and_then(|answer| decode(answer)).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn decode(answer: &[u8]) -> Option<XdpFeatures> {
    let features = find(answer, FEATURES)?.number()?;
    let has = |bits| features & bits == bits;
    Some(XdpFeatures {
        native: has(BASIC | REDIRECT),
        zero_copy: has(ZERO_COPY),
        several_buffers: has(SEVERAL_BUFFERS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_by_their_bits() {
        let of =
            |bits: u64| decode(&Attributes::default().u32(1, 2).bytes(3, &bits.to_ne_bytes()).into_bytes()).unwrap();
        assert_eq!(of(0), XdpFeatures::default());
        assert_eq!(of(0b1), XdpFeatures::default(), "without redirection nothing reaches a socket");
        assert_eq!(of(0b10_0111), XdpFeatures { native: true, zero_copy: false, several_buffers: true });
        assert!(of(0b1011).zero_copy);
        assert!(decode(&[]).is_none() && decode(&Attributes::default().u32(1, 2).into_bytes()).is_none());
    }

    #[test]
    fn an_interface_that_is_not_there_has_none() {
        assert!(xdp_features(u32::MAX).is_err());
    }
}
