//! Flows over rings in memory, and over kernel sockets.

use super::testing::{Feed, message_v4};
use super::*;
use crate::options::Checksums as Wish;
use sidestep_ring::WaitError;
use sidestep_sys::idle::IdleStrategy;
use std::net::UdpSocket;

fn options() -> FlowOptions {
    FlowOptions { accelerate: false, ..FlowOptions::on("lo") }
}

/// A flow that reads these rings, without control.
fn over(feed: &Feed) -> Flow {
    let mut flow = Flow::open(&options().checksums(Wish::Verify)).unwrap();
    let rings = Rings::attach(&feed.file(), &feed.facts(1), None).unwrap();
    flow.buffer.resize(flow.buffer.len().max(rings.message_bytes_max()), 0);
    flow.rings = Some(rings);
    flow
}

fn number_in(packet: &Packet<'_>) -> u32 {
    u32::from_le_bytes(packet.payload().try_into().expect("four bytes"))
}

fn publish(feed: &mut Feed, ring: usize, number: u32) {
    feed.publish(ring, &message_v4(&number.to_le_bytes(), u64::from(number), 0));
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

#[test]
fn packets_of_one_ring_come_in_order_and_once() {
    let mut feed = Feed::new(1);
    let mut flow = over(&feed);
    assert!(flow.receive().is_none());
    for round in 0..1000 {
        for step in 0..3 {
            publish(&mut feed, 0, round * 3 + step);
        }
        for step in 0..3 {
            let packet = flow.receive().expect("it is there");
            assert_eq!((number_in(&packet), packet.queue(), packet.lost_before()), (round * 3 + step, Some(0), 0));
        }
        assert!(flow.receive().is_none());
    }
    assert_eq!((flow.statistics().packets(), flow.statistics().lost()), (3000, 0));
}

#[test]
fn a_busy_queue_does_not_starve_the_others() {
    let mut feed = Feed::new(3);
    let mut flow = over(&feed);
    publish(&mut feed, 2, 1000);
    for number in 0..20 {
        publish(&mut feed, 0, number);
    }
    let mut before = 0;
    while flow.receive().expect("all are there").queue() != Some(2) {
        before += 1;
        publish(&mut feed, 0, 20 + before);
    }
    assert!(before <= 2, "{before} packets of the busy queue came first");
}

#[test]
fn a_loss_is_exact_for_each_queue_and_told_with_the_packet_after_it() {
    let mut feed = Feed::new(2);
    let mut flow = over(&feed);
    for number in 0..1000 {
        publish(&mut feed, 1, number);
    }
    publish(&mut feed, 0, 7);
    let (mut told, mut last) = (0, None);
    while let Some(packet) = flow.receive() {
        told += packet.lost_before();
        if packet.queue() == Some(1) {
            last = Some(number_in(&packet));
        } else {
            assert_eq!((number_in(&packet), packet.lost_before()), (7, 0));
        }
    }
    let statistics = flow.statistics();
    let busy = statistics.queues[1];
    assert_eq!((last, statistics.queues[0].lost), (Some(999), 0));
    assert_eq!((busy.packets + busy.lost, busy.lost, busy.lost_bytes), (1000, told, told * 48));
    assert!(busy.lost > 0);
}

#[test]
fn what_is_damaged_is_counted_and_skipped() {
    let mut feed = Feed::new(1);
    let mut flow = over(&feed);
    let mut damaged = message_v4(b"tick", 1, 0);
    *damaged.last_mut().unwrap() ^= 1;
    feed.publish(0, &damaged);
    feed.publish(0, b"no packet");
    publish(&mut feed, 0, 5);
    assert_eq!(flow.receive().map(|packet| number_in(&packet)), Some(5));
    let statistics = flow.statistics();
    assert_eq!((statistics.bad_checksums, statistics.malformed, statistics.packets()), (1, 1, 1));
}

#[test]
fn a_loss_before_damaged_packets_is_told_with_the_next_whole_one() {
    let mut feed = Feed::new(1);
    let mut flow = over(&feed);
    let mut damaged = message_v4(b"tick", 1, 0);
    *damaged.last_mut().unwrap() ^= 1;
    for _ in 0..1000 {
        feed.publish(0, &damaged);
    }
    publish(&mut feed, 0, 5);
    let told = loop {
        if let Some(packet) = flow.receive() {
            break packet.lost_before();
        }
    };
    let statistics = flow.statistics();
    assert_eq!((statistics.lost() + statistics.bad_checksums, told), (1000, statistics.lost()));
    assert!(told > 0);
}

#[test]
fn a_flood_of_damage_ends_a_call_and_not_the_flow() {
    let mut feed = Feed::new(1);
    let mut flow = over(&feed);
    for _ in 0..SKIPPED_MAX + 10 {
        feed.publish(0, b"no packet");
    }
    publish(&mut feed, 0, 5);
    assert!(flow.receive().is_none());
    flow.wait(IdleStrategy::SPIN, soon()).unwrap();
    assert_eq!(flow.receive().map(|packet| number_in(&packet)), Some(5));
}

#[test]
fn a_wait_leaves_the_packet_to_the_next_call() {
    let mut feed = Feed::new(1);
    let mut flow = over(&feed);
    assert_eq!(flow.wait(IdleStrategy::SPIN, Some(Instant::now())), Err(WaitError::TimedOut));
    publish(&mut feed, 0, 5);
    for _ in 0..2 {
        flow.wait(IdleStrategy::SPIN_THEN_PARK, soon()).unwrap();
    }
    assert_eq!(flow.receive().map(|packet| number_in(&packet)), Some(5));
    assert!(flow.receive().is_none());
    assert_eq!(flow.statistics().packets(), 1);
}

#[test]
fn the_rings_of_a_lost_feed_are_read_to_their_end() {
    let mut feed = Feed::new(1);
    let mut flow = over(&feed);
    publish(&mut feed, 0, 1);
    publish(&mut feed, 0, 2);
    let rings = flow.rings.take().unwrap();
    flow.retired = Some((rings, None));
    let mut newer = Feed::new(1);
    flow.rings = Some(Rings::attach(&newer.file(), &newer.facts(2), None).unwrap());
    publish(&mut newer, 0, 3);
    let all: Vec<u32> = std::iter::from_fn(|| flow.receive().map(|packet| number_in(&packet))).collect();
    assert_eq!(all, [1, 2, 3]);
    assert!(flow.retired.is_none());
}

#[test]
fn facts_that_cannot_be_are_refused() {
    let feed = Feed::new(1);
    let right = feed.facts(1).element_bytes;
    for (rings, element_bytes) in [(0, right), (u32::MAX, right), (2, right), (3, u64::MAX), (2, 4095)] {
        let facts = sidestep_control_api::message::FeedFacts { rings, element_bytes, ..feed.facts(1) };
        assert!(Rings::attach(&feed.file(), &facts, None).is_err(), "{facts:?}");
    }
}

#[test]
fn without_rings_the_kernel_delivers_and_the_reason_is_told() {
    let mut flow = Flow::open(&options()).unwrap();
    let one = flow.bind("127.0.0.1:0".parse().unwrap(), Verdict::Drop).unwrap();
    let other = flow.bind("127.0.0.1:0".parse().unwrap(), Verdict::Pass).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (number, id) in [(1_u32, one), (2, other)] {
        sender.send_to(&number.to_le_bytes(), flow.local(id).unwrap()).unwrap();
        flow.wait(IdleStrategy::SPIN_THEN_PARK, soon()).unwrap();
        let to = flow.local(id).unwrap();
        let packet = flow.receive().unwrap();
        assert_eq!((number_in(&packet), packet.queue(), packet.destination()), (number, None, to));
        assert_eq!((packet.source(), packet.bytes().len()), (sender.local_addr().unwrap(), 0));
    }
    assert_eq!(flow.path(one).reason(), Some(Reason::NotWanted));
    assert_eq!(flow.refusal().map(|(reason, _)| reason), Some(Reason::NotWanted));
    assert_eq!(flow.statistics().by_kernel, 2);
    let local = flow.local(one).unwrap();
    flow.leave(one);
    assert!(UdpSocket::bind(local).is_ok(), "the port is free");
    assert!(flow.local(one).is_none() && !flow.path(one).is_ring());
}

#[test]
fn a_sleeper_without_rings_is_woken_by_its_kernel_sockets() {
    let mut flow = Flow::open(&options()).unwrap();
    let id = flow.bind("127.0.0.1:0".parse().unwrap(), Verdict::Pass).unwrap();
    let to = flow.local(id).unwrap();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"wake", to).unwrap();
    });
    flow.wait(IdleStrategy::PARK, soon()).unwrap();
    assert_eq!(flow.receive().unwrap().payload(), b"wake");
    sender.join().unwrap();
}

#[test]
fn wrong_entries_are_refused_with_a_reason() {
    let mut flow = Flow::open(&options()).unwrap();
    assert!(flow.join("127.0.0.1:7000".parse().unwrap(), None, Verdict::Pass).is_err());
    assert!(flow.join("239.1.1.1:0".parse().unwrap(), None, Verdict::Pass).is_err());
    assert!(flow.bind("239.1.1.1:7000".parse().unwrap(), Verdict::Pass).is_err());
    let strange = flow.bind("198.18.0.1:7000".parse().unwrap(), Verdict::Pass).unwrap_err();
    assert!(strange.next_step().starts_with("use an address of this host"), "{strange}");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let refused = flow.bind(taken.local_addr().unwrap(), Verdict::Pass).unwrap_err();
    assert!(refused.next_step().starts_with("end the program that has the port"), "{refused}");
    let flow_of_tcp = Entry::Flow {
        protocol: Protocol::Tcp,
        local: "198.18.0.1:80".parse().unwrap(),
        remote: "198.18.0.2:9".parse().unwrap(),
        vlan: None,
    };
    let tap = flow.tap(flow_of_tcp, Verdict::Pass).unwrap();
    assert_eq!(flow.path(tap), EntryPath::Nothing { reason: Reason::NotWanted, detail: String::new() });
    assert!(Flow::open(&FlowOptions::on("no-such-if")).is_err());
}

#[test]
fn entries_are_limited_and_room_is_made_by_leaving() {
    let mut flow = Flow::open(&options()).unwrap();
    let entry = |port| Entry::Listener { protocol: Protocol::Tcp, local: ([198, 18, 0, 1], port).into(), vlan: None };
    let ids: Vec<_> = (1..=ENTRIES_MAX as u16).map(|port| flow.tap(entry(port), Verdict::Pass).unwrap()).collect();
    let refused = flow.tap(entry(5000), Verdict::Pass).unwrap_err().to_string();
    assert!(refused.contains("at most 1024 entries"), "{refused}");
    flow.leave(ids[0]);
    assert!(flow.tap(entry(5000), Verdict::Pass).is_ok());
}

#[test]
fn news_wake_a_sleeper_once() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut flow = Flow::open(&options()).unwrap();
    flow.bind("127.0.0.1:0".parse().unwrap(), Verdict::Pass).unwrap();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    assert!(flow.request_wakeup());
    let descriptor = flow.wakeup_fd().unwrap();
    assert_eq!(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)), Ok(0), "the news are taken");
}
