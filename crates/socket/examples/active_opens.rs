//! Connections from here, one after another, between two network namespaces of this machine: how many per second, by ports
//! that control has reserved and by a port of the kernel's each, for which control makes a rule.
//!
//! `cargo run --release -p sidestep-socket --example active_opens [CONNECTIONS]`, as root. Rounds of both ways in turn; what
//! is printed is their ratio. The peer is Linux; our side closes first, and waits in TIME-WAIT.

use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::Lab;
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions};
use sidestep_stack::tcp::Readiness;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Of one round. A rule stays until TIME-WAIT is over, and a stack has 4,096 of them at most.
const PER_ROUND: usize = 250;

fn main() {
    let connections = std::env::args().nth(1).map_or(2000, |count| count.parse().expect("a number of connections"));
    let lab = Lab::up(&sidestep_lab::Options::default()).expect("root can make a lab");
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let stop = Arc::new(AtomicBool::new(false));
    let (seen, there) = (stop.clone(), a.clone());
    let control = std::thread::spawn(move || {
        there.enter().expect("root can enter");
        let options =
            Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None, detaches_unused: false };
        run(&options, &seen).expect("root can run a control plane");
    });
    let path = a.within(place::socket).expect("it has a place");
    while Client::connect_to(&path, "active_opens").and_then(Client::bye).is_err() {
        std::thread::yield_now();
    }
    let server = b.within(|| Ok(TcpListener::bind((b.ipv4, 0)).expect("a port is free"))).expect("root can enter");
    let at = server.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            let _ = stream.read(&mut [0; 8]);
        }
    });
    a.enter().expect("root can enter");
    let mut engine = Engine::open(&EngineOptions::on(&a.interface)).expect("an engine opens");
    let mut named = (20_000..).map(|port| SocketAddr::new(a.ipv4.into(), port));
    open(&mut engine, at, None);
    let mut seconds = [0.0, 0.0];
    let mut done = 0;
    while done < connections {
        for is_pool in [true, false, false, true] {
            let begun = Instant::now();
            for _ in 0..PER_ROUND / 2 {
                open(&mut engine, at, if is_pool { None } else { named.next() });
            }
            seconds[usize::from(!is_pool)] += begun.elapsed().as_secs_f64();
        }
        done += PER_ROUND;
    }
    let rate = |seconds: f64| done as f64 / seconds;
    println!("{done} connections each way, {} in TIME-WAIT", engine.tcp().connections().1);
    println!("reserved ports        {:8.0} /s", rate(seconds[0]));
    println!("a rule for each       {:8.0} /s", rate(seconds[1]));
    println!("ratio                 {:8.1}", seconds[1] / seconds[0]);
    drop(engine);
    stop.store(true, Ordering::Relaxed);
    control.join().expect("it does not panic");
}

/// Connects, waits for the peer's answer, closes.
fn open(engine: &mut Engine, at: SocketAddr, local: Option<SocketAddr>) {
    let options = engine.tcp().defaults();
    let stream = engine.tcp().connect(at, local, options).expect("it begins");
    loop {
        engine.poll().expect("it is ours");
        let ready = engine.tcp().readiness(stream).expect("it is open");
        assert!(!ready.has(Readiness::ERROR), "{:?}", engine.tcp().take_error(stream));
        if ready.has(Readiness::WRITABLE) {
            break;
        }
    }
    assert!(engine.tcp().path(stream).expect("it is open").is_accelerated());
    engine.tcp().close(stream).expect("it is open");
}
