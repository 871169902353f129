//! Past the kernel, by the kernel twins, and from one to the other in the middle of the day.

use crate::process::{Process, clean};
use crate::venue::Venue;
use crate::{Desk, lab, options};
use sidestep_feed_handler::Drops;
use sidestep_lab::{Host, Options, Side};
use sidestep_market::feed::State;
use sidestep_socket::Path;
use std::process::Command;
use std::time::Duration;

const LAB0: [&str; 2] = ["lab0", "lab0"];
/// Steps of the opening and some of the load: 1,000 messages and more.
const STEPS: usize = 150;

fn ip(host: &Host, words: &str) {
    let mut command = Command::new("ip");
    assert!(host.spawn(command.args(words.split(' '))).unwrap().wait().unwrap().success(), "ip {words}");
}

/// A venue on host A, and a desk on host B whose lines are past the kernel; it asks the venue for what is missing, or nobody.
fn past_the_kernel(a: &Host, b: &Host, has_server: bool) -> (Process, Venue, Desk) {
    let control = Process::control(b);
    let mut venue = Venue::on(a, LAB0);
    let mut options = options(LAB0);
    options.rerequest.extend(has_server.then(|| venue.rerequest_at()));
    let mut desk = Desk::on(b, &options);
    desk.until_paths(&mut venue, Path::is_accelerated);
    (control, venue, desk)
}

#[test]
fn books_of_lines_past_the_kernel_are_those_of_the_venue() {
    let Some(lab) = lab(&Options::default()) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (control, mut venue, mut desk) = past_the_kernel(a, b, false);
    desk.trade(&mut venue, 2 * STEPS);
    let counters = desk.ends_like(&mut venue);
    assert!(venue.next() > 3_000 && counters.requests == 0, "{counters:?}");
    for line in 0..2 {
        let [past, by_twin] = desk.packets(line);
        assert!(past > 100 && by_twin == 0, "line {line}: {past} past the kernel, {by_twin} by it");
        assert_eq!(desk.handler.lines().statistics(line.into()).received, past);
    }
    drop(desk);
    clean_after(control, b);
}

/// Fragments are the kernel's: it puts them together, and the datagram comes by the twin, in no order with the others.
#[test]
fn what_is_fragmented_comes_by_the_twin_and_the_rest_past_the_kernel() {
    let Some(lab) = lab(&Options::default()) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    // Datagrams of the shorter line fit, those of the longer one do not when they are full.
    ip(a, "link set lab0 mtu 500");
    let (control, mut venue, mut desk) = past_the_kernel(a, b, false);
    desk.trade(&mut venue, STEPS);
    // Line A alone would lose now.
    venue.is_mute = [true, false];
    desk.trade(&mut venue, STEPS);
    venue.is_mute = [false; 2];
    desk.trade(&mut venue, STEPS);
    desk.ends_like(&mut venue);
    let [past, by_twin] = desk.packets(1);
    assert!(past > 20 && by_twin > 20, "line B: {past} past the kernel, {by_twin} by it");
    drop(desk);
    clean_after(control, b);
}

/// An engine that was opened without a control plane stays without it, and says so; the feed is whole.
#[test]
fn lines_joined_without_control_are_the_kernels_and_say_why() {
    let Some(lab) = lab(&Options::default()) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut venue = Venue::on(a, LAB0);
    let mut desk = Desk::on(b, &options(LAB0));
    let reasons: Vec<String> = desk.handler.sockets().by_kernel().collect();
    assert!(reasons.len() == 2 && reasons[0].contains("the control plane is not running"), "{reasons:?}");
    desk.trade(&mut venue, STEPS);
    let control = Process::control(b);
    desk.trade(&mut venue, STEPS);
    let counted = desk.handler.lines().statistics(0);
    assert_eq!((counted.received, counted.received_by_kernel), (0, desk.packets(0)[0]));
    desk.ends_like(&mut venue);
    drop(desk);
    clean_after(control, b);
}

/// An owner that is silent for a second counts as stopped: its traffic is the kernel's until it polls again.
#[test]
fn what_comes_while_the_thread_is_busy_for_a_second_is_kept_by_the_kernel() {
    let Some(lab) = lab(&Options::default()) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (control, mut venue, mut desk) = past_the_kernel(a, b, false);
    desk.trade(&mut venue, STEPS);
    let before = [0, 1].map(|line| desk.packets(line));
    std::thread::sleep(Duration::from_millis(1_300));
    (0..20).for_each(|_| venue.step());
    desk.catch_up(&mut venue);
    let busy = [0, 1].map(|line| desk.packets(line));
    assert!(busy[0][1] + busy[1][1] > before[0][1] + before[1][1], "by the twins: {before:?} {busy:?}");
    desk.trade(&mut venue, STEPS);
    let after = [0, 1].map(|line| desk.packets(line));
    assert!(after[0][0] > before[0][0] && after[1][0] > before[1][0], "past the kernel again: {before:?} {after:?}");
    desk.ends_like(&mut venue);
    drop(desk);
    clean_after(control, b);
}

#[test]
fn a_control_plane_killed_and_restarted_in_mid_run_loses_nothing() {
    let Some(lab) = lab(&Options::default()) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (mut control, mut venue, mut desk) = past_the_kernel(a, b, true);
    for round in 0..2 {
        desk.trade(&mut venue, STEPS);
        control.kill();
        desk.trade(&mut venue, STEPS);
        assert_eq!(desk.state(), State::Live, "round {round}");
        control = Process::control(b);
        desk.trade(&mut venue, STEPS);
        desk.until_paths(&mut venue, Path::is_accelerated);
    }
    let before = desk.handler.lines().statistics(0).received;
    desk.trade(&mut venue, STEPS);
    assert!(desk.handler.lines().statistics(0).received > before, "past the kernel again");
    desk.ends_like(&mut venue);
    drop(desk);
    clean_after(control, b);
}

/// A burst that is longer than the rings, while the thread does not poll: counted, told of the interface, and asked for.
#[test]
fn what_finds_no_frame_is_counted_and_recovered() {
    let Some(lab) = lab(&Options::default()) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (control, mut venue, mut desk) = past_the_kernel(a, b, true);
    desk.trade(&mut venue, STEPS);
    assert_eq!(desk.handler.lines().drops(0), Drops::default());
    (0..8 * STEPS).for_each(|_| venue.step());
    desk.drain();
    // What comes next tells that the end of the burst is missing.
    desk.trade(&mut venue, STEPS);
    let drops = [0, 1].map(|line| desk.handler.lines().drops(line));
    assert!(drops[0].interface > 0 && drops[0].interface == drops[1].interface, "{drops:?}");
    let counters = desk.ends_like(&mut venue);
    assert!(counters.filled_by_request > 0, "{counters:?}");
    drop(desk);
    clean_after(control, b);
}

/// A control plane that is killed leaves its program attached.
pub(crate) fn clean_after(control: Process, host: &Host) {
    drop(control);
    clean(host);
}
