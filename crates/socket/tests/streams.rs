//! What every link must do, run over every transport, back-end and way to wait.

use sidestep_socket::stream::blocking::Listener;
use sidestep_socket::stream::udp::Port;
use sidestep_socket::stream::{Address, Backend, Link, Options, Waiting, connect, is_retry, send_all};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A hang is a failure: far above anything a correct link takes.
const WATCHDOG: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Tcp,
    TcpV6,
    Unix,
    Shm,
    Udp,
}

const TRANSPORTS: [Transport; 5] = [Transport::Tcp, Transport::TcpV6, Transport::Unix, Transport::Shm, Transport::Udp];
const STREAMS: [Transport; 4] = [Transport::Tcp, Transport::TcpV6, Transport::Unix, Transport::Shm];

/// All that a transport offers; shared memory refuses the others (`what_memory_cannot_do_is_refused` in shm.rs).
fn every_options(transport: Transport) -> Vec<Options> {
    let timeout = Duration::from_millis(50);
    if transport == Transport::Shm {
        let all = [Waiting::Block, Waiting::Epoll, Waiting::Spin];
        return all
            .map(|waiting| Options { waiting, backend: Backend::Kernel, timeout, ..Options::default() })
            .to_vec();
    }
    let kernel = [Waiting::Block, Waiting::BusyPoll { microseconds: 0 }, Waiting::Epoll, Waiting::Spin];
    let uring = [Waiting::Block, Waiting::Spin];
    let kernel = kernel.map(|waiting| Options { waiting, backend: Backend::Kernel, timeout, ..Options::default() });
    let uring = uring.map(|waiting| Options { waiting, backend: Backend::Uring, timeout, ..Options::default() });
    kernel.into_iter().chain(uring).collect()
}

/// Runs `check` over a connected pair of each kind.
fn over_every_pair(transports: &[Transport], check: impl Fn(Box<dyn Link>, Box<dyn Link>)) {
    for &transport in transports {
        for options in every_options(transport) {
            eprintln!("{transport:?} {:?} {:?}", options.backend, options.waiting);
            let (client, server) = pair(transport, &options);
            check(client, server);
        }
    }
}

fn pair(transport: Transport, options: &Options) -> (Box<dyn Link>, Box<dyn Link>) {
    let address = match transport {
        Transport::Udp => return datagram_pair(options),
        Transport::Tcp => Address::Tcp("127.0.0.1:0".parse().expect("an address")),
        Transport::TcpV6 => Address::Tcp("[::1]:0".parse().expect("an address")),
        Transport::Unix => Address::Unix(socket_path()),
        Transport::Shm => Address::Shm(socket_path()),
    };
    let listener = Listener::bind(&address, options).expect("loopback can be listened on");
    let client = connect(&listener.address().expect("a bound listener has one"), options).expect("it listens");
    let server = listener.accept(WATCHDOG).expect("it has been connected to").link;
    (client, server)
}

fn socket_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("sidestep-streams-{}-{number}", std::process::id()))
}

fn datagram_pair(options: &Options) -> (Box<dyn Link>, Box<dyn Link>) {
    let bind = || Port::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback can be bound");
    let at = |port: &Port| SocketAddr::from((Ipv4Addr::LOCALHOST, port.number().expect("a bound port has one")));
    let (one, two) = (bind(), bind());
    let (at_one, at_two) = (at(&one), at(&two));
    let client = one.connect(at_two, options).expect("loopback is reachable");
    (client, two.connect(at_one, options).expect("loopback is reachable"))
}

/// Receives once, trying again while nothing has come.
fn recv(link: &mut dyn Link, buffer: &mut [u8]) -> io::Result<usize> {
    let begin = Instant::now();
    loop {
        match link.recv(buffer) {
            Err(error) if is_retry(&error) => assert!(begin.elapsed() < WATCHDOG, "nothing comes"),
            other => return other,
        }
    }
}

fn recv_exact(link: &mut dyn Link, buffer: &mut [u8]) {
    let mut filled = 0;
    while filled < buffer.len() {
        let count = recv(link, &mut buffer[filled..]).expect("the link is up");
        assert_ne!(count, 0, "the peer has not finished");
        filled += count;
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 + index / 251) as u8).collect()
}

#[test]
fn messages_come_back_as_they_went() {
    over_every_pair(&TRANSPORTS, |mut client, mut server| {
        for size in [1, 8, 64, 1472, 40_000] {
            let message = pattern(size);
            for _ in 0..3 {
                send_all(client.as_mut(), &message).expect("the link is up");
                client.flush().expect("the link is up");
                let mut there = vec![0; size];
                recv_exact(server.as_mut(), &mut there);
                send_all(server.as_mut(), &there).expect("the link is up");
                server.flush().expect("the link is up");
                let mut back = vec![0; size];
                recv_exact(client.as_mut(), &mut back);
                assert!(back == message, "{size} bytes differ");
            }
        }
    });
}

#[test]
fn a_send_leaves_with_the_next_receive_at_the_latest() {
    over_every_pair(&TRANSPORTS, |mut client, mut server| {
        send_all(client.as_mut(), b"ping").expect("the link is up");
        let nothing = client.recv(&mut [0; 8]).expect_err("the server has said nothing");
        assert!(is_retry(&nothing), "{nothing}");
        let mut buffer = [0; 8];
        assert_eq!(recv(server.as_mut(), &mut buffer).expect("the link is up"), 4);
        assert_eq!(&buffer[..4], b"ping");
    });
}

#[test]
fn nothing_to_receive_is_would_block() {
    over_every_pair(&TRANSPORTS, |mut client, server| {
        for _ in 0..3 {
            let error = client.recv(&mut [0; 8]).expect_err("nobody sent");
            assert!(is_retry(&error), "{error}");
        }
        drop(server);
    });
}

#[test]
fn a_stream_ends_with_zero_after_the_rest() {
    over_every_pair(&STREAMS, |mut client, mut server| {
        send_all(client.as_mut(), b"last").expect("the link is up");
        client.shutdown().expect("it is connected");
        let mut buffer = [0; 4];
        recv_exact(server.as_mut(), &mut buffer);
        assert_eq!(&buffer, b"last");
        assert_eq!(recv(server.as_mut(), &mut buffer).expect("an end is not an error"), 0);
        send_all(server.as_mut(), b"half").expect("the other direction is still open");
        server.flush().expect("the other direction is still open");
        recv_exact(client.as_mut(), &mut buffer);
        assert_eq!(&buffer, b"half");
    });
}

#[test]
fn a_stream_is_read_in_any_portions() {
    over_every_pair(&[Transport::Tcp, Transport::Unix, Transport::Shm], |mut client, mut server| {
        send_all(client.as_mut(), &pattern(1000)).expect("the link is up");
        client.flush().expect("the link is up");
        let mut all = Vec::new();
        for portion in (1..).take_while(|portion| portion * (portion - 1) / 2 < 1000) {
            let mut part = vec![0; portion.min(1000 - all.len())];
            recv_exact(server.as_mut(), &mut part);
            all.extend(part);
        }
        assert!(all == pattern(1000));
    });
}

#[test]
fn a_long_datagram_is_cut_and_the_next_is_whole() {
    over_every_pair(&[Transport::Udp], |mut client, mut server| {
        for message in [&b"abcdefgh"[..], b"next"] {
            send_all(client.as_mut(), message).expect("the link is up");
            client.flush().expect("the link is up");
        }
        let mut buffer = [0; 4];
        assert_eq!(recv(server.as_mut(), &mut buffer).expect("the link is up"), 4);
        assert_eq!(&buffer, b"abcd");
        assert_eq!(recv(server.as_mut(), &mut buffer).expect("the link is up"), 4);
        assert_eq!(&buffer, b"next");
    });
}

#[test]
fn a_vanished_peer_is_an_end_or_an_error() {
    over_every_pair(&TRANSPORTS, |mut client, server| {
        drop(server);
        let begin = Instant::now();
        loop {
            let told = client.send(b"anyone?").and_then(|_| client.recv(&mut [0; 8]));
            match told {
                Ok(0) => break,
                Ok(_) => panic!("nobody is there to answer"),
                Err(error) if is_retry(&error) => assert!(begin.elapsed() < WATCHDOG, "never told"),
                Err(_) => break,
            }
        }
    });
}

#[test]
fn a_sender_that_nobody_reads_is_told() {
    // A kernel link that sleeps in recv sleeps in send, too: that is what its user asked for. In shared memory it does so
    // for the timeout at the most, and then says the same as the others.
    let sleeps = |transport: Transport, options: &Options| {
        transport != Transport::Shm
            && options.backend == Backend::Kernel
            && matches!(options.waiting, Waiting::Block | Waiting::BusyPoll { .. })
    };
    for transport in [Transport::Tcp, Transport::Unix, Transport::Shm] {
        for options in every_options(transport).iter().filter(|options| !sleeps(transport, options)) {
            let (mut client, mut server) = pair(transport, options);
            let mut all = vec![0; fill(client.as_mut(), &pattern(32_000))];
            for part in all.chunks_mut(1000) {
                client.flush().expect("the link is up"); // What a ring has under way moves on only in its owner's calls.
                recv_exact(server.as_mut(), part);
            }
            assert!(all.chunks(32_000).all(|part| pattern(32_000).starts_with(part)));
        }
    }
}

/// Sends `chunk` again and again until the link takes no more; returns the bytes it took.
fn fill(link: &mut dyn Link, chunk: &[u8]) -> usize {
    let mut sent = 0;
    loop {
        match link.send(&chunk[sent % chunk.len()..]) {
            Ok(count) => sent += count,
            Err(error) if is_retry(&error) => return sent,
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 1 << 30, "no transport holds a gigabyte");
    }
}

#[test]
fn bad_addresses_are_named() {
    let options = Options { timeout: Duration::from_millis(300), ..Options::default() };
    let closed = Listener::bind(&Address::Tcp("127.0.0.1:0".parse().expect("an address")), &options)
        .map(|listener| listener.address().expect("it is bound"))
        .expect("loopback can be listened on");
    let refused = connect(&closed, &options).err().expect("nobody listens there any more").to_string();
    assert!(refused.contains("cannot connect to 127.0.0.1") && refused.contains("next:"), "{refused}");
    let long = Address::Unix("/tmp/".to_owned().into_boxed_str().repeat(40).into());
    assert!(Listener::bind(&long, &options).is_err(), "longer than sun_path");
    assert!(connect(&Address::Unix("/no/such/socket".into()), &options).is_err());
    let elsewhere = Address::Tcp("203.0.113.1:1".parse().expect("an address"));
    assert!(Listener::bind(&elsewhere, &options).is_err(), "not an address of this host");
}

#[test]
fn multicast_reaches_who_joined() {
    let options = Options { timeout: WATCHDOG, ..Options::default() };
    let group: std::net::SocketAddrV4 = "239.192.77.1:0".parse().expect("an address");
    let receiver = sidestep_socket::stream::udp::join(group, Ipv4Addr::LOCALHOST).expect("loopback can be joined on");
    let group = std::net::SocketAddrV4::new(*group.ip(), receiver.number().expect("it is bound"));
    let mut receiver = receiver.receiver(&options).expect("it is bound");
    let port = Port::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback can be bound");
    let mut sender = port.connect_group(group, Ipv4Addr::LOCALHOST, true, &options).expect("loopback can send");
    send_all(sender.as_mut(), b"tick").expect("the link is up");
    let mut buffer = [0; 8];
    assert_eq!(recv(receiver.as_mut(), &mut buffer).expect("it was sent"), 4);
    assert!(receiver.send(b"back").is_err(), "a group receiver has no peer to send to");
    assert!(
        sidestep_socket::stream::udp::join("10.0.0.1:0".parse().expect("an address"), Ipv4Addr::LOCALHOST).is_err()
    );
}
