//! Messages: by the mapping and by read(2), from the timer and from a port.

use super::device::{
    Child, HEAD_BYTES, Message, Module, SEEN, SET_INTERVAL, become_nobody, info, open, open_nonblocking, poll, read,
    stats, word, word_at,
};
use super::rounds;
use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::{Doorbell, ReadError, Segment};
use sidestep_sys::idle::IdleStrategy;
use sidestep_testkit::{drive, wait_until};
use std::fs::{File, OpenOptions};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// `struct sidestep_ring_tick`.
const TICK_BYTES: usize = 24;
/// `struct sidestep_ring_datagram`.
const FACTS_BYTES: usize = 16;

fn subscriber(start: Start) -> Subscriber {
    let device = open();
    let (_, bytes) = info(&device);
    let segment = Segment::foreign(device.into(), 0, bytes).expect("it is a ring of the kernel's");
    segment.subscriber(start).expect("readers may")
}

/// Follows the ring through a mapping; returns the first sequence number, the last, and the missed ticks that the last tells.
fn follow(mut reader: Subscriber, count: u64, position: &AtomicU64) -> Result<(u64, u64, u64), String> {
    let mut buffer = [0; 64];
    let first = reader.sequence();
    let (mut stamp, mut missed) = (0, 0);
    while reader.sequence() < first + count {
        let sequence = reader.sequence();
        match reader.try_read(&mut buffer) {
            Ok(TICK_BYTES) => {
                let now = word_at(&buffer, 0);
                if word_at(&buffer, 8) != sequence || now <= stamp {
                    return Err(format!("{sequence}: {} at {now} after {stamp}", word_at(&buffer, 8)));
                }
                (stamp, missed) = (now, word_at(&buffer, 16));
                position.store(reader.sequence(), Relaxed);
            }
            // With the few CPUs of the machine, a reader that only polls takes one from the others.
            Err(ReadError::Empty) => thread::sleep(Duration::from_millis(1)),
            other => return Err(format!("{sequence}: {other:?}")),
        }
    }
    let end = reader.sequence();
    // Nobody waits for it any more.
    position.store(u64::MAX, Relaxed);
    Ok((first, end, missed))
}

/// Slows the timer down while a reader is far behind: an emulated CPU may need longer for a read(2) than the timer's interval.
struct Pace<'a> {
    device: &'a File,
    by_mapping: &'a AtomicU64,
    is_slow: bool,
}

impl Pace<'_> {
    /// To be called before message `sequence` is read.
    fn keep(&mut self, sequence: u64) {
        if !sequence.is_multiple_of(256) {
            return;
        }
        let behind = stats(self.device).published - sequence.min(self.by_mapping.load(Relaxed));
        let is_slow = if self.is_slow { behind > 1024 } else { behind > 16_384 };
        if is_slow != self.is_slow {
            word(self.device, SET_INTERVAL, if is_slow { 1_000_000 } else { 20_000 }).expect("root may");
            self.is_slow = is_slow;
        }
    }
}

/// Two readers, one by the mapping, one by read(2): nothing is lost, nothing out of order.
pub(crate) fn every_message_arrives_in_order() {
    let module = Module::load("cells=65536 interval_us=20 cpu=1");
    let count = rounds(100_000, 1_000_000);
    let reader = subscriber(Start::Latest);
    let device = open();
    let position = Arc::new(AtomicU64::new(reader.sequence()));
    let of_mapping = Arc::clone(&position);
    let by_mapping = thread::spawn(move || follow(reader, count, &of_mapping));
    let first = read(&device).expect("ticks come");
    assert_eq!(first.lost, 0);
    let mut pace = Pace { device: &device, by_mapping: &position, is_slow: false };
    for sequence in first.sequence + 1..first.sequence + count {
        pace.keep(sequence);
        let message = read(&device).expect("ticks come");
        assert_eq!((message.sequence, message.lost, message.word(8)), (sequence, 0, sequence));
        assert_eq!(message.bytes.len(), TICK_BYTES);
    }
    let (first, end, missed) = by_mapping.join().expect("it does not panic").expect("every message, in order");
    let told = stats(&device);
    println!("{count} messages from {first} to {end}, none lost; {missed} intervals were missed: {told:?}");
    assert!(told.published >= end && told.ticks >= end && told.missed >= missed && told.dropped == 0);
    drop(device);
    module.unload();
}

pub(crate) fn a_reader_that_is_late_is_told_its_loss() {
    let module = Module::load("cells=64 interval_us=100");
    let device = open();
    let mut mapped = subscriber(Start::Oldest);
    let start = mapped.sequence();
    let first = read(&device).expect("ticks come");
    let mut expected = first.sequence + 1;
    let mut lost = 0;
    for _ in 0..20 {
        let published = stats(&device).published;
        wait_until("it is overtaken", || stats(&device).published > published + 100);
        for _ in 0..10 {
            let message = read(&device).expect("ticks come");
            assert_eq!(message.sequence, expected + message.lost);
            assert_eq!(message.word(8), message.sequence, "the message is that of its number");
            lost += message.lost;
            expected = message.sequence + 1;
        }
    }
    assert!(lost >= 20 * 20, "{lost}");
    // The mapping's reader has read nothing meanwhile.
    let mut buffer = [0; 64];
    let loss = drive("a loss", || match mapped.try_read(&mut buffer) {
        Err(ReadError::Lost(loss)) => Some(loss),
        other => panic!("{other:?}"),
    });
    assert_eq!(start + loss.messages, mapped.sequence());
    drop((mapped, device));
    module.unload();
}

pub(crate) fn sleepers_are_woken_for_later_messages() {
    let module = Module::load("interval_us=1000000 cpu=0");
    let (device, quiet) = (open(), open_nonblocking());
    let mut reader = subscriber(Start::Latest);
    reader.set_doorbell(Doorbell::device(open().into()).expect("it is the device"));
    assert_eq!(read(&quiet).err(), Some(libc::EAGAIN));
    assert!(!poll(&quiet, 0), "there is nothing yet");
    let first = read(&device).expect("a tick comes");
    assert!(poll(&quiet, 0) && poll(&quiet, 0), "it has not been read");
    word(&quiet, SEEN, first.sequence + 1).expect("the device knows this call");
    assert!(!poll(&quiet, 0), "it has been seen");
    word(&quiet, SEEN, u64::MAX).expect("any number");
    assert!(!poll(&quiet, 0), "it waits for very late messages");
    word(&quiet, SEEN, 0).expect("any number");
    assert!(poll(&quiet, 0));
    assert_eq!(read(&quiet).expect("what was seen can still be read").sequence, first.sequence);
    // Through the mapping, asleep.
    let mut buffer = [0; 64];
    for _ in 0..3 {
        reader.wait(IdleStrategy::PARK, Some(Instant::now() + Duration::from_secs(60))).expect("a tick comes");
        assert_eq!(reader.try_read(&mut buffer), Ok(TICK_BYTES));
    }
    drop((reader, quiet, device));
    module.unload();
}

pub(crate) fn the_interval_is_set_by_those_who_may() {
    let module = Module::load("interval_us=1000000");
    let writable = OpenOptions::new().read(true).write(true).open(super::device::DEVICE).expect("root may");
    for wrong in [0, 1, 9_999, 1_000_000_001, u64::MAX, 1 << 63] {
        let refused = word(&writable, SET_INTERVAL, wrong).expect_err("out of bounds").raw_os_error();
        assert_eq!(refused, Some(libc::EINVAL), "{wrong}");
    }
    word(&writable, SET_INTERVAL, 1_000_000).expect("it is inside");
    assert_eq!(stats(&writable).interval_ns, 1_000_000);
    let readable = open();
    word(&readable, SET_INTERVAL, 2_000_000).expect("root may anyway");
    let refused =
        |file: &File| word(file, SET_INTERVAL, 10_000).err().and_then(|error| error.raw_os_error()).unwrap_or_default();
    let body = || {
        become_nobody();
        let opened = File::open(super::device::DEVICE).err().and_then(|error| error.raw_os_error());
        let read_only = refused(&readable);
        let inherited = refused(&writable);
        i32::from(opened != Some(libc::EACCES))
            | i32::from(read_only != libc::EPERM) << 1
            | i32::from(inherited != 0) << 2
    };
    assert_eq!(Child::fork(body).wait(), Some(0), "nobody: open 1, call 2, call where it may write 4");
    assert_eq!(stats(&readable).interval_ns, 10_000);
    // It is changed while it runs, again and again.
    for round in 0..rounds(200, 10_000) {
        word(&writable, SET_INTERVAL, 10_000 + round % 50 * 1000).expect("it is inside");
    }
    let published = stats(&readable).published;
    wait_until("it goes on", || stats(&readable).published > published);
    drop((writable, readable));
    module.unload();
}

/// The next message of a port.
fn datagram(device: &File) -> Message {
    assert!(poll(device, 10_000), "a datagram comes");
    read(device).expect("a datagram comes")
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]))
}

pub(crate) fn datagrams_of_a_port_are_copied() {
    let module = Module::load("source=udp port=7777 cells=1024");
    let device = open();
    let refused = word(&device, SET_INTERVAL, 1_000_000).expect_err("there is no timer").raw_os_error();
    assert_eq!(refused, Some(libc::ENODEV));
    let mut expected = 0;
    for (at, family, header) in [("127.0.0.1", 4, 20), ("[::1]", 6, 40)] {
        let receiver = UdpSocket::bind(format!("{at}:7777")).expect("the port is free");
        let other = UdpSocket::bind(format!("{at}:7778")).expect("the port is free");
        for length in [0, 1, 7, 8, 100, 1472, 9000] {
            let payload: Vec<u8> = (0..length).map(|index| (index * 7 + length) as u8).collect();
            other.send_to(b"not copied", other.local_addr().expect("it has one")).expect("loopback takes it");
            other.send_to(&payload, receiver.local_addr().expect("it has one")).expect("loopback takes it");
            let message = datagram(&device);
            let bytes = &message.bytes;
            assert_eq!((message.sequence, message.lost), (expected, 0));
            assert_eq!((bytes[14], bytes[15], half(bytes, 12)), (family, 17, 0), "family, protocol, VLAN");
            let payload_at = half(bytes, 8);
            assert_eq!((payload_at, half(bytes, 10)), (FACTS_BYTES + header + 8, length));
            assert_eq!(bytes[payload_at..], payload, "{length} bytes to {at}");
            assert_eq!(bytes[FACTS_BYTES] >> 4, family, "the IP packet from its first byte");
            let mut received = vec![0; length + 1];
            assert_eq!(receiver.recv(&mut received).expect("it goes on to its socket"), length);
            expected += 1;
        }
        // Longer than a message may be.
        other.send_to(&[1; 20_000], receiver.local_addr().expect("it has one")).expect("loopback takes it");
        assert_eq!(receiver.recv(&mut [0; 20_001]).expect("it goes on to its socket"), 20_000);
    }
    let told = stats(&device);
    assert_eq!((told.published, told.dropped, told.interval_ns), (expected, 2, 0));
    assert_eq!(read(&open_nonblocking()).err(), Some(libc::EAGAIN), "it begins with what comes");
    assert_eq!(HEAD_BYTES, 16);
    drop(device);
    module.unload();
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.expect("it is there").success(), "ip {arguments}");
}

/// The kernel has taken the tag out, and the device is that of the VLAN.
pub(crate) fn datagrams_of_a_vlan_tell_it() {
    ip("netns add peer");
    ip("link add ring0 type veth peer name ring1 netns peer");
    for (of, link, address) in [("-n peer", "ring1", "10.9.5.2/24"), ("", "ring0", "10.9.5.1/24")] {
        ip(&format!("{of} link set {link} up"));
        ip(&format!("{of} link add link {link} name {link}.5 type vlan id 5"));
        ip(&format!("{of} address add {address} dev {link}.5"));
        ip(&format!("{of} link set {link}.5 up"));
    }
    let module = Module::load("source=udp port=7777 cells=1024");
    let device = open();
    let send = || {
        let sender = UdpSocket::bind("10.9.5.2:0").expect("it is its address");
        sender.send_to(b"tagged", "10.9.5.1:7777").expect("there is a route");
        Ok(())
    };
    sidestep_sys::netns::within("/run/netns/peer", send).expect("it is there");
    let bytes = datagram(&device).bytes;
    assert_eq!((half(&bytes, 12), &bytes[half(&bytes, 8)..]), (5, &b"tagged"[..]));
    drop(device);
    module.unload();
    ip("netns delete peer");
}

/// A late reader finds, where its record was, bytes of a message that look like a record. Their length would lead beyond the end of the
/// ring's memory.
pub(crate) fn words_in_messages_lead_no_reader_astray() {
    const CELLS: u64 = 1024;
    const LATE: u64 = 1010;
    /// Bytes of a record before the payload: the word, the facts, the headers of IPv4 and UDP.
    const BEFORE: usize = 8 + FACTS_BYTES + 20 + 8;
    let module = Module::load(&format!("source=udp port=7777 cells={CELLS}"));
    let sender = UdpSocket::bind("127.0.0.1:0").expect("there are ports");
    let send = |payload: &[u8]| sender.send_to(payload, "127.0.0.1:7777").expect("loopback takes it");
    for _ in 0..LATE {
        send(b"a cell");
    }
    let device = open_nonblocking();
    let forged = LATE << 32 | 0x8000_0000 | 9000;
    let payload = |cells: usize| {
        let mut payload = vec![0; cells * 64 - BEFORE];
        for cell in 1..cells {
            payload[cell * 64 - BEFORE..][..8].copy_from_slice(&u64::to_ne_bytes(forged));
        }
        payload
    };
    // The first one goes to the ring's beginning; the last one ends with the ring, over the reader's place.
    for cells in [141; 7].into_iter().chain([CELLS as usize - 7 * 141]) {
        send(&payload(cells));
    }
    assert_eq!(read(&device).err(), Some(libc::EAGAIN), "the ring has crossed its end, from where it is read on");
    send(b"the next");
    let message = read(&device).expect("it is there");
    assert_eq!((message.sequence, message.lost), (LATE + 8, 8));
    assert_eq!(message.bytes[half(&message.bytes, 8)..], *b"the next");
    drop(device);
    module.unload();
}
