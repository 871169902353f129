//! Active open: the call.

use crate::fallback::tcp::Twin;
use crate::tcp::active_open::advance::Progress;
use crate::tcp::active_open::opening::{Opening, now_ns};
use crate::tcp::streams::{Steered, Stream, StreamState};
use crate::tcp::table::{HANDLES_MAX, TcpStream};
use crate::tcp::{Tcp, failed};
use sidestep_stack::tcp::{ConnectionId, Options};
use sidestep_sys::Problem;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

impl Tcp<'_> {
    /// Begins a connection, from `local` if it is given (port 0: any), and returns at once. It is made when
    /// [`Tcp::readiness`] says that it is writable, and has failed when that says error; [`Tcp::take_error`] tells which.
    ///
    /// [`Engine::poll`](crate::Engine::poll) goes on with it once its prerequisites are there: the neighbour's Ethernet address, 0.2 s
    /// at most; control, for a local port that is named, and for more ports. Until then [`Tcp::path`] says
    /// [`crate::Reason::Opening`].
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: Options,
    ) -> Result<TcpStream, Problem> {
        let failed = |why: &dyn std::fmt::Display| failed("connect", remote, why);
        self.check().map_err(|error| failed(&error))?;
        let mut opening = Box::new(Opening::new(local, options, now_ns()));
        if let Some(named) = local.filter(|local| local.port() != 0) {
            let bound = self.engine.streams.released.bind(named, || Twin::for_connection(local, remote));
            opening.hold(bound.map_err(|error| failed(&error).errno(error.raw_os_error()))?);
        }
        self.begin(opening, remote)
    }

    /// Begins a connection past the kernel for a program's own socket, of which `twin` is a duplicate: its port is used if it is bound,
    /// and it is never connected, read, written or changed here. Where there is no path past the kernel, [`Tcp::detour`]
    /// says so, at once or after an event: no segment has left, and the caller connects the socket itself. It is what the connection
    /// is handed over to ([`Tcp::set_twin`]).
    pub fn connect_beside(
        &mut self,
        twin: OwnedFd,
        remote: SocketAddr,
        options: Options,
    ) -> Result<TcpStream, Problem> {
        let failed = |why: &dyn std::fmt::Display| failed("connect", remote, why);
        self.check().map_err(|error| failed(&error))?;
        let twin = Twin::adopt(twin);
        let bound = twin.local().map_err(|error| failed(&error).errno(error.raw_os_error()))?;
        let local = (bound.port() != 0 || !bound.ip().is_unspecified()).then_some(bound);
        let mut opening = Box::new(Opening::new(local, options, now_ns()));
        opening.is_beside = true;
        let own = if bound.port() == 0 {
            twin.into()
        } else {
            let own = twin.duplicate().map_err(|error| failed(&error).errno(error.raw_os_error()))?;
            opening.hold(twin);
            own
        };
        let stream = self.begin(opening, remote)?;
        self.set_twin(stream, own).map_err(|error| failed(&error))?;
        Ok(stream)
    }

    /// Makes the first step of a connection, and gives it its handle.
    fn begin(&mut self, opening: Box<Opening>, remote: SocketAddr) -> Result<TcpStream, Problem> {
        let failed = |why: &dyn std::fmt::Display| failed("connect", remote, why);
        let (local, is_beside) = (opening.local, opening.is_beside);
        let progress = self.advance(opening, remote, now_ns()).map_err(|error| {
            failed(&error).next(format!("see the route: ip route get {}", remote.ip())).errno(error.raw_os_error())
        })?;
        let any = SocketAddr::new(local.map_or_else(|| unspecified(remote), |local| local.ip()), 0);
        let asked = local;
        let stream = |local, state| Stream { local, remote, asked, is_beside, state, twin: None };
        let kept = match progress {
            Progress::Accelerated { id, steered, local } => {
                self.register(stream(local, StreamState::Accelerated { id, steered }))
            }
            Progress::Kernel { socket, reason, local } => {
                self.insert(stream(local, StreamState::Kernel(socket, reason)))
            }
            Progress::Detour(reason) => self.insert(stream(local.unwrap_or(any), StreamState::Detour(reason))),
            Progress::Waiting(mut opening) => {
                // In the network namespace of this call, wherever the program polls. Without a descriptor for it there will
                // be none for the kernel's path, either.
                if opening.may_need_twin(&self.engine.streams.ports)
                    && let Ok(twin) = Twin::for_connection(local, remote)
                {
                    opening.hold(twin);
                }
                let kept = self.insert(stream(local.unwrap_or(any), StreamState::Opening(opening)));
                self.engine.streams.opening.extend(kept);
                kept
            }
        };
        kept.ok_or_else(|| failed(&format!("an engine has at most {HANDLES_MAX} streams; close some")))
    }

    fn insert(&mut self, stream: Stream) -> Option<TcpStream> {
        self.engine.streams.streams.insert(stream).map(TcpStream)
    }

    /// Remembers a stream past the kernel; one too many is aborted.
    pub(crate) fn register(&mut self, stream: Stream) -> Option<TcpStream> {
        let StreamState::Accelerated { id, ref steered } = stream.state else { return None };
        let steered: Option<Steered> = steered.clone();
        let key = self.insert(stream);
        let (bypass, counters) = (self.engine.bypass.as_mut()?, &self.engine.counters);
        if let Some(key) = key {
            bypass.handles.insert_stream(id, key);
            return Some(key);
        }
        // It is open: nobody else knows it.
        let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.abort(now, id, output));
        self.await_end(id, steered);
        None
    }

    pub(crate) fn await_end(&mut self, id: ConnectionId, steered: Option<Steered>) {
        if let Some(steered) = steered {
            self.linger(id, steered);
        }
    }
}

/// Any address of the other end's family.
fn unspecified(remote: SocketAddr) -> std::net::IpAddr {
    if remote.is_ipv4() { std::net::Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() }
}
