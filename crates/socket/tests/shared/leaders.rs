//! Threads that sleep on one engine: one leads, and what comes wakes the one that it is for.

use crate::hub::with_hub;
use crate::support::{Control, message, relink};
use sidestep_lab::Side;
use sidestep_socket::shared::Waker;
use sidestep_socket::tcp::{Readiness, TcpError};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::thread::{scope, sleep};
use std::time::Duration;

#[test]
fn each_answer_wakes_the_thread_that_it_is_for() {
    const THREADS: usize = 6;
    const ROUNDS: u32 = 60;
    with_hub(2, Duration::ZERO, |hub, b| {
        let server = b.within(|| Ok(TcpListener::bind((b.ipv4, 0)).unwrap())).unwrap();
        let at = server.local_addr().unwrap();
        let pairs: Vec<_> = (0..THREADS)
            .map(|_| {
                let waker = Waker::new().unwrap();
                let (stream, twin) = hub.connect(&waker, at);
                (waker, stream, twin, server.accept().unwrap().0)
            })
            .collect();
        scope(|scope| {
            let mut peers = Vec::new();
            for (number, (waker, stream, twin, peer)) in pairs.into_iter().enumerate() {
                scope.spawn(move || {
                    let mut buffer = [0; 64];
                    for round in 0..ROUNDS {
                        let mut got = 0;
                        while got < 64 {
                            got += hub.read(&waker, stream, &mut buffer[got..]);
                        }
                        assert_eq!(buffer[..], message(round * 64 + number as u32, 64)[..]);
                        hub.write_all(&waker, stream, &buffer[..8]);
                    }
                    hub.close(stream);
                    drop(twin);
                });
                peers.push(peer);
            }
            // All sleep; the turn goes round, in another order each time.
            for round in 0..ROUNDS {
                for step in 0..THREADS {
                    let number = (step * 5 + round as usize) % THREADS;
                    let sent = message(round * 64 + number as u32, 64);
                    peers[number].write_all(&sent).unwrap();
                    let mut answer = [0; 8];
                    peers[number].read_exact(&mut answer).unwrap();
                    assert_eq!(answer, sent[..8]);
                }
            }
        });
        assert!(hub.watched.events.load(Ordering::Relaxed) >= u64::from(ROUNDS) * THREADS as u64);
    });
}

/// Their interface goes away while they sleep.
#[test]
fn a_lost_stack_wakes_those_who_sleep_and_another_one_serves_them() {
    if !crate::support::is_root_or_say() {
        return;
    }
    let lab = sidestep_lab::Lab::up(&sidestep_lab::Options::default()).unwrap();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    crate::support::reach(a, b.ipv4.into());
    let hub = crate::hub::Hub::open(a, Duration::ZERO);
    let server = b.within(|| Ok(TcpListener::bind(("0.0.0.0", 7100)).unwrap())).unwrap();
    let at = (b.ipv4, 7100).into();
    let wakers: Vec<Waker> = (0..3).map(|_| Waker::new().unwrap()).collect();
    let streams: Vec<_> = wakers.iter().map(|waker| hub.connect(waker, at)).collect();
    let peers: Vec<_> = streams.iter().map(|_| server.accept().unwrap()).collect();
    scope(|scope| {
        for (waker, (stream, _)) in wakers.iter().zip(&streams) {
            let hub = &hub;
            scope.spawn(move || {
                let lost = hub.wait(waker, |engine| match engine.tcp().read(*stream, &mut [0; 8]) {
                    Err(error) if error.is_would_block() => None,
                    read => Some(read),
                });
                assert!(matches!(lost, Err(TcpError::Lost(_))), "{lost:?}");
                hub.close(*stream);
            });
        }
        sleep(Duration::from_millis(20));
        relink(a, b, || ());
    });
    drop(peers);
    // Nobody polls but the helper and who waits.
    let waker = Waker::new().unwrap();
    hub.wait(&waker, |engine| engine.refusal().is_none().then_some(()));
    crate::support::reach(a, b.ipv4.into());
    let (stream, _twin) = hub.connect(&waker, at);
    let (mut peer, _) = server.accept().unwrap();
    peer.write_all(b"again").unwrap();
    assert_eq!(hub.read(&waker, stream, &mut [0; 8]), 5);
    assert!(!hub.with(|engine| engine.tcp().readiness(stream)).unwrap().has(Readiness::ERROR));
}
