//! A pcapng file from a stranger; what was read is written again and must read the same.

#![no_main]

use sidestep_market::capture::{Capture, LinkType, Writer, datagram};

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let Ok(mut capture) = Capture::new(file) else { return };
    let mut writer = Writer::new(Vec::new(), "fuzz").expect("memory");
    let line = writer.interface("line", LinkType::ETHERNET).expect("memory");
    let mut packets = Vec::new();
    while let Ok(Some(packet)) = capture.try_next() {
        assert!(packet.bytes.len() < file.len());
        let _ = datagram(&packet);
        let time_ns = packet.time_ns.unwrap_or_default();
        writer.packet(line, time_ns, packet.bytes).expect("it was in a capture");
        let interface = packet.interface;
        packets.push((time_ns, packet.bytes.to_vec()));
        assert!(capture.interface(interface).is_some());
    }
    let again = writer.finish().expect("memory");
    let mut again = Capture::new(&again[..]).expect("it is ours");
    for (time_ns, bytes) in packets {
        let packet = again.try_next().expect("it is ours").expect("it was written");
        assert_eq!((packet.time_ns, packet.bytes), (Some(time_ns), &bytes[..]));
    }
    assert!(again.try_next().expect("it is ours").is_none());
});
