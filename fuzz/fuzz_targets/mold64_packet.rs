//! A datagram and a request of MoldUDP64 from anywhere: what is read is written again and must read the same.

#![no_main]

use sidestep_market::framing::{Body, Framing};
use sidestep_market::mold64::{Mold64, Packet, PacketWriter, Request};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(request) = Request::parse(input) {
        assert_eq!(request.write(), input[..20]);
    }
    let Ok(packet) = Packet::parse(input) else { return };
    let head = Mold64::head(input).expect("the packet has a header");
    assert_eq!((head.session, head.first, head.body), (packet.session(), packet.first(), packet.body()));
    let mut buffer = vec![0; input.len()];
    let mut writer = PacketWriter::new(&mut buffer, packet.session(), packet.first()).expect("it had room");
    assert_eq!(packet.messages().len(), packet.messages().filter(|message| writer.push(message)).count());
    let written = match packet.body() {
        Body::Data { count } => {
            let skipped = packet.first().0 as u32 % (count + 1);
            let rest = Mold64::messages(input, &head, skipped).expect("the packet was read");
            assert!(rest.eq(packet.messages().skip(skipped as usize)));
            writer.finish()
        }
        Body::Heartbeat => writer.finish(),
        Body::EndOfSession => writer.end_of_session(),
    };
    assert_eq!(written, &input[..written.len()]);
});
