//! A message of a feed's ring: facts of the steering program, and a packet of a stranger.

#![no_main]

use sidestep_socket::Checksums;
use sidestep_socket::ring_flow::{FACTS_BYTES, Packet};

libfuzzer_sys::fuzz_target!(|message: &[u8]| {
    for checksums in [Checksums::Auto, Checksums::Verify, Checksums::Trust] {
        let Some(packet) = Packet::parse(message, checksums) else { continue };
        assert_eq!(packet.bytes().len() + FACTS_BYTES, message.len());
        assert!(packet.payload().len() <= packet.bytes().len());
        assert_eq!(packet.source().is_ipv4(), packet.destination().is_ipv4());
    }
});
