//! An engine that sleeps between datagrams ([`Engine::sleep`]): each kind of thing that has to be done ends the sleep.

use crate::support::{Control, WATCHDOG, address, bind, engine, kernel, lab, receive};
use sidestep_lab::Side;
use sidestep_socket::{Datagram, Engine, EngineOptions, Handle, UdpOptions};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Receives as the documentation says: a look, and a sleep where nothing was found. Longer than the watchdog, so that a sleep that is not ended
/// is seen.
fn asleep(engine: &mut Engine, socket: Handle) -> Datagram {
    let begun = Instant::now();
    loop {
        if let Some(datagram) = engine.receive(socket).expect("it is open") {
            return datagram;
        }
        assert!(begun.elapsed() < WATCHDOG, "nothing ended the sleep");
        engine.sleep(2 * WATCHDOG).expect("it is ours");
    }
}

/// Sends some time after, to an engine that sleeps by then.
fn send_later(from: UdpSocket, to: SocketAddr) -> std::thread::JoinHandle<UdpSocket> {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        from.send_to(b"wake up", to).expect("it can");
        from
    })
}

#[test]
fn a_frame_ends_the_sleep() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let socket = bind(b, &mut engine, at);
    let mut client = kernel(a, SocketAddr::new(address(a, false), 0));
    for _ in 0..20 {
        let sender = send_later(client, at);
        let datagram = asleep(&mut engine, socket);
        assert!(!datagram.by_kernel());
        engine.reply(socket, datagram).expect("it can");
        client = sender.join().expect("it sends");
        assert_eq!(client.recv(&mut [0; 64]).expect("it is answered"), 7);
    }
}

/// Where the kernel carries the traffic, the agent watches the sockets beside.
#[test]
fn a_datagram_by_the_kernel_ends_the_sleep() {
    let mut engine = Engine::open(&EngineOptions::on("lo")).expect("an engine opens");
    let at = "127.0.0.1:0".parse().expect("it is one");
    let socket = engine.bind(at, &UdpOptions::default()).expect("a port is free");
    let to = engine.local(socket).expect("it is bound");
    let mut client = UdpSocket::bind(at).expect("a port is free");
    for _ in 0..5 {
        let sender = send_later(client, to);
        let datagram = asleep(&mut engine, socket);
        assert!(datagram.by_kernel());
        engine.release(datagram);
        client = sender.join().expect("it sends");
    }
}

/// The sleep is no longer than asked for, and what came before it is not slept over.
#[test]
fn a_sleep_ends_by_itself_and_does_not_begin_over_what_is_there() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7000);
    let socket = bind(b, &mut engine, at);
    for longest in [0, 1, 1000, 2_000_000] {
        engine.sleep(Duration::from_nanos(longest)).expect("it is ours");
    }
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    client.send_to(b"there", at).expect("it can");
    let first = receive(&mut engine, socket);
    engine.release(first);
    client.send_to(b"there", at).expect("it can");
    let datagram = asleep(&mut engine, socket);
    engine.release(datagram);
}
