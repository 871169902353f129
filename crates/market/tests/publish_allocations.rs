//! Neither the publisher nor a subscriber nor a capture allocates per message, lapped subscribers and resets included.

use sidestep_market::capture::{BinaryFile, BinaryFileWriter, Capture, LinkType, Writer, datagram};
use sidestep_market::event::{Flags, Origin};
use sidestep_market::itch::Message;
use sidestep_market::publish::{
    Change, Channel, Directory, Instrument, Interest, Level, Publisher, State, Subscriber, Tops,
};
use sidestep_market::units::{LineId, Locate, Nanos, Price, Sequence, Symbol};
use sidestep_ring::{Waking, broadcast, seqlock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is the system allocator's; counting touches a thread-local integer without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn publishing_and_subscribing_allocate_nothing_after_construction() {
    let (events, subscriber) = broadcast::pair(1 << 16, Waking::Never).unwrap();
    let (tops, reader) = seqlock::pair(1000).unwrap();
    let (instruments, names) = seqlock::pair(1000).unwrap();
    let channel = Channel::default();
    let mut publisher = Publisher::new(events, tops, instruments, channel).unwrap();
    let array = Tops::new(reader.clone());
    let mut keeps_up = Subscriber::new(subscriber.clone(), reader.clone(), Interest::all());
    let mut lapped = Subscriber::new(subscriber, reader, Interest::all());
    let directory = Directory::new(names);
    let mut replace = [0; 35];
    (replace[0], replace[2]) = (b'U', 5);
    let (mut read, mut lost) = (0_u64, 0);
    let symbol = Symbol::new("CVLT").unwrap();
    let count = allocations(|| {
        for number in 1..=20_000_u64 {
            let (sequence, arrived) = (Sequence(number), Nanos(number));
            let origin = Origin { sequence, time_ns: number, arrived, line: LineId(1), flags: Flags::NONE };
            let locate = Locate(1 + (number % 999) as u16);
            let bid = Some(Level { price: Price(number as i64), quantity: 1, orders: 1 });
            let change = Change { locate, bid, offer: None, state: State::Live };
            publisher.message(&origin, &origin.itch(&Message::parse(&replace).unwrap()), Some(&change)).unwrap();
            publisher.channel(&origin, if number % 2 == 0 { State::Live } else { State::Stale }).unwrap();
            let (market_category, financial_status, etp, authenticity) = (b'Q', b'N', b'N', b'P');
            let round_lot = 100;
            let instrument =
                Instrument { locate, symbol, round_lot, market_category, financial_status, etp, authenticity };
            publisher.instrument(&instrument).unwrap();
            array.top(locate).unwrap();
            directory.instrument(locate).unwrap();
            if number % 7000 == 0 {
                publisher.reset(&origin, channel).unwrap();
            }
            while keeps_up.try_next().unwrap().is_some() {
                read += 1;
            }
            if number % 3000 == 0 {
                while lapped.try_next().unwrap().is_some() {}
                lost = lapped.lost().messages;
            }
        }
        directory.find(symbol).unwrap();
    });
    assert_eq!(count, 0);
    assert!(read > 80_000 && keeps_up.lost().messages == 0 && lost > 10_000, "{read} read, {lost} lost");
}

#[test]
fn captures_allocate_nothing_per_packet() {
    let (source, group): (SocketAddr, SocketAddr) = ("10.0.0.1:1".parse().unwrap(), "233.0.0.1:2".parse().unwrap());
    let mut writer = Writer::new(Vec::with_capacity(1 << 20), "test").unwrap();
    let line = writer.interface("A", LinkType::RAW).unwrap();
    let payload = [7; 1400];
    let written = allocations(|| {
        (0..600).for_each(|time| writer.datagram(line, time, source, group, &payload).unwrap());
    });
    let file = writer.finish().unwrap();
    let mut capture = Capture::new(&file[..]).unwrap();
    assert!(capture.try_next().unwrap().is_some(), "the interface is named");
    let mut packets = 1;
    let read = allocations(|| {
        while let Some(packet) = capture.try_next().unwrap() {
            assert_eq!(datagram(&packet).unwrap().payload, payload);
            packets += 1;
        }
    });
    let mut writer = BinaryFileWriter::new(Vec::with_capacity(1 << 20));
    let messages_written = allocations(|| (0..1000).for_each(|_| writer.message(&payload[..40]).unwrap()));
    let bytes = writer.finish().unwrap();
    let mut messages = BinaryFile::new(&bytes[..]);
    let messages_read = allocations(|| while messages.try_next().unwrap().is_some() {});
    assert_eq!((packets, messages.messages()), (600, 1000));
    assert_eq!([written, read, messages_written, messages_read], [0; 4]);
}
