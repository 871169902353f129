//! UDP past the kernel.

use super::{Device, Load, READY_MAX, engine, note};
use crate::link::Link;
use crate::mtu::headers;
use crate::path::Path as Route;
use sidestep_socket::{Datagram, Engine, Handle, Path, Reason, UdpOptions};
use sidestep_sys::Problem;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

/// The header in front of each packet, without a tag.
const ETHERNET_BYTES: u32 = 14;

/// One end of path `xdp`: an engine with one socket.
pub(crate) struct StackLink {
    engine: Engine,
    socket: Handle,
    /// The receiving socket: the socket itself, or one that has joined a group.
    heard: Handle,
    /// The destination, if it is not the peer.
    group: Option<SocketAddr>,
    /// Set if messages leave at once, each by itself.
    flushes: bool,
    /// The longest sleep of a receive; none for one that spins.
    sleep: Option<Duration>,
}

impl StackLink {
    /// Opens an engine on a device, for messages of `size` bytes, and binds a port of the kernel's choice.
    pub(crate) fn open(device: &Device, local: IpAddr, load: Load, size: u32) -> Result<Self, Problem> {
        let mut engine = engine(device, load)?;
        check_frames(&engine, size + headers(local.is_ipv6()))?;
        let socket = engine.bind(SocketAddr::new(local, 0), &UdpOptions::default())?;
        Ok(Self { engine, socket, heard: socket, group: None, flushes: load == Load::RoundTrips, sleep: None })
    }

    /// Has receives wait as the path says.
    pub(crate) fn waiting(self, path: &Route) -> Self {
        Self { sleep: path.sleep(), ..self }
    }

    /// Its port.
    pub(crate) fn port(&mut self) -> Result<u16, Problem> {
        let local = self.engine.local(self.socket).map_err(|error| Problem::failed("cannot name the port", error))?;
        Ok(local.port())
    }

    /// Fixes the peer, and waits until both directions go past the kernel.
    pub(crate) fn connect(&mut self, peer: SocketAddr) -> Result<(), Problem> {
        self.engine.connect(self.socket, peer)?;
        self.wait_until_accelerated()
    }

    /// Waits until both directions go past the kernel.
    pub(crate) fn wait_until_accelerated(&mut self) -> Result<(), Problem> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot go past the kernel", why);
            self.engine.poll().map_err(|error| failed(&error))?;
            match self.engine.path(self.socket).map_err(|error| failed(&error))? {
                Path::Accelerated { .. } => return Ok(()),
                Path::Kernel(reason) if Instant::now() > deadline => {
                    return Err(failed(&reason).next("see sidestep ps, and the counters of its stack"));
                }
                Path::Kernel(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Sends to a group from now on; what comes back still comes to the port.
    pub(crate) fn send_to_group(&mut self, group: SocketAddrV4) -> Result<(), Problem> {
        let group = SocketAddr::V4(group);
        self.group = Some(group);
        wait_for_route(&mut self.engine, self.socket, group)
    }

    /// Hears a group from now on, by a further socket of this engine; its port.
    pub(crate) fn join(&mut self, group: Ipv4Addr) -> Result<u16, Problem> {
        let (socket, port) = join_past_kernel(&mut self.engine, group)?;
        self.heard = socket;
        Ok(port)
    }

    /// Returns a note for the report.
    pub(crate) fn note(&self) -> String {
        note(&self.engine)
    }
}

/// Waits until datagrams of `socket` to a group go past the kernel.
pub(crate) fn wait_for_route(engine: &mut Engine, socket: Handle, group: SocketAddr) -> Result<(), Problem> {
    let deadline = Instant::now() + READY_MAX;
    loop {
        let path = engine.path_to(socket, group);
        match path.map_err(|error| Problem::failed(format!("cannot send to {group}"), error))? {
            Path::Accelerated { .. } => return Ok(()),
            path if Instant::now() > deadline => {
                return Err(Problem::failed(format!("cannot send to {group} past the kernel"), path));
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
        engine.poll().map_err(|error| Problem::failed(format!("cannot send to {group}"), error))?;
    }
}

/// Joins a group past the kernel by a further socket of an engine. Returns the socket, and its port.
pub(crate) fn join_past_kernel(engine: &mut Engine, group: Ipv4Addr) -> Result<(Handle, u16), Problem> {
    let socket = engine.bind(SocketAddr::new(group.into(), 0), &UdpOptions::default())?;
    let failed = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot join {group} past the kernel"), why);
    let (mut path, deadline) = (engine.join(socket, group.into(), 0, None)?, Instant::now() + READY_MAX);
    // Control may take longer than the call waits.
    while path == Path::Kernel(Reason::Opening) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
        engine.poll().map_err(|error| failed(&error))?;
        path = engine.path(socket).map_err(|error| failed(&error))?;
    }
    if !path.is_accelerated() {
        return Err(failed(&path));
    }
    let local = engine.local(socket).map_err(|error| Problem::failed("cannot name the port", error))?;
    Ok((socket, local.port()))
}

impl StackLink {
    /// Sleeps until a datagram comes, but no longer than that.
    fn receive_asleep(&mut self, longest: Duration) -> io::Result<Option<Datagram>> {
        let end = Instant::now() + longest;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.engine.sleep(left).map_err(io::Error::other)?;
            let received = self.engine.receive(self.heard).map_err(io::Error::other)?;
            if received.is_some() || left.is_zero() {
                return Ok(received);
            }
        }
    }
}

/// Refuses packets that no frame of the engine holds: they would go by the kernel.
fn check_frames(engine: &Engine, packet_bytes: u32) -> Result<(), Problem> {
    let Some(facts) = engine.link() else { return Ok(()) };
    let most = facts.send_bytes_max.min(facts.receive_bytes_max).saturating_sub(ETHERNET_BYTES);
    if packet_bytes <= most {
        return Ok(());
    }
    Err(Problem::failed(
        format!("cannot send packets of {packet_bytes} bytes past the kernel"),
        format!("frames on {} hold {most}", facts.place),
    )
    .next("measure shorter messages, or on Linux 6.6 or later"))
}

impl Link for StackLink {
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = if self.flushes {
            self.engine.send(self.socket, bytes)
        } else {
            self.engine.put(self.socket, bytes, self.group)
        };
        sent.map(|()| bytes.len()).map_err(io::Error::from)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.engine.flush().map_err(io::Error::from)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut received = self.engine.receive(self.heard).map_err(io::Error::other)?;
        if let (None, Some(longest)) = (&received, self.sleep) {
            received = self.receive_asleep(longest)?;
        }
        let Some(datagram) = received else { return Err(ErrorKind::WouldBlock.into()) };
        let payload = self.engine.payload(&datagram);
        let count = payload.len().min(buffer.len());
        buffer[..count].copy_from_slice(&payload[..count]);
        self.engine.release(datagram);
        Ok(count)
    }
}
