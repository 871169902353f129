//! What nobody reads holds its share of the frames, and no more: connections, sending, and sockets that are read go on.

use crate::peer::{accept, carry, kernel_connect, listen, poll_until};
use crate::support::{Control, address, bind, engine, kernel, lab, receive, seconds};
use sidestep_lab::Side;
use sidestep_lab::{Host, Lab};
use sidestep_socket::tcp::TcpListener;
use sidestep_socket::{Engine, Handle};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Datagrams in all for the sockets that nobody reads: several times the frames of the engine.
const FLOOD: usize = 5000;

/// How many sockets nobody reads, and over which family.
const CROWDS: [(u16, bool); 3] = [(1, false), (4, true), (300, false)];

/// An engine on B with sockets that nobody reads, one that is read, and a listener; and who sends to them from A.
struct Scene {
    engine: Engine,
    at: SocketAddr,
    listener: TcpListener,
    ports: Vec<u16>,
    unread: Vec<Handle>,
    read: Handle,
    client: UdpSocket,
}

impl Scene {
    fn new(lab: &Lab, count: u16, is_v6: bool) -> Self {
        let (a, b) = (lab.host(Side::A), lab.host(Side::B));
        let mut engine = engine(b);
        let at = SocketAddr::new(address(b, is_v6), 7000);
        let listener = listen(b, &mut engine, at);
        let ports: Vec<u16> = (20_000..20_000 + count).collect();
        let unread: Vec<_> = ports.iter().map(|port| bind(b, &mut engine, SocketAddr::new(at.ip(), *port))).collect();
        assert!(unread.iter().all(|socket| engine.path(*socket).unwrap().is_accelerated()));
        let read = bind(b, &mut engine, SocketAddr::new(at.ip(), 7001));
        let client = kernel(a, SocketAddr::new(address(a, is_v6), 0));
        Self { engine, at, listener, ports, unread, read, client }
    }

    /// Sends to each socket in turn; the engine takes what comes and nobody reads it.
    fn flood(&mut self) {
        for (number, port) in (0..FLOOD).zip(self.ports.iter().cycle()) {
            self.client.send_to(b"unread", SocketAddr::new(self.at.ip(), *port)).unwrap();
            if number % 16 == 0 {
                self.engine.poll().unwrap();
            }
        }
    }

    /// A datagram to the socket that is read, and back.
    fn ask(&mut self) {
        self.client.send_to(b"read", SocketAddr::new(self.at.ip(), 7001)).unwrap();
        let datagram = receive(&mut self.engine, self.read);
        assert_eq!(self.engine.payload(&datagram), b"read");
        self.engine.reply(self.read, datagram).unwrap();
        self.engine.flush().unwrap();
        assert_eq!(self.client.recv(&mut [0; 16]).unwrap(), 4);
    }

    /// A connection that carries so many bytes both ways, each compared.
    fn transfer(&mut self, from: &Host, bytes: usize) {
        let peer = kernel_connect(from, self.at);
        let stream = accept(&mut self.engine, self.listener);
        assert!(self.engine.tcp().path(stream).unwrap().is_accelerated());
        let peer = poll_until(&mut self.engine, peer);
        carry(&mut self.engine, stream, peer, bytes);
        self.engine.tcp().close(stream).unwrap();
    }

    /// Datagrams that nobody had room for.
    fn dropped(&mut self) -> u64 {
        let Self { engine, unread, .. } = self;
        unread.iter().map(|socket| engine.statistics(*socket).unwrap().dropped).sum()
    }
}

#[test]
fn sockets_that_nobody_reads_leave_frames_to_everybody_else() {
    let Some(lab) = lab() else { return };
    let _control = Control::start(lab.host(Side::B));
    for (count, is_v6) in CROWDS {
        let mut scene = Scene::new(&lab, count, is_v6);
        scene.flood();
        assert!(scene.dropped() > 0, "{count} sockets: more came than there is room for, and each says what it lost");
        scene.ask();
        scene.transfer(lab.host(Side::A), 4 << 20);
        // What is unread is still there to be read, in full: nothing was taken back.
        let Scene { mut engine, unread, .. } = scene;
        for socket in unread {
            let mut count = 0;
            while let Some(datagram) = engine.receive(socket).unwrap() {
                assert_eq!(engine.payload(&datagram), b"unread");
                engine.release(datagram);
                count += 1;
            }
            // Some may have come by the kernel, while this process was kept from its CPU.
            let statistics = engine.statistics(socket).unwrap();
            assert_eq!(count + statistics.dropped, statistics.received + statistics.received_by_kernel);
            assert!(count > 0, "each has its share");
        }
    }
}

/// The flood does not end, and connections beside it carry every byte.
/// By hand: `SIDESTEP_SECONDS=600 cargo test -p sidestep-socket --test tcp unread_for_minutes -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn unread_for_minutes() {
    /// Bytes of a connection, each way.
    const BYTES: usize = 4 << 20;
    /// Datagrams sent in a millisecond.
    const BURST: usize = 16;
    let Some(lab) = lab() else { return };
    let _control = Control::start(lab.host(Side::B));
    let length = Duration::from_secs(seconds() / CROWDS.len() as u64);
    for (count, is_v6) in CROWDS {
        let mut scene = Scene::new(&lab, count, is_v6);
        let (sent, ends) = (AtomicU64::new(0), AtomicBool::new(false));
        let (ports, ip, client) = (scene.ports.clone(), scene.at.ip(), scene.client.try_clone().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (number, port) in ports.iter().cycle().enumerate() {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    // Not as many as the wire carries: what it drops is everybody's, TCP's, too.
                    if number % BURST == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    sent.fetch_add(u64::from(client.send_to(b"unread", (ip, *port)).is_ok()), Ordering::Relaxed);
                }
            });
            let _ends = End(&ends);
            let (begun, mut told_at, mut transfers) = (Instant::now(), Instant::now(), 0);
            while begun.elapsed() < length {
                scene.transfer(lab.host(Side::A), BYTES);
                transfers += 1;
                if told_at.elapsed() > Duration::from_secs(5) {
                    told_at = Instant::now();
                    println!(
                        "{:>4} s, {count} sockets unread: {} datagrams sent to them, {} dropped by their share; {transfers} \
                         connections, {} MiB each way, every byte compared",
                        begun.elapsed().as_secs(),
                        sent.load(Ordering::Relaxed),
                        scene.dropped(),
                        transfers * (BYTES >> 20),
                    );
                }
            }
        });
        assert!(scene.dropped() > 0);
    }
}

/// Ends the flood, also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
