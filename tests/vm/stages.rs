//! Timestamps of stock kernels, and of the clock of an emulated NIC as far as it goes.

use crate::support::result::{number, rows};
use crate::support::run;
use sidestep_sys::timestamping::{self, HardwareStamps, Station};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) fn software_stages_of_a_round_trip_are_measured() {
    let what = ["bench", "rr", "--place=lab", "--transport=udp", "--paths=kernel-spin", "--duration=600ms"];
    let finished = run(&[&what[..], &["--timestamps", "--json=-"]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    let stages = &rows(&document)[0]["stages"];
    assert!(number(stages, "stamped") > 0.0, "{stages}");
    let names = stages["stages"].to_string();
    for stage in ["send to queueing discipline", "queueing discipline to driver", "network stack to application"] {
        assert!(names.contains(stage), "{stages}");
    }
    assert!(stages["unavailable"].to_string().contains("no hardware timestamps"), "{stages}");
}

fn ip(arguments: &[&str]) {
    assert!(Command::new("ip").args(arguments).status().expect("ip is in the machine").success(), "{arguments:?}");
}

/// Nothing is at the other end of the device: what leaves it is stamped all the same.
pub(crate) fn an_emulated_device_stamps_what_it_sends() {
    let found = timestamping::capabilities("eth0").expect("its driver tells");
    eprintln!("{found:?}");
    assert!(found.send_software && found.send_hardware && found.phc.is_some(), "{found:?}");
    ip(&["address", "add", "198.51.100.1/24", "dev", "eth0"]);
    ip(&["link", "set", "eth0", "up"]);
    ip(&["neighbour", "replace", "198.51.100.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"]);
    let switched = HardwareStamps::switch_on("eth0").expect("root may");
    let socket = UdpSocket::bind("198.51.100.1:0").unwrap();
    socket.connect("198.51.100.2:9").unwrap();
    timestamping::enable(socket.as_fd()).unwrap();
    let mut deadline = Instant::now() + Duration::from_secs(20);
    let (mut scheduled, mut driver, mut wire) = (0, 0, 0);
    while wire == 0 && Instant::now() < deadline {
        // Before the link is up nothing leaves.
        let _ = timestamping::send(socket.as_fd(), b"stamped");
        std::thread::sleep(Duration::from_millis(200));
        while let Some(sent) = timestamping::next_sent(socket.as_fd()).unwrap() {
            scheduled += u32::from(sent.station == Station::Scheduled);
            driver += u32::from(sent.station == Station::Driver && sent.stamp.software.is_some());
            wire += u32::from(sent.stamp.hardware.is_some());
        }
        if driver == 1 {
            // The emulated clock may stamp nothing: it is not waited for much longer than for the driver.
            deadline = deadline.min(Instant::now() + Duration::from_secs(3));
        }
    }
    eprintln!("stamps: {scheduled} of the queueing discipline, {driver} of the driver, {wire} of the wire");
    assert!(scheduled > 0 && driver > 0, "{scheduled} {driver} {wire}");
    drop(switched);
    ip(&["address", "del", "198.51.100.1/24", "dev", "eth0"]);
}
