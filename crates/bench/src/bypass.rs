//! Our own stack as a transport: an engine per slice, and the control plane that it needs.

use sidestep_control::permit::Permit;
use sidestep_link::Link;
use sidestep_plane::client::Client;
use sidestep_plane::place;
use sidestep_socket::{Engine, EngineOptions, Handle, Path, UdpOptions};
use sidestep_sys::{Problem, cpu, interface};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a control plane may take to start, and a path to be past the kernel: the neighbour has to be found, and both
/// interfaces are put to work again after their programs were attached.
const READY_MAX: Duration = Duration::from_secs(5);

/// The largest message: an Ethernet frame of 1500 bytes less IPv4 and UDP headers. IPv6 takes 20 bytes more.
pub(crate) const SIZE_MAX_V4: u32 = 1472;
/// The same over IPv6.
pub(crate) const SIZE_MAX_V6: u32 = 1452;

/// A control plane for this end, on a thread, from the first slice that needs it to the end of the session. Without an open
/// stack nothing is attached to any interface.
pub(crate) struct Plane {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Plane {
    /// Starts it in the network namespace of the calling thread.
    pub(crate) fn start(cpus: &[u32]) -> Result<Self, Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot start a control plane for path xdp", why);
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, cpus) = (stop.clone(), cpus.to_vec());
        let serve = move || {
            // Anywhere is better than where this end spins.
            let _ = cpu::restrict(&cpus);
            let options =
                sidestep_control::Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None };
            if let Err(problem) = sidestep_control::run(&options, &seen) {
                sidestep_sys::problem::say(problem);
            }
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(serve).map_err(|error| failed(&error))?;
        let plane = Self { stop, thread: Some(thread) };
        let (path, deadline) = (place::socket()?, Instant::now() + READY_MAX);
        while Client::connect_to(&path, "sidestep bench").and_then(Client::bye).is_err() {
            if Instant::now() > deadline || plane.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(failed(&"it does not listen").next("try it by hand: sidestep control"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(plane)
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the frames of a slice are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// One message under way: few frames, which stay in the cache, as bare frames have them.
    RoundTrips,
    /// A stream.
    Stream,
}

/// One end of path `xdp`: an engine with one socket.
pub(crate) struct StackLink {
    engine: Engine,
    socket: Handle,
    /// Where messages come to: the socket itself, or one that has joined a group.
    heard: Handle,
    /// Where messages go, if not to the peer.
    group: Option<SocketAddr>,
    /// Whether messages leave at once, each by itself.
    flushes: bool,
}

impl StackLink {
    /// Opens an engine on the interface that has `local`, and binds a port of the kernel's choice.
    pub(crate) fn open(local: IpAddr, load: Load) -> Result<Self, Problem> {
        let no_interface = || Problem::failed(format!("cannot use path xdp from {local}"), "no interface has it");
        let interface = interface::of_address(local).ok_or_else(no_interface)?;
        let options = match load {
            Load::RoundTrips => {
                EngineOptions { frames: 128, ring_entries: 64, fill: Some(16), ..EngineOptions::on(interface) }
            }
            Load::Stream => EngineOptions {
                frames: 2 * STREAM_RING,
                ring_entries: STREAM_RING,
                tx_budget: Some(BUDGET),
                ..EngineOptions::on(interface)
            },
        };
        let mut engine = Engine::open(&EngineOptions { name: "sidestep bench".into(), ..options })?;
        if let Some((_, text)) = engine.refusal() {
            return Err(Problem::failed("cannot use path xdp", text).next("see what holds the interface: sidestep ps"));
        }
        let socket = engine.bind(SocketAddr::new(local, 0), &UdpOptions::default())?;
        Ok(Self { engine, socket, heard: socket, group: None, flushes: load == Load::RoundTrips })
    }

    /// Its port.
    pub(crate) fn port(&mut self) -> Result<u16, Problem> {
        let local = self.engine.local(self.socket).map_err(|error| Problem::failed("cannot name the port", error))?;
        Ok(local.port())
    }

    /// Fixes the peer, and waits until both directions go past the kernel.
    pub(crate) fn connect(&mut self, peer: SocketAddr) -> Result<(), Problem> {
        self.engine.connect(self.socket, peer)?;
        self.settle()
    }

    /// Waits until both directions go past the kernel.
    pub(crate) fn settle(&mut self) -> Result<(), Problem> {
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
        let (group, deadline) = (SocketAddr::V4(group), Instant::now() + READY_MAX);
        self.group = Some(group);
        loop {
            let path = self.engine.path_to(self.socket, group);
            match path.map_err(|error| Problem::failed(format!("cannot send to {group}"), error))? {
                Path::Accelerated { .. } => return Ok(()),
                path if Instant::now() > deadline => {
                    return Err(Problem::failed(format!("cannot send to {group} past the kernel"), path));
                }
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            self.engine.poll().map_err(|error| Problem::failed(format!("cannot send to {group}"), error))?;
        }
    }

    /// Hears a group from now on, by a further socket of this engine; its port.
    pub(crate) fn join(&mut self, group: Ipv4Addr) -> Result<u16, Problem> {
        let socket = self.engine.bind(SocketAddr::new(group.into(), 0), &UdpOptions::default())?;
        let path = self.engine.join(socket, group.into(), 0, None)?;
        if !path.is_accelerated() {
            return Err(Problem::failed(format!("cannot join {group} past the kernel"), path));
        }
        self.heard = socket;
        let local = self.engine.local(socket).map_err(|error| Problem::failed("cannot name the port", error))?;
        Ok(local.port())
    }

    /// What a reader of the results must know.
    pub(crate) fn note(&self) -> String {
        let facts = self.engine.link();
        let xsk = facts.and_then(|facts| facts.xsk.as_ref());
        let mode = xsk.map_or("", |xsk| xsk.mode.name());
        let why = xsk.and_then(|xsk| xsk.downgrades.first()).map_or_else(String::new, |it| format!(" ({it})"));
        format!(
            "AF_XDP in {mode} mode{why}; the steering program is on both interfaces during these slices only, so that the \
             kernel's paths are measured without it"
        )
    }
}

/// Frames that wait for a receiver that was put aside: 40 ms at 200,000 messages a second. The kernel's sockets get buffers
/// of 8 MiB for the same.
const STREAM_RING: u32 = 8192;

/// Frames that one kick sends in copy mode: a burst leaves by one call.
const BUDGET: u32 = 256;

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
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = self.engine.receive(self.heard).map_err(io::Error::other)?;
        let Some(datagram) = received else { return Err(ErrorKind::WouldBlock.into()) };
        let payload = self.engine.payload(&datagram);
        let count = payload.len().min(buffer.len());
        buffer[..count].copy_from_slice(&payload[..count]);
        self.engine.release(datagram);
        Ok(count)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.engine.twin(self.socket).expect("the socket is open as long as this link")
    }
}
