//! Connections from here.

use super::headers::query;
use super::table::{Steered, Stream, TcpStream, Way};
use super::twin::Twin;
use super::{Tcp, TcpError, failed};
use crate::reason::{Path, Reason};
use sidestep_plane::message::{Entry, Protocol};
use sidestep_stack::route::Resolved;
use sidestep_stack::tcp::Options;
use sidestep_sys::Problem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a neighbour may take to tell its Ethernet address before the kernel goes on alone: far below the second after
/// which a silent owner loses its packets.
const NEIGHBOUR_WAIT: Duration = Duration::from_millis(200);

/// Between two looks at the tables meanwhile.
const NEIGHBOUR_LOOK: Duration = Duration::from_micros(100);

impl Tcp<'_> {
    /// Begins a connection, from `local` if it is given (port 0: any). It is made when [`Tcp::readiness`] says that it is
    /// writable, and has failed when that says error; [`Tcp::take_error`] tells which. Waits for control, and at most
    /// 0.2 s for the neighbour's Ethernet address.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: Options,
    ) -> Result<TcpStream, Problem> {
        let failed = |why: &dyn std::fmt::Display| failed("connect", remote, why);
        self.check().map_err(|error| failed(&error))?;
        let reason = match self.find_way(remote, local) {
            Ok(way) => match self.connect_past_kernel(&way, remote, local, options)? {
                Ok(stream) => return Ok(stream),
                Err(reason) => reason,
            },
            Err(reason) => reason,
        };
        let released = &self.engine.streams.released;
        let bound = released.bind(local.unwrap_or(remote), || Twin::for_connection(local, remote));
        let connected = bound.and_then(|twin| twin.connect(remote, &options));
        let socket = connected.map_err(|error| {
            failed(&error).next(format!("see the way: ip route get {}", remote.ip())).errno(error.raw_os_error())
        })?;
        let bound = socket.local_addr().map_err(|error| failed(&error))?.as_socket().unwrap_or(remote);
        if let Some(keeper) = &self.engine.keeper {
            keeper.report(format!("tcp {bound} to {remote}"), reason.code());
        }
        let stream = Stream { local: bound, remote, way: Way::Kernel(socket, reason) };
        let key = self.engine.streams.streams.insert(stream).ok_or_else(|| failed(&"too many streams are open"))?;
        Ok(TcpStream(key))
    }

    /// The way past the kernel, with a neighbour that is known; else why there is none.
    fn find_way(&self, remote: SocketAddr, local: Option<SocketAddr>) -> Result<Resolved, Reason> {
        if let Path::Kernel(reason) = self.engine.best_path() {
            return Err(reason);
        }
        let (Some(fast), Some(keeper)) = (&self.engine.fast, &self.engine.keeper) else { return Err(Reason::Revoked) };
        if remote.ip().is_loopback() || fast.ways.is_ours(remote.ip()) {
            return Err(Reason::LoopbackOrLocal);
        }
        fast.queues.may_miss()?;
        let scope = match remote {
            SocketAddr::V6(remote) if remote.scope_id() != 0 => Some(remote.scope_id()),
            _ => None,
        };
        let source = local.map(|local| local.ip()).filter(|local| !local.is_unspecified());
        let query = query(remote.ip(), source, scope, fast.device);
        let deadline = Instant::now() + NEIGHBOUR_WAIT;
        let mut has_asked = false;
        loop {
            let detour = match fast.ways.resolve(&query, fast.device).1 {
                // What comes back to another Ethernet address than the device's is not steered.
                Ok(way) if fast.ways.vlan_of_interface(way.interface, fast.device).is_none() => {
                    return Err(Reason::InterfaceKind);
                }
                Ok(way) => return Ok(way),
                Err(detour) => detour,
            };
            let (Some((address, interface)), true) = (detour.ask_for, Instant::now() < deadline) else {
                return Err(detour.reason);
            };
            if !std::mem::replace(&mut has_asked, true) {
                keeper.resolve(address, interface);
            }
            sleep(NEIGHBOUR_LOOK);
        }
    }

    /// Holds a port, steers the flow, sends the SYN: in this order, so that the kernel never sees the answer.
    fn connect_past_kernel(
        &mut self,
        way: &Resolved,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: Options,
    ) -> Result<Result<TcpStream, Reason>, Problem> {
        let failed = |why: &dyn std::fmt::Display| failed("connect", remote, why);
        let wanted = SocketAddr::new(way.source, local.map_or(0, |local| local.port()));
        let released = &self.engine.streams.released;
        let twin = released.bind(wanted, || Twin::for_connection(Some(wanted), remote));
        let twin = twin.map_err(|error| failed(&error).errno(error.raw_os_error()))?;
        let bound = twin.local().map_err(|error| failed(&error))?;
        let vlan = way.vlan.map(|vlan| vlan.number());
        // Without the scope of a link: what frames carry.
        let (here, there) = (SocketAddr::new(bound.ip(), bound.port()), SocketAddr::new(remote.ip(), remote.port()));
        let flow = Entry::Flow { protocol: Protocol::Tcp, local: here, remote: there, vlan };
        if let Err(reason) = self.steer(flow, &twin) {
            // Control closes what it was shown a little later; the kernel's way needs the port at once.
            self.engine.streams.released.note(bound.port());
            return Ok(Err(reason));
        }
        let begun = {
            let (fast, counters) = (self.engine.fast.as_mut(), &self.engine.counters);
            let fast = fast.ok_or_else(|| failed(&Reason::Revoked))?;
            let mtu = way.mtu.min(fast.segments.tcp.config().mtu_bytes) as u16;
            fast.with_tcp(counters, |tcp, now, sink| tcp.connect(now, here, there, Some(mtu), options, sink))
        };
        let id = match begun {
            Ok(id) => id,
            Err(error) => {
                self.unsteer(flow);
                return Err(failed(&error).errno(TcpError::from(error).errno()));
            }
        };
        let steered = Steered { entry: Some(flow), flow, twin: Arc::new(twin), listener: None };
        self.keep(Stream { local: here, remote: there, way: Way::Fast { id, steered } })
            .map(Ok)
            .ok_or_else(|| failed(&"too many streams are open"))
    }

    /// Remembers a stream past the kernel; one too many is aborted.
    pub(super) fn keep(&mut self, stream: Stream) -> Option<TcpStream> {
        let Way::Fast { id, ref steered } = stream.way else { return None };
        let steered = steered.clone();
        let key = self.engine.streams.streams.insert(stream);
        let (fast, counters) = (self.engine.fast.as_mut()?, &self.engine.counters);
        if let Some(key) = key {
            fast.segments.own(id, TcpStream(key));
            return Some(TcpStream(key));
        }
        // It is open: nobody else knows it.
        let _ = fast.with_tcp(counters, |tcp, now, sink| tcp.abort(now, id, sink));
        self.linger(id, steered);
        None
    }

    pub(super) fn steer(&self, entry: Entry, twin: &Twin) -> Result<(), Reason> {
        let keeper = self.engine.keeper.as_ref().ok_or(Reason::Revoked)?;
        keeper.steer(entry, twin.duplicate().map_err(|_| Reason::Refused)?)
    }

    pub(super) fn unsteer(&self, entry: Entry) {
        // What control has lost it no longer holds.
        let _ = self.engine.keeper.as_ref().map(|keeper| keeper.unsteer(entry));
    }
}
