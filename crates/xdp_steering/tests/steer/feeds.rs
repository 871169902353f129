//! Feeds: packets copied into rings, beside their receiver or instead of it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use sidestep_kernel_ring::{RingMap, element_bytes};
use sidestep_lab::{Lab, Options, Side};
use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::{Doorbell, Loss, ReadError, Segment, kernel_ring_bytes};
use sidestep_sys::idle::IdleStrategy;
use sidestep_testkit::{vm, vm_tests};
use sidestep_xdp_steering::{
    Attach, AttachMode, DOORBELLS_MAX, FEED_CELLS, FEEDS_MAX, FeedId, MapEntry, Protocol, RING_PACKET_BYTES_MAX,
    Reason, Rehearsal, Steering, Tables, Verdict, Vlan, VlanMatch, ring_packet,
};

use crate::frames::{Frame, OWN_MAC, TCP, UDP};
use crate::support::{
    FRAME_BYTES_MAX, Pins, Stage, WATCHDOG, can_run, flow, group, ifindex, listener, without_forwarding,
};

/// Kernels whose verifiers accept less than this one's.
static PLAN: vm::Plan = vm::Plan { modules: &["veth"], ..vm::Plan::BARE };

vm_tests!(PLAN: taps_of_both_builds, packets_for_itself, laps);

fn taps_of_both_builds() {
    a_tap_copies_what_goes_on_its_way();
    each_kind_of_entry_protocol_family_and_vlan_is_copied();
    every_feed_gets_a_copy();
    all_entries_that_match_get_a_copy_and_one_that_passes_is_enough();
}

fn packets_for_itself() {
    a_feed_has_packets_for_itself_as_long_as_control_lives();
}

fn laps() {
    laps_are_counted_exactly_and_long_packets_by_name();
    readers_sleep_until_a_packet_comes();
    packets_that_find_their_ring_busy_are_counted();
}

const LOCAL: &str = "10.0.0.1:5000";
const REMOTE: &str = "10.0.0.2:6000";
const GROUP: &str = "239.1.2.3:5000";

pub(crate) fn datagram(more: usize) -> Frame {
    Frame::new(UDP, REMOTE, GROUP, Vlan::Untagged).longer(more)
}

pub(crate) fn any_group() -> MapEntry {
    group(GROUP, None, VlanMatch::Any)
}

/// A feed, and a reader of one of its rings.
pub(crate) struct Feed {
    pub(crate) id: FeedId,
    memory: OwnedFd,
}

impl Feed {
    pub(crate) fn new(tables: &Tables, rings: u32) -> Self {
        let (id, memory) = tables.feed_create("test", rings).unwrap();
        Self { id, memory }
    }

    pub(crate) fn reader(&self, ring: u32) -> Subscriber {
        let offset = u64::from(ring) * element_bytes(FEED_CELLS) as u64;
        let memory = self.memory.try_clone().unwrap();
        Segment::foreign(memory, offset, kernel_ring_bytes(FEED_CELLS)).unwrap().subscriber(Start::Oldest).unwrap()
    }
}

fn message(reader: &mut Subscriber) -> Option<Vec<u8>> {
    let mut buffer = vec![0; reader.message_bytes_max()];
    match reader.try_read(&mut buffer) {
        Ok(length) => Some(buffer[..length].to_vec()),
        Err(ReadError::Empty) => None,
        Err(error) => panic!("{error}"),
    }
}

/// The message of a frame: the facts, then the IP packet.
fn assert_is(message: &[u8], frame: &Frame, packet_bytes: usize, header_bytes: usize, vlan: u16) {
    let half = |at: usize| u16::from_ne_bytes([message[at], message[at + 1]]);
    let payload_at = ring_packet::BYTES + frame.transport - frame.ip + header_bytes;
    assert_eq!(usize::from(half(ring_packet::PAYLOAD_AT)), payload_at);
    assert_eq!(usize::from(half(ring_packet::PAYLOAD_BYTES)), ring_packet::BYTES + packet_bytes - payload_at);
    assert_eq!(half(ring_packet::OUTER_VLAN), vlan);
    assert_eq!(message[ring_packet::FAMILY], if frame.is_ipv4() { 4 } else { 6 });
    assert_eq!(message[ring_packet::BYTES..], frame.bytes[frame.ip..frame.ip + packet_bytes]);
    assert!(u64::from_ne_bytes(message[..8].try_into().unwrap()) > 0);
}

/// Both builds: the one with the helper, and the one that copies word by word.
fn for_each_build(test: impl Fn(Rehearsal)) {
    test(Rehearsal::new(OWN_MAC).unwrap());
    test(Rehearsal::for_older_kernels(OWN_MAC).unwrap());
}

#[test]
fn a_tap_copies_what_goes_on_its_way() {
    if !can_run() {
        return;
    }
    for_each_build(|mut rehearsal| {
        let feed = Feed::new(rehearsal.tables(), 1);
        let mut reader = feed.reader(0);
        rehearsal.tables().feed_add(feed.id, &any_group()).unwrap();
        // Every length modulo eight, short frames with padding behind the packet.
        for more in (0..32).chain([100, 1000, 1431]) {
            let frame = datagram(more).padded(7);
            let outcome = rehearsal.run(&frame.bytes, 1).unwrap();
            assert_eq!((outcome.reason, outcome.verdict), (Reason::NoGroup, Verdict::Pass), "{more}");
            let message = message(&mut reader).unwrap_or_else(|| panic!("no message of {more}"));
            assert_is(&message, &frame, 20 + 8 + 11 + more, 8, 0);
        }
        assert_eq!(message(&mut reader), None);
        let other = Frame::new(UDP, REMOTE, "239.1.2.4:5000", Vlan::Untagged);
        rehearsal.run(&other.bytes, 1).unwrap();
        assert_eq!(message(&mut reader), None, "another group");
        let facts = rehearsal.tables().feed_facts(feed.id).unwrap().unwrap();
        assert_eq!((facts.rings, facts.published, facts.dropped), (1, vec![35], 0));
    });
}

#[test]
fn each_kind_of_entry_protocol_family_and_vlan_is_copied() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        let mut rehearsal = Rehearsal::new(OWN_MAC).unwrap();
        let feed = Feed::new(rehearsal.tables(), 1);
        let mut reader = feed.reader(0);
        for (local, remote) in [(LOCAL, REMOTE), ("[fd00::1]:5000", "[fd00::2]:6000")] {
            for (number, protocol, header) in [(TCP, Protocol::Tcp, 20), (UDP, Protocol::Udp, 8)] {
                for (vlan, outer) in [(Vlan::Untagged, 0), (Vlan::Tagged(5), 5)] {
                    let frame = Frame::new(number, remote, local, vlan);
                    let any = if frame.is_ipv4() { "0.0.0.0:5000" } else { "[::]:5000" };
                    for entry in [
                        flow(protocol, local, remote, vlan),
                        listener(protocol, local, VlanMatch::Only(vlan)),
                        listener(protocol, any, VlanMatch::Any),
                    ] {
                        rehearsal.tables().feed_add(feed.id, &entry).unwrap();
                        assert_eq!(rehearsal.run(&frame.bytes, 1).unwrap().reason, Reason::NoEntry);
                        let message = message(&mut reader).unwrap_or_else(|| panic!("nothing of {entry}"));
                        assert_is(&message, &frame, frame.bytes.len() - frame.ip, header, outer);
                        assert!(rehearsal.tables().feed_take(feed.id, &entry).unwrap());
                        rehearsal.run(&frame.bytes, 1).unwrap();
                        assert_eq!(super::feeds::message(&mut reader), None, "{entry} was taken back");
                        assert!(!rehearsal.tables().feed_take(feed.id, &entry).unwrap());
                    }
                }
            }
        }
    });
}

#[test]
fn a_feed_has_packets_for_itself_as_long_as_control_lives() {
    if !can_run() {
        return;
    }
    for_each_build(|mut rehearsal| {
        let feed = Feed::new(rehearsal.tables(), 1);
        let mut reader = feed.reader(0);
        let tables = rehearsal.tables();
        tables.set_deadline(Duration::from_secs(60)).unwrap();
        assert!(tables.set_drop(&any_group(), true).is_err(), "no feed has it");
        tables.feed_add(feed.id, &any_group()).unwrap();
        tables.set_drop(&any_group(), true).unwrap();
        let frame = datagram(0);
        assert_eq!(rehearsal.run(&frame.bytes, 1).unwrap().reason, Reason::NoGroup, "control has never been there");
        rehearsal.tables().control_beat().unwrap();
        let outcome = rehearsal.run(&frame.bytes, 1).unwrap();
        assert_eq!((outcome.reason, outcome.verdict), (Reason::Ring, Verdict::Drop));
        rehearsal.tables().set_deadline(Duration::from_millis(50)).unwrap();
        std::thread::sleep(Duration::from_millis(120));
        assert_eq!(rehearsal.run(&frame.bytes, 1).unwrap().reason, Reason::NoGroup, "control is silent");
        rehearsal.tables().control_beat().unwrap();
        rehearsal.tables().set_drop(&any_group(), false).unwrap();
        assert_eq!(rehearsal.run(&frame.bytes, 1).unwrap().reason, Reason::NoGroup);
        assert_eq!(std::iter::from_fn(|| message(&mut reader)).count(), 4, "copied in each case");
        // A queue without a ring.
        rehearsal.tables().set_drop(&any_group(), true).unwrap();
        rehearsal.tables().feed_remove(feed.id).unwrap();
        assert_eq!(rehearsal.run(&frame.bytes, 1).unwrap().reason, Reason::NoGroup, "the feed is gone");
        assert!(rehearsal.tables().feed_entries().unwrap().is_empty());
    });
}

#[test]
fn a_tap_on_a_stacks_traffic_does_not_take_it() {
    if !can_run() {
        return;
    }
    let mut stage = Stage::over(Rehearsal::new(OWN_MAC).unwrap(), 60, FRAME_BYTES_MAX);
    let feed = Feed::new(stage.tables(), 1);
    let mut reader = feed.reader(0);
    let entry = flow(Protocol::Tcp, LOCAL, REMOTE, Vlan::Untagged);
    stage.steer(&entry);
    stage.tables().feed_add(feed.id, &entry).unwrap();
    let frame = Frame::new(TCP, REMOTE, LOCAL, Vlan::Untagged);
    assert_eq!(stage.rehearsal.run(&frame.bytes, 1).unwrap().reason, Reason::Flow);
    assert!(message(&mut reader).is_some());
    // Frames to another host's address, and fragments.
    let foreign = frame.clone().destination([2, 0, 0, 0, 0, 9]);
    assert_eq!(stage.rehearsal.run(&foreign.bytes, 1).unwrap().reason, Reason::ForeignMac);
    stage.rehearsal.run(&frame.first_fragment(24).bytes, 1).unwrap();
    assert_eq!(message(&mut reader), None);
}

#[test]
fn every_feed_gets_a_copy() {
    if !can_run() {
        return;
    }
    let mut rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let tables = rehearsal.tables();
    let all: Vec<Feed> = (0..FEEDS_MAX).map(|_| Feed::new(tables, 1)).collect();
    tables.feed_remove(all[2].id).unwrap();
    let feeds: Vec<&Feed> = all.iter().filter(|feed| feed.id != all[2].id).collect();
    for feed in &feeds {
        tables.feed_add(feed.id, &any_group()).unwrap();
        tables.feed_add(feed.id, &any_group()).unwrap();
    }
    let another = Feed::new(tables, 1);
    assert_eq!(another.id, all[2].id, "its number is free again");
    let found = tables.feed_entries().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].feeds, feeds.iter().map(|feed| feed.id).collect::<Vec<_>>());
    rehearsal.run(&datagram(0).bytes, 1).unwrap();
    for feed in feeds {
        let mut reader = feed.reader(0);
        assert!(message(&mut reader).is_some() && message(&mut reader).is_none(), "{}", feed.id);
    }
    assert_eq!(message(&mut another.reader(0)), None);
}

/// Unlike owners, where the most specific one wins: a reader of one sender takes nothing from those of all.
#[test]
fn all_entries_that_match_get_a_copy_and_one_that_passes_is_enough() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        for_each_build(|mut rehearsal| {
            let tables = rehearsal.tables();
            tables.set_deadline(Duration::from_secs(60)).unwrap();
            tables.control_beat().unwrap();
            let only = VlanMatch::Only(Vlan::Untagged);
            let groups = [any_group(), group(GROUP, None, only), group(GROUP, Some("10.0.0.2"), only)];
            let ports = [
                listener(Protocol::Udp, "0.0.0.0:5000", VlanMatch::Any),
                listener(Protocol::Udp, LOCAL, only),
                flow(Protocol::Udp, LOCAL, REMOTE, Vlan::Untagged),
            ];
            let unicast = Frame::new(UDP, REMOTE, LOCAL, Vlan::Untagged);
            for (entries, frame) in [(groups, datagram(0)), (ports, unicast)] {
                let feeds = [(); 3].map(|()| Feed::new(rehearsal.tables(), 1));
                let mut readers = [0, 1, 2].map(|at| feeds[at].reader(0));
                for (feed, entry) in feeds.iter().zip(&entries) {
                    rehearsal.tables().feed_add(feed.id, entry).unwrap();
                    rehearsal.tables().set_drop(entry, true).unwrap();
                }
                assert_eq!(rehearsal.run(&frame.bytes, 1).unwrap().reason, Reason::Ring);
                for entry in &entries {
                    rehearsal.tables().set_drop(entry, false).unwrap();
                    assert_eq!(rehearsal.run(&frame.bytes, 1).unwrap().verdict, Verdict::Pass, "{entry}");
                    rehearsal.tables().set_drop(entry, true).unwrap();
                }
                for reader in &mut readers {
                    assert_eq!(std::iter::from_fn(|| message(reader)).count(), 4);
                }
                feeds.iter().for_each(|feed| rehearsal.tables().feed_remove(feed.id).unwrap());
            }
        });
    });
}

#[test]
fn laps_are_counted_exactly_and_long_packets_by_name() {
    if !can_run() {
        return;
    }
    const SENT: u32 = 100_000;
    let mut rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let feed = Feed::new(rehearsal.tables(), 1);
    let mut reader = feed.reader(0);
    rehearsal.tables().feed_add(feed.id, &any_group()).unwrap();
    let frame = datagram(1000);
    rehearsal.run(&frame.bytes, SENT).unwrap();
    let (mut read, mut lost) = (0, Loss::default());
    let mut buffer = vec![0; reader.message_bytes_max()];
    loop {
        match reader.try_read(&mut buffer) {
            Ok(length) => {
                assert_is(&buffer[..length], &frame, 20 + 8 + 11 + 1000, 8, 0);
                read += 1;
            }
            Err(ReadError::Lost(loss)) => lost.messages += loss.messages,
            Err(ReadError::Empty) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(read + lost.messages, u64::from(SENT));
    assert!(read >= 300 && lost.messages > 0, "{read} {lost:?}");
    // Frames of several buffers, up to the longest and above.
    for more in [4000, 9000 - 39, RING_PACKET_BYTES_MAX - 39] {
        rehearsal.run(&datagram(more).bytes, 1).unwrap();
        let length = reader.try_read(&mut buffer).unwrap();
        assert_is(&buffer[..length], &datagram(more), 39 + more, 8, 0);
    }
    rehearsal.run(&datagram(RING_PACKET_BYTES_MAX - 38).bytes, 1).unwrap();
    assert_eq!(message(&mut reader), None);
    let dropped = || rehearsal.tables().feed_facts(feed.id).unwrap().unwrap().dropped;
    assert_eq!((dropped(), reader.dropped()), (1, 1));
}

/// The writer waits for another one a little, and then counts the packet. The next one that gets in tells the readers.
#[test]
fn packets_that_find_their_ring_busy_are_counted() {
    if !can_run() {
        return;
    }
    for_each_build(|mut rehearsal| {
        let feed = Feed::new(rehearsal.tables(), 1);
        rehearsal.tables().feed_add(feed.id, &any_group()).unwrap();
        rehearsal.tables().set_drop(&any_group(), true).unwrap();
        rehearsal.tables().set_deadline(Duration::from_secs(60)).unwrap();
        rehearsal.tables().control_beat().unwrap();
        let mut reader = feed.reader(0);
        rehearsal.occupy(feed.id, 0, true).unwrap();
        assert_eq!(rehearsal.run(&datagram(0).bytes, 5).unwrap().verdict, Verdict::Pass, "it is in no ring");
        let dropped = |rehearsal: &Rehearsal| rehearsal.tables().feed_facts(feed.id).unwrap().unwrap().dropped;
        assert_eq!((dropped(&rehearsal), reader.dropped(), message(&mut reader)), (5, 0, None));
        rehearsal.occupy(feed.id, 0, false).unwrap();
        assert_eq!(rehearsal.run(&datagram(0).bytes, 1).unwrap().verdict, Verdict::Drop);
        assert_eq!((dropped(&rehearsal), reader.dropped()), (5, 5));
        assert!(message(&mut reader).is_some() && message(&mut reader).is_none());
    });
}

/// A device may have got more queues since the feed was made.
#[test]
fn packets_of_a_queue_without_a_ring_are_in_the_first_one() {
    if !can_run() {
        return;
    }
    let lab = Lab::up(&Options { queues: 2, ..Options::default() }).unwrap();
    let pins = Pins::new();
    let host = lab.host(Side::A);
    host.within(|| {
        let ifindex = ifindex(&host.interface);
        // The queues of a veth can be selected here once XDP is attached to it.
        let attach = Attach { ifindex, mode: AttachMode::Native, directory: pins.directory() };
        let _steering = Steering::attach(&attach)?;
        for_each_build(|mut rehearsal| {
            let feed = Feed::new(rehearsal.tables(), 1);
            rehearsal.tables().feed_add(feed.id, &any_group()).unwrap();
            let mut reader = feed.reader(0);
            for queue in [1, 0, 1] {
                rehearsal.run_on(&datagram(queue as usize).bytes, ifindex, queue).unwrap();
            }
            for queue in [1, 0, 1] {
                assert_is(&message(&mut reader).unwrap(), &datagram(queue), 39 + queue, 8, 0);
            }
            let facts = rehearsal.tables().feed_facts(feed.id).unwrap().unwrap();
            assert_eq!((message(&mut reader), facts.published, facts.dropped), (None, vec![3], 0));
        });
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_readers_descriptor_gives_it_no_way_to_write() {
    if !can_run() {
        return;
    }
    let map = RingMap::create("step_test", 2, 64).unwrap();
    let try_map = |protection| sidestep_sys::memory::Mapping::shared(map.fd(), element_bytes(64), protection).is_ok();
    assert!(try_map(sidestep_sys::memory::Access::ReadOnly));
    assert!(!try_map(sidestep_sys::memory::Access::ReadWrite));
}

#[test]
fn doorbells_and_feeds_have_limits_and_are_free_again() {
    if !can_run() {
        return;
    }
    let rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let tables = rehearsal.tables();
    let feed = Feed::new(tables, 1);
    let bells: Vec<_> = (0..DOORBELLS_MAX).map(|_| tables.doorbell_create(feed.id).unwrap().0).collect();
    assert_eq!(bells, (0..DOORBELLS_MAX).collect::<Vec<_>>());
    assert!(tables.doorbell_create(feed.id).is_err());
    tables.doorbell_remove(feed.id, 3).unwrap();
    assert_eq!(tables.doorbell_create(feed.id).unwrap().0, 3);
    let all: Vec<_> = (1..FEEDS_MAX).map(|_| tables.feed_create("more", 1).unwrap()).collect();
    let problem = tables.feed_create("one too many", 1).unwrap_err().to_string();
    assert!(problem.contains("at most 64 feeds"), "{problem}");
    assert!(tables.feed_create("no queue", 0).is_err() && tables.feed_create("many queues", 65).is_err());
    all.iter().for_each(|(feed, _)| tables.feed_remove(*feed).unwrap());
    assert_eq!(tables.feeds().unwrap().len(), 1);
    tables.feed_remove(feed.id).unwrap();
    assert!(tables.feeds().unwrap().is_empty() && tables.feed_add(feed.id, &any_group()).is_err());
}

/// Each wake-up needs the reader's flag, the program's swap, and the BPF ring buffer's epoll: a lost one times out.
#[test]
fn readers_sleep_until_a_packet_comes() {
    if !can_run() {
        return;
    }
    const PACKETS: u64 = 300;
    let mut rehearsal = Rehearsal::new(OWN_MAC).unwrap();
    let feed = Feed::new(rehearsal.tables(), 1);
    rehearsal.tables().feed_add(feed.id, &any_group()).unwrap();
    // Two readers, each with a doorbell of its own.
    let readers = [(); 2].map(|()| {
        let (_, page, ring) = rehearsal.tables().doorbell_create(feed.id).unwrap();
        let mut reader = feed.reader(0);
        reader.set_doorbell(Doorbell::bpf(page, ring).unwrap());
        reader
    });
    let (told, is_told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for mut reader in readers {
            let told = told.clone();
            scope.spawn(move || {
                for number in 0..PACKETS {
                    reader.wait(IdleStrategy::PARK, Some(Instant::now() + WATCHDOG)).unwrap();
                    assert!(message(&mut reader).is_some(), "{number}");
                    told.send(()).unwrap();
                }
            });
        }
        for number in 0..PACKETS {
            if number % 3 == 0 {
                // Both are asleep by then, mostly.
                std::thread::sleep(Duration::from_millis(1));
            }
            rehearsal.run(&datagram(0).bytes, 1).unwrap();
            (0..2).for_each(|_| is_told.recv_timeout(WATCHDOG).expect("a reader sleeps on"));
        }
    });
}

/// Reads until all packets are read or lost; returns those read.
fn count(mut reader: Subscriber, frame: &Frame, sent: u64, pause: Duration) -> u64 {
    let mut buffer = vec![0; reader.message_bytes_max()];
    let (mut read, mut lost) = (0, 0);
    while read + lost < sent {
        match reader.try_read(&mut buffer) {
            Ok(length) => {
                assert_eq!(buffer[ring_packet::BYTES..length], frame.bytes[frame.ip..]);
                read += 1;
                if !pause.is_zero() && read % 100 == 0 {
                    std::thread::sleep(pause);
                }
            }
            Err(ReadError::Lost(loss)) => lost += loss.messages,
            Err(ReadError::Empty) => std::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((read + lost, reader.sequence()), (sent, sent));
    read
}

/// As fast as the program runs, without an interface: some million packets a second.
#[test]
fn readers_beside_a_fast_writer_get_whole_packets_and_count_the_rest() {
    if !can_run() {
        return;
    }
    const SENT: u32 = 2_000_000;
    for_each_build(|mut rehearsal| {
        let feed = Feed::new(rehearsal.tables(), 1);
        rehearsal.tables().feed_add(feed.id, &any_group()).unwrap();
        let frame = datagram(200);
        let readers = [Duration::ZERO, Duration::ZERO, Duration::from_millis(1)].map(|pause| (feed.reader(0), pause));
        std::thread::scope(|scope| {
            let frame = &frame;
            let readers = readers.map(|(reader, pause)| scope.spawn(move || count(reader, frame, SENT.into(), pause)));
            rehearsal.run(&frame.bytes, SENT).unwrap();
            let read = readers.map(|reader| reader.join().unwrap());
            assert!(read.iter().all(|read| *read > 0), "{read:?}");
        });
    });
}
