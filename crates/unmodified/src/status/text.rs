//! Text and addresses in words.

use sidestep_sys::printable::printable;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const WORD_BYTES: usize = size_of::<u64>();

/// Returns a text as words, cut at a character and padded with NUL.
pub(super) fn to_words<const N: usize>(text: &str) -> [u64; N] {
    let mut end = text.len().min(N * WORD_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = &text.as_bytes()[..end];
    std::array::from_fn(|word| {
        let mut chunk = [0; WORD_BYTES];
        let rest = bytes.get(word * WORD_BYTES..).unwrap_or_default();
        let len = rest.len().min(WORD_BYTES);
        chunk[..len].copy_from_slice(&rest[..len]);
        u64::from_ne_bytes(chunk)
    })
}

/// Returns the text in words; what a terminal would obey or hide becomes a question mark.
pub(super) fn from_words(words: impl Iterator<Item = u64>) -> String {
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).take_while(|byte| *byte != 0).collect();
    printable(&String::from_utf8_lossy(&bytes), usize::MAX)
}

const FAMILY_V4: u64 = 4;
const FAMILY_V6: u64 = 6;

/// Returns an address as three words.
pub(super) fn address_to_words(address: Option<SocketAddr>) -> [u64; 3] {
    let Some(address) = address else { return [0; 3] };
    let (bits, family, scope) = match address {
        SocketAddr::V4(address) => (u128::from(address.ip().to_bits()), FAMILY_V4, 0),
        SocketAddr::V6(address) => (address.ip().to_bits(), FAMILY_V6, address.scope_id()),
    };
    [(bits >> 64) as u64, bits as u64, u64::from(address.port()) | family << 16 | u64::from(scope) << 32]
}

/// Returns the address in three words; `None` if there is none, or none of a known family.
pub(super) fn address_from_words([high, low, last]: [u64; 3]) -> Option<SocketAddr> {
    let port = last as u16;
    match last >> 16 & 0xffff {
        FAMILY_V4 => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(low as u32)), port)),
        FAMILY_V6 => {
            let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
            Some(SocketAddrV6::new(ip, port, 0, (last >> 32) as u32).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character_and_shown_without_what_a_terminal_obeys() {
        let back = |text: &str| from_words(to_words::<2>(text).into_iter());
        assert_eq!(back("redis-server"), "redis-server");
        assert_eq!(back("0123456789abcdeä"), "0123456789abcde", "ä would not fit whole");
        assert_eq!(back("a\x1b[2Jb"), "a?[2Jb");
        assert_eq!(from_words([u64::MAX].into_iter()), "\u{fffd}".repeat(8));
        assert_eq!(back(""), "");
    }

    #[test]
    fn addresses_come_back() {
        for address in ["192.0.2.1:80", "[2001:db8::1]:65535", "[fe80::1%3]:1", "0.0.0.0:0"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(address_from_words(address_to_words(Some(address))), Some(address));
        }
        assert_eq!(address_from_words(address_to_words(None)), None);
        assert_eq!(address_from_words([u64::MAX; 3]), None);
    }
}
