//! A session past the kernel on both sides, in a lab with a control plane of its own each.

use crate::support::{Client, order, plan};
use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::{client, place};
use sidestep_fix::engine::{Destinations, Endpoint, Engine, SocketOptions};
use sidestep_fix::exchange::Exchange;
use sidestep_fix::session::Role;
use sidestep_lab::{Host, Lab, Side};
use sidestep_sys::process::is_root;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A host's control plane, on a thread of this process.
struct Control(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Control {
    fn start(host: &Host) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, there) = (Arc::clone(&stop), host.clone());
        let thread = std::thread::spawn(move || {
            there.enter().expect("root can enter");
            let options =
                Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None, detaches_unused: false };
            run(&options, &seen).expect("root can run a control plane");
        });
        let path = host.within(place::socket).expect("it has a place");
        let end = Instant::now() + PATIENCE;
        while client::Client::connect_to(&path, "test").and_then(client::Client::bye).is_err() {
            assert!(Instant::now() < end, "there is no control plane");
            std::thread::yield_now();
        }
        Self(stop, Some(thread))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let ended = self.1.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

#[test]
fn orders_are_filled_past_the_kernel() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let lab = Lab::up(&sidestep_lab::Options::default()).expect("root can make a lab");
    let _controls = [Control::start(lab.host(Side::A)), Control::start(lab.host(Side::B))];
    let endpoint = |host: &Host| Endpoint::Xdp {
        interface: host.interface.clone(),
        host: lab.host(Side::B).ipv4.to_string(),
        port: 9876,
    };
    let mut server = Engine::new(Exchange::default());
    lab.host(Side::B)
        .within(|| {
            let acceptor = server.listen(&endpoint(lab.host(Side::B)), None, &SocketOptions::default())?;
            server.add_acceptor(acceptor, plan(Role::Acceptor, None)).map(drop)
        })
        .expect("it listens");
    let mut client: Engine<Client> = Engine::new(Client::default());
    let to = Destinations {
        reconnect_interval: Duration::from_millis(50),
        ..Destinations::one(endpoint(lab.host(Side::A)))
    };
    let handle = client.add_initiator(&plan(Role::Initiator, None), to).unwrap();
    let end = Instant::now() + PATIENCE;
    while !client.session(handle).is_logged_on() {
        server.poll();
        // Sockets are made where the thread is.
        lab.host(Side::A).within(|| Ok(client.poll())).expect("root can enter");
        assert!(Instant::now() < end, "no Logon: {}", client.last_connect_error(handle));
    }
    for number in 1..=50 {
        order(&mut client, handle, number);
        while client.app().seen.len() < 2 * number as usize {
            server.poll();
            client.poll();
            assert!(Instant::now() < end, "order {number} is not answered");
        }
    }
    client.log_out(handle, "");
    while client.session(handle).is_logged_on() {
        server.poll();
        client.poll();
        assert!(Instant::now() < end, "no Logout");
    }
}

/// The variable that marks a child process of the test: descriptors are counted where no other test opens any.
const COUNTS: &str = "SIDESTEP_FIX_COUNTS_DESCRIPTORS";

/// Not a test: what the child does. Each attempt begins with one poll and fails with another.
#[test]
fn attempts_child() {
    if std::env::var_os(COUNTS).is_none() {
        return;
    }
    // By the kernel twin: the loopback is not accelerated. The listener is gone, so there is no answer.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = closed.expect("a port is free").port();
    let to = Endpoint::Xdp { interface: "lo".to_owned(), host: "127.0.0.1".to_owned(), port };
    let mut client: Engine<Client> = Engine::new(Client::default());
    let to = Destinations { reconnect_interval: Duration::from_millis(1), ..Destinations::one(to) };
    let handle = client.add_initiator(&plan(Role::Initiator, None), to).unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").expect("there is a /proc").count();
    let mut fail = |attempts: u32| {
        for _ in 0..2 * attempts {
            client.reconnect_now();
            client.poll();
        }
        assert!(!client.last_connect_error(handle).is_empty(), "nobody is there");
        open()
    };
    let before = fail(20);
    let after = fail(200);
    assert!(after < before + 20, "{before} descriptors were open, {after} are after 200 attempts more");
}

#[test]
fn an_attempt_that_fails_leaves_no_socket_behind() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "xdp::attempts_child", "--nocapture"]).env(COUNTS, "1");
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !words.contains("skipped"), "{words}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the child has run its part");
}
