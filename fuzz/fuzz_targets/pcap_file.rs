//! A pcap file from a stranger, up to the datagrams in it: bounded, and never more bytes than the file has.

#![no_main]

use sidestep_market::capture::{Capture, datagram};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let Ok(mut capture) = Capture::new(file) else { return };
    let mut bytes = 0;
    while let Ok(Some(packet)) = capture.try_next() {
        bytes += 16 + packet.bytes.len();
        let payload = datagram(&packet).map(|found| found.payload.len());
        assert!(payload.is_ok_and(|payload| payload < packet.bytes.len()) || payload.is_err());
    }
    assert!(bytes <= file.len());
    assert!(matches!(capture.try_next(), Ok(None)));
});
