//! Arbitrary bytes: no parser panics, and no view shows bytes outside the input.

use proptest::prelude::*;
use sidestep_wire::{Addresses, arp, ethernet, icmp, ipv4, ipv6, tcp, udp};

fn addresses() -> Addresses {
    Addresses::new([1_u16; 8].into(), [2_u16; 8].into()).unwrap()
}

fn look_at(bytes: &[u8]) {
    if let Ok(view) = ethernet::View::parse(bytes) {
        assert_eq!(view.header_bytes() + view.payload().len(), bytes.len());
        let _ = (view.destination(), view.source(), view.tags(), view.ether_type());
    }
    if let Ok(view) = arp::View::parse(bytes) {
        let _ = (view.operation(), view.sender_mac(), view.sender(), view.target_mac(), view.target());
    }
    for view in [ipv4::View::parse(bytes), ipv4::View::parse_quoted(bytes)].into_iter().flatten() {
        assert!(view.header_bytes() + view.payload().len() <= bytes.len());
        let _ = (view.verify(), view.addresses(), view.fragment_offset(), view.identification(), view.checksum());
    }
    for view in [ipv6::View::parse(bytes), ipv6::View::parse_quoted(bytes)].into_iter().flatten() {
        assert!(view.header_bytes() + view.payload().len() <= bytes.len());
        let _ = (view.addresses(), view.fragment(), view.traffic_class(), view.flow_label(), view.hop_limit());
    }
    if let Ok(view) = udp::View::parse(bytes) {
        assert!(udp::HEADER_BYTES + view.payload().len() <= bytes.len());
        let _ = view.verify(&addresses());
    }
    if let Ok(view) = tcp::View::parse(bytes) {
        assert_eq!(view.header_bytes() + view.payload().len(), bytes.len());
        assert!(view.sequence_length() as usize <= bytes.len() + 2);
        let _ = (view.verify(&addresses()), view.urgent_pointer());
        rebuild(&view);
    }
    let _ = (icmp::parse_v4(bytes).is_ok(), icmp::parse_v6(bytes, &addresses()).is_ok());
}

/// Options parsed from any bytes can be written and parsed again.
fn rebuild(view: &tcp::View<'_>) {
    let options = tcp::Options { malformed: false, ..view.options() }.fitted();
    let segment = tcp::Segment { options, ..tcp::Segment::default() };
    let mut out = [0; 60];
    if let Ok(length) = tcp::build(&segment, &addresses(), 0, &mut out) {
        assert_eq!(tcp::View::parse(&out[..length]).unwrap().options(), options);
    }
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        look_at(&bytes);
    }

    /// Adds beginnings that let a parser go further.
    #[test]
    fn nothing_panics_beyond_the_first_check(mut bytes in prop::collection::vec(any::<u8>(), 40..200), which in 0..4) {
        let extension = [0, 43, 44, 51, 60][usize::from(bytes[7]) % 5];
        match which {
            0 => bytes[0] = 0x40 | bytes[0] & 0xf,
            1 => {
                bytes[5] = bytes.len() as u8 - 40;
                bytes[..5].copy_from_slice(&[0x60, 0, 0, 0, 0]);
                bytes[6] = extension;
            }
            2 => bytes[12] |= 0x50,
            _ => bytes[12..14].copy_from_slice(&[0x81, 0]),
        }
        look_at(&bytes);
    }
}
