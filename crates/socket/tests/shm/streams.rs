//! Bytes without borders: any portions in, any portions out, full rings, half an end.

use crate::support::{WAITINGS, WATCHDOG, accept, options, pattern, recv, streams};
use proptest::prelude::*;
use sidestep_socket::stream::shm::{RING_BYTES_MAX, RING_BYTES_MIN, Settings, Users};
use sidestep_socket::stream::{Backend, Endpoint, Io, Listener, Options, Waiting, connect, connect_shm, is_retry};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the portions on either side, what comes out is what went in.
    #[test]
    fn any_portions_make_the_same_stream(
        waiting in prop::sample::select(WAITINGS.to_vec()),
        sends in prop::collection::vec(1_usize..6000, 1..40),
        buffers in prop::collection::vec(1_usize..3000, 1..40),
    ) {
        let (mut client, mut server) = streams(RING_BYTES_MIN, waiting);
        let all = pattern(sends.iter().sum());
        let (mut sent, mut come, mut turn) = (0, Vec::<u8>::new(), 0);
        while come.len() < all.len() {
            let end = all.len().min(sent + sends[turn % sends.len()]);
            // A sender that sleeps would do so for its timeout when the ring is full: there is one thread here.
            if waiting != Waiting::Block || sent - come.len() < 1000 {
                match client.send(&all[sent..end]) {
                    Ok(count) => sent += count,
                    Err(error) => prop_assert!(is_retry(&error), "{}", error),
                }
            }
            let mut buffer = vec![0; buffers[turn % buffers.len()]];
            if sent > come.len() {
                let count = server.recv(&mut buffer).expect("something is there");
                prop_assert!(count > 0);
                come.extend(&buffer[..count]);
            }
            turn += 1;
        }
        prop_assert!(come == all);
    }
}

#[test]
fn two_threads_exchange_more_than_the_rings_hold() {
    const BYTES: usize = 8 << 20;
    for waiting in WAITINGS {
        let (mut client, mut server) = streams(RING_BYTES_MIN, waiting);
        let all = pattern(BYTES);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for (turn, part) in all.chunks(4099).enumerate() {
                    let cut = part.len().min(turn % 977 + 1);
                    client.send_all(&part[..cut]).expect("the link is up");
                    client.send_all(&part[cut..]).expect("the link is up");
                }
                client.shutdown().expect("the link is up");
            });
            let (mut come, mut buffer) = (Vec::<u8>::with_capacity(BYTES), vec![0; 5000]);
            loop {
                let room = come.len() % 4999 + 1;
                match recv(&mut server, &mut buffer[..room]).expect("the link is up") {
                    0 => break,
                    count => come.extend(&buffer[..count]),
                }
            }
            assert!(come == all, "{waiting:?}");
        });
    }
}

#[test]
fn half_an_end_leaves_the_other_half() {
    for waiting in WAITINGS {
        let (mut client, mut server) = streams(RING_BYTES_MIN, waiting);
        client.send(b"last").expect("there is room");
        client.shutdown().expect("the link is up");
        client.shutdown().expect("twice is as good");
        assert_eq!(client.send(b"more").expect_err("it has finished").kind(), ErrorKind::BrokenPipe);
        let mut buffer = [0; 8];
        assert_eq!(recv(&mut server, &mut buffer).expect("it was sent"), 4);
        for _ in 0..3 {
            assert_eq!(recv(&mut server, &mut buffer).expect("an end is no error"), 0);
        }
        for _ in 0..1000 {
            server.send_all(b"answer").expect("the other half is open");
            let mut answer = [0; 6];
            assert_eq!(recv(&mut client, &mut answer).expect("the other half is open"), 6);
        }
        drop(server);
        assert_eq!(recv(&mut client, &mut buffer).expect("it left in order"), 0);
    }
}

#[test]
fn a_full_ring_takes_nothing_and_goes_on_where_it_stopped() {
    for waiting in WAITINGS {
        let (mut client, mut server) = streams(RING_BYTES_MIN, waiting);
        let all = pattern(10_000);
        let mut sent = 0;
        let full = loop {
            match client.send(&all[sent..]) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        assert!(is_retry(&full), "{full}");
        assert!(sent > RING_BYTES_MIN / 2 && sent < RING_BYTES_MIN, "{sent} bytes in a ring of {RING_BYTES_MIN}");
        let mut come = Vec::<u8>::new();
        let mut buffer = [0; 500];
        while come.len() < all.len() {
            let count = recv(&mut server, &mut buffer).expect("the link is up");
            come.extend(&buffer[..count]);
            // Room comes with whole messages of the ring: not after each receive.
            if sent < all.len() {
                match client.send(&all[sent..all.len().min(sent + 100)]) {
                    Err(error) => assert!(is_retry(&error), "{error}"),
                    Ok(count) => sent += count,
                }
            }
        }
        assert!(come == all);
    }
}

#[test]
fn a_sender_that_sleeps_is_woken_by_room() {
    let options = Options { timeout: WATCHDOG, ..options(Waiting::Block) };
    let settings = Settings { ring_bytes: RING_BYTES_MIN, ..Settings::default() };
    let (mut client, mut server) = crate::support::pair(&settings, &options);
    let all = pattern(100_000);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut sent = 0;
            while sent < all.len() {
                sent += client.send(&all[sent..]).expect("it sleeps until there is room");
            }
        });
        let (mut come, mut buffer) = (Vec::<u8>::new(), [0; 1000]);
        while come.len() < all.len() {
            std::thread::sleep(Duration::from_micros(300));
            let count = server.recv(&mut buffer).expect("it sleeps until there is something");
            come.extend(&buffer[..count]);
        }
        assert!(come == all);
    });
}

#[test]
fn a_sleep_ends_with_its_time() {
    for waiting in [Waiting::Block, Waiting::Epoll] {
        for timeout in [Duration::ZERO, Duration::from_millis(20)] {
            let (mut client, _server) =
                crate::support::pair(&Settings::default(), &Options { timeout, ..options(waiting) });
            let begin = Instant::now();
            let error = client.recv(&mut [0; 8]).expect_err("nobody sent");
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert!(begin.elapsed() >= timeout.saturating_sub(Duration::from_millis(1)) && begin.elapsed() < WATCHDOG);
        }
    }
}

#[test]
fn what_memory_cannot_do_is_refused() {
    let (mut io, endpoint) = (Io::default(), Endpoint::Shm(crate::support::path()));
    let mut refusal = |options: &Options| {
        let listens = Listener::bind(&mut io, &endpoint, options).err().expect("refused").to_string();
        assert_eq!(listens, connect(&mut io, &endpoint, options).err().expect("refused").to_string());
        listens
    };
    assert!(refusal(&Options { backend: Backend::Uring, ..Options::default() }).contains("io_uring"));
    assert!(refusal(&options(Waiting::BusyPoll { microseconds: 50 })).contains("busy polling"));
    for ring_bytes in [0, RING_BYTES_MIN / 2, RING_BYTES_MIN + 64, 2 * RING_BYTES_MAX, usize::MAX] {
        let settings = Settings { ring_bytes, ..Settings::default() };
        let why = connect_shm(&crate::support::path(), &settings, &Options::default()).err().expect("refused");
        assert!(why.to_string().contains("a ring has a power of two"), "{why}");
    }
    assert!(
        connect(&mut io, &endpoint, &Options::default()).err().expect("nobody listens").to_string().contains("next:")
    );
}

#[test]
fn the_other_end_is_known_by_the_kernel_s_word() {
    let path = crate::support::path();
    let options = options(Waiting::Spin);
    let (mut io, endpoint) = (Io::default(), Endpoint::Shm(path.clone()));
    let mut listener = Listener::bind(&mut io, &endpoint, &options).expect("the folder can be written");
    let _client = connect(&mut io, &endpoint, &options).expect("it listens");
    let accepted = accept(&mut listener);
    let who = accepted.credentials.expect("a Unix socket has them");
    assert_eq!((who.pid, who.uid), (Some(std::process::id()), sidestep_sys::process::effective_uid()));

    let nobody = Settings { users: Users::These(vec![who.uid + 1]), ..Settings::default() };
    let why = connect_shm(&path, &nobody, &options).err().expect("the listener is another user").to_string();
    assert!(why.contains(&format!("user {} listens there", who.uid)), "{why}");
}
