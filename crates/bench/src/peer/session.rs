//! The peer's side of one control connection.

use super::allowed::{Allowed, Streamed};
use super::control::Control;
use super::protocol::{
    Accept, Acceptor, BATCH_BYTES_MAX, Bulk, Done, Echo, MAGIC, PROTOCOL, Ready, Reply, Request, Sink,
};
use super::watch::{SLICE_MAX, Watch};
use super::{accept, bulk, echo, frames, sink};
use crate::bypass::{Consent, ControlPlane, Device, Keeper, Load, StackLink, StackListener};
use crate::congestion;
use crate::fix::Acceptors;
use crate::frames::{End, Flow, OwnPort, SIZE_MAX};
use crate::host;
use crate::link::{DatagramLink, Link, StreamLink, datagrams};
use crate::message::check_size;
use crate::mtu;
use crate::path::{Medium, Path};
use crate::service_time::{SERVICE_TIME_MAX, ServiceTime};
use crate::tick::play::Plan;
use crate::transport::Transport;
use crate::unmodified::Server;
use sidestep_socket::datagram::{DatagramSocket, UdpPort};
use sidestep_socket::stream::{Endpoint, Io, Listener, Options};
use sidestep_stack::tcp::Config;
use sidestep_sys::{Problem, cpu};
use sidestep_venue::tape::Tape;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Time-out of a sleeping receive.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Time that the measuring end has to connect to a slice's port.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time between requests after which a session is closed.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// The same where acceptors were started: one may be warmed up for ten minutes.
const REQUEST_OF_ACCEPTORS_MAX: Duration = Duration::from_secs(660);
/// The same of the program that has started this peer: `tune verify` watches pauses for hours before it asks for a slice. Its end is seen
/// on the control connection.
const REQUEST_OF_OWN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The next step where only a lab has what is asked for.
const IN_LAB: &str = "measure in a lab, as root: --place lab";

/// The other end of a control connection, and the addresses of the messages.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Address that slices are served on.
    pub local: IpAddr,
    /// The only address that is answered.
    pub remote: IpAddr,
    /// Set if both ends are on one host, so that Unix sockets and shared memory work.
    pub same_host: bool,
    /// What this end may do past the kernel.
    pub consent: Consent,
    /// The keeper of control planes that sessions start.
    pub keeper: Keeper,
    /// Addresses of this end and of the measuring end by the second pair of the lab, for paths frame by frame.
    pub by_frames: Option<(IpAddr, IpAddr)>,
    /// CPU for pinned paths, if the measuring end names none.
    pub cpu: u32,
    /// Rights of the measuring end.
    pub allowed: Allowed,
}

/// Serves one control connection until the other end closes it.
pub fn run(control: Control, origin: Origin) -> Result<(), Problem> {
    let streamed = Streamed::default();
    let acceptors = Acceptors::default();
    let cpus = cpu::allowed();
    let mut session = Session { acceptors, plane: None, control, origin, streamed, tape: None, cpus };
    if session.welcome()? {
        while session.serve_next()? {}
    }
    Ok(())
}

pub(super) struct Session {
    /// Before the control plane: some use it.
    acceptors: Acceptors,
    /// Started with the first slice that needs it.
    plane: Option<ControlPlane>,
    control: Control,
    pub(super) origin: Origin,
    streamed: Streamed,
    /// The messages of the last slice of trading.
    pub(super) tape: Option<(Plan, Arc<Tape>)>,
    /// The CPUs that this thread began with, for unpinned paths.
    cpus: Vec<u32>,
}

impl Session {
    /// Answers the greeting; false if the other end must not go on.
    fn welcome(&mut self) -> Result<bool, Problem> {
        let Some(Request::Hello { magic, protocol, boot_id, .. }) = self.request()? else { return Ok(false) };
        if magic != MAGIC {
            return Err(Problem::failed("closed a connection", "it does not come from sidestep"));
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.say(&Reply::Hello {
            protocol: PROTOCOL,
            version,
            host: Box::new(self.origin.allowed.told(host::facts(&host::ClockFacts::default()))),
            mtu: mtu::of_way(self.origin.local, self.origin.remote),
            same_machine: !boot_id.is_empty() && boot_id == host::boot_id(),
            cpu: Some(self.origin.cpu),
            past_kernel: self.origin.consent.told(),
        })?;
        Ok(protocol == PROTOCOL)
    }

    /// Serves one request; false when the other end has closed.
    fn serve_next(&mut self) -> Result<bool, Problem> {
        let Some(request) = self.request()? else { return Ok(false) };
        let done = self.check_cpu(&request).and_then(|()| match request {
            Request::Hello { .. } => Err(Problem::failed("a second greeting", "there is one")),
            Request::Echo(request) => self.echo(&request),
            Request::Sink(request) => self.sink(&request),
            Request::Bulk(request) => self.bulk(&request),
            Request::Accept(request) => self.accept_many(&request),
            Request::Trade(request) => self.trade(&request),
            Request::Acceptor(wish) => self.start_acceptor(&wish),
            Request::Awake { number } => self.acceptors.awake(number).map(|()| Reply::Done(Done::default())),
            Request::Frames { number } => {
                self.acceptors.frames(number).map(|received| Reply::Done(Done { received, ..Done::default() }))
            }
        });
        let reply =
            done.unwrap_or_else(|problem| Reply::Refused { reason: problem.brief(), next: problem.next_step().into() });
        self.say(&reply)?;
        Ok(true)
    }

    /// Refuses a CPU before the slice is made ready.
    fn check_cpu(&self, request: &Request) -> Result<(), Problem> {
        match request.place() {
            Some((path, cpu)) if Path::named(path)?.pinned => self.origin.allowed.cpu(cpu, self.origin.cpu).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn request(&mut self) -> Result<Option<Request>, Problem> {
        let wait = match self.acceptors.is_empty() {
            _ if self.origin.allowed == Allowed::EVERYTHING => REQUEST_OF_OWN_MAX,
            true => REQUEST_MAX,
            false => REQUEST_OF_ACCEPTORS_MAX,
        };
        self.control.recv(wait).map_err(|error| Problem::failed("closed a session", error))
    }

    pub(super) fn say(&mut self, reply: &Reply) -> Result<(), Problem> {
        self.control.send(reply).map_err(|error| Problem::failed("lost the measuring end", error))
    }

    fn echo(&mut self, request: &Echo) -> Result<Reply, Problem> {
        let path = Path::named(&request.path)?;
        check_size(request.size, request.transport.size_max())?;
        let service = request.service;
        if !service.is_bounded() {
            return Err(Problem::usage("cannot work that long", format!("the limit is {SERVICE_TIME_MAX:?}"))
                .next("give a shorter --service-time"));
        }
        if path.medium == Medium::Frames {
            return self.echo_frames(request, path, service);
        }
        if path.medium == Medium::Unmodified {
            return self.echo_unmodified(request);
        }
        let load = if request.pipelined { Load::Stream } else { Load::RoundTrips };
        if path.medium == Medium::Stack && request.transport == Transport::Tcp {
            let mut link = self.accept_past_kernel(load, Config::latency())?.waiting(path);
            self.place_thread(path, request.cpu)?;
            let watch = self.watch(path).working(service);
            return echo::run(&mut link, request, service, watch).map(Reply::Done);
        }
        if path.medium == Medium::Stack {
            let mut link = self.open_stack(load, request.size)?.waiting(path);
            let ready = Ready { port: link.port()?, note: self.note(&link.note()), ..Ready::default() };
            link.connect(SocketAddr::new(self.origin.remote, request.port))?;
            self.say(&Reply::Ready(ready))?;
            self.place_thread(path, request.cpu)?;
            let watch = self.watch(path).working(service);
            return echo::run(&mut link, request, service, watch).map(Reply::Done);
        }
        let mut link: Box<dyn Link> = match request.transport {
            Transport::Udp => Box::new(self.echo_port(request, path)?),
            Transport::Tcp | Transport::Uds | Transport::Shm => Box::new(self.accept(path)?),
            other => {
                let why = "it has no peer process";
                return Err(Problem::usage(format!("cannot echo over {other}"), why).next("use tcp, udp, uds or shm"));
            }
        };
        self.place_thread(path, request.cpu)?;
        let watch = self.watch(path).working(service);
        echo::run(link.as_mut(), request, service, watch).map(Reply::Done)
    }

    /// Has a program under the library answer.
    fn echo_unmodified(&mut self, request: &Echo) -> Result<Reply, Problem> {
        if self.origin.consent != Consent::Lab {
            return Err(Problem::usage("cannot answer by path run", "it starts programs, in a lab only").next(IN_LAB));
        }
        self.need_plane()?;
        let failed = |error| Problem::failed("cannot answer under the library", error);
        let program = std::env::current_exe().map_err(failed)?;
        let cpu = self.origin.allowed.cpu(request.cpu, self.origin.cpu)?;
        let (transport, Origin { local, remote, .. }) = (request.transport, self.origin.clone());
        let server = Server { transport, local, remote, size: request.size, cpu };
        let (port, started) = server.start(&program)?;
        self.say(&Reply::Ready(Ready { port, ..Ready::default() }))?;
        let (involuntary_switches, cpu) = started.counted()?;
        Ok(Reply::Done(Done { received: cpu.messages, involuntary_switches, cpu, ..Done::default() }))
    }

    /// Starts an acceptor that lives as long as the session.
    fn start_acceptor(&mut self, wish: &Acceptor) -> Result<Reply, Problem> {
        self.origin.allowed.check_fix()?;
        let cpu = self.origin.allowed.cpu(wish.cpu, self.origin.cpu)?;
        let interface = match wish.past_kernel {
            true => {
                self.need_plane()?;
                Some(self.origin.consent.interface(self.origin.local)?)
            }
            false => None,
        };
        let port = self.acceptors.start(wish, self.origin.local, interface.as_deref(), cpu)?;
        let note = interface.and_then(|name| self.note(&format!("past the kernel on {name}")));
        Ok(Reply::Ready(Ready { port, note, ..Ready::default() }))
    }

    fn bulk(&mut self, request: &Bulk) -> Result<Reply, Problem> {
        let path = Path::named(&request.path)?;
        check_size(request.size, Transport::Tcp.size_max())?;
        if request.send_for_ns.is_some_and(|ns| Duration::from_nanos(ns) > SLICE_MAX) {
            return Err(Problem::usage("cannot send that long", format!("the limit is {SLICE_MAX:?}"))
                .next("ask for shorter slices"));
        }
        let budget = match request.send_for_ns {
            Some(_) => self.streamed.budget(&self.origin.allowed, request.size)?,
            None => 0,
        };
        let asked = request.congestion.as_deref();
        let (mut link, congestion) = match path.medium {
            Medium::Stack => {
                let settings = congestion::of_stack(asked)?;
                let name = settings.congestion.name().into();
                (self.accept_past_kernel(Load::Stream, settings)?.waiting(path), Some(name))
            }
            Medium::Inet => {
                let link = self.accept(path)?;
                let congestion = congestion::of_kernel(link.descriptor(), asked)?;
                (link, congestion)
            }
            _ => {
                let what = format!("cannot stream over {}", path.name);
                return Err(Problem::usage(what, "it is no connection").next("choose a path over TCP"));
            }
        };
        self.place_thread(path, request.cpu)?;
        let watch = self.watch(path);
        let (done, sent) = bulk::run(&mut link, request, budget, watch)?;
        self.streamed.sent += sent;
        self.streamed.received += done.received * u64::from(request.size);
        if request.send_for_ns.is_some() {
            // What our own stack still has to send, it sends while it is asked to receive.
            let mut watch = self.watch(path);
            while link.receive(&mut [0; 64]).is_err_and(|error| sidestep_socket::stream::is_retry(&error)) {
                watch.finishing()?;
            }
        }
        Ok(Reply::Done(Done { congestion, ..done }))
    }

    fn accept_many(&mut self, request: &Accept) -> Result<Reply, Problem> {
        let path = Path::named(&request.path)?;
        check_size(request.size, Transport::Tcp.size_max())?;
        let (local, remote) = self.way(path)?;
        if path.medium == Medium::Stack {
            let listener = self.listen_past_kernel(Load::RoundTrips, Config::latency())?;
            self.place_thread(path, request.cpu)?;
            let watch = self.watch(path);
            return accept::run_past_kernel(listener, remote, request.size, watch).map(Reply::Done);
        }
        let failed = |error| Problem::failed("cannot listen", error);
        let listener = accept::listen(local, &options(path)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.as_socket().map_or(0, |local| local.port());
        let ready = self.of_kernel(Ready { port, ..Ready::default() });
        self.say(&Reply::Ready(ready))?;
        self.place_thread(path, request.cpu)?;
        let watch = self.watch(path);
        accept::run(&listener, &options(path), remote, request.size, watch).map(Reply::Done)
    }

    /// Bare frames: an XDP program is attached to this end's interface for the length of the slice.
    fn echo_frames(&mut self, request: &Echo, path: &Path, service: ServiceTime) -> Result<Reply, Problem> {
        self.origin.consent.check_own_program()?;
        check_size(request.size, SIZE_MAX)?;
        let (IpAddr::V4(local), IpAddr::V4(remote)) = (self.origin.local, self.origin.remote) else {
            return Err(Problem::usage("cannot answer bare frames", "they are IPv4").next("use an IPv4 address"));
        };
        self.leave_interface()?;
        self.place_thread(path, request.cpu)?;
        let port = OwnPort::take()?;
        let number = port.number;
        let flow = Flow { local: SocketAddrV4::new(local, number), remote: SocketAddrV4::new(remote, request.port) };
        let mut end = End::open(&self.origin.consent.interface(local.into())?, port, flow)?;
        self.say(&Reply::Ready(Ready { port: number, note: Some(end.note()), ..Ready::default() }))?;
        let watch = self.watch(path).working(service);
        frames::run(&mut end, request, service, watch).map(Reply::Done)
    }

    fn open_stack(&mut self, load: Load, size: u32) -> Result<StackLink, Problem> {
        self.need_plane()?;
        StackLink::open(&self.device()?, self.origin.local, load, size)
    }

    /// The interface of this end's engines.
    pub(super) fn device(&self) -> Result<Device, Problem> {
        Device::every_queue(&self.origin.consent, self.origin.local)
    }

    /// Returns what a reader of the results must know of this end's link, and of its control plane.
    pub(super) fn note(&self, link: &str) -> Option<String> {
        self.plane.as_ref().map(|plane| format!("{link}; {}", plane.note()))
    }

    /// Adds what a reader of the results must know of a path of the kernel at this end.
    pub(super) fn of_kernel(&self, ready: Ready) -> Ready {
        Ready { note: self.origin.consent.kernel_note(), ..ready }
    }

    /// Takes a started control plane off the interface, for a program of a slice's own.
    fn leave_interface(&mut self) -> Result<(), Problem> {
        self.plane.take_if(|plane| plane.is_on_host());
        self.origin.keeper.leave()
    }

    /// Listens past the kernel, and says so.
    fn listen_past_kernel(&mut self, load: Load, settings: Config) -> Result<StackListener, Problem> {
        self.need_plane()?;
        let listener = StackListener::open(&self.device()?, self.origin.local, load, settings)?;
        let note = self.note(&listener.note());
        self.say(&Reply::Ready(Ready { port: listener.port(), note, ..Ready::default() }))?;
        Ok(listener)
    }

    /// The measuring end's connection for one slice, past the kernel.
    fn accept_past_kernel(&mut self, load: Load, settings: Config) -> Result<StreamLink, Problem> {
        self.listen_past_kernel(load, settings)?.accept(CONNECT_MAX, self.origin.remote)
    }

    /// Has a control plane beside this end's engines. This thread may go anywhere meanwhile: the threads that are started
    /// for them shall not be where it spins later.
    pub(super) fn need_plane(&mut self) -> Result<(), Problem> {
        self.origin.consent.interface(self.origin.local)?;
        cpu::restrict(&self.cpus)?;
        if self.plane.is_none() {
            self.plane = Some(ControlPlane::need(&self.origin.consent, &self.origin.keeper, &self.cpus)?);
        }
        Ok(())
    }

    /// Accepts the measuring end's connection for one slice.
    fn accept(&mut self, path: &Path) -> Result<StreamLink, Problem> {
        let (local, remote) = self.way(path)?;
        let endpoint = match path.medium {
            Medium::Unix if self.origin.same_host => Endpoint::Unix(socket_path()),
            Medium::SharedMemory if self.origin.same_host => Endpoint::Shm(socket_path()),
            Medium::Unix | Medium::SharedMemory => {
                return Err(Problem::usage(format!("cannot use {}", path.name), "the ends are on different hosts")
                    .next("choose a path over TCP or UDP"));
            }
            _ => Endpoint::from(SocketAddr::new(local, 0)),
        };
        let mut io = Io::default();
        let mut listener = Listener::bind(&mut io, &endpoint, &options(path))?;
        let ready = match listener.endpoint() {
            Endpoint::Tcp { port, .. } | Endpoint::Xdp { port, .. } => {
                self.of_kernel(Ready { port: *port, ..Ready::default() })
            }
            Endpoint::Unix(path) | Endpoint::Shm(path) => {
                Ready { unix: Some(path.display().to_string()), ..Ready::default() }
            }
        };
        self.say(&Reply::Ready(ready))?;
        let accepted = listener.accept_from(&mut io, CONNECT_MAX, Some(remote));
        accepted.map(|accepted| StreamLink::new(accepted.stream)).map_err(|error| match listener.refusals() {
            refusals if refusals.count > 0 => Problem::failed("refused who connected for the slice", refusals.last),
            _ => Problem::failed("no peer connected for the slice", error),
        })
    }

    fn echo_port(&mut self, request: &Echo, path: &Path) -> Result<DatagramLink, Problem> {
        let (local, remote) = self.way(path)?;
        let port = UdpPort::bind(SocketAddr::new(local, 0))?;
        let ready = self.of_kernel(ready(&port)?);
        let socket = port.connect(SocketAddr::new(remote, request.port), &options(path))?;
        self.say(&Reply::Ready(ready))?;
        Ok(DatagramLink::new(socket))
    }

    fn sink(&mut self, request: &Sink) -> Result<Reply, Problem> {
        let path = Path::named(&request.path)?;
        check_size(request.size, Transport::Udp.size_max())?;
        request.group.map_or(Ok(()), |group| self.origin.allowed.check_group(group))?;
        if path.medium == Medium::Stack {
            return self.sink_stack(request, path);
        }
        let (options, (local, remote)) = (options(path), self.way(path)?);
        let port = UdpPort::bind(SocketAddr::new(local, 0))?;
        let mut ready = self.of_kernel(ready(&port)?);
        let back = port.connect(SocketAddr::new(remote, request.port), &options)?;
        let mut group = match request.group {
            None => None,
            Some(group) => Some(join(local, group, &options, &mut ready)?),
        };
        let batch = request.batch.min(BATCH_BYTES_MAX / request.size.max(1));
        let link = |socket| datagrams(socket, options.waiting, batch, request.size);
        let (mut back, mut group) = (link(back), group.take().map(link));
        self.say(&Reply::Ready(ready))?;
        self.place_thread(path, request.cpu)?;
        let watch = self.watch(path);
        let group = group.as_mut().map(|group| group.as_mut() as &mut dyn Link);
        sink::run(back.as_mut(), group, request.reflect_every, watch).map(Reply::Done)
    }

    /// The same past the kernel: one engine with two sockets where the stream comes to a group.
    fn sink_stack(&mut self, request: &Sink, path: &Path) -> Result<Reply, Problem> {
        let mut link = self.open_stack(Load::Stream, request.size)?.waiting(path);
        let mut ready = Ready { port: link.port()?, note: self.note(&link.note()), ..Ready::default() };
        link.connect(SocketAddr::new(self.origin.remote, request.port))?;
        if let Some(group) = request.group {
            ready.group = Some(SocketAddrV4::new(group, link.join(group)?));
        }
        self.say(&Reply::Ready(ready))?;
        self.place_thread(path, request.cpu)?;
        let watch = self.watch(path);
        sink::run(&mut link, None, request.reflect_every, watch).map(Reply::Done)
    }

    /// Pins the thread, or lets it go where the scheduler wants, as the path says.
    pub(super) fn place_thread(&self, path: &Path, cpu: Option<u32>) -> Result<(), Problem> {
        if !path.pinned {
            return cpu::restrict(&self.cpus);
        }
        cpu::restrict(&[self.origin.allowed.cpu(cpu, self.origin.cpu)?])
    }

    /// Returns the addresses of this end and of the measuring end that the messages of `path` take.
    fn way(&self, path: &Path) -> Result<(IpAddr, IpAddr), Problem> {
        if !path.frame_by_frame {
            return Ok((self.origin.local, self.origin.remote));
        }
        self.origin.by_frames.ok_or_else(|| {
            Problem::usage(format!("cannot use path {}", path.name), "this end has no interface for it").next(IN_LAB)
        })
    }

    pub(super) fn watch(&self, path: &Path) -> Watch<'_> {
        Watch::new(&self.control, path.waiting)
    }
}

fn join(local: IpAddr, group: Ipv4Addr, options: &Options, ready: &mut Ready) -> Result<DatagramSocket, Problem> {
    let IpAddr::V4(interface) = local else {
        return Err(Problem::usage(format!("cannot join {group}"), "the ends talk IPv6").next("use an IPv4 address"));
    };
    let port = UdpPort::join(SocketAddrV4::new(group, 0), interface)?;
    let number = number(&port)?;
    ready.group = Some(SocketAddrV4::new(group, number));
    ready.receive_buffer = port.receive_buffer();
    port.receiver(options)
}

fn options(path: &Path) -> Options {
    Options { waiting: path.waiting, backend: path.backend, timeout: LOOK_UP, ..Options::default() }
}

fn number(port: &UdpPort) -> Result<u16, Problem> {
    let local = port.local().map_err(|error| Problem::failed("cannot name the port", error))?;
    Ok(local.port())
}

fn ready(port: &UdpPort) -> Result<Ready, Problem> {
    Ok(Ready { port: number(port)?, receive_buffer: port.receive_buffer(), ..Ready::default() })
}

fn socket_path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("sidestep-{}-{number}.sock", std::process::id()))
}
