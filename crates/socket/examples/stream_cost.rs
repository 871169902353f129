//! A stream between two engines, one to a CPU, over the veth of a lab: its rate, what goes over the wire for it, and how much of a frame's
//! time is the kernel's.
//!
//! `cargo run --release -p sidestep-socket --example stream_cost [SECONDS] [BYTES-PER-WRITE] [MTU]`, as root. Three rounds. The time of a
//! frame is the CPU time of the thread (proc_pid_stat(5), a thread's) by its data frames; system time is that of the calls that send, in
//! which a veth also runs the receive path of the other end.

use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Side};
use sidestep_socket::tcp::{Readiness, TcpStream};
use sidestep_socket::{Engine, EngineOptions};
use sidestep_stack::tcp::Facts;
use sidestep_sys::cpu;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

const PORT: u16 = 7000;
const ROUNDS: u16 = 3;
const USUAL: [usize; 3] = [2, 65_536, 1500];

fn main() {
    let mut words = USUAL;
    words.iter_mut().zip(std::env::args().skip(1)).for_each(|(word, given)| *word = given.parse().expect("a number"));
    let [seconds, bytes, mtu] = words;
    let lab = Lab::up(&sidestep_lab::Options { mtu: mtu as u32, ..sidestep_lab::Options::default() });
    let lab = lab.expect("root can make a lab");
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (stop, time) = (AtomicBool::new(false), Duration::from_secs(seconds as u64));
    std::thread::scope(|scope| {
        for host in [a, b] {
            scope.spawn(|| control(host, &stop));
            let path = host.within(place::socket).expect("it has a place");
            while Client::connect_to(&path, "stream_cost").and_then(Client::bye).is_err() {
                std::thread::yield_now();
            }
        }
        for port in PORT..PORT + ROUNDS {
            let to = SocketAddr::new(b.ipv4.into(), port);
            let (tell, is_up) = channel();
            let named = |name: &str| Builder::new().name(name.into());
            let reader = named("receiver").spawn_scoped(scope, move || drain(b, to, time, &tell)).expect("it can");
            is_up.recv().expect("it listens");
            let sender = named("sender").spawn_scoped(scope, move || pour(a, to, time, bytes)).expect("it can");
            let sent = sender.join().expect("it sends");
            print(&sent, &reader.join().expect("it reads"));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

fn control(host: &Host, stop: &AtomicBool) {
    host.enter().expect("root can enter");
    let options =
        Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None, detaches_unused: false };
    run(&options, stop).expect("root can run a control plane");
}

/// What one end did.
struct End {
    time: Duration,
    facts: Facts,
    /// CPU time of the thread, user and system, in ticks.
    spent: [u64; 2],
}

impl End {
    fn new(engine: &mut Engine, stream: TcpStream, begin: (Instant, [u64; 2])) -> Self {
        let facts = engine.tcp().facts(stream).expect("it is open").expect("it is past the kernel");
        let ([user, system], [user_before, system_before]) = (spent(), begin.1);
        Self { time: begin.0.elapsed(), facts, spent: [user - user_before, system - system_before] }
    }
}

/// User and system time of this thread, ticks of ten milliseconds (proc_pid_stat(5)).
fn spent() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("the kernel has it");
    let mut words = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    [(); 2].map(|()| words.next().and_then(|word| word.parse().ok()).expect("it is a number"))
}

/// An engine of a host, on one CPU.
fn engine(host: &Host, place: usize) -> Engine {
    let cpus = cpu::allowed();
    host.enter().expect("root can enter");
    let engine = Engine::open(&EngineOptions::on(&host.interface)).expect("an engine opens");
    cpu::restrict(&[cpus[place % cpus.len()]]).expect("it is allowed");
    engine
}

fn pour(host: &Host, to: SocketAddr, time: Duration, bytes: usize) -> End {
    let mut engine = engine(host, 0);
    let options = engine.tcp().defaults();
    let stream = engine.tcp().connect(to, None, options).expect("it begins");
    while !engine.tcp().readiness(stream).expect("it is open").has(Readiness::WRITABLE) {
        engine.poll().expect("it is ours");
    }
    let (message, begin) = (vec![7; bytes], (Instant::now(), spent()));
    let mut left = &message[..];
    while begin.0.elapsed() < time {
        engine.poll().expect("it is ours");
        while let Ok(count) = engine.tcp().send(stream, left) {
            left = if count == left.len() { &message } else { &left[count..] };
        }
    }
    let end = End::new(&mut engine, stream, begin);
    engine.tcp().abort(stream).expect("it is open");
    engine.poll().expect("it is ours");
    end
}

fn drain(host: &Host, at: SocketAddr, time: Duration, is_up: &Sender<()>) -> End {
    let mut engine = engine(host, 1);
    let options = engine.tcp().defaults();
    let listener = engine.tcp().listen(at, 1, options).expect("the port is free");
    is_up.send(()).expect("it waits");
    let stream = loop {
        engine.poll().expect("it is ours");
        if let Some(stream) = engine.tcp().accept(listener).expect("it listens") {
            break stream;
        }
    };
    let (mut buffer, begin) = (vec![0; 1 << 16], (Instant::now(), spent()));
    while begin.0.elapsed() < time {
        engine.poll().expect("it is ours");
        let _ = engine.tcp().read(stream, &mut buffer);
    }
    End::new(&mut engine, stream, begin)
}

fn print(sent: &End, read: &End) {
    let (facts, seconds) = (&sent.facts, sent.time.as_secs_f64());
    let frames = facts.segments_out as f64;
    println!(
        "{:6.0} MB/s, {:5.0} ns a frame, {:.3} ACKs a frame, {} sent again, window {}",
        facts.bytes_out as f64 / seconds / 1e6,
        seconds * 1e9 / frames,
        facts.segments_in as f64 / frames,
        facts.retransmitted,
        facts.congestion_window,
    );
    for (name, end) in [("sender", sent), ("receiver", read)] {
        let [user, system] = end.spent.map(|ticks| ticks as f64 * 1e7 / frames);
        println!("  {name:8} {user:5.0} ns a frame here, {system:5.0} in the kernel");
    }
}
