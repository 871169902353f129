//! Connections in a row, past the kernel, on a device with 1, 2, 4 and 8 queues, for as long as is wished; the peer is Linux.
//!
//! By hand: `SIDESTEP_SECONDS=600 cargo test -p sidestep-socket --test queues connects_for_minutes -- --ignored --nocapture`.

use crate::peer::kernel_listen;
use crate::support::{Control, address, seconds, wait};
use crate::{engine, lab, told};
use sidestep_lab::Host;
use sidestep_lab::Side;
use sidestep_socket::tcp::Readiness;
use sidestep_socket::{Engine, Queues};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// What ends the other side.
const END: &[u8; 8] = b"the end!";

/// Between two lines.
const REPORT: Duration = Duration::from_secs(5);

#[test]
#[ignore = "takes minutes"]
fn connects_for_minutes() {
    for queues in [1, 2, 4, 8] {
        connects(queues, Duration::from_secs(seconds() / 4));
    }
}

#[test]
fn connects_for_a_moment_on_every_number_of_queues() {
    for queues in [1, 2, 4, 8] {
        connects(queues, Duration::from_millis(500));
    }
}

fn connects(queues: u32, length: Duration) {
    let Some(lab) = lab(queues) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a, Queues::Every);
    let servers = [false, true].map(|is_v6| kernel_listen(b, SocketAddr::new(address(b, is_v6), 0)));
    let there = servers.each_ref().map(|server| server.local_addr().unwrap());
    let echoes = servers.map(|server| std::thread::spawn(move || echo(&server)));
    let (begun, mut told_at) = (Instant::now(), Instant::now());
    let (mut past, mut by_kernel) = (0_u64, 0_u64);
    while begun.elapsed() < length {
        let to = there[past as usize % 2];
        if is_answered_past_kernel(a, &mut engine, to, past) {
            past += 1;
        } else {
            by_kernel += 1;
        }
        if told_at.elapsed() > REPORT {
            told_at = Instant::now();
            let (all, waiting) = engine.tcp().connections();
            println!(
                "{:>4} s, {queues} queues: {past} past the kernel, {by_kernel} by it, none refused; {all} there, {waiting} of them \
                 in TIME-WAIT",
                begun.elapsed().as_secs()
            );
        }
    }
    for (echo, at) in echoes.into_iter().zip(there) {
        let mut last = b.within(|| Ok(TcpStream::connect(at).unwrap())).unwrap();
        last.write_all(END).unwrap();
        echo.join().unwrap();
    }
    let counters = told(a).counters;
    println!("{queues} queues: {past} past the kernel, {by_kernel} by it, none refused; counters {counters:?}");
    assert!(past > 10, "{past}");
    assert!(!counters.contains("drop-queue"), "{counters:?}");
}

/// Connects, asks, is answered and closes. While a neighbour is being asked for, or all ports are in TIME-WAIT, the kernel may be
/// the one who does.
fn is_answered_past_kernel(host: &Host, engine: &mut Engine, to: SocketAddr, number: u64) -> bool {
    let options = engine.tcp().defaults();
    let stream = host.within(|| engine.tcp().connect(to, None, options)).expect("it can begin");
    wait("a connection", || {
        engine.poll().unwrap();
        let ready = engine.tcp().readiness(stream).unwrap();
        assert!(!ready.has(Readiness::ERROR), "number {number}: {:?}", engine.tcp().take_error(stream));
        ready.has(Readiness::WRITABLE).then_some(())
    });
    assert_eq!(engine.tcp().send(stream, &number.to_le_bytes()), Ok(8));
    let (mut bytes, mut at) = ([0; 8], 0);
    wait("an answer", || {
        engine.poll().unwrap();
        match engine.tcp().read(stream, &mut bytes[at..]) {
            Ok(count) => {
                assert!(count > 0, "number {number} was cut off");
                at += count;
            }
            Err(error) => assert!(error.is_would_block(), "number {number}: {error}"),
        }
        (at == 8).then_some(())
    });
    assert_eq!(bytes, number.to_le_bytes());
    let is_past = engine.tcp().path(stream).unwrap().is_accelerated();
    engine.tcp().close(stream).unwrap();
    is_past
}

/// One after the other, each to its end, until one says that it is over.
fn echo(server: &TcpListener) {
    for stream in server.incoming() {
        let (mut stream, mut bytes) = (stream.unwrap(), [0; 8]);
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            if bytes == *END {
                return;
            }
            if stream.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    }
}
