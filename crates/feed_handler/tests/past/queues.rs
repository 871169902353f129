//! Devices of several queues, and lines on two interfaces.

use crate::paths::clean_after;
use crate::process::Process;
use crate::venue::Venue;
use crate::{Desk, lab, options};
use sidestep_lab::{Options, Side};
use sidestep_socket::Path;

#[test]
fn lines_come_by_every_queue_of_a_device() {
    for queues in [2, 4] {
        let Some(lab) = lab(&Options { queues, ..Options::default() }) else { return };
        let (a, b) = (lab.host(Side::A), lab.host(Side::B));
        let control = Process::control(b);
        let mut venue = Venue::on(a, ["lab0"; 2]);
        let mut desk = Desk::on(b, &options(["lab0"; 2]));
        desk.until_paths(&mut venue, Path::is_accelerated);
        assert_eq!(desk.handler.lines().engine().queues().len(), queues as usize);
        desk.trade(&mut venue, 300);
        let counters = desk.ends_like(&mut venue);
        assert_eq!((counters.requests, desk.packets(0)[1], desk.packets(1)[1]), (0, 0, 0), "{queues} queues");
        drop(desk);
        clean_after(control, b);
    }
}

/// Two engines, one thread. When the interface of one line goes down, the other one has everything.
#[test]
fn lines_on_two_interfaces_give_one_feed_and_one_of_them_may_go_down() {
    let Some(lab) = lab(&Options { frames_pair: true, ..Options::default() }) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let control = Process::control(b);
    let interfaces = ["lab0", "lab1"];
    let mut venue = Venue::on(a, interfaces);
    let mut desk = Desk::on(b, &options(interfaces));
    desk.until_paths(&mut venue, Path::is_accelerated);
    desk.trade(&mut venue, 150);
    let before = [0, 1].map(|line| desk.packets(line)[0]);
    assert!(before.iter().all(|packets| *packets > 20), "{before:?}");
    let mut command = std::process::Command::new("ip");
    assert!(b.spawn(command.args(["link", "set", "lab1", "down"])).unwrap().wait().unwrap().success());
    desk.trade(&mut venue, 150);
    let after = [0, 1].map(|line| desk.packets(line)[0]);
    assert!(after[0] > before[0] + 20 && after[1] < before[1] + 20, "{before:?} {after:?}");
    desk.ends_like(&mut venue);
    drop(desk);
    clean_after(control, b);
}
