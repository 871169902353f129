//! Crash tests: processes are killed at every store of the protocol in turn, and at random moments.
//!
//! The child is this test program again; an environment variable makes it run only [`child`]. It reaches the parent's
//! memfd through /proc, so nothing is left behind after a kill.

#[path = "../tests/support/messages.rs"]
mod messages;

use crate::broadcast::Start;
use crate::spsc::{Consumer, Producer, Resume};
use crate::sync::counted;
use crate::{Access, Cell, Kind, Options, ReadError, Segment, WaitError, Waking};
use messages::{message, number};
use sidestep_sys::idle::IdleStrategy;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "SIDESTEP_RING_CRASH_ROLE";
const RING: &str = "SIDESTEP_RING_CRASH_RING";
const STEP: &str = "SIDESTEP_RING_CRASH_STEP";
/// Messages that a child writes or reads: several laps of the small ring.
const SCRIPT: u64 = 24;
const LONGEST: usize = 200;
/// A watchdog, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

fn segment(kind: Kind, cell: Cell) -> Segment {
    Segment::memfd(&Options { kind, cell, bytes: 16 * 64, waking: Waking::Barrier }).unwrap()
}

fn spawn(role: &str, segment: &Segment, step: i64) -> Child {
    let ring = format!("/proc/{}/fd/{}", std::process::id(), segment.fd().as_raw_fd());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::child", "--test-threads=1", "--nocapture"]).stdout(Stdio::null());
    command.env(ROLE, role).env(RING, ring).env(STEP, step.to_string());
    sidestep_sys::process::die_with_parent(&mut command);
    command.spawn().unwrap()
}

fn deadline() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

/// The work of a child; does nothing in the parent's run of all tests.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let file = File::options().read(true).write(true).open(std::env::var(RING).unwrap()).unwrap();
    let segment = Segment::from_fd(file.into(), Access::ReadWrite).unwrap();
    counted::arm(std::env::var(STEP).unwrap().parse().unwrap());
    match role.as_str() {
        "producer" => write_script(&mut segment.producer().unwrap(), SCRIPT),
        "endless producer" => write_script(&mut segment.producer().unwrap(), u64::MAX),
        "consumer" => {
            let mut consumer = segment.consumer(Resume::Unread).unwrap();
            read_until(&mut consumer, SCRIPT);
        }
        "endless consumer" => {
            let mut consumer = segment.consumer(Resume::Unread).unwrap();
            loop {
                read_until(&mut consumer, u64::MAX);
                std::thread::yield_now();
            }
        }
        "publisher" => {
            let mut publisher = segment.publisher().unwrap();
            while publisher.messages() < SCRIPT {
                publisher.publish(&message(publisher.messages(), LONGEST)).unwrap();
            }
        }
        role => panic!("no such role: {role}"),
    }
}

/// Single messages, aborted claims, batches; each message carries its sequence number.
fn write_script(producer: &mut Producer, end: u64) {
    let end_of_patience = Instant::now() + PATIENCE;
    while producer.messages() < end {
        let next = producer.messages();
        let bytes = message(next, LONGEST);
        match producer.wait(bytes.len(), IdleStrategy::SPIN_THEN_PARK, deadline()) {
            Ok(()) => {}
            // A reader that was killed, or whose script is over, is followed by another one.
            Err(WaitError::PeerGone | WaitError::Closed) if Instant::now() < end_of_patience => {
                std::thread::yield_now();
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        match next % 4 {
            0 => {
                producer.try_claim(bytes.len()).unwrap().fill(0xee);
                producer.try_send(&bytes).unwrap();
            }
            1 => {
                let mut batch = producer.batch();
                let mut pushed = 0;
                while next + pushed < end && pushed < 3 && batch.try_push(&message(next + pushed, LONGEST)).is_ok() {
                    pushed += 1;
                }
                batch.commit();
            }
            _ => {
                let mut claim = producer.try_claim(bytes.len()).unwrap();
                let (first, second) = claim.split_at_mut(bytes.len() / 2);
                first.copy_from_slice(&bytes[..first.len()]);
                counted::step();
                second.copy_from_slice(&bytes[first.len()..]);
                claim.commit();
            }
        }
    }
}

/// Reads in order up to message `end`; returns early if the writer dies.
fn read_until(consumer: &mut Consumer, end: u64) {
    while consumer.messages() < end {
        match consumer.wait(IdleStrategy::SPIN_THEN_PARK, deadline()) {
            Ok(()) => {}
            Err(WaitError::PeerGone | WaitError::Closed) => return,
            Err(error) => panic!("{error}"),
        }
        let expected = consumer.messages();
        assert_eq!(number(&consumer.try_read().unwrap()), expected);
    }
}

/// Runs `scenario` for step 0, 1, 2, ... until a child finishes alive, with cells of either size.
fn at_every_step(mut scenario: impl FnMut(Cell, i64) -> bool) {
    for cell in Cell::ALL {
        let mut step = 0;
        while scenario(cell, step) {
            step += 1;
        }
        assert!(step > 50, "the script has more stores than {step}");
    }
}

#[test]
fn a_producer_killed_at_any_store_is_replaced_without_loss() {
    let mut abandoned = 0;
    at_every_step(|cell, step| {
        let segment = segment(Kind::Spsc, cell);
        let mut child = spawn("producer", &segment, step);
        let (mut consumer, mut next) = (segment.consumer(Resume::Unread).unwrap(), 0);
        let killed = std::thread::spawn(move || !child.wait().unwrap().success());
        while !killed.is_finished() {
            while let Ok(bytes) = consumer.try_read() {
                assert_eq!(number(&bytes), next);
                next += 1;
            }
            std::thread::yield_now();
        }
        let was_killed = killed.join().unwrap();
        while let Ok(bytes) = consumer.try_read() {
            assert_eq!(number(&bytes), next);
            next += 1;
        }
        if segment.stat().writer.process.is_some() {
            let end = consumer.wait(IdleStrategy::SPIN_THEN_PARK, deadline());
            assert!(matches!(end, Err(WaitError::PeerGone | WaitError::Closed)), "{end:?}");
        }
        let mut successor = segment.producer().unwrap();
        assert!(successor.messages() >= consumer.messages() && successor.messages() <= SCRIPT);
        assert!(successor.abandoned() <= 3, "one batch at most");
        abandoned += successor.abandoned();
        assert_eq!(segment.stat().abandoned, successor.abandoned());
        std::thread::scope(|threads| {
            threads.spawn(|| write_script(&mut successor, SCRIPT + 5));
            read_until(&mut consumer, SCRIPT + 5);
        });
        assert_eq!(consumer.messages(), SCRIPT + 5);
        let stat = segment.stat();
        assert_eq!((stat.written.messages, stat.read.messages), (SCRIPT + 5, SCRIPT + 5));
        assert_eq!((stat.written.bytes, stat.fault), (stat.read.bytes, None));
        was_killed
    });
    assert!(abandoned > 0, "some steps lie between claim and commit");
}

#[test]
fn a_consumer_killed_at_any_store_is_replaced_without_loss() {
    at_every_step(|cell, step| {
        let segment = segment(Kind::Spsc, cell);
        let mut producer = segment.producer().unwrap();
        let mut child = spawn("consumer", &segment, step);
        let was_killed = std::thread::scope(|threads| {
            threads.spawn(|| write_script(&mut producer, SCRIPT + 5));
            let was_killed = !child.wait().unwrap().success();
            let released = segment.stat().read.messages;
            let mut successor = segment.consumer(Resume::Unread).unwrap();
            assert_eq!(successor.messages(), released, "what was released does not come again");
            read_until(&mut successor, SCRIPT + 5);
            assert_eq!(successor.messages(), SCRIPT + 5);
            was_killed
        });
        let stat = segment.stat();
        assert_eq!((stat.written.messages, stat.read.messages, stat.fault), (SCRIPT + 5, SCRIPT + 5, None));
        was_killed
    });
}

#[test]
fn a_publisher_killed_at_any_store_is_replaced_and_losses_stay_exact() {
    at_every_step(|cell, step| {
        let segment = segment(Kind::Broadcast, cell);
        let mut subscriber = segment.subscriber(Start::Oldest).unwrap();
        let was_killed = !spawn("publisher", &segment, step).wait().unwrap().success();
        let mut successor = segment.publisher().unwrap();
        assert!(successor.messages() <= SCRIPT && successor.abandoned() <= 1);
        let (mut seen, mut lost, mut buffer) = (0, 0, [0; LONGEST]);
        loop {
            match subscriber.try_read(&mut buffer) {
                Ok(length) => {
                    assert_eq!(number(&buffer[..length]), seen + lost);
                    seen += 1;
                }
                Err(ReadError::Lost(loss)) => lost += loss.messages,
                Err(ReadError::Empty) if successor.messages() == SCRIPT + 5 => break,
                Err(ReadError::Empty) => successor.publish(&message(successor.messages(), LONGEST)).unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(seen + lost, SCRIPT + 5);
        was_killed
    });
}

#[test]
fn both_sides_killed_at_random_moments_lose_nothing() {
    let segment = segment(Kind::Spsc, Cell::Quarter);
    let (mut producer, mut consumer) =
        (spawn("endless producer", &segment, -1), spawn("endless consumer", &segment, -1));
    let mut random = fastrand::Rng::with_seed(7);
    let mut before = 0;
    for round in 0..30 {
        // Far enough that the round has its own messages; then a little further.
        let end = Instant::now() + PATIENCE;
        while segment.stat().read.messages < before + 20 && Instant::now() < end {
            assert_eq!(consumer.try_wait().unwrap(), None, "a checksum is wrong");
            assert_eq!(producer.try_wait().unwrap(), None, "the writer gave up");
            std::thread::yield_now();
        }
        let victim = if round % 2 == 0 { &mut producer } else { &mut consumer };
        std::thread::sleep(Duration::from_micros(random.u64(0..500)));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let role = if round % 2 == 0 { "endless producer" } else { "endless consumer" };
        *victim = spawn(role, &segment, -1);
        let stat = segment.stat();
        assert!(stat.read.messages >= before + 20 && stat.fault.is_none(), "round {round}: {stat:?}");
        before = stat.read.messages;
    }
    for mut child in [producer, consumer] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // The next reader finds the rest complete.
    let mut successor = segment.producer().unwrap();
    let mut last = segment.consumer(Resume::Unread).unwrap();
    let end = successor.messages();
    read_until(&mut last, end);
    assert_eq!(last.messages(), end);
    write_script(&mut successor, end + 1);
    read_until(&mut last, end + 1);
}
