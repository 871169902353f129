//! A table that is changed under open connections: a stack with the queues goes on, one without them is notified, both at once.

use super::connects::{Control, open};
use super::{INTERFACE, LISTENING, PORTS, QUEUES, command, is_linux_6_1, plug};
use crate::bypass::wait;
use sidestep::engine::{Engine, Path, Queues, Reason};
use sidestep::tcp::{Readiness, TcpError, TcpListener, TcpStream};
use sidestep::udp::{Handle, UdpOptions};
use sidestep_testkit::vm::{MACHINE, PEER};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const ELSEWHERE: Path = Path::Kernel(Reason::QueueElsewhere);
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(232, 7, 7, 7));

/// A program with two of the queues: a port of TCP and one of UDP, a group, a peer to ask.
struct Program {
    engine: Engine,
    listener: TcpListener,
    bound: Handle,
    member: Handle,
}

impl Program {
    fn start(queues: [u32; 2], port: u16) -> Self {
        let mut engine = open(Queues::These(queues.to_vec()));
        let options = engine.tcp().defaults();
        let listener = engine.tcp().listen(SocketAddr::new(MACHINE[0], port), 8, options).unwrap();
        let any = |port| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let bound = engine.bind(SocketAddr::new(MACHINE[0], port), &UdpOptions::default()).unwrap();
        let member = engine.bind(any(port + 1), &UdpOptions::default()).unwrap();
        engine.join(member, GROUP, 0, None).unwrap();
        Self { engine, listener, bound, member }
    }

    /// Polls until its ports are past the kernel, or are not.
    fn until(&mut self, is_past: bool) {
        wait("its ports", || {
            self.engine.poll().unwrap();
            let paths = [
                self.engine.tcp().listener_path(self.listener).unwrap(),
                self.engine.path(self.bound).unwrap(),
                self.engine.path(self.member).unwrap(),
            ];
            let is_so = |path: &Path| if is_past { path.is_accelerated() } else { *path == ELSEWHERE };
            (paths.iter().all(is_so) && self.engine.has_every_queue() == is_past).then_some(())
        });
    }

    fn connect(&mut self) -> TcpStream {
        let options = self.engine.tcp().defaults();
        let stream = self.engine.tcp().connect(SocketAddr::new(PEER[0], LISTENING), None, options).unwrap();
        wait("a connection", || {
            self.engine.poll().unwrap();
            let readiness = self.engine.tcp().readiness(stream).unwrap();
            assert!(!readiness.has(Readiness::ERROR), "{:?}", self.engine.tcp().take_error(stream));
            readiness.has(Readiness::WRITABLE).then_some(())
        });
        stream
    }

    fn path(&mut self, stream: TcpStream) -> Path {
        self.engine.tcp().path(stream).unwrap()
    }

    /// A socket that asks the peer, which sends everything back.
    fn asker(&mut self) -> Handle {
        self.engine.bind_toward(SocketAddr::new(PEER[0], PORTS.start), &UdpOptions::default()).unwrap()
    }

    /// Asks until an answer comes by this way, as the socket's path says.
    fn ask(&mut self, asker: Handle, by_kernel: bool) {
        wait("an answer", || {
            // The neighbour may still be asked for.
            let _ = self.engine.send(asker, b"question");
            self.engine.poll().unwrap();
            let datagram = self.engine.receive(asker).unwrap()?;
            // One that was asked for before, by another way, may have waited unread.
            let is_so = datagram.by_kernel() == by_kernel;
            self.engine.release(datagram);
            let path = self.engine.path(asker).unwrap();
            (is_so && if by_kernel { path == ELSEWHERE } else { path.is_accelerated() }).then_some(())
        });
    }
}

fn spread_from(first: u32) {
    command("ethtool", &format!("-X {INTERFACE} start {first} equal 2"));
}

pub(crate) fn a_table_that_moves_is_followed() {
    plug(Some(QUEUES));
    let control = Control::start();
    let mut one = Program::start([0, 1], 5000);
    if is_linux_6_1() {
        // The driver reports a table that it does not use: it proves nothing.
        spread_from(0);
        one.until(false);
        let stream = one.connect();
        assert_eq!(one.path(stream), ELSEWHERE);
        command("ethtool", &format!("-X {INTERFACE} default"));
        drop(one);
        return control.end();
    }
    one.until(false);
    // What was with the kernel for its queue gets the way past it.
    spread_from(0);
    one.until(true);
    let mut other = Program::start([2, 3], 5010);
    other.until(false);
    let (stream, asker) = (one.connect(), one.asker());
    assert!(one.path(stream).is_accelerated());
    one.ask(asker, false);
    // The table goes to the other program.
    spread_from(2);
    let begun = std::time::Instant::now();
    wait("the connection's end", || {
        one.engine.poll().unwrap();
        let read = one.engine.tcp().read(stream, &mut [0; 8]);
        matches!(read, Err(TcpError::Lost(Reason::QueueElsewhere))).then_some(())
    });
    eprintln!("told after {:?}", begun.elapsed());
    one.until(false);
    one.ask(asker, true);
    let stream = one.connect();
    assert_eq!(one.path(stream), ELSEWHERE);
    other.until(true);
    let theirs = other.connect();
    assert!(other.path(theirs).is_accelerated());
    // And comes back.
    spread_from(0);
    one.until(true);
    other.until(false);
    one.ask(asker, false);
    let stream = one.connect();
    assert!(one.path(stream).is_accelerated());
    // Over a stack that was lost what can be computed is computed again.
    command("ethtool", &format!("-X {INTERFACE} default"));
    one.until(false);
    let asker = one.asker();
    one.ask(asker, false);
    control.end();
    wait("the end of its stack", || {
        one.engine.poll().unwrap();
        (!one.engine.path(asker).unwrap().is_accelerated()).then_some(())
    });
    let control = Control::start();
    // Its path alone: QEMU may hold what comes while the new sockets have no buffers.
    wait("its way past the kernel again", || {
        one.engine.poll().unwrap();
        one.engine.path(asker).unwrap().is_accelerated().then_some(())
    });
    drop((one, other));
    control.end();
}
