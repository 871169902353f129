//! What a device can stamp, as its driver tells it.

use super::request::Buffer;
use std::io;

/// ETHTOOL_GET_TS_INFO.
const GET_TS_INFO: u32 = 0x41;
/// `struct ethtool_ts_info`: command, flags, clock, types and three reserved words, filters and three reserved words.
const BYTES: usize = 44;

/// The words of `struct ethtool_ts_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timestamps {
    /// SOF_TIMESTAMPING_*.
    pub(crate) flags: u32,
    /// The number of the clock; -1 if there is none.
    pub(crate) phc: i32,
    /// A bit for each HWTSTAMP_TX_*.
    pub(crate) send_types: u32,
    /// A bit for each HWTSTAMP_FILTER_*.
    pub(crate) receive_filters: u32,
}

/// Asks the driver of an interface.
pub(crate) fn timestamps(interface: &str) -> io::Result<Timestamps> {
    let mut buffer = Buffer::new(GET_TS_INFO, BYTES);
    // SAFETY: ETHTOOL_GET_TS_INFO fills one ethtool_ts_info of 44 bytes.
    unsafe { buffer.call(interface) }?;
    Ok(Timestamps {
        flags: buffer.u32(4),
        phc: buffer.u32(8).cast_signed(),
        send_types: buffer.u32(12),
        receive_filters: buffer.u32(28),
    })
}
