//! A feed under a flood.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sidestep_ring::ReadError;
use sidestep_ring::broadcast::Subscriber;
use sidestep_xdp_steering::{AttachMode, Reason, ring_packet};

use crate::feeds::{Feed, any_group, datagram};
use crate::frames::Frame;
use crate::support::{can_run, ifindex, wait_until};
use crate::traffic::Scene;

/// Through the driver: frames of a flood, all of which the program counts.
#[test]
fn a_flood_is_read_or_counted_to_the_last_packet() {
    if !can_run() {
        return;
    }
    const SENT: u32 = 3_000_000;
    let scene = Scene::new(AttachMode::Native);
    let tables = scene.steering.tables();
    let feed = Feed::new(tables, 1);
    tables.feed_add(feed.id, &any_group()).unwrap();
    tables.control_beat().unwrap();
    tables.set_drop(&any_group(), true).unwrap();
    let frame = datagram(22);
    let mut readers = [feed.reader(0), feed.reader(0)];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pauses = [Duration::ZERO, Duration::from_millis(2)];
        let (is_over, frame) = (&is_over, &frame);
        let readers = readers.iter_mut().zip(pauses);
        let readers: Vec<_> =
            readers.map(|(reader, pause)| scope.spawn(move || until_over(reader, frame, is_over, pause))).collect();
        let begin = Instant::now();
        let flood = || {
            sidestep_sys::xdp::program::Flood::load()
                .and_then(|flood| flood.send(ifindex("lab0"), &frame.bytes, SENT))
                .map_err(|error| sidestep_sys::Problem::failed("no flood", error))
        };
        scene.a().within(flood).unwrap();
        let took = begin.elapsed();
        // The queue of the veth is empty when the count stands still.
        let settled = || {
            let before = scene.count(Reason::Ring);
            std::thread::sleep(Duration::from_millis(50));
            scene.count(Reason::Ring) == before
        };
        wait_until("the last packet", settled);
        is_over.store(true, Ordering::Release);
        let copied = scene.count(Reason::Ring);
        assert!(copied > 1000, "{copied}");
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        let rate = copied as f64 / took.as_secs_f64() / 1e6;
        eprintln!("{copied} packets, {rate:.2} million a second; read and lost: {read:?}");
        assert!(read.iter().all(|(read, lost)| *read > 0 && read + lost == copied), "{read:?} of {copied}");
    });
}

/// Reads until it is over and the ring is empty; the packets read and lost.
fn until_over(reader: &mut Subscriber, frame: &Frame, is_over: &AtomicBool, pause: Duration) -> (u64, u64) {
    let mut buffer = vec![0; reader.message_bytes_max()];
    let (mut read, mut lost) = (0, 0);
    loop {
        // Before the look: what is published later was not sent.
        let is_last_look = is_over.load(Ordering::Acquire);
        match reader.try_read(&mut buffer) {
            Ok(length) => {
                assert_eq!(buffer[ring_packet::BYTES..length], frame.bytes[frame.ip..]);
                read += 1;
                if !pause.is_zero() && read % 64 == 0 {
                    std::thread::sleep(pause);
                }
            }
            Err(ReadError::Lost(loss)) => lost += loss.messages,
            Err(ReadError::Empty) if is_last_look => return (read, lost),
            Err(ReadError::Empty) => std::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
}
