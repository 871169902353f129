//! The other end is a process that is killed, or that scribbles.

use crate::support::{End, WAITINGS, WATCHDOG, accept, again, connect, options, path, pattern, recv, role, spawn};
use sidestep_socket::stream::shm::Settings;
use sidestep_socket::stream::{Listener, Waiting, connect_shm};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// What a child sends before it waits for its death.
const LAST_WORDS: usize = 100_000;

/// What a child does; in the parent's run of all tests, nothing.
#[test]
fn child() {
    let Some((role, path)) = role() else { return };
    let spins = options(Waiting::Spin);
    match role.as_str() {
        "echo" => echo(&path),
        "speaker" => {
            let mut link = connect(&path, &Settings::default(), &spins);
            link.send_all(&pattern(LAST_WORDS)).expect("it fits");
            await_death(link);
        }
        "silent" => await_death(connect(&path, &Settings::default(), &spins)),
        "leaver" => {
            let mut link = connect(&path, &Settings::default(), &spins);
            link.send_all(&pattern(LAST_WORDS)).expect("it fits");
        }
        "listener" => {
            let mut listener =
                Listener::bind_shm(&path, Settings::default(), &spins).expect("the folder can be written");
            await_death(End::new(accept(&mut listener).stream));
        }
        "no system calls" => crate::silence::exchange_without_system_calls(),
        other => panic!("no role {other}"),
    }
}

fn await_death(link: End) {
    std::thread::sleep(2 * WATCHDOG);
    drop(link);
}

fn echo(path: &Path) {
    let mut link = connect(path, &Settings::default(), &options(Waiting::Block));
    let mut buffer = vec![0; 5000];
    loop {
        match recv(&mut link, &mut buffer).expect("the parent lives") {
            0 => return,
            count => link.send_all(&buffer[..count]).expect("the parent lives"),
        }
    }
}

/// A child in `role` that has connected.
fn child_in(role: &str, waiting: Waiting) -> (Child, End) {
    let path = path();
    let mut listener =
        Listener::bind_shm(&path, Settings::default(), &options(waiting)).expect("the folder can be written");
    let child = spawn(role, &path);
    let accepted = accept(&mut listener);
    assert_eq!(accepted.credentials.map(|who| who.pid), Some(Some(child.id())));
    (child, End::new(accepted.stream))
}

fn kill(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it was ours");
}

#[test]
fn two_processes_exchange_a_stream() {
    for waiting in WAITINGS {
        let (mut child, mut link) = child_in("echo", waiting);
        for part in pattern(1 << 20).chunks(9000) {
            link.send_all(part).expect("the child lives");
            let (mut back, mut filled) = (vec![0; part.len()], 0);
            while filled < back.len() {
                filled += recv(&mut link, &mut back[filled..]).expect("it echoes");
            }
            assert!(back == part);
        }
        link.shutdown().expect("the link is up");
        assert_eq!(recv(&mut link, &mut [0; 8]).expect("it leaves in order"), 0);
        assert!(child.wait().expect("it was ours").success());
    }
}

#[test]
fn what_a_killed_process_published_is_read_and_then_it_is_a_reset() {
    for waiting in WAITINGS {
        let (child, mut link) = child_in("speaker", waiting);
        let mut first = [0; 1];
        recv(&mut link, &mut first).expect("it speaks");
        let mut come = first.to_vec();
        let mut buffer = [0; 777];
        // Enough that it has sent all of it: the ring holds more than twice that.
        while come.len() < LAST_WORDS / 2 {
            let count = recv(&mut link, &mut buffer).expect("it speaks");
            come.extend(&buffer[..count]);
        }
        std::thread::sleep(Duration::from_millis(50));
        kill(child);
        let end = loop {
            match again(|| link.recv(&mut buffer)) {
                Ok(0) => panic!("it did not leave in order"),
                Ok(count) => come.extend(&buffer[..count]),
                Err(error) => break error,
            }
        };
        assert_eq!(end.kind(), ErrorKind::ConnectionReset, "{end}");
        assert!(come == pattern(LAST_WORDS), "{waiting:?}: {} bytes", come.len());
        assert_eq!(link.recv(&mut buffer).expect_err("still").kind(), ErrorKind::ConnectionReset);
        assert_eq!(link.send(b"anyone?").expect_err("nobody").kind(), ErrorKind::BrokenPipe);
    }
}

/// A sleeper with a long timeout is woken by the death itself.
#[test]
fn a_sleeper_learns_of_a_death() {
    for waiting in [Waiting::Block, Waiting::Epoll] {
        let path = path();
        let options = sidestep_socket::stream::Options { timeout: 2 * WATCHDOG, ..options(waiting) };
        let mut listener = Listener::bind_shm(&path, Settings::default(), &options).expect("the folder can be written");
        let child = spawn("silent", &path);
        let mut link = End::new(accept(&mut listener).stream);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                kill(child);
            });
            let begin = Instant::now();
            let end = link.recv(&mut [0; 8]).expect_err("it was killed");
            assert_eq!(end.kind(), ErrorKind::ConnectionReset);
            assert!(begin.elapsed() < WATCHDOG, "not by its own timeout");
        });
    }
}

#[test]
fn a_sender_learns_of_a_death() {
    for waiting in WAITINGS {
        let (child, mut link) = child_in("silent", waiting);
        link.send(b"hello").expect("it lives");
        kill(child);
        let begin = Instant::now();
        let end = loop {
            match link.send(b"anyone?") {
                Ok(_) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("told before the ring is full"),
                Err(error) => break error,
            }
            assert!(begin.elapsed() < WATCHDOG);
        };
        assert_eq!(end.kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn a_connector_learns_of_a_listener_s_death() {
    for waiting in WAITINGS {
        let path = path();
        let child = spawn("listener", &path);
        let begin = Instant::now();
        let mut link = loop {
            match connect_shm(&path, &Settings::default(), &options(waiting)) {
                Ok(stream) => break End::new(stream),
                Err(problem) => assert!(begin.elapsed() < WATCHDOG, "{problem}"),
            }
        };
        kill(child);
        let end = again(|| link.recv(&mut [0; 8])).expect_err("it was killed");
        assert_eq!(end.kind(), ErrorKind::ConnectionReset);
        let _ = std::fs::remove_file(&path);
    }
}

#[test]
fn a_process_that_leaves_in_order_is_an_end() {
    for waiting in WAITINGS {
        let (mut child, mut link) = child_in("leaver", waiting);
        let (mut come, mut buffer) = (0, vec![0; 4096]);
        loop {
            match recv(&mut link, &mut buffer).expect("it leaves in order") {
                0 => break,
                count => come += count,
            }
        }
        assert_eq!(come, LAST_WORDS);
        assert!(child.wait().expect("it was ours").success());
        let refused = (0..WATCHDOG.as_millis()).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            link.send(b"anyone?").err()
        });
        assert_eq!(refused.expect("told in time").kind(), ErrorKind::BrokenPipe);
    }
}
