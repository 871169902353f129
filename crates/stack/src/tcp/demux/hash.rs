//! Keyed hashes: SipHash for what a stranger must not foretell, a faster one to spread flows over the table.

use crate::tcp::flow::Flow;
use sidestep_wire::Addresses;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Random numbers that the caller supplies once per stack; nobody outside may know them.
#[derive(Clone, Copy)]
pub struct Secret(pub [u64; 4]);

/// SipHash-2-4 (Aumasson and Bernstein, 2012) over whole words.
pub(crate) fn sip_hash(key: [u64; 2], words: &[u64]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The last block holds the length in bytes, modulo 256, in its highest byte.
    let end = (words.len() as u64 * 8) << 56;
    for word in words.iter().copied().chain([end]) {
        v[3] ^= word;
        sip_round(&mut v);
        sip_round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..4 {
        sip_round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// SipHash of a flow and one more word.
pub(crate) fn sip_hash_flow(key: [u64; 2], flow: &Flow, more: u64) -> u64 {
    let ports = u64::from(flow.local_port) << 16 | u64::from(flow.remote_port);
    match flow.addresses {
        Addresses::V4 { source, destination } => sip_hash(key, &[pair(source, destination), ports, more]),
        Addresses::V6 { source, destination } => {
            let ([a, b], [c, d]) = (halves(source), halves(destination));
            sip_hash(key, &[a, b, c, d, ports, more])
        }
    }
}

/// Spreads flows over the table, one multiplication per 16 bytes. Without the secret an attacker cannot aim at one bucket.
pub(crate) struct FlowHasher([u64; 4]);

impl FlowHasher {
    pub(crate) fn new(secret: &Secret) -> Self {
        // Other keys than those that the sequence numbers use.
        Self([1, 2, 3, 4].map(|number| sip_hash([secret.0[2], secret.0[3]], &[number])))
    }

    pub(crate) fn hash(&self, flow: &Flow) -> u32 {
        self.hash_arrival(&flow.addresses.reversed(), flow.local_port, flow.remote_port)
    }

    /// The hash of the flow that a segment between these addresses and ports belongs to.
    #[inline]
    pub(crate) fn hash_arrival(&self, addresses: &Addresses, local_port: u16, remote_port: u16) -> u32 {
        let ports = u64::from(local_port) << 16 | u64::from(remote_port);
        let folded = match *addresses {
            Addresses::V4 { source, destination } => fold(pair(source, destination) ^ self.0[0], ports ^ self.0[1]),
            Addresses::V6 { source, destination } => {
                let ([a, b], [c, d]) = (halves(source), halves(destination));
                let first = fold(a ^ self.0[0], b ^ self.0[1]);
                let second = fold(c ^ self.0[2], d ^ self.0[3]);
                fold(first ^ ports ^ self.0[1], second ^ self.0[2])
            }
        };
        (folded ^ folded >> 32) as u32
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[inline]
fn pair(source: Ipv4Addr, destination: Ipv4Addr) -> u64 {
    u64::from(u32::from(source)) << 32 | u64::from(u32::from(destination))
}

#[inline]
fn halves(address: Ipv6Addr) -> [u64; 2] {
    let bits = u128::from(address);
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the reference implementation for 0, 8 and 16 bytes 00 01 02 ..., key 00 01 ... 0f.
    #[test]
    fn sip_hash_is_sip_hash() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(sip_hash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(sip_hash(key, &key[..1]), 0x93f5_f579_9a93_2462);
        assert_eq!(sip_hash(key, &key), 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    fn neighbouring_flows_are_spread() {
        let hasher = FlowHasher::new(&Secret([1, 2, 3, 4]));
        for remote in ["192.0.2.9:1", "[2001:db8::9]:1"] {
            let mut buckets = [0_u32; 256];
            for port in 0..4096_u16 {
                let mut remote: std::net::SocketAddr = remote.parse().unwrap();
                remote.set_port(port);
                let local = if remote.is_ipv4() { "192.0.2.1:443" } else { "[2001:db8::1]:443" };
                let flow = Flow::new(local.parse().unwrap(), remote).unwrap();
                buckets[hasher.hash(&flow) as usize % 256] += 1;
            }
            // Sixteen on average; a random spread stays below 40 with overwhelming likelihood.
            assert!(buckets.iter().all(|&count| count < 40), "{buckets:?}");
        }
    }
}
