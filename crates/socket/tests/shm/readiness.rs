//! The socket of a link that waits by epoll is readable, level-triggered, whenever there is something to receive.

use crate::support::{End, WATCHDOG, accept, connect, options, pair};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_socket::stream::shm::Settings;
use sidestep_socket::stream::{Listener, Options, Waiting, is_retry};
use std::io::ErrorKind;
use std::time::Duration;

/// As a program with an event loop of its own makes it.
fn event_loop() -> Options {
    Options { timeout: Duration::ZERO, ..options(Waiting::Epoll) }
}

fn is_readable(link: &End, timeout: Duration) -> bool {
    let socket = link.socket();
    let mut sockets = [PollFd::new(&socket, PollFlags::IN)];
    poll(&mut sockets, Timespec::try_from(timeout).ok().as_ref()).expect("poll works") > 0
}

/// Receives all there is, as an event loop must before it may sleep; returns the bytes.
fn drain(link: &mut End, portion: usize) -> usize {
    let (mut all, mut buffer) = (0, vec![0; portion]);
    loop {
        match link.recv(&mut buffer) {
            Ok(count) => all += count,
            Err(error) if is_retry(&error) => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn readable_while_there_is_something_and_quiet_after() {
    let (mut client, mut server) = pair(&Settings::default(), &event_loop());
    for link in [&mut client, &mut server] {
        drain(link, 8);
        assert!(!is_readable(link, Duration::ZERO), "there is nothing");
    }
    for round in 1..100 {
        for _ in 0..round {
            client.send(b"tick").expect("there is room");
        }
        assert!(is_readable(&server, WATCHDOG));
        // A reader that leaves something behind is told again.
        assert_eq!(server.recv(&mut [0; 3]).expect("it was sent"), 3);
        assert!(is_readable(&server, Duration::ZERO), "a byte is left");
        assert_eq!(drain(&mut server, 7), 4 * round - 3);
        assert!(!is_readable(&server, Duration::ZERO), "everything is read");
    }
}

#[test]
fn what_comes_before_the_accept_is_told() {
    let path = crate::support::path();
    let options = event_loop();
    let mut listener = Listener::bind_shm(&path, Settings::default(), &options).expect("the folder can be written");
    let mut client = connect(&path, &Settings::default(), &options);
    client.send(b"early").expect("there is room");
    let mut server = End::new(accept(&mut listener).stream);
    assert!(is_readable(&server, WATCHDOG));
    assert_eq!(server.recv(&mut [0; 8]).expect("it was sent"), 5);
}

/// The connector sleeps before the listener takes it.
#[test]
fn what_comes_after_the_accept_is_told() {
    let path = crate::support::path();
    let options = event_loop();
    let mut listener = Listener::bind_shm(&path, Settings::default(), &options).expect("the folder can be written");
    let mut client = connect(&path, &Settings::default(), &options);
    drain(&mut client, 8);
    let mut server = End::new(accept(&mut listener).stream);
    server.send(b"hello").expect("there is room");
    assert!(is_readable(&client, WATCHDOG));
    assert_eq!(drain(&mut client, 8), 5);
}

#[test]
fn an_end_is_readable() {
    for leaves in [true, false] {
        let (mut client, server) = pair(&Settings::default(), &event_loop());
        drain(&mut client, 8);
        let mut server = Some(server);
        if leaves {
            server = None;
        } else if let Some(server) = &mut server {
            server.shutdown().expect("the link is up");
        }
        assert!(is_readable(&client, WATCHDOG));
        assert_eq!(client.recv(&mut [0; 8]).expect("it ended in order"), 0);
        assert_eq!(server.is_none(), leaves);
    }
}

/// A peer that rings for nothing keeps nobody up for longer than the timeout.
#[test]
fn a_flood_of_bells_does_not_hold_a_sleeper() {
    for waiting in [Waiting::Block, Waiting::Epoll] {
        let (mut client, server) = pair(&Settings::default(), &options(waiting));
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            let stop = &stop;
            threads.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
                    let _ = rustix::net::send(server.socket(), &[0], flags);
                }
            });
            for _ in 0..5 {
                let error = client.recv(&mut [0; 8]).expect_err("nothing was sent");
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
