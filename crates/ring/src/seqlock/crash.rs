//! Crash tests: a writer is killed at every store in turn, and at random moments. As in [`crate::crash`], the child is this
//! test program again.

use super::{Array, Options, ReadError, STAMP_MAX};
use crate::role::Peer;
use crate::sync::counted;
use sidestep_sys::memory::Access;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ARRAY: &str = "SIDESTEP_ARRAY_CRASH_ARRAY";
const STEP: &str = "SIDESTEP_ARRAY_CRASH_STEP";
const OPTIONS: Options = Options { records: 5, tag: u64::from_ne_bytes(*b"CRASHING") };
/// The writes of a child that is not killed.
const SCRIPT: u64 = 12;
/// A watchdog, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

fn words(stamp: u64) -> [u64; 15] {
    std::array::from_fn(|index| stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64)
}

fn spawn(array: &Array<15>, step: i64) -> Child {
    let file = format!("/proc/{}/fd/{}", std::process::id(), array.fd().as_raw_fd());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "seqlock::crash::child", "--test-threads=1", "--nocapture"]).stdout(Stdio::null());
    command.env(ARRAY, file).env(STEP, step.to_string());
    sidestep_sys::process::die_with_parent(&mut command);
    command.spawn().unwrap()
}

/// The work of a child; does nothing in the parent's run of all tests.
#[test]
fn child() {
    let Ok(step) = std::env::var(STEP) else { return };
    let step = step.parse().unwrap();
    let file = File::options().read(true).write(true).open(std::env::var(ARRAY).unwrap()).unwrap();
    let array = Array::<15>::from_fd(file.into(), Access::ReadWrite, OPTIONS.tag).unwrap();
    counted::arm(step);
    let mut writer = array.writer().unwrap();
    let from = writer.newest() + 1;
    let last = if step < 0 { STAMP_MAX } else { SCRIPT };
    for stamp in from..=last {
        writer.write((stamp % u64::from(OPTIONS.records)) as u32, stamp, &words(stamp)).unwrap();
    }
}

/// Every record is whole, or zeroes after a repair.
fn check(array: &Array<15>, may_be_busy: bool) {
    let reader = array.reader();
    for index in 0..OPTIONS.records {
        match reader.read(index) {
            Ok(record) => {
                let is_whole = record.words == words(record.stamp) || record.words == [0; 15];
                assert!(is_whole, "record {index}: {record:?}");
            }
            Err(error) => assert!(may_be_busy && error == ReadError::Busy, "record {index}: {error}"),
        }
    }
}

#[test]
fn a_writer_killed_at_any_store_leaves_whole_records_and_one_to_repair() {
    let (mut repaired, mut step) = (0, 0);
    loop {
        let array = Array::<15>::memfd(&OPTIONS).unwrap();
        let mut monitor = array.reader();
        let was_killed = !spawn(&array, step).wait().unwrap().success();
        check(&array, was_killed);
        let stat = array.stat();
        assert!(stat.busy <= 1 && !stat.writer.is_alive, "{stat:?}");
        assert_eq!(matches!(monitor.peer(), Peer::Gone(_)), was_killed && stat.writer.process.is_some());
        let mut successor = array.writer().unwrap();
        assert_eq!(successor.repaired(), stat.busy);
        check(&array, false);
        repaired += successor.repaired();
        let next = successor.newest() + 1;
        (0..OPTIONS.records).for_each(|index| successor.write(index, next, &words(next)).unwrap());
        assert!((0..OPTIONS.records).all(|index| array.reader().read(index).unwrap().words == words(next)));
        if !was_killed {
            break;
        }
        step += 1;
    }
    assert!(step > 150 && repaired > 100, "{step} stores, {repaired} of them within a record");
}

#[test]
fn writers_killed_at_random_moments_never_tear_a_record() {
    let array = Array::<15>::memfd(&OPTIONS).unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..20 {
        let before = array.stat().newest;
        let mut writer = spawn(&array, -1);
        let end = Instant::now() + PATIENCE;
        while array.stat().newest < before + 1000 && Instant::now() < end {
            assert_eq!(writer.try_wait().unwrap(), None, "the writer gave up");
            check(&array, true);
        }
        std::thread::sleep(Duration::from_micros(random.u64(0..300)));
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(array.stat().newest >= before + 1000);
        check(&array, true);
    }
    drop(array.writer().unwrap());
    check(&array, false);
}
