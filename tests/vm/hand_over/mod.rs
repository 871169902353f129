//! Live connections that become the kernel's (decision 0031), on the kernels people run: in several states, of both families, connected
//! and accepted; every byte compared, and no segment of theirs answered with a RST.

mod ends;
mod watch;

use crate::bypass::{Control, PORT, addresses, assert_clean, options, wait};
use ends::{BYTES, Limits, Pair};
use sidestep::engine::{Engine, EngineOptions, Path, Reason};
use sidestep::tcp::{Config, State};
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::Problem;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use watch::Watch;

/// Bytes of a receive buffer, on either side: little for an emulated CPU to fill.
const ROOM: u32 = 32 << 10;

/// Connections whose timestamps are looked at: of so many some are handed over at an odd tick of our clock.
const CLOCKS: u32 = 8;

/// The time of the kernel's clock that is looked at: what counts microseconds would be far ahead after it.
const TICKING: Duration = Duration::from_millis(50);

/// A tick of either clock, and what rounding adds.
const ROUNDING_MS: u32 = 3;

/// What was said before a connection is handed over, and what shows that it is so.
struct Case {
    name: &'static str,
    before: Limits,
    is_reached: fn(&sidestep::tcp::Facts) -> bool,
}

const CASES: [Case; 8] = [
    Case { name: "idle", before: Limits::NOTHING, is_reached: |facts| facts.state == State::Established },
    Case {
        name: "unread and unsent bytes",
        before: Limits { we_send: BYTES, they_send: 10_000, ..Limits::NOTHING },
        is_reached: |facts| facts.readable == 10_000 && facts.send_window == 0 && facts.unsent > 0,
    },
    Case {
        name: "our window closed",
        before: Limits { they_send: BYTES, ..Limits::NOTHING },
        is_reached: |facts| facts.receive_window < facts.segment_bytes && facts.readable > 0,
    },
    Case {
        name: "our FIN acknowledged",
        before: Limits { we_send: BYTES, we_finish: true, they_read: true, ..Limits::NOTHING },
        is_reached: |facts| facts.state == State::FinWait2,
    },
    Case {
        name: "our FIN queued behind a closed window",
        before: Limits { we_send: BYTES, we_finish: true, ..Limits::NOTHING },
        is_reached: |facts| facts.state == State::FinWait1 && facts.send_window == 0 && facts.unsent > 0,
    },
    Case {
        name: "the peer's FIN behind unread bytes",
        before: Limits { they_send: 10_000, they_finish: true, ..Limits::NOTHING },
        is_reached: |facts| facts.state == State::CloseWait && facts.readable == 10_000,
    },
    Case {
        name: "the peer's FIN, and bytes unsent",
        before: Limits { we_send: BYTES, they_send: 10_000, they_finish: true, we_read: true, ..Limits::NOTHING },
        is_reached: |facts| facts.state == State::CloseWait && facts.readable == 0 && facts.unsent > 0,
    },
    Case {
        name: "both FINs, ours queued",
        before: Limits { we_send: BYTES, we_finish: true, they_send: 10_000, they_finish: true, ..Limits::NOTHING },
        is_reached: |facts| facts.state == State::LastAck || facts.state == State::Closing,
    },
];

/// Which side connects.
#[derive(Clone, Copy, Debug)]
enum Role {
    WeConnect,
    TheyConnect,
}

/// An engine whose buffers fill soon; the peer's do, too.
fn open(a: &Host, b: &Host) -> Engine {
    let sizes = format!("4096 {ROOM} {ROOM}");
    let write = || {
        std::fs::write("/proc/sys/net/ipv4/tcp_rmem", &sizes)
            .map_err(|error| Problem::failed("cannot set tcp_rmem", error))
    };
    b.within(write).unwrap();
    let wish = options(a);
    // A send buffer that has grown already: the peer's closed window keeps it from growing.
    let send_buffer_initial_bytes = wish.tcp.send_buffer_bytes;
    let wish =
        EngineOptions { tcp: Config { receive_buffer_bytes: ROOM, send_buffer_initial_bytes, ..wish.tcp }, ..wish };
    // Control waits ten seconds for the second step of opening, in which an emulated CPU may not come to it.
    wait("an engine past the kernel", || {
        let engine = a.within(|| Engine::open(&wish)).unwrap();
        engine.refusal().is_none().then_some(engine)
    })
}

/// A connection past the kernel: an emulated kernel may take longer to find a neighbour than a connection waits for it, and a stall
/// gives one to the kernel.
fn connection(engine: &mut Engine, (a, b): (&Host, &Host), (here, there): (IpAddr, IpAddr), role: Role) -> Pair {
    wait("a connection past the kernel", || {
        let pair = match role {
            Role::WeConnect => Pair::connect(engine, a, b, there),
            Role::TheyConnect => Pair::accept(engine, a, b, SocketAddr::new(here, PORT)),
        };
        let path = engine.tcp().path(pair.stream).unwrap();
        if path.is_accelerated() {
            return Some(pair);
        }
        let expected = [Reason::NeighbourPending, Reason::CameByKernel].map(Path::Kernel);
        assert!(expected.contains(&path), "{path}");
        pair.end(engine);
        None
    })
}

/// The engine's polls complete it.
fn hand_over(engine: &mut Engine, a: &Host, pair: &Pair) {
    let stream = pair.stream;
    let socket = a.within(|| Ok(engine.tcp().socket_for(stream).unwrap())).unwrap();
    let _answer = engine.tcp().begin_hand_over(stream, socket).unwrap();
    wait("the hand-over", || {
        engine.poll().unwrap();
        match engine.tcp().path(stream).unwrap() {
            Path::Kernel(Reason::HandedOver) => Some(()),
            Path::Kernel(reason) => panic!("{reason}"),
            Path::Accelerated { .. } => None,
        }
    });
}

/// Runs `work` on a lab with control on A, which leaves nothing.
fn in_lab(work: impl FnOnce((&Host, &Host), &mut Engine)) {
    let lab = Lab::up(&Options::default()).unwrap();
    let hosts = (lab.host(Side::A), lab.host(Side::B));
    let control = Control::start(hosts.0);
    let mut engine = open(hosts.0, hosts.1);
    work(hosts, &mut engine);
    drop(engine);
    let ended = control.end("TERM");
    // A FIN that was not heard, a stream that the kernel did not take, a socket that stays in repair mode.
    let complaints = ["in time", "was reset", "repair mode", "panic"];
    let complains = complaints.iter().any(|word| ended.stderr.contains(word));
    assert_eq!((ended.code, complains), (0, false), "{}", ended.stderr);
    assert_clean(hosts.0);
}

fn each_case(role: Role) {
    in_lab(|(a, b), engine| {
        let mut watch = Watch::open(b);
        for (here, there) in addresses(a).into_iter().zip(addresses(b)) {
            for case in &CASES {
                let mut pair = connection(engine, (a, b), (here, there), role);
                wait(case.name, || {
                    engine.poll().unwrap();
                    pair.go_on(engine, &case.before);
                    let facts = engine.tcp().facts(pair.stream).unwrap().expect("it is past the kernel");
                    (pair.has_reached(&case.before) && (case.is_reached)(&facts)).then_some(())
                });
                hand_over(engine, a, &pair);
                wait("the end of both streams", || {
                    engine.poll().unwrap();
                    pair.go_on(engine, &Limits::ALL).then_some(())
                });
                pair.end(engine);
                watch.look();
                assert_eq!(watch.resets, 0, "{role:?}, {here}, {}", case.name);
            }
        }
    });
}

pub(crate) fn connections_of_ours_become_the_kernels_in_every_state() {
    each_case(Role::WeConnect);
}

pub(crate) fn connections_of_others_become_the_kernels_in_every_state() {
    each_case(Role::TheyConnect);
}

/// The peer sees one clock: in Linux 6.7 and later the lowest bit of TCP_TIMESTAMP would make it one of microseconds.
pub(crate) fn the_clock_of_timestamps_goes_on_as_it_was() {
    in_lab(|(a, b), engine| {
        let mut watch = Watch::open(b);
        for (here, there) in addresses(a).into_iter().zip(addresses(b)) {
            for _ in 0..CLOCKS {
                // What the last segment before the hand-over says may be as old as the connection.
                let begun = Instant::now();
                let mut pair = connection(engine, (a, b), (here, there), Role::WeConnect);
                pair.say(engine, b"before");
                let port = engine.tcp().ends(pair.stream).unwrap().0.port();
                let ours = watch.clock(port).expect("it has said something");
                assert_ne!(ours.echo, 0);
                hand_over(engine, a, &pair);
                std::thread::sleep(TICKING);
                pair.say(engine, b"after");
                let theirs = watch.clock(port).expect("it has said something more");
                let gone_ms = begun.elapsed().as_millis() as u32 + ROUNDING_MS;
                let ticks = theirs.value.wrapping_sub(ours.value);
                assert!(ticks <= gone_ms, "{ticks} ticks in less than {gone_ms} ms");
                assert!(theirs.echo.wrapping_sub(ours.echo) <= gone_ms, "{theirs:?} after {ours:?}");
                pair.end(engine);
            }
        }
        assert_eq!((watch.resets, watch.without_echo), (0, 0));
    });
}
