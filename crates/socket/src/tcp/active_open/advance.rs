//! Active open: the steps of a connection that has not begun. A step never waits.

use crate::engine::Engine;
use crate::fallback::tcp::Twin;
use crate::reason::{Path, Reason};
use crate::route_cache::{Detour, query};
use crate::tcp::Tcp;
use crate::tcp::active_open::opening::{Opening, SteeringRequest};
use crate::tcp::active_open::ports::{Choice, NO_PORT_NS};
use crate::tcp::error::TcpError;
use crate::tcp::streams::{Steered, StreamState};
use crate::tcp::table::{TcpEvent, TcpStream};
use rustix::io::Errno;
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_stack::route::Resolved;
use sidestep_stack::tcp::{ConnectionId, Instant};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The time for a neighbour to answer before the kernel connects instead: the kernel asks once a second, three times.
const NEIGHBOUR_WAIT_NS: u64 = 200_000_000;

/// The time until a port is free: control's answer, or the second after which a tuple leaves TIME-WAIT.
const PORT_WAIT_NS: u64 = 3_000_000_000;

/// The most connections advanced per housekeeping. Housekeeping runs some twenty times a millisecond in a loop that spins.
const OPENS_PER_HOUSEKEEPING: usize = 32;

/// The most ports that the kernel is asked for until the answers to one come by a queue of ours. With one of 64 queues that
/// succeeds with near certainty.
const PORT_TRIES: usize = 256;

/// The state of an active open after a step.
pub(crate) enum Progress {
    Waiting(Box<Opening>),
    /// The SYN has left, or will as soon as it can.
    Accelerated {
        id: ConnectionId,
        steered: Option<Steered>,
        local: SocketAddr,
    },
    Kernel {
        socket: socket2::Socket,
        reason: Reason,
        local: SocketAddr,
    },
    /// The caller connects its own socket.
    Detour(Reason),
}

impl Tcp<'_> {
    /// Advances a connection that has not begun. An error is that of the kernel twin.
    pub(crate) fn advance(&mut self, opening: Box<Opening>, remote: SocketAddr, now_ns: u64) -> io::Result<Progress> {
        if let Some(reason) = opening.stopped {
            return self.connect_twin(opening, remote, reason);
        }
        if opening.steering.is_some() {
            return self.take_entry_answer(opening, remote);
        }
        let route = match self.find_route(remote, opening.local) {
            Ok(route) => route,
            Err(Detour { reason, ask_for: Some(neighbour) }) => {
                return self.await_neighbour(opening, remote, reason, neighbour, now_ns);
            }
            Err(Detour { reason, .. }) => return self.connect_twin(opening, remote, reason),
        };
        // A frame of a VLAN is steered by its flow alone: a tag's device may be in another namespace.
        if opening.port().is_some() || route.vlan.is_some() {
            return self.request_entry(opening, remote, &route);
        }
        self.choose_port(opening, remote, &route, now_ns)
    }

    /// Asks control once for the neighbour's Ethernet address, and waits for it at most [`NEIGHBOUR_WAIT_NS`].
    fn await_neighbour(
        &mut self,
        mut opening: Box<Opening>,
        remote: SocketAddr,
        reason: Reason,
        (address, interface): (IpAddr, u32),
        now_ns: u64,
    ) -> io::Result<Progress> {
        if now_ns.saturating_sub(opening.begun_ns) >= NEIGHBOUR_WAIT_NS {
            return self.connect_twin(opening, remote, reason);
        }
        if let (false, Some(agent)) = (opening.has_asked, &self.engine.agent) {
            opening.has_asked = true;
            agent.resolve(address, interface);
        }
        Ok(Progress::Waiting(opening))
    }

    /// Sends the SYN from a port of the pool, or waits for one.
    fn choose_port(
        &mut self,
        mut opening: Box<Opening>,
        remote: SocketAddr,
        route: &Resolved,
        now_ns: u64,
    ) -> io::Result<Progress> {
        let Engine { streams, bypass: Some(bypass), agent: Some(agent), .. } = &mut *self.engine else {
            return self.connect_twin(opening, remote, Reason::Revoked);
        };
        let waiting_since_ns = *opening.route_ns.get_or_insert(now_ns);
        let now = Instant::from_nanos(now_ns);
        match streams.ports.choose(bypass, agent, route.source, remote, now) {
            Choice::Port(port) => self.send_syn(opening, SocketAddr::new(route.source, port), remote, route.mtu, None),
            Choice::Later if now_ns.saturating_sub(waiting_since_ns) < PORT_WAIT_NS => {
                streams.ports.expect(agent, now, streams.opening.len());
                (opening.due_ns, opening.generation) = (now_ns + NO_PORT_NS, streams.ports.generation());
                Ok(Progress::Waiting(opening))
            }
            Choice::ByEntry => self.request_entry(opening, remote, route),
            Choice::OtherQueue => self.connect_twin(opening, remote, Reason::QueueElsewhere),
            Choice::Exhausted | Choice::Later => Err(Errno::ADDRNOTAVAIL.into()),
        }
    }

    /// The route past the kernel, or the reason why there is none.
    fn find_route(&self, remote: SocketAddr, local: Option<SocketAddr>) -> Result<Resolved, Detour> {
        if let Path::Kernel(reason) = self.engine.best_path() {
            return Err(reason.into());
        }
        let Some(bypass) = &self.engine.bypass else { return Err(Reason::Revoked.into()) };
        if remote.ip().is_loopback() || bypass.routes.is_ours(remote.ip()) {
            return Err(Reason::LoopbackOrLocal.into());
        }
        let scope = match remote {
            SocketAddr::V6(remote) if remote.scope_id() != 0 => Some(remote.scope_id()),
            _ => None,
        };
        let source = local.map(|local| local.ip()).filter(|local| !local.is_unspecified());
        let route = bypass.routes.resolve(&query(remote.ip(), source, scope, bypass.device), bypass.device).1?;
        // What comes back to another Ethernet address than the device's is not steered.
        match bypass.routes.vlan_of_interface(route.interface, bypass.device) {
            None => Err(Reason::InterfaceKind.into()),
            Some(_) => Ok(route),
        }
    }

    /// Holds a port by a socket of its own, and has control steer its flow: before the SYN, so that the kernel never sees the
    /// answer.
    fn request_entry(
        &mut self,
        mut opening: Box<Opening>,
        remote: SocketAddr,
        route: &Resolved,
    ) -> io::Result<Progress> {
        let twin = match opening.twin.take() {
            // The port was named: it cannot be chosen by the queue that its answers take.
            Some(twin) if opening.port().is_some() => {
                if !self.reaches_our_queues(twin.local()?.port(), route, remote) {
                    opening.twin = Some(twin);
                    return self.connect_twin(opening, remote, Reason::QueueElsewhere);
                }
                Some(twin)
            }
            spare => self.bind_for_our_queues(spare, route, remote)?,
        };
        let Some(twin) = twin else { return self.connect_twin(opening, remote, Reason::QueueElsewhere) };
        let bound = twin.local()?;
        let vlan = route.vlan.map(|vlan| vlan.number());
        // Without the scope of a link: what frames carry.
        let (local, there) = (SocketAddr::new(bound.ip(), bound.port()), SocketAddr::new(remote.ip(), remote.port()));
        let local = if local.ip().is_unspecified() { SocketAddr::new(route.source, local.port()) } else { local };
        let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote: there, vlan };
        let Some(agent) = &self.engine.agent else { return self.connect_twin(opening, remote, Reason::Revoked) };
        let answer = agent.begin_to_steer(flow, twin.duplicate()?);
        opening.twin = Some(twin);
        opening.steering = Some(SteeringRequest { flow, mtu: route.mtu, answer });
        Ok(Progress::Waiting(opening))
    }

    /// Returns whether the answers to a local port come by a queue of ours, as far as can be known.
    fn reaches_our_queues(&self, port: u16, route: &Resolved, remote: SocketAddr) -> bool {
        let Some(bypass) = &self.engine.bypass else { return false };
        // What is tagged may be hashed otherwise.
        match route.vlan {
            None => bypass.queues.receives(Protocol::Tcp, remote, SocketAddr::new(route.source, port)),
            Some(_) => !bypass.queues.may_miss(),
        }
    }

    /// Binds a socket to a port of the kernel's choice whose answers come by a queue of ours; `None` where there is none.
    fn bind_for_our_queues(
        &self,
        spare: Option<Twin>,
        route: &Resolved,
        remote: SocketAddr,
    ) -> io::Result<Option<Twin>> {
        let source = SocketAddr::new(route.source, 0);
        let mut spare = spare;
        let mut bind = || match spare.take() {
            Some(twin) => twin.bind(source).map(|()| twin),
            None => Twin::for_connection(Some(source), remote),
        };
        let Some(bypass) = &self.engine.bypass else { return Ok(None) };
        let toward = match bypass.queues.toward(Protocol::Tcp, remote, route.source) {
            Ok(None) => return bind().map(Some),
            // What is tagged may be hashed otherwise.
            Ok(Some(toward)) if route.vlan.is_none() => toward,
            _ => return Ok(None),
        };
        // Held until the end: the kernel would choose a closed port again.
        let mut others = Vec::new();
        for _ in 0..PORT_TRIES {
            let twin = match bind() {
                Ok(twin) => twin,
                // No more ports, or no more descriptors.
                Err(_) if !others.is_empty() => break,
                Err(error) => return Err(error),
            };
            if bypass.queues.has_port(Some(&toward), twin.local()?.port()) {
                return Ok(Some(twin));
            }
            if !toward.depends_on_port() {
                break;
            }
            others.push(twin);
        }
        Ok(None)
    }

    /// Takes control's answer, if it has come.
    fn take_entry_answer(&mut self, mut opening: Box<Opening>, remote: SocketAddr) -> io::Result<Progress> {
        let Some(SteeringRequest { flow, mtu, answer }) = opening.steering.take() else {
            return Ok(Progress::Waiting(opening));
        };
        match answer.take() {
            None => {
                opening.steering = Some(SteeringRequest { flow, mtu, answer });
                Ok(Progress::Waiting(opening))
            }
            Some(Ok(())) if self.comes_by_other_queue(remote, flow.local()) => {
                // The device's RSS has changed while control was asked.
                self.unsteer_later(flow);
                if opening.port().is_none() {
                    opening.twin = None;
                }
                Ok(Progress::Waiting(opening))
            }
            Some(Ok(())) => {
                let twin = opening.twin.take().map(Arc::new);
                let steered = twin.map(|twin| Steered { entry: Some(flow), flow, twin, listener: None });
                self.send_syn(opening, flow.local(), remote, mtu, steered)
            }
            Some(Err(reason)) => self.connect_twin(opening, remote, reason),
        }
    }

    /// Sends the SYN.
    fn send_syn(
        &mut self,
        opening: Box<Opening>,
        local: SocketAddr,
        remote: SocketAddr,
        mtu: u32,
        steered: Option<Steered>,
    ) -> io::Result<Progress> {
        let local = SocketAddr::new(local.ip(), local.port());
        let there = SocketAddr::new(remote.ip(), remote.port());
        let (bypass, counters) = (self.engine.bypass.as_mut(), &self.engine.counters);
        let Some(bypass) = bypass else { return self.connect_twin(opening, remote, Reason::Revoked) };
        let mtu = mtu.min(bypass.stack.tcp().config().mtu_bytes) as u16;
        let options = opening.options;
        let begun =
            bypass.with_tcp(counters, |tcp, now, output| tcp.connect(now, local, there, Some(mtu), options, output));
        match begun {
            Ok(id) => Ok(Progress::Accelerated { id, steered, local }),
            Err(error) => {
                if let Some(Steered { entry: Some(entry), .. }) = steered {
                    self.unsteer_later(entry);
                }
                Err(io::Error::from_raw_os_error(TcpError::from(error).errno()))
            }
        }
    }

    /// Begins to connect in the kernel.
    fn connect_twin(&mut self, mut opening: Box<Opening>, remote: SocketAddr, reason: Reason) -> io::Result<Progress> {
        if opening.is_beside {
            return Ok(Progress::Detour(reason));
        }
        let twin = match opening.twin.take() {
            Some(twin) => twin,
            None => Twin::for_connection(opening.local, remote)?,
        };
        let socket = twin.connect(remote, &opening.options)?;
        let local = socket.local_addr()?.as_socket().unwrap_or(remote);
        if let Some(agent) = &self.engine.agent {
            agent.report(format!("tcp {local} to {remote}"), reason.code());
        }
        Ok(Progress::Kernel { socket, reason, local })
    }

    /// Advances a waiting connection and reports the outcome; returns whether it waits on.
    fn advance_one(&mut self, handle: TcpStream, now_ns: u64) -> bool {
        let generation = self.engine.streams.ports.generation();
        let Ok(stream) = self.engine.streams.streams.at(handle.0) else { return false };
        let remote = stream.remote;
        let StreamState::Opening(opening) = &mut stream.state else { return false };
        if !opening.is_due(now_ns, generation) {
            return true;
        }
        let StreamState::Opening(opening) = std::mem::replace(&mut stream.state, StreamState::Lost(Reason::Revoked))
        else {
            return false;
        };
        let progress = self.advance(opening, remote, now_ns);
        let Ok(stream) = self.engine.streams.streams.at(handle.0) else { return false };
        match progress {
            Ok(Progress::Waiting(opening)) => {
                stream.state = StreamState::Opening(opening);
                return true;
            }
            Ok(Progress::Accelerated { id, steered, local }) => {
                (stream.local, stream.state) = (local, StreamState::Accelerated { id, steered });
                self.engine.bypass.iter_mut().for_each(|bypass| bypass.handles.insert_stream(id, handle));
                return false;
            }
            Ok(Progress::Kernel { socket, reason, local }) => {
                (stream.local, stream.state) = (local, StreamState::Kernel(socket, reason));
            }
            Ok(Progress::Detour(reason)) => stream.state = StreamState::Detour(reason),
            Err(error) => stream.state = StreamState::Failed(error.into(), false),
        }
        self.engine.streams.events.push(TcpEvent::Stream(handle));
        false
    }

    pub(crate) fn unsteer_later(&self, entry: Entry) {
        self.engine.agent.iter().for_each(|agent| agent.unsteer_later(entry));
    }
}

impl Engine {
    /// Advances connections that have not begun. `now_ns` is CLOCK_MONOTONIC.
    pub(crate) fn advance_opens(&mut self, now_ns: u64) {
        self.streams.ports.begin_turn();
        for _ in 0..OPENS_PER_HOUSEKEEPING.min(self.streams.opening.len()) {
            if self.streams.ports.is_spent() {
                break;
            }
            let Some(handle) = self.streams.opening.pop_front() else { break };
            if self.tcp().advance_one(handle, now_ns) {
                self.streams.opening.push_back(handle);
            }
        }
    }
}
