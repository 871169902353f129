//! How far two engines on two queues go: each of two threads, one to a CPU, drives both ends of one TCP connection over a veth queue of
//! its own, 64 bytes there and back. Alone in turn, then both at once; beside it the same with no network, a loop of arithmetic, which
//! shows what the two CPUs themselves take from each other.
//!
//! `cargo run --release -p sidestep-socket --example shards [MILLISECONDS]`, as root. Seven rounds, their medians. The ratio is the rate of
//! both at once by the sum of the rates alone: 1 if nothing is shared.

use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Side};
use sidestep_socket::tcp::{TcpListener, TcpStream};
use sidestep_socket::{Engine, EngineOptions, Queues};
use sidestep_sys::cpu;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PORT: u16 = 7000;
const MESSAGE: [u8; 64] = [7; 64];
const ROUNDS: usize = 7;
const SHARDS: u32 = 2;
const USUAL_MS: u64 = 500;

fn main() {
    let milliseconds = std::env::args().nth(1).map_or(USUAL_MS, |text| text.parse().expect("a number"));
    let time = Duration::from_millis(milliseconds);
    let cpus = cpu::allowed();
    assert!(cpus.len() >= SHARDS as usize, "this needs {SHARDS} CPUs, and {} are allowed", cpus.len());
    let lab = Lab::up(&sidestep_lab::Options { queues: SHARDS, ..sidestep_lab::Options::default() });
    let lab = lab.expect("root can make a lab");
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let stop = AtomicBool::new(false);
    // One opens after the other; then all begin each stage together.
    let (turn, stage) = (Barrier::new(SHARDS as usize), Barrier::new(SHARDS as usize));
    std::thread::scope(|scope| {
        for host in [a, b] {
            scope.spawn(|| control(host, &stop));
            let path = host.within(place::socket).expect("it has a place");
            while Client::connect_to(&path, "shards").and_then(Client::bye).is_err() {
                std::thread::yield_now();
            }
        }
        let shards: Vec<_> = (0..SHARDS)
            .map(|number| {
                let (turn, stage, cpu) = (&turn, &stage, cpus[number as usize]);
                scope.spawn(move || measure(number, [a, b], cpu, time, [turn, stage]))
            })
            .collect();
        let rates: Vec<[Rates; 2]> = shards.into_iter().map(|shard| shard.join().expect("it runs")).collect();
        for (what, name) in ["TCP, 64 B there and back, a queue each", "arithmetic, the control"].iter().enumerate() {
            print(name, &rates.iter().map(|shard| &shard[what]).collect::<Vec<_>>());
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

/// What one shard did in a second, by round.
#[derive(Default)]
struct Rates {
    alone: Vec<f64>,
    together: Vec<f64>,
}

fn measure(number: u32, hosts: [&Host; 2], cpu: u32, time: Duration, [turn, stage]: [&Barrier; 2]) -> [Rates; 2] {
    let mut pair = None;
    for next in 0..SHARDS {
        if next == number {
            pair = Some(Pair::connected(number, hosts));
        }
        turn.wait();
    }
    let mut pair = pair.expect("each had its turn");
    cpu::restrict(&[cpu]).expect("it is allowed");
    let (mut network, mut arithmetic) = (Rates::default(), Rates::default());
    let mut state = u64::from(number) + 1;
    for _ in 0..ROUNDS {
        turns(number, stage, &mut network, || per_second(time, || pair.round_trip()));
        turns(number, stage, &mut arithmetic, || per_second(time, || state = calculate(state)));
    }
    pair.end();
    [network, arithmetic]
}

/// Each alone, then all at once.
fn turns(number: u32, stage: &Barrier, rates: &mut Rates, mut work: impl FnMut() -> f64) {
    for next in 0..SHARDS {
        stage.wait();
        if next == number {
            rates.alone.push(work());
        }
    }
    stage.wait();
    rates.together.push(work());
}

fn per_second(time: Duration, mut step: impl FnMut()) -> f64 {
    let (begin, mut count) = (Instant::now(), 0.0);
    while begin.elapsed() < time {
        step();
        count += 1.0;
    }
    count / begin.elapsed().as_secs_f64()
}

/// Some microseconds of it (xorshift).
fn calculate(mut state: u64) -> u64 {
    for _ in 0..1000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

/// Both ends of a connection.
struct Pair {
    ends: [(Engine, TcpStream); 2],
}

impl Pair {
    fn connected(number: u32, [a, b]: [&Host; 2]) -> Self {
        let to = SocketAddr::new(b.ipv4.into(), PORT + number as u16);
        let (mut client, mut server) = (engine(a, number), engine(b, number));
        let options = server.tcp().defaults();
        let listener = server.tcp().listen(to, 1, options).expect("the port is free");
        let stream = client.tcp().connect(to, None, options).expect("it begins");
        let accepted = accept(&mut client, &mut server, listener);
        Self { ends: [(client, stream), (server, accepted)] }
    }

    fn round_trip(&mut self) {
        let [(client, stream), (server, accepted)] = &mut self.ends;
        client.tcp().send(*stream, &MESSAGE).expect("it has room");
        receive(server, *accepted);
        server.tcp().send(*accepted, &MESSAGE).expect("it has room");
        receive(client, *stream);
    }

    fn end(self) {
        for (mut engine, stream) in self.ends {
            engine.tcp().abort(stream).expect("it is open");
            engine.finish(Duration::ZERO);
        }
    }
}

fn engine(host: &Host, queue: u32) -> Engine {
    host.enter().expect("root can enter");
    let options = EngineOptions { queues: Queues::These(vec![queue]), ..EngineOptions::on(&host.interface) };
    Engine::open(&options).expect("an engine opens")
}

fn accept(client: &mut Engine, server: &mut Engine, listener: TcpListener) -> TcpStream {
    loop {
        client.poll().expect("it is ours");
        server.poll().expect("it is ours");
        if let Some(stream) = server.tcp().accept(listener).expect("it listens") {
            return stream;
        }
    }
}

fn receive(engine: &mut Engine, stream: TcpStream) {
    let (mut buffer, mut count) = (MESSAGE, 0);
    while count < MESSAGE.len() {
        engine.poll().expect("it is ours");
        count += engine.tcp().read(stream, &mut buffer).unwrap_or_default();
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(name: &str, shards: &[&Rates]) {
    println!("{name}");
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let sum = |rates: fn(&Rates) -> &Vec<f64>| shards.iter().map(|shard| rates(shard)[round]).sum::<f64>();
        ratios.push(sum(|shard| &shard.together) / sum(|shard| &shard.alone));
    }
    for (number, shard) in shards.iter().enumerate() {
        let (alone, together) = (median(shard.alone.clone()), median(shard.together.clone()));
        println!("  shard {number}: {alone:9.0}/s alone, {together:9.0}/s beside the other");
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "  both at once by the sum alone: {:.3}, from {:.3} to {:.3}",
        median(ratios.clone()),
        ratios[0],
        ratios[ROUNDS - 1]
    );
}
