//! One slice of connections in sequence: open, one message and its answer, close by the peer.

use super::round_trip::{Target, Trips};
use super::{Bench, Meter, SAMPLES_MAX};
use crate::bypass::{Load, connect_by, engine, note as engine_note};
use crate::cpu_time::{BothSpent, Spent, SpentSince};
use crate::link::{Link, StreamLink, send_all};
use crate::message::{Header, filled};
use crate::path::Medium;
use crate::peer::protocol::{Accept, Reply, Request};
use sidestep_report::schema::Noise;
use sidestep_socket::stream::{Io, Options, Stream, Waiting, is_retry};
use sidestep_sys::Problem;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connections made before counting begins.
const SETTLE: u64 = 8;
/// The longest wait for an answer or a FIN.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The maker of the connections.
enum Dialer {
    Kernel(Options),
    Stack(Option<Box<Io>>),
}

impl Dialer {
    /// Makes one connection, with one message and its answer. The peer closes first, so that TIME-WAIT is not at this end.
    fn call(&mut self, remote: SocketAddr, message: &[u8], answer: &mut [u8]) -> Result<(), Problem> {
        match self {
            Self::Kernel(options) => {
                let socket = dial(remote, options).map_err(|error| broken(format!("{remote}: {error}")))?;
                exchange(&mut StreamLink::new(Stream::waiting(socket, options)?), message, answer)
            }
            Self::Stack(engine) => {
                let taken = engine.take().ok_or_else(|| broken("the engine is gone"))?;
                let mut link = connect_by(taken, remote)?;
                exchange(&mut link, message, answer)?;
                *engine = Some(link.close()?);
                Ok(())
            }
        }
    }
}

impl Bench {
    /// Connects for `duration`.
    pub(super) fn connections(&mut self, target: Target, duration: Duration) -> Result<Trips, Problem> {
        let options = Options {
            waiting: target.path.waiting,
            backend: target.path.backend,
            timeout: self.patience(false),
            ..Options::default()
        };
        let mut note = None;
        let mut dialer = match target.path.medium {
            Medium::Stack => {
                self.place_thread(false)?;
                self.need_plane()?;
                let engine = engine(&self.device_toward()?, Load::RoundTrips)?;
                self.place_thread(true)?;
                note = Some(engine_note(&engine));
                Dialer::Stack(Some(Box::new(Io::over(engine))))
            }
            _ => Dialer::Kernel(options),
        };
        let way = self.ends.way(target.path)?;
        let path = target.path.at_peer().into();
        let ready = self.ask_ready(&Request::Accept(Accept { path, size: target.size, cpu: self.cpus.server }))?;
        let remote = SocketAddr::new(way.server, ready.port);
        let meter = Meter::start(self.watched_cpus());
        let called = self.call(&mut dialer, remote, target.size, duration);
        let noise = meter.stop();
        let done = match self.control().reply()? {
            Reply::Done(done) => done,
            _ => return Err(Problem::failed("lost the peer", "it did not say that the slice is over")),
        };
        let here = called?;
        Ok(Trips {
            slice: self.take_slice(),
            settling: SETTLE,
            cpu: BothSpent { here, peer: done.cpu },
            note: match note {
                Some(note) => Some(self.stack_note(&note, ready.note.as_deref())),
                None => self.kernel_note(ready.note.as_deref()),
            },
            noise: Noise { involuntary_switches: noise.involuntary_switches + done.involuntary_switches, ..noise },
            ..Trips::default()
        })
    }

    fn call(
        &mut self,
        dialer: &mut Dialer,
        remote: SocketAddr,
        size: u32,
        duration: Duration,
    ) -> Result<Spent, Problem> {
        let (mut message, mut answer) = (filled(size), vec![0; size as usize]);
        for _ in 0..SETTLE {
            dialer.call(remote, &message, &mut answer)?;
        }
        let since = SpentSince::now();
        let mut last = self.clock.stop();
        let end = last + self.clock.ticks(duration);
        while last < end && self.samples.len() < SAMPLES_MAX && !self.is_stopped() {
            dialer.call(remote, &message, &mut answer)?;
            let now = self.clock.stop();
            self.samples.push(now - last);
            last = now;
        }
        let spent = since.on(self.samples.len() as u64);
        Header { sequence: 0, last: true }.write(&mut message);
        dialer.call(remote, &message, &mut answer).map(|()| spent)
    }
}

/// Returns a socket that is connected or, if receives never sleep, about to be: until then sends find no room.
fn dial(remote: SocketAddr, options: &Options) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None)?;
    socket.set_tcp_nodelay(true)?;
    if options.waiting != Waiting::Spin {
        socket.connect_timeout(&remote.into(), ANSWER_MAX)?;
        return Ok(socket);
    }
    socket.set_nonblocking(true)?;
    match socket.connect(&remote.into()) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(socket),
    }
}

/// Sends, receives the answer, and waits for the peer's end.
fn exchange(link: &mut dyn Link, message: &[u8], answer: &mut [u8]) -> Result<(), Problem> {
    let deadline = Instant::now() + ANSWER_MAX;
    send_all(link, message).and_then(|()| link.flush()).map_err(broken)?;
    let (mut filled, mut beyond) = (0, [0; 1]);
    loop {
        let place = if filled < answer.len() { &mut answer[filled..] } else { &mut beyond[..] };
        match link.receive(place) {
            Ok(0) if filled == answer.len() => break,
            Ok(0) => return Err(broken("it ended before it had answered")),
            Ok(count) => filled += count,
            Err(error) if is_retry(&error) && Instant::now() < deadline => {}
            Err(error) => return Err(broken(error)),
        }
    }
    if answer == message { Ok(()) } else { Err(broken("it answered other bytes")) }
}

fn broken(why: impl std::fmt::Display) -> Problem {
    Problem::failed("a connection broke", why).next("see what the peer printed, and whether its host is up")
}
