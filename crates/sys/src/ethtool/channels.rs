//! The number of queues of a device.

use super::abi::{self, GET_CHANNELS, GET_RECEIVE_RINGS, rxnfc};
use super::request::Buffer;
use crate::xdp::receive_queues_max;
use std::io;

/// The queues of a device by kind. A combined queue receives and transmits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Receive-only queues.
    pub receive: u32,
    /// Transmit-only queues.
    pub transmit: u32,
    /// Combined queues.
    pub combined: u32,
    /// The most combined queues that the device can have.
    pub(crate) combined_max: u32,
}

impl Channels {
    /// Receive queues, numbered from 0.
    pub fn receive_queues(&self) -> u32 {
        self.receive.saturating_add(self.combined)
    }

    /// Transmit queues, numbered from 0.
    pub fn transmit_queues(&self) -> u32 {
        self.transmit.saturating_add(self.combined)
    }
}

/// The queues of a device; EOPNOTSUPP if the driver does not report them.
pub fn channels(interface: &str) -> io::Result<Channels> {
    let mut buffer = Buffer::new(GET_CHANNELS, abi::channels::WORDS * 4);
    // SAFETY: ETHTOOL_GCHANNELS fills one ethtool_channels of 36 bytes.
    unsafe { buffer.call(interface) }?;
    let word = |index: usize| buffer.u32(index * 4);
    Ok(Channels {
        receive: word(abi::channels::RECEIVE),
        transmit: word(abi::channels::TRANSMIT),
        combined: word(abi::channels::COMBINED),
        combined_max: word(abi::channels::COMBINED_MAX),
    })
}

/// The number of receive queues in use. For a driver that reports neither channels nor rings, the number is known only
/// if the device was made with a single queue.
pub fn receive_queues(interface: &str) -> io::Result<u32> {
    if let Some(queues) = channels(interface).ok().map(|channels| channels.receive_queues()).filter(|count| *count > 0)
    {
        return Ok(queues);
    }
    let refusal = match receive_rings(interface) {
        Ok(queues @ 1..) => return Ok(queues),
        Ok(0) => io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        Err(error) => error,
    };
    if receive_queues_max(interface)? == 1 { Ok(1) } else { Err(refusal) }
}

fn receive_rings(interface: &str) -> io::Result<u32> {
    let mut buffer = Buffer::new(GET_RECEIVE_RINGS, rxnfc::BYTES);
    // SAFETY: ETHTOOL_GRXRINGS reads and writes at most one ethtool_rxnfc of 192 bytes.
    unsafe { buffer.call(interface) }?;
    u32::try_from(buffer.u64(rxnfc::DATA)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_tells_no_channels_and_has_one_queue() {
        assert_eq!(channels("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(receive_queues("lo").unwrap(), 1);
        assert_eq!(receive_queues("none0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert!(receive_queues("an-interface-name-longer-than-the-kernel-allows").is_err());
    }
}
