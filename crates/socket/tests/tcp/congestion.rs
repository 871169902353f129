//! Streams over a wire with a rate, a delay, losses and reordering: ours and the kernel's, with the same congestion control.
//!
//! `cargo test --release -p sidestep-socket --test tcp -- --ignored --nocapture congestion` prints the table of decision 0037.
//! `SIDESTEP_WIRE` names one wire of one's own, `SIDESTEP_SECONDS` how long each stream runs.

use crate::peer::{established, kernel_listen};
use crate::support::{Control, address, engine, is_root_or_say, reach};
use rustix::net::sockopt;
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_stack::tcp::Congestion;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The wires of the table; what is lost and held back is data, one way.
const WIRES: [(&str, &str); 6] = [
    ("1 % lost, 2 ms", "delay=2ms,rate=200mbit,loss=1%"),
    ("0.1 % lost, 2 ms", "delay=2ms,rate=200mbit,loss=0.1%"),
    ("3 % lost, 10 ms", "delay=10ms,rate=200mbit,loss=3%"),
    ("2 % held back 1 ms, 2 ms", "delay=2ms,rate=200mbit,reorder=2%,gap=1ms"),
    ("2 % held back 3 ms, 2 ms", "delay=2ms,rate=200mbit,reorder=2%,gap=3ms"),
    ("clean, 2 ms", "delay=2ms,rate=200mbit"),
];

fn lab(wire: &str) -> Lab {
    let direction = |seed| Impairment::parse(&format!("{wire},seed={seed}")).expect("it is well-formed");
    let impairment = Some(Directions { a_to_b: direction(1), b_to_a: direction(2) });
    Lab::up(&Options { impairment, ..Options::default() }).expect("root can make a lab")
}

/// Reads to the end, or a silence of seconds as the RST at the end may be lost on the way, and counts.
fn count(listener: &TcpListener) -> (Arc<AtomicU64>, std::thread::JoinHandle<()>) {
    let (counted, listener) = (Arc::new(AtomicU64::new(0)), listener.try_clone().expect("it can"));
    let counter = Arc::clone(&counted);
    let thread = std::thread::spawn(move || {
        let (mut stream, mut buffer) = (listener.accept().expect("it listens").0, vec![0; 1 << 18]);
        stream.set_read_timeout(Some(Duration::from_secs(3))).expect("it can");
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    });
    (counted, thread)
}

/// Bytes/s of a stream past the kernel.
fn ours(a: &Host, to: &TcpListener, congestion: Congestion, time: Duration) -> f64 {
    let mut engine = engine(a);
    let (counted, reading) = count(to);
    let stream = {
        let options = sidestep_socket::tcp::Options { congestion, ..engine.tcp().defaults() };
        let remote = to.local_addr().expect("it is bound");
        let stream = a.within(|| engine.tcp().connect(remote, None, options)).expect("it can begin");
        established(&mut engine, stream);
        stream
    };
    assert!(engine.tcp().path(stream).expect("it is open").is_accelerated());
    let (begun, piece) = (Instant::now(), vec![7; 60_000]);
    while begun.elapsed() < time {
        engine.poll().expect("it is ours");
        while engine.tcp().send(stream, &piece).is_ok() {}
    }
    let rate = counted.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    if let Ok(Some(facts)) = engine.tcp().facts(stream) {
        println!(
            "    {:5} again {} of {}, timeouts {}, window {}, pace {:?}, rtt {:?}",
            facts.congestion,
            facts.retransmitted,
            facts.segments_out,
            facts.timeouts,
            facts.congestion_window,
            facts.pacing_rate,
            facts.rtt_ns
        );
    }
    engine.tcp().abort(stream).expect("it is open");
    engine.poll().expect("it is ours");
    reading.join().expect("it reads to the end");
    rate
}

/// Bytes/s of a stream of the kernel.
fn kernel(a: &Host, to: &TcpListener, congestion: &str, time: Duration) -> f64 {
    let (counted, reading) = count(to);
    let (remote, before) = (to.local_addr().expect("it is bound"), retransmitted(a));
    let mut stream = a.within(|| Ok(TcpStream::connect(remote).expect("it listens"))).expect("root can");
    sockopt::set_tcp_congestion(&stream, congestion).expect("the kernel has it");
    stream.set_nonblocking(true).expect("it can");
    let (begun, piece) = (Instant::now(), vec![7; 60_000]);
    while begun.elapsed() < time {
        match stream.write(&piece) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_micros(200)),
            Err(error) => panic!("{error}"),
        }
    }
    let rate = counted.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    println!("    kernel {congestion} again {}", retransmitted(a) - before);
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("it can");
    drop(stream);
    reading.join().expect("it reads to the end");
    rate
}

/// Segments that the kernel of a host has sent again (`RetransSegs` of /proc/net/snmp).
fn retransmitted(host: &Host) -> u64 {
    let text = host.within(|| Ok(std::fs::read_to_string("/proc/thread-self/net/snmp").expect("the kernel has it")));
    let text = text.expect("root can");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let pair = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "RetransSegs");
    pair.and_then(|(_, value)| value.parse().ok()).expect("it counts them")
}

#[test]
#[ignore = "a measurement"]
fn congestion_table() {
    if !is_root_or_say() {
        return;
    }
    let seconds = std::env::var("SIDESTEP_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let (time, own) = (Duration::from_secs(seconds), std::env::var("SIDESTEP_WIRE"));
    let wires = match &own {
        Ok(wire) => vec![(wire.as_str(), wire.as_str())],
        Err(_) => WIRES.to_vec(),
    };
    println!("MB/s: ours bbr, cubic; the kernel's bbr, cubic");
    for (name, wire) in wires {
        let lab = lab(wire);
        let (a, b) = (lab.host(Side::A), lab.host(Side::B));
        let _control = Control::start(a);
        reach(a, address(b, false));
        let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
        let rates = [
            ours(a, &server, Congestion::Bbr, time),
            ours(a, &server, Congestion::Cubic, time),
            kernel(a, &server, "bbr", time),
            kernel(a, &server, "cubic", time),
        ];
        println!("{name}: {:.1?}", rates.map(|rate| rate / 1e6));
    }
}
