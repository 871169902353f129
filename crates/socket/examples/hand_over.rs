//! The time of one hand-over of a live connection to the kernel, and what the peer sees of it, between two network namespaces of this
//! machine.
//!
//! `cargo run --release -p sidestep-socket --example hand_over [CONNECTIONS]`, as root. So many connections of each kind, one
//! after the other, of both families in turn: `idle` has nothing under way at its hand-over, `busy` has messages under way both ways all
//! the time. The peer is Linux and sends back what comes; every byte is compared.
//!
//! * `hand-over`: from the call that begins it to the poll after which the stream is the kernel's socket.
//! * `silence`: the longest time in which the peer of a busy connection has read nothing.
//! * `sent again`: segments that the peer has sent again, or the kernel's new connection.
//! * `timeout`: the longest retransmission timeout that the kernel's connection has then.
//! * `RST`: segments with RST that have come to the peer's interface.

use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Side};
use sidestep_socket::tcp::{Readiness, TcpError, TcpStream};
use sidestep_socket::{Engine, EngineOptions, Path, Reason};
use sidestep_sys::packet::{FrameBuffer, PacketSocket};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown as Half, SocketAddr, TcpListener, TcpStream as KernelStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Bytes of a busy connection, of which half have come back when it is handed over.
const BYTES: usize = 1 << 20;

/// Bytes under way at most.
const UNDER_WAY: usize = 8 << 10;

/// Of a message.
const PIECE: usize = 512;

/// The first bytes of a connection: how many are to be sent back behind them.
const HEAD: usize = 8;

/// What takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);

fn main() {
    let connections = std::env::args().nth(1).map_or(1000, |count| count.parse().expect("a number of connections"));
    let lab = Lab::up(&sidestep_lab::Options::default()).expect("root can make a lab");
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let stop = Arc::new(AtomicBool::new(false));
    let control = start_control(a, &stop);
    let addresses = [IpAddr::V4(b.ipv4), IpAddr::V6(b.ipv6.expect("this kernel has IPv6"))];
    let peers = addresses.map(|at| serve(b, (at, 0).into()));
    let mut wire = Wire::open(b);
    a.enter().expect("root can enter");
    // Otherwise the kernel knows the round trip of this peer from connections before.
    std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1").expect("root can, on this host of the lab");
    let mut engine = Engine::open(&EngineOptions::on(&a.interface)).expect("an engine opens");
    for (at, outcomes) in &peers {
        // The kernel finds its neighbour.
        KernelStream::connect(at).and_then(|mut stream| stream.write_all(&[0; HEAD])).expect("the peer listens");
        outcomes.recv_timeout(WATCHDOG).expect("it has ended");
    }
    println!("       {:>11} {:>31} {:>31} {:>15}", "", "hand-over us", "silence us", "sent again by");
    println!(
        "kind   {:>11} {:>10} {:>10} {:>9} {:>10} {:>10} {:>9} {:>7} {:>7} {:>5} {:>10}",
        "connections", "p50", "p99", "max", "p50", "p99", "max", "peer", "kernel", "RST", "timeout ms"
    );
    for bytes in [0, BYTES] {
        let mut sums = Sums::default();
        for number in 0..connections {
            let (at, outcomes) = &peers[number % peers.len()];
            sums.add(&converse(&mut engine, *at, bytes, outcomes, &mut wire));
        }
        sums.print(if bytes == 0 { "idle" } else { "busy" }, connections, std::mem::take(&mut wire.resets));
    }
    drop(engine);
    stop.store(true, Ordering::Relaxed);
    control.join().expect("it does not panic");
}

/// The control plane of a host, on a thread.
fn start_control(host: &Host, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (seen, there) = (stop.clone(), host.clone());
    let control = std::thread::spawn(move || {
        there.enter().expect("root can enter");
        let options =
            Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None, detaches_unused: false };
        run(&options, &seen).expect("root can run a control plane");
    });
    let path = host.within(place::socket).expect("it has a place");
    while Client::connect_to(&path, "hand_over").and_then(Client::bye).is_err() {
        std::thread::yield_now();
    }
    control
}

/// What the peer of a connection has seen.
struct Seen {
    silence: Duration,
    stream: KernelStream,
}

/// Accepts connections one after the other, and sends back what comes.
fn serve(host: &Host, at: SocketAddr) -> (SocketAddr, Receiver<Seen>) {
    let server = host.within(|| Ok(TcpListener::bind(at).expect("a port is free"))).expect("root can enter");
    let at = server.local_addr().expect("it is bound");
    let (tell, outcomes) = sync_channel(1);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = server.accept() {
            let seen = send_back(stream);
            if tell.send(seen).is_err() {
                return;
            }
        }
    });
    (at, outcomes)
}

/// It finishes first, and keeps TIME-WAIT, so that the ports of the other end are free again.
fn send_back(mut stream: KernelStream) -> Seen {
    stream.set_nodelay(true).expect("it can");
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).expect("nobody resets it");
    let mut left = u64::from_le_bytes(head) as usize;
    let (mut buffer, mut silence, mut last) = (vec![0; UNDER_WAY], Duration::ZERO, Instant::now());
    while left > 0 {
        let count = stream.read(&mut buffer).expect("nobody resets it");
        assert!(count > 0, "the other end stops too early");
        let now = Instant::now();
        silence = silence.max(now.duration_since(last));
        last = now;
        left -= count;
        stream.write_all(&buffer[..count]).expect("nobody resets it");
    }
    Seen { silence, stream }
}

/// `tcpi_total_retrans` and `tcpi_rto` of TCP_INFO (linux/tcp.h).
fn sent_again(socket: BorrowedFd<'_>) -> u32 {
    tcp_info(socket)[25]
}

fn timeout_us(socket: BorrowedFd<'_>) -> u32 {
    tcp_info(socket)[2]
}

fn tcp_info(socket: BorrowedFd<'_>) -> [u32; 26] {
    let mut info = [0_u32; 26];
    let mut size = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` and `size` are valid for the kernel to write to, which writes no more than `size` bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut size)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    info
}

/// The frames that come to a host.
struct Wire {
    socket: PacketSocket,
    buffer: FrameBuffer,
    resets: u32,
}

impl Wire {
    fn open(host: &Host) -> Self {
        let socket = host.within(|| PacketSocket::open(&host.interface)).expect("root can");
        Self { socket, buffer: FrameBuffer::new(), resets: 0 }
    }

    fn look(&mut self) {
        while let Some(frame) = self.socket.receive(&mut self.buffer).expect("it is open") {
            // The flags of TCP, behind Ethernet and IPv4 or IPv6.
            let flags = match frame.get(12..14) {
                Some([0x08, 0x00]) if frame.get(23) == Some(&6) => frame.get(47),
                Some([0x86, 0xdd]) if frame.get(20) == Some(&6) => frame.get(67),
                _ => None,
            };
            self.resets += u32::from(flags.is_some_and(|flags| flags & 4 != 0));
        }
        assert_eq!(self.socket.take_dropped().expect("it is open"), 0, "frames were not seen");
    }
}

/// What one connection has given.
struct Outcome {
    took: Duration,
    silence: Duration,
    /// Segments sent again by the peer, and by the kernel's connection of this end.
    by_peer: u32,
    by_kernel: u32,
    /// Of the kernel's connection.
    timeout_us: u32,
}

fn byte(place: usize) -> u8 {
    (place * 31 + place / 251) as u8
}

/// Connects, hands over in the middle of `bytes` there and back, and ends.
fn converse(engine: &mut Engine, at: SocketAddr, bytes: usize, outcomes: &Receiver<Seen>, wire: &mut Wire) -> Outcome {
    let mut talk = Talk::begin(engine, at, bytes);
    talk.go_on(engine, bytes, |talk, _| talk.got >= bytes / 2);
    wire.look();
    let socket = engine.tcp().socket_for(talk.stream).expect("it is past the kernel");
    let kernels = socket.try_clone().expect("there are descriptors");
    let begun = Instant::now();
    let _answer = engine.tcp().begin_hand_over(talk.stream, socket).expect("it can begin");
    talk.go_on(engine, bytes, |talk, engine| match engine.tcp().path(talk.stream).expect("it is open") {
        Path::Kernel(Reason::HandedOver) => true,
        Path::Kernel(reason) => panic!("{reason}"),
        Path::Accelerated { .. } => false,
    });
    let took = begun.elapsed();
    talk.go_on(engine, bytes, |talk, _| talk.got == bytes);
    let timeout_us = timeout_us(kernels.as_fd());
    let Seen { silence, stream } = outcomes.recv_timeout(WATCHDOG).expect("the peer has sent all");
    stream.shutdown(Half::Write).expect("nobody resets it");
    talk.end(engine);
    wire.look();
    Outcome { took, silence, by_peer: sent_again(stream.as_fd()), by_kernel: sent_again(kernels.as_fd()), timeout_us }
}

/// A connection, and how far it has come.
struct Talk {
    stream: TcpStream,
    sent: usize,
    got: usize,
}

impl Talk {
    fn begin(engine: &mut Engine, at: SocketAddr, bytes: usize) -> Self {
        let options = sidestep_socket::tcp::Options { nodelay: true, ..engine.tcp().defaults() };
        let stream = engine.tcp().connect(at, None, options).expect("it begins");
        until("a connection", || {
            engine.poll().expect("it is ours");
            let ready = engine.tcp().readiness(stream).expect("it is open");
            assert!(!ready.has(Readiness::ERROR), "{:?}", engine.tcp().take_error(stream));
            ready.has(Readiness::WRITABLE)
        });
        let path = engine.tcp().path(stream).expect("it is open");
        assert!(path.is_accelerated(), "{path}");
        assert_eq!(engine.tcp().send(stream, &(bytes as u64).to_le_bytes()), Ok(HEAD));
        Self { stream, sent: 0, got: 0 }
    }

    /// Sends and receives until `is_done`.
    fn go_on(&mut self, engine: &mut Engine, bytes: usize, is_done: impl Fn(&Self, &mut Engine) -> bool) {
        let mut buffer = [0; UNDER_WAY];
        until("a part of the conversation", || {
            engine.poll().expect("it is ours");
            let end = bytes.min(self.sent + PIECE).min(self.got + UNDER_WAY);
            if end > self.sent {
                let piece: Vec<u8> = (self.sent..end).map(byte).collect();
                self.sent += done(engine.tcp().send(self.stream, &piece)).unwrap_or(0);
            }
            if let Some(count) = done(engine.tcp().read(self.stream, &mut buffer)) {
                assert!(count > 0, "the peer ends too early");
                let is_it = |(index, got): (usize, &u8)| *got == byte(self.got + index);
                assert!(buffer[..count].iter().enumerate().all(is_it), "something else came after {} bytes", self.got);
                self.got += count;
            }
            is_done(self, engine)
        });
    }

    /// Reads the end of the stream, and closes.
    fn end(self, engine: &mut Engine) {
        until("the peer's end", || {
            engine.poll().expect("it is ours");
            let count = done(engine.tcp().read(self.stream, &mut [0; 8]));
            assert!(count.is_none_or(|count| count == 0), "more came than was sent");
            count.is_some()
        });
        engine.tcp().close(self.stream).expect("it is open");
    }
}

fn done(result: Result<usize, TcpError>) -> Option<usize> {
    match result {
        Ok(count) => Some(count),
        Err(error) if error.is_would_block() => None,
        Err(error) => panic!("{error}"),
    }
}

fn until(what: &str, mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + WATCHDOG;
    while !is_done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        // There may be more threads than CPUs.
        std::thread::yield_now();
    }
}

/// All outcomes of one kind.
#[derive(Default)]
struct Sums {
    took: Vec<Duration>,
    silence: Vec<Duration>,
    by_peer: u32,
    by_kernel: u32,
    timeout_us: u32,
}

impl Sums {
    fn add(&mut self, outcome: &Outcome) {
        self.took.push(outcome.took);
        self.silence.push(outcome.silence);
        self.by_peer += outcome.by_peer;
        self.by_kernel += outcome.by_kernel;
        self.timeout_us = self.timeout_us.max(outcome.timeout_us);
    }

    fn print(mut self, kind: &str, connections: usize, resets: u32) {
        let [took, silence] = [&mut self.took, &mut self.silence].map(|times| {
            times.sort_unstable();
            let at = |percent: usize| times[((times.len() - 1) * percent).div_ceil(100)].as_secs_f64() * 1e6;
            [at(50), at(99), at(100)]
        });
        // An idle connection is silent by its nature.
        let silence = silence.map(|us| if kind == "busy" { format!("{us:.0}") } else { "-".into() });
        println!(
            "{kind:6} {connections:>11} {:10.0} {:10.0} {:9.0} {:>10} {:>10} {:>9} {:7} {:7} {resets:5} {:>10}",
            took[0],
            took[1],
            took[2],
            silence[0],
            silence[1],
            silence[2],
            self.by_peer,
            self.by_kernel,
            self.timeout_us / 1000
        );
    }
}
