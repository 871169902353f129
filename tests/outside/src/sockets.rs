//! Datagrams and streams of an engine. No control plane is asked: the kernel carries them, and says so.

use crate::{failed, until};
use sidestep::engine::xdp::{self, Downgrade, Geometry, Pages, RingSizes, XskFacts};
use sidestep::engine::{
    BusyPoll, Checksums, Engine, EngineOptions, Error, FrameFacts, Kick, Missing, Mode, Path, Queues,
};
use sidestep::engine::{Reason, Sender};
use sidestep::error::Problem;
use sidestep::idle::IdleStrategy;
use sidestep::tcp::{
    self, Addresses, Config, Congestion, Counter, Facts, Flow, Instant, KeepAlive, Lost, Options, Readiness,
};
use sidestep::tcp::{
    Setting, SettingError, Shutdown, State, Sum, Tcp, TcpError, TcpEvent, TcpListener, TcpStream, Value,
};
use sidestep::udp::{
    Datagram, Handle, Message, MulticastOut, Reserved, SendError, Statistics, UdpOptions, Undelivered,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub fn run() -> Result<(), Problem> {
    let mut engine = Engine::open(&options())?;
    assert_eq!(engine.refusal().map(|(reason, _)| reason), Some(Reason::NotWanted));
    assert!(engine.link().map(places).is_none());
    assert!(engine.queues_missing().iter().all(is_other));
    datagrams(&mut engine)?;
    streams(&mut engine)?;
    let Lost { .. } = engine.finish(Duration::from_millis(10));
    Ok(())
}

fn options() -> EngineOptions {
    EngineOptions {
        accelerate: false,
        queues: Queues::Every,
        kick: Kick::Thread { idle: IdleStrategy::PARK, cpu: None },
        mode: Mode::Copy,
        busy_poll: Some(BusyPoll { microseconds: 20, budget: 64 }),
        checksums: Checksums::Verify,
        tcp: patient(),
        ..EngineOptions::on("lo")
    }
}

fn patient() -> Config {
    let mut config = tcp::profile("latency").expect("it is built in");
    config.congestion = Congestion::Reno;
    config
}

/// The places of the sockets beneath an engine, as a program would log them.
fn places(link: &FrameFacts) -> String {
    let of = |xsk: &XskFacts| {
        let (Geometry { frames, .. }, RingSizes { rx, .. }) = (xsk.geometry, xsk.rings);
        let mode: xdp::Mode = xsk.mode;
        let pages: &Pages = &xsk.pages;
        let poll: Option<xdp::BusyPoll> = xsk.busy_poll;
        let steps: &[Downgrade] = &xsk.downgrades;
        format!("{frames} {rx} {} {pages:?} {poll:?} {steps:?}", mode.name())
    };
    let sender: Sender = link.sender;
    format!("{}: {}", sender.name(), link.xsks.iter().map(of).collect::<String>())
}

fn is_other(missing: &Missing) -> bool {
    !format!("{missing:?}").is_empty()
}

fn datagrams(engine: &mut Engine) -> Result<(), Problem> {
    let options = UdpOptions { multicast_out: MulticastOut::Routes, keep_errors: true, ..UdpOptions::default() };
    let [server, client]: [Handle; 2] = [engine.bind(ANY, &options)?, engine.bind(ANY, &options)?];
    let refused = |error: Error| failed("a socket of the engine", error);
    let to = engine.local(server).map_err(refused)?;
    assert!(matches!(engine.path(server).map_err(refused)?, Path::Kernel(Reason::NotWanted)));
    send(engine, client, to).map_err(|error| failed("send", error))?;
    let came: Datagram = until("a datagram", || engine.receive(server).map_err(refused))?;
    engine.reply(server, came).map_err(|error| failed("reply", error))?;
    let answer = until("an answer", || engine.receive(client).map_err(refused))?;
    assert_eq!((engine.payload(&answer), answer.source()), (&b"ping"[..], to));
    engine.release(answer);
    let messages: [Message<'_>; 2] = [(b"one", Some(to)), (b"two", Some(to))];
    assert_eq!(engine.send_many(client, messages).map_err(|error| failed("send_many", error))?, 2);
    let mut came = Vec::new();
    until("two datagrams", || {
        engine.receive_many(server, 8, &mut came).map_err(refused)?;
        Ok((came.len() == 2).then_some(()))
    })?;
    came.into_iter().for_each(|datagram| engine.release(datagram));
    let Statistics { .. } = engine.statistics(client).map_err(refused)?;
    let missed: Option<Undelivered> = engine.next_error(client).map_err(refused)?;
    assert!(missed.is_none());
    Ok(())
}

/// Fills the packet buffer in place.
fn send(engine: &mut Engine, from: Handle, to: SocketAddr) -> Result<(), SendError> {
    let reserved: Reserved = engine.reserve(from, 4, Some(to))?;
    engine.reserved(&reserved).copy_from_slice(b"ping");
    engine.send_reserved(from, reserved, 4)?;
    engine.flush()
}

fn streams(engine: &mut Engine) -> Result<(), Problem> {
    let options = Options { keepalive: Some(KeepAlive::default()), ..engine.tcp().defaults() };
    let listener: TcpListener = engine.tcp().listen(ANY, 1, options)?;
    let to = engine.tcp().local(listener).map_err(|error| failed("local", error))?;
    let client: TcpStream = engine.tcp().connect(to, None, options)?;
    let refused = |error: TcpError| failed("a stream", error);
    let server = until("a connection", || {
        engine.poll().map_err(|error| failed("poll", error))?;
        engine.tcp().accept(listener).map_err(refused)
    })?;
    until("room to send", || Ok(is_writable(&mut engine.tcp(), client).map_err(refused)?.then_some(())))?;
    assert_eq!(engine.tcp().send(client, b"ping"), Ok(4));
    engine.tcp().shutdown(client, Shutdown::Write).map_err(refused)?;
    let mut buffer = [0; 64];
    let count = until("data", || match engine.tcp().read(server, &mut buffer) {
        Err(error) if error.is_would_block() => Ok(None),
        read => read.map(Some).map_err(refused),
    })?;
    assert_eq!(&buffer[..count], b"ping");
    if let Some(event) = engine.tcp().next_event() {
        assert!(matches!(event, TcpEvent::Stream(_) | TcpEvent::Listener(_)));
    }
    assert_eq!(engine.tcp().facts(server).map_err(refused)?.as_ref().map(round_trip), None);
    assert_eq!(engine.tcp().count(Counter::ALL[0]), 0);
    assert_ne!(TcpError::Stack(tcp::Error::Refused).errno(), 0);
    engine.tcp().close(server).and(engine.tcp().close(client)).map_err(refused)
}

fn is_writable(tcp: &mut Tcp<'_>, stream: TcpStream) -> Result<bool, TcpError> {
    Ok(tcp.readiness(stream)?.has(Readiness::WRITABLE))
}

/// What a program would log of a connection past the kernel.
fn round_trip(facts: &Facts) -> (State, Flow, Addresses, Instant) {
    (facts.state, facts.flow, facts.flow.addresses, facts.last_heard_at)
}

/// Types that only rarer calls name.
const _: Option<(Setting, SettingError, Value, Sum)> = None;
