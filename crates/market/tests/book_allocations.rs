//! Once books are made, no message costs an allocation.

#[allow(unreachable_pub, dead_code)] // The benches' generator.
#[path = "../examples/support/day.rs"]
mod day;

use day::{Day, Settings};
use sidestep_market::book::{Books, Depth, Limits};
use sidestep_market::itch::Message;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

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

#[test]
fn a_day_with_prefetching_and_refused_messages_allocates_nothing() {
    let limits = Limits { instruments: 500, orders: 40_000, levels: 20_000, side_levels: 4_096 };
    let mut day = Day::new(Settings { instruments: 500, live: 20_000, step: 1, seed: 3 });
    let mut bytes = Vec::new();
    let mut starts = Vec::new();
    for _ in 0..200_000 {
        starts.push(bytes.len());
        day.next().encode(1, &mut bytes);
    }
    let mut books = Books::new(limits, Depth::Orders).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut refused = 0;
    for datagram in starts.chunks(38) {
        let messages = datagram.iter().map(|start| Message::parse(&bytes[*start..]).unwrap());
        books.prefetch(messages.clone());
        for message in messages {
            assert!(books.apply(&message).is_ok());
            // An execution may be right twice; then a later one is not.
            if matches!(message.kind(), b'A' | b'D' | b'U') {
                refused += u32::from(books.apply(&message).is_err());
            }
        }
    }
    books.clear();
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
    assert!(refused > 150_000, "{refused}");
}
