//! The Toeplitz hash, by which NICs spread packets over receive queues (RSS; Microsoft, "RSS hashing types").
//!
//! A key of at least 40 bytes slides along the input bit by bit; the hash is the exclusive or of the 32 key bits at
//! each set bit of the input. Therefore the hash of a whole is the exclusive or of the hashes of its parts, each at its
//! offset, and another port costs four look-ups.
//!
//! ```text
//!  input:  source address | destination address | source port | destination port      big-endian, as in the packet
//!          4 or 16 bytes    4 or 16 bytes         2 bytes       2 bytes
//! ```

use crate::Addresses;

/// The longest input: two IPv6 addresses and two ports, bytes.
pub(crate) const INPUT_BYTES_MAX: usize = 36;
/// The shortest key that covers the longest input, bytes. The rest of a longer key is not used.
pub(crate) const KEY_BYTES_MIN: usize = INPUT_BYTES_MAX + 4;

const NIBBLES: usize = INPUT_BYTES_MAX * 2;

/// The transformation of addresses and ports before the hash (RXH_XFRM_* of linux/ethtool.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transform {
    /// None.
    #[default]
    None,
    /// Source and destination are each replaced by the exclusive or of both (Linux 6.8).
    SymmetricXor,
    /// The source is replaced by the or of both, the destination by the exclusive or (Linux 6.16; mlx5 has always done it).
    SymmetricOrXor,
}

impl Transform {
    fn apply<const N: usize>(self, source: [u8; N], destination: [u8; N]) -> ([u8; N], [u8; N]) {
        let both = |join: fn(u8, u8) -> u8| core::array::from_fn(|index| join(source[index], destination[index]));
        match self {
            Self::None => (source, destination),
            Self::SymmetricXor => (both(|a, b| a ^ b), both(|a, b| a ^ b)),
            Self::SymmetricOrXor => (both(|a, b| a | b), both(|a, b| a ^ b)),
        }
    }
}

/// The hash with one key, as a table of the contribution of each half byte of the input.
#[derive(Clone, PartialEq, Eq)]
pub struct Toeplitz {
    nibbles: [[u32; 16]; NIBBLES],
}

impl core::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Toeplitz(key {:08x}...)", self.hash(&[0x80]))
    }
}

impl Toeplitz {
    /// Makes the hash of a key; `None` if it is shorter than `KEY_BYTES_MIN`.
    pub fn new(key: &[u8]) -> Option<Self> {
        let key = key.first_chunk::<KEY_BYTES_MIN>()?;
        let mut nibbles = [[0; 16]; NIBBLES];
        for (place, table) in nibbles.iter_mut().enumerate() {
            let bits: [u32; 4] = core::array::from_fn(|bit| window(key, place * 4 + bit));
            for (value, hash) in table.iter_mut().enumerate() {
                let set = (0..4).filter(|bit| value & (8 >> bit) != 0);
                *hash = set.fold(0, |hash, bit| hash ^ bits[bit]);
            }
        }
        Some(Self { nibbles })
    }

    /// The hash of these bytes; bytes beyond `INPUT_BYTES_MAX` are ignored.
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.part(0, input)
    }

    /// The hash of the addresses alone, for devices that do not hash ports.
    pub fn addresses(&self, addresses: &Addresses, transform: Transform) -> u32 {
        self.with_length(addresses, transform).0
    }

    /// The hash of the addresses, to which any number of ports can be added.
    pub fn ports(&self, addresses: &Addresses, transform: Transform) -> Ports<'_> {
        let (hash, length) = self.with_length(addresses, transform);
        Ports { toeplitz: self, hash, length, transform }
    }

    fn with_length(&self, addresses: &Addresses, transform: Transform) -> (u32, usize) {
        match addresses {
            Addresses::V4 { source, destination } => {
                let (first, second) = transform.apply(source.octets(), destination.octets());
                (self.part(0, &first) ^ self.part(4, &second), 8)
            }
            Addresses::V6 { source, destination } => {
                let (first, second) = transform.apply(source.octets(), destination.octets());
                (self.part(0, &first) ^ self.part(16, &second), 32)
            }
        }
    }

    /// The contribution of these bytes at offset `start` of the input.
    #[inline]
    fn part(&self, start: usize, bytes: &[u8]) -> u32 {
        let tables = self.nibbles.get(start * 2..).unwrap_or_default().as_chunks::<2>().0;
        let add = |hash, (byte, [high, low]): (&u8, &[[u32; 16]; 2])| {
            hash ^ high[usize::from(byte >> 4)] ^ low[usize::from(byte & 15)]
        };
        bytes.iter().zip(tables).fold(0, add)
    }
}

/// The 32 bits of key from a bit on.
fn window(key: &[u8; KEY_BYTES_MIN], bit: usize) -> u32 {
    let byte = bit / 8;
    let mut word = [0; 8];
    // The fifth byte of the last input bit's window is the key's last byte.
    for (to, from) in word.iter_mut().zip(&key[byte..]) {
        *to = *from;
    }
    ((u64::from_be_bytes(word) << (bit % 8)) >> 32) as u32
}

/// The hash of two addresses, to which ports are added.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'a> {
    toeplitz: &'a Toeplitz,
    hash: u32,
    length: usize,
    transform: Transform,
}

impl Ports<'_> {
    /// The hash of a packet from port `source` to port `destination`.
    #[inline]
    pub fn hash(&self, source: u16, destination: u16) -> u32 {
        let (first, second) = self.transform.apply(source.to_be_bytes(), destination.to_be_bytes());
        self.hash ^ self.toeplitz.part(self.length, &[first[0], first[1], second[0], second[1]])
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::net::IpAddr;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The key of Microsoft's "Verifying the RSS hash calculation".
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca,
        0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
        0xbe, 0xac, 0x01, 0xfa,
    ];

    /// Its table: source, its port, destination, its port, hash of the addresses, hash with ports.
    const VECTORS: [(&str, u16, &str, u16, u32, u32); 8] = [
        ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e_8fc2, 0x51cc_c178),
        ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718_262a, 0xc626_b0ea),
        ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0_a5de, 0x5c2b_394a),
        ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x8298_9176, 0xafc7_327f),
        ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d18_09c5, 0x10e8_28a2),
        ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc1_8cd5, 0x4020_7d3d),
        ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c_461c, 0xdde5_1bbf),
        ("3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024, 0x4b61_e985, 0x02d1_feef),
    ];

    fn addresses(source: &str, destination: &str) -> Addresses {
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        Addresses::new(parse(source), parse(destination)).unwrap()
    }

    #[test]
    fn the_published_hashes_come_out() {
        let toeplitz = Toeplitz::new(&KEY).unwrap();
        for (source, from, destination, to, without, with) in VECTORS {
            let addresses = addresses(source, destination);
            assert_eq!(toeplitz.addresses(&addresses, Transform::None), without, "{source}");
            assert_eq!(toeplitz.ports(&addresses, Transform::None).hash(from, to), with, "{source}");
        }
    }

    #[test]
    fn keys_of_any_length_are_met() {
        let mut long = KEY.to_vec();
        long.resize(4096, 0xff);
        assert_eq!(Toeplitz::new(&long), Toeplitz::new(&KEY));
        for length in 0..KEY_BYTES_MIN {
            assert!(Toeplitz::new(&KEY[..length]).is_none(), "{length}");
        }
        let toeplitz = Toeplitz::new(&KEY).unwrap();
        assert_eq!(toeplitz.hash(&[]), 0);
        assert_eq!(toeplitz.hash(&[7; 4096]), toeplitz.hash(&[7; INPUT_BYTES_MAX]));
    }

    /// The definition, bit by bit.
    fn slowly(key: &[u8; 40], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], index: usize| bytes[index / 8] >> (7 - index % 8) & 1;
        let window = |at: usize| (0..32).fold(0, |word, index| word << 1 | u32::from(bit(key, at + index)));
        (0..input.len() * 8).filter(|at| bit(input, *at) == 1).fold(0, |hash, at| hash ^ window(at))
    }

    fn with_ports(first: &[u8], second: &[u8], ports: [u16; 2]) -> Vec<u8> {
        [first, second, &ports[0].to_be_bytes(), &ports[1].to_be_bytes()].concat()
    }

    proptest! {
        #[test]
        fn the_table_is_the_definition(key: [u8; 40], source: u128, destination: u128, from: u16, to: u16, is_v4: bool) {
            let toeplitz = Toeplitz::new(&key).unwrap();
            let (a, b) = (source.to_be_bytes(), destination.to_be_bytes());
            let length = if is_v4 { 4 } else { 16 };
            let (a, b) = (&a[..length], &b[..length]);
            let ip = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
                Ok(four) => IpAddr::from(four),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap()),
            };
            let addresses = Addresses::new(ip(a), ip(b)).unwrap();
            let join = |join: fn(u8, u8) -> u8| a.iter().zip(b).map(|(a, b)| join(*a, *b)).collect::<Vec<_>>();
            let (or, xor) = (join(|a, b| a | b), join(|a, b| a ^ b));
            let hash = |transform| toeplitz.ports(&addresses, transform).hash(from, to);
            prop_assert_eq!(hash(Transform::None), slowly(&key, &with_ports(a, b, [from, to])));
            prop_assert_eq!(hash(Transform::SymmetricXor), slowly(&key, &with_ports(&xor, &xor, [from ^ to, from ^ to])));
            prop_assert_eq!(hash(Transform::SymmetricOrXor), slowly(&key, &with_ports(&or, &xor, [from | to, from ^ to])));
            let back = toeplitz.ports(&addresses.reversed(), Transform::SymmetricOrXor).hash(to, from);
            prop_assert_eq!(hash(Transform::SymmetricOrXor), back);
        }
    }
}
