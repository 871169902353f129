//! Measures the cost of the steering program per frame by the kernel's repetition (BPF_PROG_TEST_RUN): no driver, no
//! socket, everything in the cache, so it is a lower bound.
//!
//!     cargo run --release -p sidestep-xdp-steering --example cost     (as root)

use std::os::fd::{AsFd, OwnedFd};

use sidestep_sys::Problem;
use sidestep_xdp_steering::{Flow, Group, Listener, MapEntry, Protocol, Rehearsal, StackOptions, Vlan, VlanMatch};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const GROUP_MAC: [u8; 6] = [0x01, 0x00, 0x5e, 1, 2, 3];
const REPEAT: u32 = 1_000_000;
/// The number of rounds, of which the median is printed.
const ROUNDS: usize = 9;

/// A UDP datagram from 10.0.0.2, port 6000, with 64 bytes of payload.
fn datagram(mac: [u8; 6], to: [u8; 4], port: u16) -> Vec<u8> {
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 2, 8, 0]);
    frame.extend([0x45, 0, 0, 20 + 8 + 64, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2]);
    frame.extend(to);
    frame.extend(6000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0, 8 + 64, 0, 0]);
    frame.extend([0x55; 64]);
    frame
}

fn socket() -> Result<OwnedFd, Problem> {
    let family = socket2::Domain::from(libc::AF_XDP);
    let socket = socket2::Socket::new(family, socket2::Type::RAW, None);
    socket.map(OwnedFd::from).map_err(|error| Problem::failed("cannot open an AF_XDP socket", error))
}

fn entries() -> [MapEntry; 3] {
    let local = |port| ([10, 0, 0, 1], port).into();
    [
        Flow { protocol: Protocol::Udp, local: local(1), remote: ([10, 0, 0, 2], 6000).into(), vlan: Vlan::Untagged }
            .into(),
        Listener { protocol: Protocol::Udp, local: ([0, 0, 0, 0], 2).into(), vlan: VlanMatch::Only(Vlan::Untagged) }
            .into(),
        Group { group: ([239, 1, 2, 3], 3).into(), source: None, vlan: VlanMatch::Only(Vlan::Untagged) }.into(),
    ]
}

fn main() -> Result<(), Problem> {
    let mut rehearsal = Rehearsal::new(MAC)?;
    let socket = socket()?;
    let options = StackOptions { label: "cost".to_owned(), frame_bytes_max: 1792, first_queue: 0, tcp_deadlines: 60 };
    let (stack, _heartbeat) = rehearsal.tables().stack_create(&options)?;
    rehearsal.tables().set_socket(stack, 0, socket.as_fd())?;
    rehearsal.tables().set_deadline(sidestep_xdp_steering::DEADLINE_MAX)?;
    for entry in entries() {
        rehearsal.tables().add(stack, &entry)?;
    }
    println!("{} instructions", rehearsal.instructions());
    let mut arp = datagram(MAC, [10, 0, 0, 1], 9);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    for frame in [
        arp,
        datagram(MAC, [10, 0, 0, 1], 9),
        datagram(MAC, [10, 0, 0, 1], 1),
        datagram(MAC, [10, 0, 0, 1], 2),
        datagram(GROUP_MAC, [239, 1, 2, 3], 3),
    ] {
        rehearsal.tables().beat(stack)?;
        let mut rounds = Vec::new();
        let mut reason = None;
        for _ in 0..ROUNDS {
            let outcome = rehearsal.run(&frame, REPEAT)?;
            reason = Some(outcome.reason);
            rounds.push(outcome.duration.as_nanos());
        }
        rounds.sort_unstable();
        let name = reason.map_or("", |reason| reason.name());
        println!("{name:18} {:4} ns ({} to {})", rounds[ROUNDS / 2], rounds[0], rounds[ROUNDS - 1]);
    }
    Ok(())
}
