//! The helper thread: the engine works on while no thread of the program is in a call.

use crate::hub::with_hub;
use crate::support::{WATCHDOG, message, wait as until};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_socket::shared::{SocketEvent, Waker, Woken};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// The engine's heartbeat is written every 200 ms, and it counts as stopped after a second.
const LONG: Duration = Duration::from_millis(1500);

fn server(b: &sidestep_lab::Host) -> TcpListener {
    b.within(|| Ok(TcpListener::bind((b.ipv4, 0)).unwrap())).unwrap()
}

#[test]
fn the_peers_data_is_acknowledged_while_no_thread_is_in_a_call() {
    with_hub(1, Duration::ZERO, |hub, b| {
        let (waker, server) = (Waker::new().unwrap(), server(b));
        let (stream, _twin) = hub.connect(&waker, server.local_addr().unwrap());
        let (mut peer, _) = server.accept().unwrap();
        sleep(LONG);
        let sent = message(1, 10_000);
        peer.write_all(&sent).unwrap();
        // The kernel counts what its peer has not acknowledged.
        until("its acknowledgement", || (unacknowledged(&peer) == 0).then_some(()));
        assert!(hub.with(|engine| engine.tcp().path(stream)).unwrap().is_accelerated());
        let mut got = vec![0; sent.len()];
        let mut at = 0;
        while at < got.len() {
            at += hub.read(&waker, stream, &mut got[at..]);
        }
        assert_eq!(got, sent);
    });
}

/// Bytes of its queue that the peer has not acknowledged: SIOCOUTQ.
fn unacknowledged(stream: &std::net::TcpStream) -> i32 {
    use std::os::fd::AsRawFd;
    let mut count = 0;
    // SAFETY: the call writes one int, and `count` is one.
    assert_eq!(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) }, 0);
    count
}

#[test]
fn a_lost_segment_is_sent_again_while_no_thread_is_in_a_call() {
    with_hub(1, Duration::ZERO, |hub, b| {
        let (waker, server) = (Waker::new().unwrap(), server(b));
        let (stream, _twin) = hub.connect(&waker, server.local_addr().unwrap());
        let (mut peer, _) = server.accept().unwrap();
        crate::support::ip(b, &format!("route add blackhole {}/32", hub.host.ipv4));
        // Linux takes the segment and cannot acknowledge it; down, it does not even take it.
        crate::support::ip(b, &format!("link set {} down", b.interface));
        let sent = message(2, 100);
        hub.with(|engine| assert_eq!(engine.tcp().send(stream, &sent), Ok(100)));
        sleep(Duration::from_millis(300));
        crate::support::ip(b, &format!("link set {} up", b.interface));
        crate::support::ip(b, &format!("route del blackhole {}/32", hub.host.ipv4));
        let mut got = [0; 100];
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        peer.read_exact(&mut got).unwrap();
        assert_eq!(got[..], sent[..]);
        let facts = hub.with(|engine| engine.tcp().facts(stream)).unwrap().unwrap();
        assert!(facts.retransmitted > 0, "{facts:?}");
    });
}

/// Frames that the steering program has passed to the kernel, by control's names.
fn counters(host: &sidestep_lab::Host) -> HashMap<String, u64> {
    let path = host.within(place::socket).unwrap();
    let mut client = Client::connect_to(&path, "asking").unwrap();
    let stacks: Vec<u32> =
        client.clients().unwrap().into_iter().flat_map(|line| line.stacks).map(|stack| stack.id).collect();
    stacks.into_iter().flat_map(|stack| client.counters(stack).unwrap_or_default()).collect()
}

#[test]
fn the_heartbeat_stays_fresh_and_few_wake_ups_are_made_of_an_idle_process() {
    with_hub(1, Duration::ZERO, |hub, b| {
        let (waker, server) = (Waker::new().unwrap(), server(b));
        let (stream, _twin) = hub.connect(&waker, server.local_addr().unwrap());
        let (mut peer, _) = server.accept().unwrap();
        // No thread is in a call, and then one sleeps in one.
        for sleeps in [false, true] {
            // What the connection has begun is over, and the helper has come to rest.
            sleep(Duration::from_millis(100));
            let (begin, turns) = (Instant::now(), hub.engine.helper_turns());
            if sleeps {
                let deadline = Some(begin + LONG);
                // An event that came before ends a wait, too.
                while hub.wait_once(&waker, deadline, &[], |_| None::<()>) != Woken::Deadline {}
            } else {
                sleep(LONG);
            }
            let (turns, periods) = (hub.engine.helper_turns() - turns, begin.elapsed().as_millis() / 200 + 1);
            assert!(u128::from(turns) <= 3 * periods + 10, "{turns} in {periods} times 200 ms, sleeping: {sleeps}");
            peer.write_all(b"ping").unwrap();
            let mut buffer = [0; 8];
            assert_eq!(hub.read(&waker, stream, &mut buffer), 4);
        }
        let counters = counters(&hub.host);
        assert!(!counters.keys().any(|name| name.contains("stale") || name.contains("silent")), "{counters:?}");
    });
}

#[test]
fn all_signals_are_blocked_in_the_threads_of_the_engine() {
    with_hub(1, Duration::ZERO, |_, _| {
        // A thread has its name when it has run for the first time.
        let threads = until("both threads", || Some(threads_of_the_engine()).filter(|threads| threads.len() >= 2));
        for (name, blocked) in threads {
            // SIGKILL and SIGSTOP cannot be; the C library keeps 32 and 33 for itself.
            let all = !(1 << 8 | 1 << 18 | 1 << 31 | 1 << 32);
            assert_eq!(blocked & all, all, "{name}: {blocked:x}");
        }
    });
}

/// The names of the threads of engines, and the signals that each has blocked.
fn threads_of_the_engine() -> Vec<(String, u64)> {
    let read = |task: &Path, file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
    let blocked = |status: &str| {
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
        u64::from_str_radix(blocked.trim(), 16).ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    tasks
        .filter(|task| ["sidestep-helper", "sidestep-agent"].iter().any(|name| read(task, "comm").starts_with(name)))
        .filter_map(|task| Some((read(&task, "comm"), blocked(&read(&task, "status"))?)))
        .collect()
}

#[test]
fn an_engine_that_is_stopped_is_polled_by_its_callers() {
    with_hub(1, Duration::ZERO, |hub, b| {
        hub.engine.stop();
        hub.engine.stop();
        let (waker, server) = (Waker::new().unwrap(), server(b));
        let (stream, _twin) = hub.connect(&waker, server.local_addr().unwrap());
        let (mut peer, _) = server.accept().unwrap();
        scope(|scope| {
            scope.spawn(|| {
                sleep(Duration::from_millis(20));
                peer.write_all(b"ping").unwrap();
            });
            assert_eq!(hub.read(&waker, stream, &mut [0; 8]), 4);
        });
        let turns = hub.engine.helper_turns();
        sleep(Duration::from_millis(300));
        assert_eq!(hub.engine.helper_turns(), turns);
        hub.watched.remove(SocketEvent::Stream(stream));
    });
}
