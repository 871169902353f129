//! Connections handed over to the kernel in the middle of transfers; the peer is Linux, and must not notice.

use crate::peer::{
    Content, OURS, THEIRS, accept, connect, exchange, kernel_accept, kernel_connect, kernel_exchange, kernel_listen,
    listen, poll_until,
};
use crate::support::{Control, WATCHDOG, address, engine, engine_with, is_root_or_say, lab, reach, wait, wait_at_most};
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_socket::tcp::{Shutdown, TcpStream};
use sidestep_socket::{Engine, EngineOptions, Path, Queues, Reason};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread::JoinHandle;

/// Connections at a time.
const CROWD: usize = 24;

/// Hand-overs of each of the tests with a crowd; `SIDESTEP_HAND_OVERS` has more.
const HAND_OVERS: usize = 120;

/// Hands over and waits until that is done.
pub(crate) fn hand_over(host: &Host, engine: &mut Engine, stream: TcpStream) {
    let socket = host.within(|| Ok(engine.tcp().socket_for(stream).unwrap())).unwrap();
    let begun = engine.tcp().begin_hand_over(stream, socket).unwrap();
    assert_eq!(begun.wait(WATCHDOG), Some(Ok(())));
    wait("the hand-over", || {
        engine.poll().unwrap();
        match engine.tcp().path(stream).unwrap() {
            Path::Kernel(Reason::HandedOver) => Some(()),
            Path::Kernel(reason) => panic!("{reason}"),
            Path::Accelerated { .. } => None,
        }
    });
}

#[test]
fn an_idle_connection_becomes_the_kernels() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    for is_v6 in [false, true] {
        let server = kernel_listen(b, SocketAddr::new(address(b, is_v6), 0));
        let stream = connect(a, &mut engine, server.local_addr().unwrap());
        let peer = server.accept().unwrap().0;
        hand_over(a, &mut engine, stream);
        let theirs = kernel_exchange(peer, THEIRS, 1 << 20);
        assert_eq!(exchange(&mut engine, stream, OURS, 1 << 20), (1 << 20, 1 << 20));
        assert_eq!(poll_until(&mut engine, theirs), (1 << 20, 1 << 20));
        engine.tcp().close(stream).unwrap();
        let at = SocketAddr::new(address(a, is_v6), 7000);
        let listener = listen(a, &mut engine, at);
        let peer = kernel_connect(b, at);
        let stream = accept(&mut engine, listener);
        let peer = poll_until(&mut engine, peer);
        hand_over(a, &mut engine, stream);
        let theirs = kernel_exchange(peer, THEIRS, 1 << 20);
        assert_eq!(exchange(&mut engine, stream, OURS, 1 << 20), (1 << 20, 1 << 20));
        assert_eq!(poll_until(&mut engine, theirs), (1 << 20, 1 << 20));
        engine.tcp().close(stream).unwrap();
    }
}

/// A number of a program's may stand for another socket a moment later.
#[test]
fn a_descriptor_of_another_socket_than_the_twin_is_known() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let stream = connect(a, &mut engine, server.local_addr().unwrap());
    let mut socket = || a.within(|| Ok(engine.tcp().socket_for(stream).unwrap())).unwrap();
    let (twin, other) = (socket(), socket());
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(engine.tcp().may_be_twin(stream, other.as_fd()).unwrap(), "it has none");
    engine.tcp().set_twin(stream, twin.try_clone().unwrap()).unwrap();
    assert!(engine.tcp().may_be_twin(stream, twin.as_fd()).unwrap());
    assert!(!engine.tcp().may_be_twin(stream, other.as_fd()).unwrap());
    assert!(!engine.tcp().may_be_twin(stream, file.as_fd()).unwrap());
    engine.tcp().close(stream).unwrap();
    assert!(engine.tcp().may_be_twin(stream, twin.as_fd()).is_err());
}

/// One connection of a crowd.
struct Member {
    stream: TcpStream,
    sent: Content,
    got: Content,
    /// Bytes of both directions from which on it is handed over.
    hand_over_at: usize,
    /// Reads nothing before it is handed over.
    is_lazy: bool,
    /// Handed over once this end has finished, or once the peer has.
    after: After,
    has_begun: bool,
    is_shut: bool,
    is_over: bool,
    turns: u32,
    theirs: Option<JoinHandle<(usize, usize)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Bytes,
    OwnFin,
    PeerFin,
}

/// How many were handed over in each state, with bytes of each queue.
type Seen = BTreeMap<String, u32>;

impl Member {
    fn new(random: &mut fastrand::Rng, stream: TcpStream, theirs: JoinHandle<(usize, usize)>, len: usize) -> Self {
        let after = [After::Bytes, After::Bytes, After::OwnFin, After::PeerFin][random.usize(..4)];
        Self {
            stream,
            sent: Content::new(OURS, len),
            got: Content::of_other(OURS, len),
            hand_over_at: random.usize(..=2 * len),
            is_lazy: after != After::OwnFin && random.u8(..3) == 0,
            after,
            has_begun: false,
            is_shut: false,
            is_over: false,
            turns: 0,
            theirs: Some(theirs),
        }
    }

    /// All that it can do now.
    fn act(&mut self, host: &Host, engine: &mut Engine, buffer: &mut [u8], seen: &mut Seen) {
        self.turns += 1;
        if !self.has_begun && self.is_time(engine) {
            self.begin(host, engine, seen);
        }
        if self.sent.at < self.sent.len {
            match engine.tcp().send(self.stream, self.sent.next()) {
                Ok(count) => self.sent.at += count,
                Err(error) => assert!(error.is_would_block(), "{error}"),
            }
        } else if !self.is_shut && (!self.is_lazy || self.has_begun) {
            // A peer that has heard all closes its socket, and gives up what a closed window keeps from leaving.
            match engine.tcp().shutdown(self.stream, Shutdown::Write) {
                Ok(()) => self.is_shut = true,
                Err(error) => assert!(error.is_would_block(), "{error}"),
            }
        }
        if self.is_lazy && !self.has_begun {
            return;
        }
        match engine.tcp().read(self.stream, buffer) {
            Ok(0) if self.is_shut => self.is_over = true,
            Ok(count) => self.got.came(&buffer[..count]),
            Err(error) => assert!(error.is_would_block(), "after {} bytes: {error}", self.got.at),
        }
    }

    fn is_time(&self, engine: &mut Engine) -> bool {
        let Ok(Some(facts)) = engine.tcp().facts(self.stream) else { return false };
        let state = format!("{:?}", facts.state);
        // What it waits for may never come: a lazy one has closed the window.
        self.turns > 3_000
            || match self.after {
                After::Bytes => self.sent.at + self.got.at >= self.hand_over_at,
                After::OwnFin => self.is_shut,
                After::PeerFin => ["CloseWait", "LastAck", "Closing"].contains(&state.as_str()),
            }
    }

    fn begin(&mut self, host: &Host, engine: &mut Engine, seen: &mut Seen) {
        let facts = engine.tcp().facts(self.stream).unwrap().unwrap();
        let socket = host.within(|| Ok(engine.tcp().socket_for(self.stream).unwrap())).unwrap();
        self.has_begun = true;
        match engine.tcp().begin_hand_over(self.stream, socket) {
            Ok(_) => {
                *seen.entry(format!("{:?}", facts.state)).or_default() += 1;
                *seen.entry("unacknowledged".into()).or_default() += u32::from(facts.unacknowledged > 0);
                *seen.entry("window closed".into()).or_default() += u32::from(facts.send_window == 0);
            }
            // Both have finished already.
            Err(_) => *seen.entry("too late".into()).or_default() += 1,
        }
    }
}

/// Hands over `count` connections at random moments, some of them at a time.
fn hand_over_crowds(lab: &Lab, engine: &mut Engine, seed: u64, count: usize) -> Seen {
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (mut random, mut seen, mut buffer) = (fastrand::Rng::with_seed(seed), Seen::new(), vec![0; 60_000]);
    [false, true].into_iter().for_each(|is_v6| reach(a, address(b, is_v6)));
    let servers = [false, true].map(|is_v6| kernel_listen(b, SocketAddr::new(address(b, is_v6), 0)));
    let ats = [false, true].map(|is_v6| SocketAddr::new(address(a, is_v6), 7000));
    let listeners = ats.map(|at| listen(a, engine, at));
    let mut left = count;
    while left > 0 {
        let (mut crowd, mut pairs) = (Vec::new(), Vec::new());
        for _ in 0..CROWD.min(left) {
            let (is_v6, is_ours) = (random.usize(..2), random.bool());
            let (stream, peer) = if is_ours {
                let stream = connect(a, engine, servers[is_v6].local_addr().unwrap());
                (stream, kernel_accept(engine, &servers[is_v6]))
            } else {
                let peer = kernel_connect(b, ats[is_v6]);
                (accept(engine, listeners[is_v6]), poll_until(engine, peer))
            };
            assert!(engine.tcp().path(stream).unwrap().is_accelerated());
            pairs.push((stream, peer));
        }
        for (stream, peer) in pairs {
            let most = 1 << random.u32(4..22);
            let len = random.usize(..most);
            crowd.push(Member::new(&mut random, stream, kernel_exchange(peer, THEIRS, len), len));
        }
        left -= crowd.len();
        wait_at_most(4 * WATCHDOG, "all transfers", || {
            engine.poll().unwrap();
            for member in crowd.iter_mut().filter(|member| !member.is_over) {
                member.act(a, engine, &mut buffer, &mut seen);
            }
            crowd.iter().all(|member| member.is_over).then_some(())
        });
        for mut member in crowd {
            let len = member.sent.len;
            assert_eq!((member.sent.at, member.got.at), (len, len));
            let path = engine.tcp().path(member.stream).unwrap();
            assert!(path == Path::Kernel(Reason::HandedOver) || path.is_accelerated(), "{path}");
            *seen.entry(format!("{path}")).or_default() += 1;
            engine.tcp().close(member.stream).unwrap();
            assert_eq!(poll_until(engine, member.theirs.take().unwrap()), (len, len));
        }
    }
    seen.insert("timeouts of the kernel".into(), timeouts(a));
    seen
}

/// The retransmission timeouts of a host's kernel (TCPTimeouts of netstat).
fn timeouts(host: &Host) -> u32 {
    let text = host.within(|| Ok(std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap())).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "TCPTimeouts").expect("Linux counts it");
    values.split(' ').nth(place).and_then(|value| value.parse().ok()).expect("it is a number")
}

fn count() -> usize {
    std::env::var("SIDESTEP_HAND_OVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(HAND_OVERS)
}

fn tally(what: &str, seen: &Seen) {
    println!("{what}: {seen:?}");
    let done = seen.get(&Path::Kernel(Reason::HandedOver).to_string()).copied().unwrap_or(0) as usize;
    assert!(done > count() / 2, "{seen:?}");
    for state in ["Established", "CloseWait", "FinWait1"] {
        assert!(seen.contains_key(state), "{seen:?}: never in {state}");
    }
}

#[test]
fn transfers_go_on_whenever_they_are_handed_over() {
    let Some(lab) = lab() else { return };
    let _control = Control::start(lab.host(Side::A));
    let mut engine = engine(lab.host(Side::A));
    let seen = hand_over_crowds(&lab, &mut engine, 1, count());
    tally("a clean wire", &seen);
}

/// Neither timestamps nor SACK, nor window scaling.
#[test]
fn transfers_without_options_go_on_whenever_they_are_handed_over() {
    let Some(lab) = lab() else { return };
    let _control = Control::start(lab.host(Side::A));
    let plain = |options: EngineOptions| {
        let tcp = sidestep_socket::tcp::Config { timestamps: false, sack: false, window_scaling: false, ..options.tcp };
        EngineOptions { tcp, ..options }
    };
    let mut engine = engine_with(lab.host(Side::A), plain);
    let seen = hand_over_crowds(&lab, &mut engine, 2, count());
    tally("without options", &seen);
}

/// By whichever queue the peer's segments come.
#[test]
fn transfers_by_several_queues_go_on_whenever_they_are_handed_over() {
    if !is_root_or_say() {
        return;
    }
    for queues in [2, 4] {
        let lab = Lab::up(&Options { queues, ..Options::default() }).expect("root can make a lab");
        let _control = Control::start(lab.host(Side::A));
        let every = |options| EngineOptions { queues: Queues::Every, ..options };
        let mut engine = engine_with(lab.host(Side::A), every);
        assert_eq!(engine.queues().len(), queues as usize);
        let seen = hand_over_crowds(&lab, &mut engine, 4 + u64::from(queues), count());
        tally(&format!("{queues} queues"), &seen);
    }
}

#[test]
fn transfers_over_a_bad_wire_go_on_whenever_they_are_handed_over() {
    if !is_root_or_say() {
        return;
    }
    let wire = |seed| {
        Impairment::parse(&format!("loss=1%,duplicate=1%,reorder=1%,gap=300us,seed={seed}")).expect("it is well-formed")
    };
    let impairment = Some(Directions { a_to_b: wire(1), b_to_a: wire(2) });
    let lab = Lab::up(&Options { impairment, ..Options::default() }).expect("root can make a lab");
    let _control = Control::start(lab.host(Side::A));
    let mut engine = engine(lab.host(Side::A));
    let seen = hand_over_crowds(&lab, &mut engine, 3, count());
    tally("a bad wire", &seen);
}
