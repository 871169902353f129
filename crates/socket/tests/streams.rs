//! The rules of every stream and datagram socket, over every transport, back-end and kind of waiting.

use sidestep_socket::datagram::{DatagramSocket, UdpPort};
use sidestep_socket::stream::{
    Backend, Connecting, Endpoint, Io, Listener, Options, Stream, Waiting, connect, is_retry,
};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
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
    /// A stream of an engine. Without a control plane the kernel carries it (past it: `waiting.rs` of the tests of TCP).
    Xdp,
    Udp,
}

const TRANSPORTS: [Transport; 6] =
    [Transport::Tcp, Transport::TcpV6, Transport::Unix, Transport::Shm, Transport::Xdp, Transport::Udp];
const STREAMS: [Transport; 5] = [Transport::Tcp, Transport::TcpV6, Transport::Unix, Transport::Shm, Transport::Xdp];

/// One end, with what its thread needs for it.
struct End {
    io: Io,
    carrier: Carrier,
}

enum Carrier {
    Stream(Stream),
    Datagrams(DatagramSocket),
}

impl End {
    fn stream(io: Io, stream: Stream) -> Self {
        Self { io, carrier: Carrier::Stream(stream) }
    }

    fn datagrams(socket: DatagramSocket) -> Self {
        Self { io: Io::default(), carrier: Carrier::Datagrams(socket) }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.carrier {
            Carrier::Stream(stream) => stream.write(&mut self.io, bytes),
            Carrier::Datagrams(socket) => socket.send(&mut self.io, bytes),
        }
    }

    fn send_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.carrier {
            Carrier::Stream(stream) => stream.write_all(&mut self.io, bytes),
            Carrier::Datagrams(socket) => loop {
                match socket.send(&mut self.io, bytes) {
                    Err(error) if is_retry(&error) => {}
                    sent => return sent.map(|count| assert_eq!(count, bytes.len(), "a datagram is taken whole")),
                }
            },
        }
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.carrier {
            Carrier::Stream(stream) => stream.read(&mut self.io, buffer),
            Carrier::Datagrams(socket) => socket.receive(&mut self.io, buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.carrier {
            Carrier::Stream(stream) => stream.flush(),
            Carrier::Datagrams(socket) => socket.flush(&mut self.io),
        }
    }

    fn shutdown(&mut self) -> io::Result<()> {
        match &mut self.carrier {
            Carrier::Stream(stream) => stream.shutdown(&mut self.io),
            Carrier::Datagrams(_) => panic!("datagrams have no end"),
        }
    }
}

/// All that a transport offers; the others are refused (`what_memory_cannot_do_is_refused` in shm,
/// `what_cannot_be_past_the_kernel_is_refused`).
fn every_options(transport: Transport) -> Vec<Options> {
    let timeout = Duration::from_millis(50);
    if matches!(transport, Transport::Shm | Transport::Xdp) {
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
fn over_every_pair(transports: &[Transport], check: impl Fn(End, End)) {
    for &transport in transports {
        for options in every_options(transport) {
            eprintln!("{transport:?} {:?} {:?}", options.backend, options.waiting);
            let (client, server) = pair(transport, &options);
            check(client, server);
        }
    }
}

fn pair(transport: Transport, options: &Options) -> (End, End) {
    let endpoint = match transport {
        Transport::Udp => return datagram_pair(options),
        Transport::Tcp => at("127.0.0.1:0"),
        Transport::TcpV6 => at("[::1]:0"),
        Transport::Unix => Endpoint::Unix(socket_path()),
        Transport::Shm => Endpoint::Shm(socket_path()),
        Transport::Xdp => at("xdp:lo:127.0.0.1:0"),
    };
    let (mut here, mut there) = (Io::default(), Io::default());
    let mut listener = Listener::bind(&mut there, &endpoint, options).expect("loopback can be listened on");
    let client = connect(&mut here, listener.endpoint(), options).expect("it listens");
    let server = listener.accept_within(&mut there, WATCHDOG).expect("it has been connected to").stream;
    (End::stream(here, client), End::stream(there, server))
}

fn at(endpoint: &str) -> Endpoint {
    Endpoint::parse(endpoint).expect("an endpoint")
}

fn socket_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("sidestep-streams-{}-{number}", std::process::id()))
}

fn datagram_pair(options: &Options) -> (End, End) {
    let bind = || UdpPort::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback can be bound");
    let (one, two) = (bind(), bind());
    let (at_one, at_two) = (one.local().expect("it is bound"), two.local().expect("it is bound"));
    let client = one.connect(at_two, options).expect("loopback is reachable");
    let server = two.connect(at_one, options).expect("loopback is reachable");
    (End::datagrams(client), End::datagrams(server))
}

/// Receives once, trying again while nothing has come.
fn recv(link: &mut End, buffer: &mut [u8]) -> io::Result<usize> {
    let begin = Instant::now();
    loop {
        match link.recv(buffer) {
            Err(error) if is_retry(&error) => assert!(begin.elapsed() < WATCHDOG, "nothing comes"),
            other => return other,
        }
    }
}

fn recv_exact(link: &mut End, buffer: &mut [u8]) {
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
                client.send_all(&message).expect("the link is up");
                client.flush().expect("the link is up");
                let mut there = vec![0; size];
                recv_exact(&mut server, &mut there);
                server.send_all(&there).expect("the link is up");
                server.flush().expect("the link is up");
                let mut back = vec![0; size];
                recv_exact(&mut client, &mut back);
                assert!(back == message, "{size} bytes differ");
            }
        }
    });
}

#[test]
fn a_send_leaves_with_the_next_receive_at_the_latest() {
    over_every_pair(&TRANSPORTS, |mut client, mut server| {
        client.send_all(b"ping").expect("the link is up");
        let nothing = client.recv(&mut [0; 8]).expect_err("the server has said nothing");
        assert!(is_retry(&nothing), "{nothing}");
        let mut buffer = [0; 8];
        assert_eq!(recv(&mut server, &mut buffer).expect("the link is up"), 4);
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
        client.send_all(b"last").expect("the link is up");
        client.shutdown().expect("it is connected");
        let mut buffer = [0; 4];
        recv_exact(&mut server, &mut buffer);
        assert_eq!(&buffer, b"last");
        assert_eq!(recv(&mut server, &mut buffer).expect("an end is not an error"), 0);
        server.send_all(b"half").expect("the other direction is still open");
        server.flush().expect("the other direction is still open");
        recv_exact(&mut client, &mut buffer);
        assert_eq!(&buffer, b"half");
    });
}

#[test]
fn a_stream_is_read_in_any_portions() {
    over_every_pair(&[Transport::Tcp, Transport::Unix, Transport::Shm], |mut client, mut server| {
        client.send_all(&pattern(1000)).expect("the link is up");
        client.flush().expect("the link is up");
        let mut all = Vec::new();
        for portion in (1..).take_while(|portion| portion * (portion - 1) / 2 < 1000) {
            let mut part = vec![0; portion.min(1000 - all.len())];
            recv_exact(&mut server, &mut part);
            all.extend(part);
        }
        assert!(all == pattern(1000));
    });
}

#[test]
fn a_long_datagram_is_cut_and_the_next_is_whole() {
    over_every_pair(&[Transport::Udp], |mut client, mut server| {
        for message in [&b"abcdefgh"[..], b"next"] {
            client.send_all(message).expect("the link is up");
            client.flush().expect("the link is up");
        }
        let mut buffer = [0; 4];
        assert_eq!(recv(&mut server, &mut buffer).expect("the link is up"), 4);
        assert_eq!(&buffer, b"abcd");
        assert_eq!(recv(&mut server, &mut buffer).expect("the link is up"), 4);
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
            let mut all = vec![0; fill(&mut client, &pattern(32_000))];
            for part in all.chunks_mut(1000) {
                client.flush().expect("the link is up"); // What a ring has under way moves on only in its owner's calls.
                recv_exact(&mut server, part);
            }
            assert!(all.chunks(32_000).all(|part| pattern(32_000).starts_with(part)));
        }
    }
}

/// Sends `chunk` again and again until the link takes no more; returns the bytes it took.
fn fill(link: &mut End, chunk: &[u8]) -> usize {
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
    let mut io = Io::default();
    let closed = Listener::bind(&mut io, &at("127.0.0.1:0"), &options)
        .map(|listener| listener.endpoint().clone())
        .expect("loopback can be listened on");
    let refused = connect(&mut io, &closed, &options).err().expect("nobody listens there any more").to_string();
    assert!(refused.contains("cannot connect to 127.0.0.1") && refused.contains("next:"), "{refused}");
    let long = Endpoint::Unix("/tmp/".to_owned().into_boxed_str().repeat(40).into());
    assert!(Listener::bind(&mut io, &long, &options).is_err(), "longer than sun_path");
    assert!(connect(&mut io, &at("unix:/no/such/socket"), &options).is_err());
    assert!(Listener::bind(&mut io, &at("203.0.113.1:1"), &options).is_err(), "not an address of this host");
}

#[test]
fn multicast_reaches_who_joined() {
    let options = Options { timeout: WATCHDOG, ..Options::default() };
    let group: SocketAddrV4 = "239.192.77.1:0".parse().expect("an address");
    let receiver = UdpPort::join(group, Ipv4Addr::LOCALHOST).expect("loopback can be joined on");
    let group = SocketAddrV4::new(*group.ip(), receiver.local().expect("it is bound").port());
    let mut receiver = End::datagrams(receiver.receiver(&options).expect("it is bound"));
    let port = UdpPort::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback can be bound");
    let sender = port.connect_group(group, Ipv4Addr::LOCALHOST, true, &options).expect("loopback can send");
    End::datagrams(sender).send_all(b"tick").expect("the link is up");
    let mut buffer = [0; 8];
    assert_eq!(recv(&mut receiver, &mut buffer).expect("it was sent"), 4);
    assert!(receiver.send(b"back").is_err(), "a group receiver has no peer to send to");
    assert!(UdpPort::join("10.0.0.1:0".parse().expect("an address"), Ipv4Addr::LOCALHOST).is_err());
}

#[test]
fn who_is_accepted_and_left_at_once_has_connected() {
    let (mut io, options) = (Io::default(), Options { timeout: WATCHDOG, ..Options::default() });
    for endpoint in [at("127.0.0.1:0"), Endpoint::Unix(socket_path()), Endpoint::Shm(socket_path())] {
        let mut listener = Listener::bind(&mut io, &endpoint, &options).expect("it can be listened on");
        let there = listener.endpoint().clone();
        std::thread::scope(|threads| {
            let connecting = threads.spawn(|| {
                for _ in 0..1_000 {
                    connect(&mut Io::default(), &there, &options).map(drop).expect("it listens");
                }
            });
            // On a busy machine a connector may be silent for too long, and is not taken.
            let mut taken = 0;
            while !connecting.is_finished() {
                match listener.accept_within(&mut io, Duration::from_millis(10)) {
                    Ok(_) => taken += 1,
                    Err(error) => assert!(is_retry(&error), "{error}"),
                }
            }
            assert!(taken > 0, "none was taken");
        });
    }
}

#[test]
fn a_time_without_end_is_waited_for() {
    let (mut io, options) = (Io::default(), Options::default());
    for endpoint in [at("127.0.0.1:0"), Endpoint::Unix(socket_path()), Endpoint::Shm(socket_path())] {
        let mut listener = Listener::bind(&mut io, &endpoint, &options).expect("it can be listened on");
        let there = listener.endpoint().clone();
        for timeout in [Duration::MAX, Duration::from_secs(u32::MAX.into())] {
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    connect(&mut Io::default(), &there, &options).map(drop).expect("it listens");
                });
                listener.accept_within(&mut io, timeout).expect("it is connected to");
            });
        }
    }
}

#[test]
fn an_accept_ends_with_its_time_and_takes_no_other_host() {
    let (mut io, options) = (Io::default(), Options::default());
    for endpoint in
        [at("127.0.0.1:0"), Endpoint::Unix(socket_path()), Endpoint::Shm(socket_path()), at("xdp:lo:127.0.0.1:0")]
    {
        let mut listener = Listener::bind(&mut io, &endpoint, &options).expect("it can be listened on");
        let begin = Instant::now();
        for timeout in [Duration::ZERO, Duration::from_millis(20)] {
            let nobody = listener.accept_within(&mut io, timeout).err().expect("nobody connects");
            assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock, "{endpoint}");
        }
        assert!(begin.elapsed() >= Duration::from_millis(19) && begin.elapsed() < WATCHDOG, "{endpoint}");
        if let Some(port) = listener.endpoint().port() {
            let stranger = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
            let other = Some(Ipv4Addr::new(198, 18, 0, 1).into());
            let refused = listener.accept_from(&mut io, Duration::from_millis(20), other).err();
            assert_eq!(refused.expect("it is another host").kind(), io::ErrorKind::WouldBlock, "{endpoint}");
            drop(stranger);
        }
    }
}

#[test]
fn who_does_not_answer_is_given_up_in_time() {
    let options = Options { timeout: Duration::from_millis(50), ..Options::default() };
    let path = socket_path();
    let mut io = Io::default();
    let _listener = Listener::bind(&mut io, &Endpoint::Unix(path.clone()), &options).expect("it can be listened on");
    // Where the backlog is full, connect(2) would wait for ever.
    let mut connected = Vec::new();
    let begin = Instant::now();
    let problem = loop {
        match connect(&mut io, &Endpoint::Unix(path.clone()), &options) {
            Ok(stream) => connected.push(stream),
            Err(problem) => break problem,
        }
        assert!(begin.elapsed() < WATCHDOG && connected.len() < 10_000, "a backlog has an end");
    };
    assert!(problem.to_string().contains("backlog is full"), "{problem}");
}

#[test]
fn what_cannot_be_past_the_kernel_is_refused() {
    let endpoint = at("xdp:lo:127.0.0.1:1");
    let mut io = Io::default();
    for (options, why) in [
        (Options { backend: Backend::Uring, ..Options::default() }, "io_uring"),
        (Options { waiting: Waiting::BusyPoll { microseconds: 50 }, ..Options::default() }, "polls the device itself"),
    ] {
        let listens = Listener::bind(&mut io, &endpoint, &options).err().expect("refused").to_string();
        assert!(listens.contains(why) && listens.contains("next:"), "{listens}");
        assert_eq!(listens, connect(&mut io, &endpoint, &options).err().expect("refused").to_string());
    }
    assert!(!io.has_engine());
}

#[test]
fn calls_that_never_wait_refuse_io_uring() {
    let options = Options { backend: Backend::Uring, ..Options::default() };
    let mut io = Io::default();
    let mut listener = Listener::bind(&mut io, &at("127.0.0.1:0"), &options).expect("loopback can be listened on");
    assert_eq!(listener.accept(&mut io).err().expect("refused").kind(), io::ErrorKind::Unsupported);
    assert!(Connecting::begin(&mut io, listener.endpoint(), &options).is_err());
}

#[test]
fn a_timeout_of_zero_is_no_wait_without_end() {
    let options = Options { timeout: Duration::ZERO, ..Options::default() };
    let (one, _other) = UnixStream::pair().expect("a pair");
    let mut stream = Stream::waiting(one, &options).expect("it waits");
    let error = stream.read(&mut Io::default(), &mut [0; 8]).expect_err("nothing has come");
    assert!(is_retry(&error), "{error}");
}

#[test]
fn a_write_that_waits_ends_with_the_timeout() {
    let options = Options { timeout: Duration::from_millis(20), ..Options::default() };
    let (one, _other) = UnixStream::pair().expect("a pair");
    let (mut stream, mut io) = (Stream::waiting(one, &options).expect("it waits"), Io::default());
    let error = loop {
        // The peer does not read; once there is no room a part is taken, then none.
        if let Err(error) = stream.write(&mut io, &[0; 1 << 20]) {
            break error;
        }
    };
    assert!(is_retry(&error), "{error}");
}

#[test]
fn an_abort_resets_the_connection_by_either_back_end() {
    for backend in [Backend::Kernel, Backend::Uring] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (mut peer, _) = listener.accept().expect("one has connected");
        let options = Options { backend, ..Options::default() };
        let mut stream = Stream::waiting(socket, &options).expect("it waits");
        stream.abort(&mut Io::default()).expect("it is open");
        drop(stream);
        peer.set_read_timeout(Some(WATCHDOG)).expect("a time");
        let error = peer.read(&mut [0; 8]).expect_err("it is reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{backend:?}");
    }
}
