//! `sidestep ring tail --flow`.

use crate::support::{finish, sidestep};
use crate::{GROUP, PORT, Place};
use sidestep::ring::flow::Verdict;
use sidestep_lab::Options;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

#[test]
fn tail_prints_packets_and_a_summary() {
    let Some(place) = Place::new(&Options::default()) else { return };
    let target = format!("{GROUP}:{PORT}");
    let mut command = sidestep(&[
        "ring",
        "tail",
        "--flow",
        &target,
        "--interface",
        &place.host().interface,
        "--count",
        "3",
        "--lines",
    ]);
    command.env("SIDESTEP_CONTROL", place.socket());
    let mut child = place.host().within(|| Ok(command.spawn().unwrap())).unwrap();
    let mut first = [0; 1];
    let mut told = child.stderr.take().expect("it is piped");
    // The path is told when the entry stands.
    told.read_exact(&mut first).unwrap();
    let mut said = String::new();
    let mut sender = place.sender();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| told.read_to_string(&mut said).unwrap());
        while !reader.is_finished() {
            sender.send((GROUP, PORT).into(), 1, 4);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let ended = finish(child);
    assert_eq!(ended.code, 0, "{said}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", ended.stdout);
    assert!(lines.iter().all(|line| line.contains(&format!(" > {target} 4 bytes of queue 0 "))), "{lines:?}");
    assert!(said.contains("ring (XDP, pass)") && said.contains("3 packets, 0 lost; queue 0: 3, 0 lost"), "{said}");
}

/// The rings have the packets of all who share them.
#[test]
fn a_tail_prints_what_it_was_asked_for_of_a_shared_feed() {
    let Some(place) = Place::new(&Options::default()) else { return };
    let other = PORT + 1;
    let (_other, _) =
        place.flow(&place.options().feed("both"), |flow| flow.join((GROUP, other).into(), None, Verdict::Pass));
    let target = format!("{GROUP}:{PORT}");
    let interface = &place.host().interface;
    let mut command = sidestep(&["ring", "tail", "--flow", &target, "--interface", interface, "--feed", "both"]);
    command.args(["--count", "5", "--raw"]).env("SIDESTEP_CONTROL", place.socket());
    let mut child = place.host().within(|| Ok(command.spawn().unwrap())).unwrap();
    let mut told = BufReader::new(child.stderr.take().expect("it is piped"));
    told.read_line(&mut String::new()).unwrap();
    let mut sender = place.sender();
    for port in [other, PORT, other, PORT, PORT, other, PORT, PORT] {
        sender.send((GROUP, port).into(), 1, 4);
    }
    let ended = finish(child);
    let wanted: Vec<u8> = [1_u32, 3, 4, 6, 7].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!((ended.code, ended.stdout.as_bytes()), (0, &wanted[..]));
}
