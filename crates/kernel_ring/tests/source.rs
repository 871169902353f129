//! The sources of events in the kernel: they load, and deliver in order and without loss. Root only.

use sidestep_kernel_ring::source::{EVENT_BYTES, Event, Origin, SOURCE_CELLS, Sink, Source};
use sidestep_ring::broadcast::{Start, Subscriber};
use sidestep_ring::{ReadError, Segment};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Far longer than any of the tests takes.
const PATIENCE: Duration = Duration::from_secs(60);
const EVENTS: u64 = 2000;
/// A reader may be held up for 800 ms before it is lapped.
const INTERVAL: Duration = Duration::from_micros(200);

fn is_skipped() -> bool {
    let skipped = !sidestep_sys::process::is_root();
    if skipped {
        println!("skipped: needs root");
    }
    skipped
}

fn subscriber(source: &Source) -> (Segment, Subscriber) {
    let ring = source.ring();
    let map = ring.map.try_clone_to_owned().unwrap();
    let segment = Segment::foreign(map, ring.offset, ring.bytes).expect("it attaches");
    let subscriber = segment.subscriber(Start::Latest).expect("it reads");
    (segment, subscriber)
}

/// Takes `EVENTS` events from `next`, which are numbered without a gap, and whose stamps never go back.
fn follow(mut next: impl FnMut() -> Vec<Event>) {
    let (begin, mut taken, mut last) = (Instant::now(), 0, None::<Event>);
    while taken < EVENTS {
        assert!(begin.elapsed() < PATIENCE, "{taken} events");
        for event in next() {
            if let Some(last) = last {
                assert_eq!(event.number, last.number + 1);
                assert!(event.stamp_ns >= last.stamp_ns, "{event:?} after {last:?}");
            }
            (taken, last) = (taken + 1, Some(event));
        }
    }
}

#[test]
fn a_timer_fills_the_ring_in_order_and_without_loss() {
    if is_skipped() {
        return;
    }
    let source = Source::load(Origin::Timer).expect("it loads");
    let (segment, mut reader) = subscriber(&source);
    source.start_timer(INTERVAL, Sink::Ring).expect("it starts");
    let mut buffer = [0; EVENT_BYTES];
    follow(|| match reader.try_read(&mut buffer) {
        Ok(length) => {
            assert_eq!(length, EVENT_BYTES);
            vec![Event::of(&buffer).unwrap()]
        }
        Err(ReadError::Empty) => {
            std::thread::yield_now();
            Vec::new()
        }
        Err(error) => panic!("{error}"),
    });
    source.stop_timer().expect("it stops");
    let counts = source.counts().unwrap();
    assert!(counts.events >= EVENTS && counts.contended == 0, "{counts:?}");
    // Nothing comes after it has stopped.
    let flow = segment.stat().written;
    std::thread::sleep(10 * INTERVAL);
    assert_eq!((source.counts().unwrap().events, segment.stat().written.messages), (counts.events, flow.messages));
    assert_eq!(flow.messages, counts.events);
    source.start_timer(INTERVAL, Sink::Ring).expect("it starts again");
    drop(source);

    let _ = reader.try_read(&mut buffer);
}

#[test]
fn a_timer_fills_the_ring_buffer_with_and_without_wake_ups() {
    if is_skipped() {
        return;
    }
    let source = Source::load(Origin::Timer).expect("it loads");
    for sink in [Sink::Ringbuf, Sink::RingbufWake] {
        let found = Rc::new(RefCell::new(Vec::new()));
        let ringbuf = {
            let found = Rc::clone(&found);
            source.ringbuf(move |record| found.borrow_mut().extend(Event::of(record))).expect("it opens")
        };
        source.start_timer(INTERVAL, sink).expect("it starts");
        follow(|| {
            if sink == Sink::Ringbuf {
                ringbuf.consume().expect("it reads");
                std::thread::yield_now();
            } else {
                ringbuf.poll(PATIENCE).expect("it wakes");
            }
            found.borrow_mut().drain(..).collect()
        });
        source.stop_timer().expect("it stops");
        ringbuf.consume().expect("it is emptied");
    }
    assert_eq!(source.counts().unwrap().refused, 0);
}

#[test]
fn a_lap_is_told_with_its_exact_length() {
    if is_skipped() {
        return;
    }
    let source = Source::load(Origin::Timer).expect("it loads");
    let (_segment, mut reader) = subscriber(&source);
    let begin = Instant::now();
    source.start_timer(Duration::from_micros(10), Sink::Ring).expect("it starts");
    while source.counts().unwrap().events <= 2 * SOURCE_CELLS {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    source.stop_timer().expect("it stops");
    let (mut buffer, mut read, mut lost, events) = ([0; EVENT_BYTES], 0, 0, source.counts().unwrap().events);
    loop {
        match reader.try_read(&mut buffer) {
            Ok(_) => {
                assert_eq!(Event::of(&buffer).unwrap().number, read + lost);
                read += 1;
            }
            Err(ReadError::Lost(loss)) => lost += loss.messages,
            Err(ReadError::Empty) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(lost > 0 && read > 0);
    assert_eq!(read + lost, events);
}

#[test]
fn publishing_is_timed_in_the_kernel() {
    if is_skipped() {
        return;
    }
    let source = Source::load(Origin::Timer).expect("it loads");
    let ringbuf = source.ringbuf(|_| ()).expect("it opens");
    for sink in [Sink::Ring, Sink::Ringbuf, Sink::Nothing] {
        match source.publish(sink, 4000) {
            Ok(ns) => assert!(ns > 0, "{sink:?}"),
            Err(problem) => assert!(problem.to_string().contains("Linux 5.1"), "{problem}"),
        }
        ringbuf.consume().unwrap();
    }
    source.publish(Sink::Ringbuf, 4681).expect("it fits");
    let full = source.publish(Sink::Ringbuf, 1000).expect_err("nobody has emptied it").to_string();
    assert!(full.contains("full"), "{full}");
    for events in [0, 4682] {
        let refused = source.publish(Sink::Ring, events).expect_err("out of range").to_string();
        assert!(refused.contains("room for 4681"), "{refused}");
    }
}
