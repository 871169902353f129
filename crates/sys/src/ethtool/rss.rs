//! Receive side scaling (RSS) of a device: hash function, key, indirection table, hashed fields.

use super::abi::{GET_FIELDS, GET_RSS, rxfh, rxnfc};
use super::request::Buffer;
use std::io;

/// More than any Linux driver has (2,048 entries, 52 bytes); an answer above this is rejected.
const TABLE_ENTRIES_MAX: u32 = 1 << 16;
const KEY_BYTES_MAX: u32 = 4096;
/// The sizes are read first, and may change before the rest is read.
const ATTEMPTS_MAX: usize = 4;

/// The hash function (ETH_RSS_HASH_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFunction {
    /// Toeplitz with a key.
    Toeplitz,
    /// Exclusive or of all bytes.
    Xor,
    /// CRC-32.
    Crc32,
    /// Another function, none or several, as bits.
    Other(u8),
}

impl HashFunction {
    fn of(bits: u8) -> Self {
        match bits {
            1 => Self::Toeplitz,
            2 => Self::Xor,
            4 => Self::Crc32,
            bits => Self::Other(bits),
        }
    }

    /// The name that ethtool(8) uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Toeplitz => "toeplitz",
            Self::Xor => "xor",
            Self::Crc32 => "crc32",
            Self::Other(_) => "another function",
        }
    }
}

/// The RSS settings of the default context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rss {
    /// The hash function.
    pub function: HashFunction,
    /// The transformation of the input, RXH_XFRM_*; 0 for none, and on kernels before 6.8.
    pub transform: u8,
    /// The key; empty if the driver does not report it.
    pub key: Vec<u8>,
    /// The queue for each value of the hash's low bits; empty if the driver has no table.
    pub table: Vec<u32>,
}

/// Kinds of packets, each with its own set of hashed fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv4.
    Udp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
}

impl FlowKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tcp4, Self::Udp4, Self::Tcp6, Self::Udp6];

    /// TCP_V4_FLOW and so on.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Tcp4 => 1,
            Self::Udp4 => 2,
            Self::Tcp6 => 5,
            Self::Udp6 => 6,
        }
    }
}

/// The fields of such packets that the device hashes, as bits of [`field`](super::field).
pub fn fields(interface: &str, kind: FlowKind) -> io::Result<u64> {
    let mut buffer = Buffer::new(GET_FIELDS, rxnfc::BYTES);
    buffer.put_u32(rxnfc::FLOW_TYPE, kind.number());
    // SAFETY: ETHTOOL_GRXFH reads and writes at most one ethtool_rxnfc of 192 bytes.
    unsafe { buffer.call(interface) }?;
    Ok(buffer.u64(rxnfc::DATA))
}

/// The receive side scaling of a device; EOPNOTSUPP if it has none.
pub fn rss(interface: &str) -> io::Result<Rss> {
    for _ in 0..ATTEMPTS_MAX {
        let (entries, key_bytes) = sizes(interface)?;
        match configuration(interface, entries, key_bytes) {
            // The kernel rejects sizes other than its own: they have changed meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            answer => return answer,
        }
    }
    Err(io::Error::other("the size of the indirection table changes all the time"))
}

/// The number of table entries and key bytes. The kernel reports them when asked with zero sizes.
fn sizes(interface: &str) -> io::Result<(u32, u32)> {
    let mut buffer = Buffer::new(GET_RSS, rxfh::BYTES);
    // SAFETY: with both sizes zero ETHTOOL_GRSSH writes the ethtool_rxfh of 24 bytes and nothing behind it.
    unsafe { buffer.call(interface) }?;
    let (entries, key_bytes) = (buffer.u32(rxfh::TABLE_ENTRIES), buffer.u32(rxfh::KEY_BYTES));
    if entries > TABLE_ENTRIES_MAX || key_bytes > KEY_BYTES_MAX {
        let what = format!("a table of {entries} entries and a key of {key_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok((entries, key_bytes))
}

fn configuration(interface: &str, entries: u32, key_bytes: u32) -> io::Result<Rss> {
    let (table_bytes, key_length) = (entries as usize * 4, key_bytes as usize);
    let mut buffer = Buffer::new(GET_RSS, rxfh::BYTES + table_bytes + key_length);
    buffer.put_u32(rxfh::TABLE_ENTRIES, entries);
    buffer.put_u32(rxfh::KEY_BYTES, key_bytes);
    // SAFETY: ETHTOOL_GRSSH writes the ethtool_rxfh of 24 bytes, and behind it a table and a key of the sizes that it is
    // given, or nothing if they are not its own. The buffer has room for them.
    unsafe { buffer.call(interface) }?;
    let table = buffer.slice(rxfh::BYTES, table_bytes);
    let head = buffer.slice(rxfh::FUNCTION, rxfh::TRANSFORM + 1 - rxfh::FUNCTION);
    Ok(Rss {
        function: HashFunction::of(head[0]),
        transform: head[1],
        key: buffer.slice(rxfh::BYTES + table_bytes, key_length),
        table: table.as_chunks().0.iter().map(|entry| u32::from_ne_bytes(*entry)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_none() {
        for kind in FlowKind::ALL {
            assert_eq!(fields("lo", kind).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        }
        assert_eq!(rss("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(rss("none0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
