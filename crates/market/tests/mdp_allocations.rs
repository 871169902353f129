//! Once a channel in the layout of MDP 3.0 is made, no packet costs an allocation: not one of the feed, not a snapshot, not a recovery.

// The venue of the other tests of channels.
#[allow(dead_code)]
#[path = "mdp/packets.rs"]
mod packets;
#[allow(dead_code)]
#[path = "mdp/venue.rs"]
mod venue;

use sidestep_market::mdp::schema::types::MatchEvent;
use sidestep_market::mdp::{BookKind, Channel, Event, Limits};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use venue::Venue;

const DEPTH: usize = 3;
const END: MatchEvent = MatchEvent(0x80);

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; the counter touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What comes to a channel.
enum Packet {
    Incremental(Vec<u8>),
    Snapshot(BookKind, Vec<u8>),
}

/// A day in which each twentieth packet is lost, some are cut off, and snapshot loops run now and then.
fn day(seed: u64, packets: u32) -> Vec<Packet> {
    let mut venue = Venue::new(seed, true);
    let mut day = Vec::new();
    for number in 1..packets {
        let mut bytes = venue.packet();
        if number % 50 == 1 {
            bytes.truncate(bytes.len() - 1);
        }
        if number % 20 > 0 {
            day.push(Packet::Incremental(bytes));
        }
        if number % 7 == 0 {
            day.extend(venue.loops().into_iter().map(|(kind, bytes)| Packet::Snapshot(kind, bytes)));
        }
    }
    day
}

#[test]
fn updates_gaps_and_recovery_from_snapshots_allocate_nothing() {
    let day = day(9, 20_000);
    let limits = Limits { instruments: 3, orders_per_side: 12, packets_held: 64, trusts_numbers: false };
    let mut channel = Channel::new(limits).unwrap();
    let (mut books, mut recovered) = (0, 0);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for id in [7, 8] {
        channel.add(id, DEPTH as u8, 1).unwrap();
    }
    let mut told = |event| match event {
        Event::Book { .. } => books += 1,
        Event::Recovered => recovered += 1,
        _ => {}
    };
    for packet in &day {
        match packet {
            Packet::Incremental(bytes) => _ = channel.incremental(bytes, &mut told),
            Packet::Snapshot(kind, bytes) => channel.snapshot(*kind, bytes, &mut told).unwrap(),
        }
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
    let counters = *channel.counters();
    assert_eq!(counters.malformed, 400);
    assert!(counters.packet_gaps > 900 && counters.books_recovered > 1_000, "{counters:?}");
    assert!(books > 1_000 && recovered > 500, "{books} {recovered}");
}
