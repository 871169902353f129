//! Frames as on the wire, which the test cases modify.

use std::net::{IpAddr, SocketAddr};

use sidestep_xdp_steering::Vlan;

pub(crate) const OWN_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
pub(crate) const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x02];

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// A frame, and the offsets of its headers.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ip: usize,
    pub(crate) transport: usize,
}

impl Frame {
    /// A TCP or UDP packet with eleven bytes of payload, sent from `remote` to `local`.
    pub(crate) fn new(protocol: u8, remote: &str, local: &str, vlan: Vlan) -> Self {
        let (remote, local): (SocketAddr, SocketAddr) = (remote.parse().unwrap(), local.parse().unwrap());
        let mut bytes = ethernet(local.ip(), vlan);
        let transport = transport(protocol, remote.port(), local.port());
        let ip = bytes.len();
        bytes.extend(ip_header(protocol, remote.ip(), local.ip(), transport.len()));
        let at = bytes.len();
        bytes.extend(transport);
        Self { bytes, ip, transport: at }
    }

    pub(crate) fn is_ipv4(&self) -> bool {
        self.bytes[self.ip] >> 4 == 4
    }

    /// Writes `value` `offset` bytes after the start of the IP header.
    pub(crate) fn ip(mut self, offset: usize, value: &[u8]) -> Self {
        self.bytes[self.ip + offset..][..value.len()].copy_from_slice(value);
        self
    }

    /// Writes `value` `offset` bytes after the start of the TCP or UDP header.
    pub(crate) fn transport(mut self, offset: usize, value: &[u8]) -> Self {
        self.bytes[self.transport + offset..][..value.len()].copy_from_slice(value);
        self
    }

    /// Adds this many bytes of payload, which the headers count.
    pub(crate) fn longer(mut self, bytes: usize) -> Self {
        let more = |frame: &Self, at: usize| {
            let old = u16::from_be_bytes([frame.bytes[at], frame.bytes[at + 1]]);
            (old + bytes as u16).to_be_bytes()
        };
        let (length_at, protocol_at) = if self.is_ipv4() { (2, 9) } else { (4, 6) };
        let packet = more(&self, self.ip + length_at);
        self = self.ip(length_at, &packet);
        if self.bytes[self.ip + protocol_at] == UDP {
            let datagram = more(&self, self.transport + 4);
            self = self.transport(4, &datagram);
        }
        self.padded(bytes)
    }

    /// Adds IPv4 options, a multiple of four bytes.
    pub(crate) fn options(mut self, options: &[u8]) -> Self {
        let total = u16::from_be_bytes([self.bytes[self.ip + 2], self.bytes[self.ip + 3]]) + options.len() as u16;
        self.bytes.splice(self.transport..self.transport, options.iter().copied());
        self.transport += options.len();
        let words = self.bytes[self.ip] + options.len() as u8 / 4;
        self.ip(0, &[words]).ip(2, &total.to_be_bytes())
    }

    /// Adds a fragment header after that of IPv6: the offset (in units of eight bytes), and whether more fragments
    /// follow.
    pub(crate) fn fragment_header(mut self, place: u16, more: bool) -> Self {
        let next = self.bytes[self.ip + 6];
        let payload = u16::from_be_bytes([self.bytes[self.ip + 4], self.bytes[self.ip + 5]]) + 8;
        let [high, low] = (place << 3 | u16::from(more)).to_be_bytes();
        self.bytes.splice(self.transport..self.transport, [next, 0, high, low, 0, 0, 0, 7]);
        self.transport += 8;
        self.ip(4, &payload.to_be_bytes()).ip(6, &[44])
    }

    /// Makes it the first of several fragments, with this many bytes of the segment.
    pub(crate) fn first_fragment(self, bytes: usize) -> Self {
        let end = self.transport + bytes;
        let frame = if self.is_ipv4() {
            self.ip(2, &(20 + bytes as u16).to_be_bytes()).ip(6, &[0x20, 0]).cut(end)
        } else {
            self.ip(4, &(bytes as u16).to_be_bytes()).cut(end).fragment_header(0, true)
        };
        // A frame below the minimum length is padded.
        let missing = 60_usize.saturating_sub(frame.bytes.len());
        frame.padded(missing)
    }

    pub(crate) fn destination(mut self, mac: [u8; 6]) -> Self {
        self.bytes[..6].copy_from_slice(&mac);
        self
    }

    /// Adds bytes after the packet, as a switch pads short frames.
    pub(crate) fn padded(mut self, bytes: usize) -> Self {
        self.bytes.extend(vec![0; bytes]);
        self
    }

    pub(crate) fn cut(mut self, bytes: usize) -> Self {
        self.bytes.truncate(bytes);
        self
    }

    /// Inserts a tag after the addresses.
    pub(crate) fn tagged(mut self, kind: u16, control: u16) -> Self {
        let [a, b] = kind.to_be_bytes();
        let [c, d] = control.to_be_bytes();
        self.bytes.splice(12..12, [a, b, c, d]);
        self.ip += 4;
        self.transport += 4;
        self
    }
}

fn ethernet(local: IpAddr, vlan: Vlan) -> Vec<u8> {
    let mut bytes = mac_of(local).to_vec();
    bytes.extend(PEER_MAC);
    match vlan {
        Vlan::Untagged => {}
        // The priority bits are set: they are not part of the VLAN id.
        Vlan::Tagged(number) => bytes.extend(tag(0x8100, 0xe000 | number)),
        Vlan::Double { outer, inner } => {
            bytes.extend(tag(0x88a8, outer));
            bytes.extend(tag(0x8100, 0x1000 | inner));
        }
    }
    bytes.extend(if local.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] });
    bytes
}

fn tag(kind: u16, control: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (kind.to_be_bytes(), control.to_be_bytes());
    [a, b, c, d]
}

fn mac_of(local: IpAddr) -> [u8; 6] {
    match local {
        IpAddr::V4(ip) if ip.is_multicast() => {
            let [_, b, c, d] = ip.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(ip) if ip.is_multicast() => {
            let [.., a, b, c, d] = ip.octets();
            [0x33, 0x33, a, b, c, d]
        }
        _ => OWN_MAC,
    }
}

fn ip_header(protocol: u8, remote: IpAddr, local: IpAddr, payload_bytes: usize) -> Vec<u8> {
    match (remote, local) {
        (IpAddr::V4(remote), IpAddr::V4(local)) => {
            let [high, low] = (20 + payload_bytes as u16).to_be_bytes();
            let mut bytes = vec![0x45, 0x10, high, low, 0xab, 0xcd, 0x40, 0x00, 1, protocol, 0, 0];
            bytes.extend(remote.octets());
            bytes.extend(local.octets());
            bytes
        }
        (IpAddr::V6(remote), IpAddr::V6(local)) => {
            let [high, low] = (payload_bytes as u16).to_be_bytes();
            let mut bytes = vec![0x6a, 0xbc, 0xde, 0xf0, high, low, protocol, 1];
            bytes.extend(remote.octets());
            bytes.extend(local.octets());
            bytes
        }
        _ => panic!("two families in one packet"),
    }
}

fn transport(protocol: u8, source: u16, destination: u16) -> Vec<u8> {
    let mut bytes = source.to_be_bytes().to_vec();
    bytes.extend(destination.to_be_bytes());
    match protocol {
        TCP => bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0x10, 0x00, 0, 0, 0, 0]),
        _ => bytes.extend([0, 8 + 11, 0, 0]),
    }
    bytes.extend(b"eleven byte");
    bytes
}
