//! A user without privilege, whom the control plane permits.

use crate::paths::clean_after;
use crate::process::{NOBODY, Process};
use crate::venue::Venue;
use crate::{Desk, WATCHDOG, lab, levels, options};
use sidestep_lab::{Options, Side};
use sidestep_market::units::LineId;
use sidestep_sys::process::effective_uid;
use std::time::{Duration, Instant};

#[test]
fn an_unprivileged_user_has_the_venues_books_past_the_kernel() {
    let Some(lab) = lab(&Options::default()) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Process::control(b);
    let mut venue = Venue::on(a, ["lab0"; 2]);
    let mut desk = Process::start(Some(b), "desk", "", Some(NOBODY));
    assert_eq!(desk.line("accelerated as "), NOBODY.to_string());
    // It polls by itself: not faster than it can.
    for _ in 0..300 {
        venue.step();
        std::thread::sleep(Duration::from_micros(200));
    }
    venue.end();
    let expected = format!("{} messages, 0 lost, twins 0, {:?}", venue.next() - 1, venue.levels());
    assert_eq!(desk.line("the end: "), expected);
    drop(desk);
    clean_after(control, b);
}

/// What the other process does.
pub(crate) fn desk() {
    let mut desk = Desk::open(&options(["lab0"; 2]));
    let begin = Instant::now();
    while desk.handler.sockets().by_kernel().next().is_some() {
        assert!(begin.elapsed() < WATCHDOG, "{:?}", desk.handler.sockets().by_kernel().collect::<Vec<_>>());
        desk.drain();
    }
    println!("accelerated as {}", effective_uid());
    while !desk.seen.is_over {
        assert!(begin.elapsed() < WATCHDOG);
        desk.drain();
        desk.handler.sleep(Duration::from_millis(1)).unwrap();
    }
    let twins: u64 = [2, 3].map(|line| desk.handler.channel().feed().line(LineId(line)).unwrap().packets).iter().sum();
    let messages = desk.handler.channel().feed().next().0 - 1;
    println!("the end: {messages} messages, {} lost, twins {twins}, {:?}", desk.seen.skipped, levels(&desk.handler));
}
