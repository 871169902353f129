use super::*;
use proptest::prelude::*;
use std::net::SocketAddr;

/// Gives the bytes in small pieces.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.len().min(buffer.len()).min(3);
        buffer[..bytes].copy_from_slice(&self.0[..bytes]);
        self.0 = &self.0[bytes..];
        Ok(bytes)
    }
}

/// A packet without its lifetime: time, interface, link, bytes, original length.
type Read1 = (Option<u64>, u32, u16, Vec<u8>, u32);

/// All packets, and the error at the end.
fn all(read: impl Read) -> (Vec<Read1>, Option<CaptureError>) {
    let mut packets = Vec::new();
    let mut capture = match Capture::new(read) {
        Ok(capture) => capture,
        Err(error) => return (packets, Some(error)),
    };
    let error = loop {
        match capture.try_next() {
            Ok(Some(it)) => packets.push((it.time_ns, it.interface, it.link.0, it.bytes.to_vec(), it.original_bytes)),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(matches!(capture.try_next(), Ok(None)), "after the end comes nothing");
    (packets, error)
}

/// Numbers in a byte order.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn half(self, value: u16) -> [u8; 2] {
        if self.0 { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn words(self, values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|value| if self.0 { value.to_be_bytes() } else { value.to_le_bytes() }).collect()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let total = body.len() as u32 + 12;
        [self.words(&[kind, total]), body, self.words(&[total])].concat()
    }

    fn section(self) -> Vec<u8> {
        let versions = [self.half(1), self.half(0)].concat();
        self.block(0x0a0d_0d0a, &[self.words(&[0x1a2b_3c4d]), versions, vec![0xff; 8]].concat())
    }

    fn interface(self, link: u16, snapshot: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [self.half(link).to_vec(), vec![0, 0], self.words(&[snapshot])].concat();
        for (code, value) in options {
            body.extend([self.half(*code), self.half(value.len() as u16)].concat());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    fn enhanced(self, facts: [u32; 5], data: &[u8]) -> Vec<u8> {
        self.block(6, &[self.words(&facts), data.to_vec()].concat())
    }
}

fn pcap(order: Order, magic: u32, records: &[([u32; 2], &[u8])]) -> Vec<u8> {
    let mut file =
        [order.words(&[magic]), order.half(2).into(), order.half(4).into(), order.words(&[0, 0, 65_535, 1])].concat();
    for ([s, fraction], bytes) in records {
        file.extend(order.words(&[*s, *fraction, bytes.len() as u32, 99]));
        file.extend(*bytes);
    }
    file
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_both_units() {
    for order in [Order(false), Order(true)] {
        for (magic, per_tick) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let file = pcap(order, magic, &[([7, 5], b"one"), ([u32::MAX, u32::MAX], b"")]);
            let last = u64::from(u32::MAX) * 1_000_000_000 + u64::from(u32::MAX) * per_tick;
            let expected =
                vec![(Some(7_000_000_000 + 5 * per_tick), 0, 1, b"one".to_vec(), 99), (Some(last), 0, 1, vec![], 99)];
            for (packets, error) in [all(&file[..]), all(Slow(&file))] {
                assert!(error.is_none(), "{error:?}");
                assert_eq!(packets, expected);
            }
        }
    }
}

#[test]
fn pcapng_is_read_over_sections_of_both_byte_orders_with_unknown_blocks_between() {
    let mut file = Vec::new();
    for order in [Order(true), Order(false)] {
        let offset = if order.0 { 10_i64.to_be_bytes() } else { 10_i64.to_le_bytes() };
        file.extend(order.section());
        file.extend(order.block(0xbad, &[9; 300_001]));
        file.extend(order.interface(1, 4, &[(2, b"line A"), (0, b"")]));
        file.extend(order.interface(101, 0, &[(77, b"later"), (9, &[0x80 | 1]), (14, &offset)]));
        file.extend(order.enhanced([1, 0, 3, 5, 50], b"seven with options"));
        file.extend(order.block(3, &[order.words(&[9]), b"four".to_vec()].concat()));
        let old = [order.half(0).to_vec(), order.half(8).into(), order.words(&[1, 0, 2, 2]), b"ab".to_vec()].concat();
        file.extend(order.block(2, &old));
    }
    let once = vec![
        (Some(11_500_000_000), 1, 101, b"seven".to_vec(), 50),
        (None, 0, 1, b"four".to_vec(), 9),
        (Some((1 << 32) * 1000), 0, 1, b"ab".to_vec(), 2),
    ];
    for (packets, error) in [all(&file[..]), all(Slow(&file))] {
        assert!(error.is_none(), "{error:?}");
        assert_eq!(packets, [once.clone(), once.clone()].concat());
    }
    let mut capture = Capture::new(&file[..]).unwrap();
    capture.try_next().unwrap().unwrap();
    assert_eq!(capture.interface(0).unwrap().name, "line A");
    assert_eq!((capture.interface(1).unwrap().link, capture.interface(2)), (LinkType::RAW, None));
}

#[test]
fn lengths_that_cannot_be_are_refused_where_they_stand() {
    let order = Order(false);
    let start = [order.section(), order.interface(1, 0, &[])].concat();
    let refused = |block: &[u8], why: &str| {
        let (packets, error) = all(&[&start[..], block].concat()[..]);
        let Some(CaptureError::Malformed { offset, why: found }) = error else { panic!("{why}: {error:?}") };
        assert_eq!((packets.len(), offset), (0, start.len() as u64), "{why}");
        assert!(found.contains(why), "{found}");
    };
    for total in [0, 4, 11, 13] {
        refused(&order.words(&[5, total, 0]), "length of a block");
    }
    let mut differing = order.block(5, &[0; 8]);
    *differing.last_mut().unwrap() = 1;
    refused(&differing, "two different lengths");
    refused(&order.enhanced([1, 0, 0, 0, 0], &[]), "does not have");
    refused(&order.enhanced([0, 0, 0, 9, 9], &[0; 8]), "longer than its block");
    refused(&order.enhanced([0, 0, 0, u32::MAX, 9], &[0; 8]), "longer than its block");
    refused(&order.block(6, &[0; 16]), "too short");
    refused(&order.block(3, &order.words(&[100])), "longer than its block");
    refused(&order.block(1, &[0; 4]), "too short");
    refused(&order.block(0x0a0d_0d0a, &[0; 16]), "byte order magic");
    let many = order.interface(1, 0, &[]).repeat(INTERFACES_MAX);
    let (_, error) = all(&[&start[..], &many].concat()[..]);
    assert!(error.unwrap().to_string().contains("more than 1024 interfaces"));
    let long = pcap(order, 0xa1b2_c3d4, &[([0, 0], &[0; PACKET_BYTES_MAX + 1])]);
    assert!(all(&long[..]).1.unwrap().to_string().contains("at byte 24: a packet is longer"));
    for (start, why) in [
        (&b"\x1f\x8b\x08\0"[..], "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"MZ\0\0", "neither"),
        (b"ab", "ends in the middle"),
    ] {
        assert!(all(start).1.unwrap().to_string().contains(why), "{why}");
    }
}

/// Every prefix gives the packets that are whole in it, and tells the rest.
#[test]
fn a_capture_that_is_cut_anywhere_gives_its_whole_packets_and_says_so() {
    let order = Order(true);
    let pcapng = [
        order.section(),
        order.interface(1, 0, &[(2, b"A")]),
        order.enhanced([0, 0, 1, 3, 3], b"one"),
        order.enhanced([0, 0, 2, 5, 5], b"seven"),
    ];
    let header = pcap(order, 0xa1b2_c3d4, &[]);
    let whole = pcap(order, 0xa1b2_c3d4, &[([1, 0], b"one"), ([2, 0], b"seven")]);
    let records = [header.clone(), whole[24..43].to_vec(), whole[43..].to_vec()];
    for parts in [&pcapng[..], &records[..]] {
        let file = parts.concat();
        let boundaries: Vec<usize> = (1..=parts.len()).map(|count| parts[..count].concat().len()).collect();
        let packets_begin = boundaries[parts.len() - 3];
        for length in 0..=file.len() {
            let (packets, error) = all(&file[..length]);
            let whole = boundaries.iter().filter(|end| **end <= length && **end > packets_begin).count();
            assert_eq!(packets.len(), whole, "{length} bytes");
            let is_cut = matches!(error, Some(CaptureError::Truncated { .. }));
            assert_eq!(is_cut, !boundaries.contains(&length), "{length} bytes: {error:?}");
        }
    }
}

#[test]
fn counts_of_an_interface_are_written_as_its_statistics_block() {
    let order = Order(false);
    let mut writer = Writer::new(Vec::new(), "a test").unwrap();
    let lines = ["A", "B"].map(|name| writer.interface(name, LinkType::RAW).unwrap());
    let begin = writer.get_mut().len();
    let counts = Counts { received: 10, dropped_by_interface: 1, dropped_by_system: u64::MAX, delivered: 7 };
    writer.statistics(lines[1], (5 << 32) + 9, &counts).unwrap();
    let file = writer.finish().unwrap();
    let option =
        |code: u16, value: u64| [order.half(code), order.half(8)].concat().into_iter().chain(value.to_le_bytes());
    let options = option(4, 10).chain(option(5, 1)).chain(option(7, u64::MAX)).chain(option(8, 7)).chain([0; 4]);
    let body = order.words(&[1, 5, 9]).into_iter().chain(options).collect::<Vec<_>>();
    assert_eq!(file[begin..], order.block(5, &body));
    let (packets, error) = all(&file[..]);
    assert!(packets.is_empty() && error.is_none(), "readers pass over it: {error:?}");
}

#[test]
fn datagrams_are_written_with_headers_and_found_again() {
    let mut writer = Writer::new(Vec::new(), "a test").unwrap();
    let lines = ["A", "B"].map(|name| writer.interface(name, LinkType::RAW).unwrap());
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let v4 = (address("10.0.0.1:5000"), address("233.54.12.111:26477"));
    let v6 = (address("[fe80::1]:5000"), address("[ff02::7]:26477"));
    writer.datagram(lines[0], u64::MAX, v4.0, v4.1, b"tick").unwrap();
    writer.datagram(lines[1], 7, v6.0, v6.1, b"").unwrap();
    let most = vec![1; 65_507];
    writer.datagram(lines[1], 8, v4.0, v4.1, &most).unwrap();
    assert!(writer.datagram(lines[1], 8, v4.0, v4.1, &vec![1; 65_508]).is_err());
    assert!(writer.datagram(lines[1], 8, v4.0, v6.1, b"").is_err());
    assert!(writer.packet(lines[1], 8, &vec![1; PACKET_BYTES_MAX + 1]).is_err());
    writer.packet(lines[1], 9, &vec![1; PACKET_BYTES_MAX]).unwrap();
    let file = writer.finish().unwrap();
    let mut capture = Capture::new(&file[..]).unwrap();
    for (time, interface, (source, destination), payload) in
        [(u64::MAX, 0, v4, &b"tick"[..]), (7, 1, v6, b""), (8, 1, v4, &most)]
    {
        let packet = capture.try_next().unwrap().unwrap();
        assert_eq!((packet.time_ns, packet.interface), (Some(time), interface));
        assert_eq!(datagram(&packet), Ok(Datagram { source, destination, payload }));
    }
    assert_eq!(capture.interface(1).unwrap().name, "B");
    let packet = capture.try_next().unwrap().unwrap();
    assert_eq!((packet.bytes.len(), datagram(&packet)), (PACKET_BYTES_MAX, Err(NotUdp::NotIp)));
    assert!(capture.try_next().unwrap().is_none());
}

/// An IPv4 packet with a UDP datagram of four bytes.
fn ip() -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 9, 17, 0, 0, 10, 0, 0, 1, 233, 0, 0, 1];
    ip.extend([0x12, 0x34, 0x56, 0x78, 0, 12, 0, 0]);
    ip.extend(b"tick");
    ip
}

fn payload(link: LinkType, parts: &[&[u8]]) -> Result<Vec<u8>, NotUdp> {
    let bytes = parts.concat();
    let packet = Packet { time_ns: None, interface: 0, link, bytes: &bytes, original_bytes: bytes.len() as u32 };
    datagram(&packet).map(|it| it.payload.to_vec())
}

#[test]
fn the_datagram_is_found_behind_every_link_and_without_what_stands_behind_it() {
    let (ip, tick) = (&ip()[..], Ok(b"tick".to_vec()));
    let (addresses, trailer) = (&[2; 12], &[0xee; 20][..]);
    assert_eq!(payload(LinkType::ETHERNET, &[addresses, &[8, 0], ip, trailer]), tick);
    let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 8, 0];
    assert_eq!(payload(LinkType::ETHERNET, &[addresses, &tags, ip, trailer]), tick);
    assert_eq!(payload(LinkType::RAW, &[ip, trailer]), tick);
    assert_eq!(payload(LinkType::IPV4, &[ip]), tick);
    assert_eq!(payload(LinkType::LINUX_SLL, &[&[0; 14], &[8, 0], ip]), tick);
    assert_eq!(payload(LinkType::LINUX_SLL, &[&[0; 14], &[0x81, 0, 0, 5, 8, 0], ip]), tick);
    assert_eq!(payload(LinkType::LINUX_SLL2, &[&[8, 0], &[0; 18], ip, trailer]), tick);

    assert_eq!(payload(LinkType(147), &[ip]), Err(NotUdp::Link(LinkType(147))));
    assert_eq!(payload(LinkType::ETHERNET, &[addresses, &[8, 6], ip]), Err(NotUdp::NotIp));
    let changed = |at: usize, byte| {
        let mut changed = ip.to_vec();
        changed[at] = byte;
        payload(LinkType::RAW, &[&changed])
    };
    assert_eq!(
        (changed(9, 6), changed(6, 0x20), changed(7, 1)),
        (Err(NotUdp::Protocol(6)), Err(NotUdp::Fragment), Err(NotUdp::Fragment))
    );
    assert!(matches!(changed(25, 13), Err(NotUdp::Refused(_))));
    let cut = Packet { time_ns: None, interface: 0, link: LinkType::RAW, bytes: &ip[..30], original_bytes: 32 };
    assert_eq!(datagram(&cut), Err(NotUdp::Cut));
    for link in [1, 101, 113, 228, 229, 276].map(LinkType) {
        for length in 0..ip.len() {
            assert!(payload(link, &[&ip[..length]]).is_err());
        }
    }
}

proptest! {
    #[test]
    fn a_damaged_capture_is_read_up_to_the_damage_and_never_further_than_it_is_long(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        which in 0..3_usize,
    ) {
        let order = Order(which == 1);
        let mut file = if which == 2 {
            pcap(order, 0xa1b2_3c4d, &[([1, 0], &ip()), ([2, 0], &ip()), ([3, 0], &ip())])
        } else {
            let packets = (0..3).map(|time| order.enhanced([0, 0, time, 32, 32], &ip()));
            [order.section(), order.interface(101, 0, &[(2, b"A"), (9, &[9])])].into_iter().chain(packets).collect::<Vec<_>>().concat()
        };
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let (packets, _) = all(&file[..]);
        prop_assert!(packets.iter().map(|packet| packet.3.len()).sum::<usize>() <= file.len());
    }
}
