//! The contract of every frame link, over a simulated wire: no frame is ever lost or duplicated, whatever the order of
//! calls; a capture opens in other tools.

use sidestep_frame::fault::{Fault, FaultOptions};
use sidestep_frame::sim::{self, SimClock, SimOptions};
use sidestep_frame::trace::Trace;
use sidestep_frame::{FrameLink, Outgoing, Reason, Received};
use std::fs::File;
use std::io::BufWriter;
use std::process::Command;

const OPERATIONS: u32 = 1_000_000;

/// One end, and the frames that its user has.
struct User<L> {
    link: L,
    received: Vec<Received>,
    held: Vec<Outgoing>,
}

impl<L: FrameLink> User<L> {
    fn new(link: L) -> Self {
        Self { link, received: Vec::new(), held: Vec::new() }
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        match random.u8(..8) {
            0 | 1 => self.received.extend(self.link.receive()),
            2 => self.held.extend(self.link.allocate()),
            3 => self.send(random),
            4 => {
                if let Some(frame) = self.received.pop() {
                    assert!(!self.link.bytes(&frame).is_empty());
                    self.link.release(frame);
                }
            }
            5 => {
                if let Some(frame) = self.received.pop() {
                    self.held.push(self.link.answer(frame));
                }
            }
            6 => self.link.flush().expect("memory does not fail"),
            _ => {
                self.link.poll().expect("memory does not fail");
                if random.u8(..4) == 0
                    && let Some(frame) = self.held.pop()
                {
                    self.link.discard(frame);
                }
            }
        }
    }

    fn send(&mut self, random: &mut fastrand::Rng) {
        let Some(frame) = self.held.pop() else { return };
        let len = random.usize(..1600);
        let len = len.min(self.link.buffer(&frame).len());
        if let Err(unsent) = self.link.send(frame, len) {
            assert!(unsent.reason == Reason::Full || len < 14, "{unsent}");
            self.held.push(unsent.frame);
        }
    }

    fn check(&self, frames: u32) {
        let counters = self.link.counters();
        let (lent, held) = (self.received.len() as u32, self.held.len() as u32);
        assert_eq!((counters.tally.sum(), counters.faults), (frames, 0));
        assert_eq!(counters.tally.lent, lent);
        // A faulty link may hold one frame back.
        assert!((held..=held + 1).contains(&counters.tally.held), "{counters:?}, {held} held");
    }
}

#[test]
fn no_frame_is_lost_or_doubled_in_a_million_random_operations() {
    let options = SimOptions { frames: 64, queue: 16, fill: 16, delay_ns: 100, ..SimOptions::default() };
    let (left, right) = sim::pair(&options);
    let clock: SimClock = left.clock().clone();
    let faults =
        FaultOptions { seed: 3, loss: 0.01, corruption: 0.01, truncation: 0.01, duplication: 0.01, reordering: 0.01 };
    let (mut left, mut right) = (User::new(Fault::new(left, faults)), User::new(right));
    let mut random = fastrand::Rng::with_seed(1);
    for operation in 0..OPERATIONS {
        clock.advance(random.u64(..20));
        if random.bool() {
            left.step(&mut random);
        } else {
            right.step(&mut random);
        }
        if operation % 64 == 0 {
            left.check(options.frames);
            right.check(options.frames);
        }
    }
    let (left, right) = (left.link.counters(), right.link.counters());
    assert!(left.received > 10_000 && right.received > 10_000 && left.full + right.full > 0, "{left:?} {right:?}");
}

#[test]
fn a_capture_opens_in_tshark() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("capture.pcapng");
    let (left, mut right) = sim::pair(&SimOptions::default());
    let clock = left.clock().clone();
    clock.advance(1_700_000_000_000_000_000);
    let time = clock.clone();
    let file = BufWriter::new(File::create(&path).expect("it can be made"));
    let mut left = Trace::new(left, file, move || time.now_ns()).expect("it can be written");
    for len in [60_usize, 61, 1514] {
        let frame = left.allocate().expect("frames are free");
        left.buffer(&frame)[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        left.send(frame, len).expect("there is room");
        left.flush().expect("memory does not fail");
        clock.advance(1001);
        let frame = right.receive().expect("it has come");
        let answer = right.answer(frame);
        right.send(answer, len).expect("there is room");
        right.flush().expect("memory does not fail");
        clock.advance(1);
        let frame = left.receive().expect("it has come back");
        left.release(frame);
    }
    assert_eq!(left.missed(), 0);
    left.finish().1.expect("it can be written");
    let fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.packet_flags_direction"];
    let Ok(output) = Command::new("tshark").arg("-r").arg(&path).args(fields).output() else {
        eprintln!("skipped: needs tshark");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("tshark writes text");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let lengths: Vec<&str> = lines.iter().map(|fields| fields[1]).collect();
    let ways: Vec<bool> = lines.iter().map(|fields| fields[2].ends_with('1')).collect();
    assert_eq!(lengths, ["60", "60", "61", "61", "1514", "1514"]);
    assert_eq!(ways, [false, true, false, true, false, true], "out is 2, in is 1: {text}");
    assert!(lines[1][0].contains("1700000000.000001001"), "to the nanosecond: {text}");
}
