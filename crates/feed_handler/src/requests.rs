//! Requests for missing messages, and their answers: UDP to each re-request server.

use crate::channel::{Channel, Wanted};
use crate::{Application, lines::of_engine};
use sidestep_market::mold64::Request;
use sidestep_market::units::{LineId, Nanos};
use sidestep_socket::{Engine, Handle, UdpOptions};
use sidestep_sys::Problem;
use sidestep_sys::clock::monotonic_ns;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Re-request servers of one handler. Venues name two or three.
pub const SERVERS_MAX: usize = 8;
/// Answers of each server taken in one poll: neither lines nor other servers wait for one that floods.
const ANSWERS_MAX: usize = 32;

/// The sockets, one for each server.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    sockets: Vec<Handle>,
}

impl Requests {
    pub(crate) fn open(engine: &mut Engine, servers: &[SocketAddr]) -> Result<Self, Problem> {
        if servers.len() > SERVERS_MAX {
            let why = format!("there are {} of them, and a handler has at most {SERVERS_MAX}", servers.len());
            return Err(Problem::usage("cannot use the re-request servers", why).next("name fewer of them"));
        }
        let options = UdpOptions { receive_buffer: 1 << 20, ..UdpOptions::default() };
        let open = |server: &SocketAddr| engine.bind_toward(*server, &options);
        Ok(Self { sockets: servers.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Sends a request; what cannot be sent is refused at once, so that the next server is asked.
    pub(crate) fn send(
        &self,
        engine: &mut Engine,
        wanted: Wanted,
        channel: &mut Channel,
        application: &mut impl Application,
    ) {
        let count = u16::try_from(wanted.count).unwrap_or(u16::MAX - 1);
        let request = Request { session: wanted.session, first: wanted.first, count };
        let sent = self.sockets.get(usize::from(wanted.server)).map(|socket| engine.send(*socket, &request.write()));
        if !matches!(sent, Some(Ok(()))) {
            channel.request_refused(wanted.server, Nanos(monotonic_ns()), application);
        }
    }

    /// Takes answers; returns how many.
    pub(crate) fn poll(
        &self,
        engine: &mut Engine,
        line: LineId,
        channel: &mut Channel,
        application: &mut impl Application,
    ) -> Result<usize, Problem> {
        let mut answers = 0;
        for socket in &self.sockets {
            for _ in 0..ANSWERS_MAX {
                let Some(datagram) = engine.receive(*socket).map_err(of_engine)? else { break };
                let now = Nanos(monotonic_ns());
                channel.datagram(line, now, now, engine.payload(&datagram), application);
                engine.release(datagram);
                answers += 1;
            }
        }
        Ok(answers)
    }

    /// A server whose host says that nobody listens there is told as refusing.
    pub(crate) fn look_for_errors(
        &self,
        engine: &mut Engine,
        channel: &mut Channel,
        application: &mut impl Application,
    ) {
        for (server, socket) in self.sockets.iter().enumerate() {
            if let Ok(Some(_)) = engine.take_error(*socket) {
                channel.request_refused(server as u8, Nanos(monotonic_ns()), application);
            }
        }
    }

    /// Descriptors to sleep on.
    pub(crate) fn descriptors<'a>(&'a self, engine: &'a Engine) -> impl Iterator<Item = BorrowedFd<'a>> {
        self.sockets.iter().filter_map(|socket| engine.twin(*socket).ok())
    }
}
