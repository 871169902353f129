//! The program's time per packet (BPF_PROG_TEST_RUN): without feeds, with a feed of another group, and copied into one and two
//! feeds. Needs root.
//!
//! `cargo run --release -p sidestep-xdp-steering --example feed_cost`

use sidestep_xdp_steering::{Group, MapEntry, Rehearsal, VlanMatch};

/// Runs of the program per figure.
const REPEAT: u32 = 1_000_000;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A datagram to 239.1.2.3, port 5000, with this many bytes of payload.
fn datagram(payload: usize) -> Vec<u8> {
    let mut frame = vec![1, 0, 0x5e, 1, 2, 3, 2, 0, 0, 0, 0, 2, 8, 0];
    let [total, udp] = [28 + payload, 8 + payload].map(|bytes| (bytes as u16).to_be_bytes());
    frame.extend([0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 239, 1, 2, 3]);
    frame.extend([0, 7, 0x13, 0x88, udp[0], udp[1], 0, 0]);
    frame.resize(frame.len() + payload, 7);
    frame
}

fn group(port: u16) -> MapEntry {
    Group { group: ([239, 1, 2, 3], port).into(), source: None, vlan: VlanMatch::Any }.into()
}

fn main() -> Result<(), sidestep_sys::Problem> {
    let mut rehearsal = Rehearsal::new(MAC)?;
    let feeds = [rehearsal.tables().feed_create("one", 1)?, rehearsal.tables().feed_create("two", 1)?];
    println!("payload bytes, feeds: ns per packet");
    for (name, port, count) in [("none", 0, 0), ("of another group", 5001, 1), ("one", 5000, 1), ("two", 5000, 2)] {
        for (feed, _) in feeds.iter().take(count) {
            rehearsal.tables().feed_add(*feed, &group(port))?;
        }
        for payload in [24, 48, 200, 1400] {
            let frame = datagram(payload);
            let runs = (0..5).map(|_| rehearsal.run(&frame, REPEAT).map(|outcome| outcome.duration.as_nanos()));
            let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
            runs.sort_unstable();
            println!("{payload:5}, {name}: {}", runs[2]);
        }
    }
    Ok(())
}
