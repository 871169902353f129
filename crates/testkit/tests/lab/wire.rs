//! The impaired wire between real hosts.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use sidestep_lab::Lifetime;
use sidestep_lab::wire::{Counters, Directions};
use sidestep_lab::{Impairment, Lab, Options, Removal, Side};
use sidestep_sys::process::Process;

use crate::children::relay_script;
use crate::support::{Scratch, WATCHDOG, assert_gone, can_run, impaired, udp, unique, wait_until};

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Sends `content` from `a` to `b` over the kernel's TCP; returns the received bytes.
fn transfer(lab: &Lab, content: &[u8]) -> Vec<u8> {
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let listener = b.within(|| Ok(TcpListener::bind((b.ipv4, 0)).unwrap())).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let send = || {
        let mut stream = a.within(|| Ok(TcpStream::connect_timeout(&address, WATCHDOG).unwrap())).unwrap();
        stream.set_write_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(content).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(send);
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        let mut arrived = Vec::new();
        stream.read_to_end(&mut arrived).unwrap();
        arrived
    })
}

fn conserved(counters: &Counters) -> bool {
    counters.delivered <= counters.offered + counters.duplicated - counters.lost - counters.queue_drops
}

#[test]
fn tcp_recovers_from_everything_at_once() {
    if !can_run() {
        return;
    }
    let lab = impaired("loss=5%,duplicate=2%,reorder=5%,gap=2ms,delay=1ms,corrupt=1%,seed=7");
    let content: Vec<u8> =
        (0..1_000_000_u32).flat_map(|index| index.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let arrived = transfer(&lab, &content);
    assert_eq!((arrived.len(), hash(&arrived)), (content.len(), hash(&content)));
    let Directions { a_to_b, b_to_a } = lab.counters().unwrap().unwrap();
    for way in [a_to_b, b_to_a] {
        let counters = way.impaired;
        assert!(conserved(&counters), "{counters:?}");
        assert!(counters.lost > 0 && counters.duplicated > 0 && counters.reordered > 0, "{counters:?}");
        // A relay that waits for a CPU is overrun: such frames are lost like others, and counted.
        assert_eq!(way.refused, 0);
    }
    assert!(a_to_b.impaired.corrupted > 0);
}

#[test]
fn a_slow_wire_with_a_short_queue_drops_and_tcp_lives_with_it() {
    if !can_run() {
        return;
    }
    // The first ten segments are sent in one burst (RFC 6928), and four of them fit.
    let lab = impaired("rate=50mbit,queue=3,delay=1ms");
    let content = vec![0x5a; 500_000];
    assert_eq!(transfer(&lab, &content), content);
    assert!(lab.counters().unwrap().unwrap().a_to_b.impaired.queue_drops > 0);
}

#[test]
fn the_share_of_datagrams_lost_is_that_asked_for() {
    if !can_run() {
        return;
    }
    const DATAGRAMS: u32 = 4_000;
    let loss = |text| Impairment::parse(text).unwrap();
    let impairment = Directions { a_to_b: loss("loss=10%,seed=1"), b_to_a: loss("") };
    let lab = Lab::up(&Options { impairment: Some(impairment), ..Options::default() }).unwrap();
    let (sender, _) = udp(lab.host(Side::A), false);
    let (receiver, address) = udp(lab.host(Side::B), false);
    let mut received = 0_u32;
    for index in 0..DATAGRAMS {
        sender.send_to(&index.to_be_bytes(), address).unwrap();
        // In step with the wire, so that only the impairment loses frames.
        if index % 50 == 49 {
            wait_until("the passage of the frames", || offered(&lab) > u64::from(index));
            received += drain(&receiver);
        }
    }
    let counters = lab.counters().unwrap().unwrap();
    // Binomial with n = 4,000 and p = 0.1: mean 400, standard deviation 19; five of them.
    assert!((DATAGRAMS - received).abs_diff(400) < 95, "{received} received, {counters:?}");
    assert_eq!(counters.b_to_a.impaired.lost, 0);
}

fn offered(lab: &Lab) -> u64 {
    lab.counters().unwrap().unwrap().a_to_b.impaired.offered
}

fn drain(socket: &std::net::UdpSocket) -> u32 {
    socket.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| socket.recv(&mut [0; 16]).ok()).count() as u32
}

fn persistent(name: &str, relay_program: PathBuf) -> Options {
    let impairment = Impairment::parse("delay=100us,duplicate=100%").unwrap();
    Options {
        name: Some(name.to_owned()),
        lifetime: Lifetime::Persistent,
        impairment: Some(Directions { a_to_b: impairment, b_to_a: Impairment::default() }),
        relay_program: Some(relay_program),
        ..Options::default()
    }
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_wire_of_a_persistent_lab_is_a_process_that_ends_with_the_lab() {
    if !can_run() {
        return;
    }
    let (scratch, name) = (Scratch::new("script"), unique("process"));
    let program = scratch.0.join("relay");
    write_script(&program, &relay_script());
    drop(Lab::up(&persistent(&name, program)).unwrap());
    let listing = Lab::list().unwrap().into_iter().find(|listing| listing.name == name).unwrap();
    let wire = Process::of(listing.wire_pid.unwrap()).unwrap().unwrap();
    let mut lab = Lab::open(&name).unwrap();
    let (sender, _) = udp(lab.host(Side::A), false);
    let (receiver, address) = udp(lab.host(Side::B), false);
    sender.send_to(b"twice", address).unwrap();
    for _ in 0..2 {
        assert_eq!(receiver.recv(&mut [0; 16]).unwrap(), 5);
    }
    wait_until("the report of the counters", || lab.counters().unwrap().unwrap().a_to_b.impaired.duplicated > 0);
    assert_eq!(lab.down(Removal::Careful).unwrap(), None);
    assert!(!wire.is_alive());
    assert_gone(&name);
}

#[test]
fn a_lab_whose_wire_does_not_start_is_not_there() {
    if !can_run() {
        return;
    }
    let (scratch, name) = (Scratch::new("broken"), unique("broken"));
    let program = scratch.0.join("relay");
    write_script(&program, "#!/bin/sh\necho no wire today >&2\nexit 1\n");
    let problem = Lab::up(&persistent(&name, program)).unwrap_err().to_string();
    assert!(problem.contains("no wire today"), "{problem}");
    assert_gone(&name);
    let problem = Lab::up(&persistent(&name, scratch.0.join("none"))).unwrap_err().to_string();
    assert!(problem.contains("/none"), "{problem}");
    assert_gone(&name);
}

#[test]
fn the_end_of_a_lab_does_not_wait_for_frames_under_way() {
    if !can_run() {
        return;
    }
    let lab = impaired("delay=1min");
    let name = lab.name().to_owned();
    let (sender, _) = udp(lab.host(Side::A), false);
    sender.send_to(b"late", SocketAddr::new(lab.host(Side::B).ipv4.into(), 9)).unwrap();
    wait_until("the frame on the wire", || offered(&lab) > 0);
    drop(lab);
    assert_gone(&name);
}
