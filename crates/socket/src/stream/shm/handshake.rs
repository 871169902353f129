//! The handshake: the connector's hello with its rings, and the listener's checks.

use super::hello::{HELLO_BYTES, Hello, Refusal};
use super::watch::Watch;
use super::{Kind, RING_BYTES_MAX, RING_BYTES_MIN, Settings, ShmLink, Users};
use crate::stream::{Backend, Link, Options, Waiting};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};
use sidestep_ring::spsc::Resume;
use sidestep_ring::{Access, Cell, Segment, Waking, layout};
use sidestep_sys::Problem;
use sidestep_sys::credentials::Credentials;
use sidestep_sys::memory;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait of a listener for a hello. An honest one is sent by the next call after the connect.
pub(crate) const HELLO_MAX: Duration = Duration::from_millis(500);
/// The shortest time that SO_RCVTIMEO can say.
const TIMEOUT_MIN: Duration = Duration::from_micros(1);
/// Between two attempts to connect to a listener whose backlog is full.
const RETRY_EVERY: Duration = Duration::from_millis(1);

/// A connector that a listener did not take.
pub(crate) struct TurnedAway(pub(crate) String);

/// The socket that a link opens with: message borders, and an end that is seen.
pub(crate) fn open_socket() -> io::Result<Socket> {
    Socket::new(Domain::UNIX, Type::SEQPACKET, None)
}

/// Refuses what shared memory cannot do, by name.
pub(crate) fn check(settings: &Settings, options: &Options) -> Result<(), Problem> {
    let refused = |why: &str| Problem::usage("cannot use shared memory", why);
    if options.backend == Backend::Uring {
        return Err(
            refused("io_uring has nothing to do there: no message passes the kernel").next("use Backend::Kernel")
        );
    }
    if matches!(options.waiting, Waiting::BusyPoll { .. }) {
        return Err(refused("busy polling has no device to poll there").next("use Waiting::Spin, Block or Epoll"));
    }
    let bytes = settings.ring_bytes;
    if !bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes) {
        let why = format!("a ring has a power of two from {RING_BYTES_MIN} to {RING_BYTES_MAX} bytes, not {bytes}");
        return Err(refused(&why));
    }
    Ok(())
}

/// Connects to a listener at `path` and hands it two rings. It need not have accepted when this returns.
pub fn connect(path: &Path, settings: &Settings, options: &Options) -> Result<Box<dyn Link>, Problem> {
    Ok(Box::new(dial(path, settings, options)?))
}

/// Connects as [`connect`] does.
pub(crate) fn dial(path: &Path, settings: &Settings, options: &Options) -> Result<ShmLink, Problem> {
    check(settings, options)?;
    let fail = |error: io::Error| {
        Problem::failed(format!("cannot connect to {}", path.display()), error)
            .next("check that the other side listens there for a link in shared memory")
    };
    let [up, down] = [make(settings)?, make(settings)?];
    let socket = connect_socket(path, options.timeout).map_err(fail)?;
    let listener = Credentials::of_peer(socket.as_fd()).map_err(fail)?;
    if !settings.users.allow(listener.uid) {
        let why = format!("user {} listens there (process {})", listener.uid, listener.pid.unwrap_or(0));
        return Err(
            fail(io::Error::new(ErrorKind::PermissionDenied, why)).next("allow that user, or find out who it is")
        );
    }
    let link = assemble(socket, &up, &down, settings.kind, options)?;
    let bytes = settings.ring_bytes as u64;
    let hello = Hello { kind: settings.kind, up_bytes: bytes, down_bytes: bytes };
    say_hello(link.socket(), hello, [&up, &down]).map_err(fail)?;
    Ok(link)
}

fn make(settings: &Settings) -> Result<Segment, Problem> {
    let (kind, bytes) = (sidestep_ring::Kind::Spsc, settings.ring_bytes);
    Segment::memfd(&sidestep_ring::Options { kind, cell: Cell::Line, bytes, waking: Waking::Barrier })
}

/// Connects as long as a full backlog is all that is in the way. Without O_NONBLOCK, connect(2) would wait there for ever.
fn connect_socket(path: &Path, timeout: Duration) -> io::Result<Socket> {
    let deadline = Instant::now().checked_add(timeout);
    let address = SockAddr::unix(path)?;
    let socket = open_socket()?;
    socket.set_nonblocking(true)?;
    loop {
        match socket.connect(&address) {
            Ok(()) => return Ok(socket),
            Err(error) if !crate::stream::is_retry(&error) => return Err(error),
            Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                return Err(io::Error::new(ErrorKind::TimedOut, "its backlog is full and it accepts nobody"));
            }
            Err(_) => std::thread::sleep(RETRY_EVERY),
        }
    }
}

/// The rings, and then a bell: the listener may sleep on a ring that was written before it could ask for one.
fn say_hello(socket: impl AsFd, hello: Hello, rings: [&Segment; 2]) -> io::Result<()> {
    let descriptors = rings.map(Segment::fd);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(&socket, &[IoSlice::new(&hello.encode())], &mut control, flags)?;
    send(&socket, &super::hello::BELL, flags)?;
    Ok(())
}

/// Takes a connector that was accepted, or says to it and to the caller why not.
pub(crate) fn admit(socket: Socket, settings: &Settings, options: &Options) -> Result<ShmLink, TurnedAway> {
    let rings = identify(&socket, &settings.users).and_then(|()| {
        let (hello, [up, down]) = hear_hello(&socket, settings)?;
        Ok([attach(up, hello.up_bytes)?, attach(down, hello.down_bytes)?])
    });
    let turn_away = |socket: &Socket, NotTaken(refusal, why): NotTaken| {
        // To one that does not read it, nothing is owed.
        let _ = send(socket, &refusal.encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        TurnedAway(if why.is_empty() { refusal.to_string() } else { format!("{refusal} ({why})") })
    };
    match rings {
        Err(why) => Err(turn_away(&socket, why)),
        Ok([up, down]) => {
            let link = assemble(socket, &down, &up, settings.kind, options);
            link.map_err(|problem| TurnedAway(problem.brief()))
        }
    }
}

/// The refusal that the connector gets, and the text for this side only.
struct NotTaken(Refusal, String);

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> Self {
        Self(refusal, String::new())
    }
}

fn identify(socket: &Socket, users: &Users) -> Result<(), NotTaken> {
    match Credentials::of_peer(socket.as_fd()) {
        Ok(peer) if users.allow(peer.uid) => Ok(()),
        Ok(peer) => Err(NotTaken(Refusal::User(peer.uid), format!("process {}", peer.pid.unwrap_or(0)))),
        Err(error) => Err(NotTaken(Refusal::User(u32::MAX), error.to_string())),
    }
}

/// The connector's first message, with its descriptors. Room is made for two: the kernel closes what is beyond.
fn hear_hello(socket: &Socket, settings: &Settings) -> Result<(Hello, [OwnedFd; 2]), NotTaken> {
    let unheard = |why: &dyn std::fmt::Display| NotTaken(Refusal::NoHello, why.to_string());
    if !is_readable_within(socket, HELLO_MAX) {
        return Err(unheard(&format_args!("silent for {} ms", HELLO_MAX.as_millis())));
    }
    let mut bytes = [0; HELLO_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let heard = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags).map_err(|e| unheard(&e))?;
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    let hello = Hello::decode(&bytes[..heard.bytes], settings.kind, settings.ring_bytes)?;
    match <[OwnedFd; 2]>::try_from(descriptors) {
        Ok(descriptors) if !heard.flags.contains(ReturnFlags::CTRUNC) => Ok((hello, descriptors)),
        _ => Err(Refusal::Descriptors.into()),
    }
}

fn is_readable_within(socket: &Socket, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut sockets = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut sockets, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) => {}
            Ok(count) => return count > 0,
            Err(_) => return false,
        }
    }
}

/// A stranger's ring. Nothing is mapped before it is known to be small, and to stay as it is.
fn attach(descriptor: OwnedFd, bytes: u64) -> Result<Segment, NotTaken> {
    let refused = |why: &dyn std::fmt::Display| NotTaken(Refusal::Memory, why.to_string());
    if memory::size_is_sealed(descriptor.as_fd()) != Some(true) {
        return Err(refused(&"its size is not sealed"));
    }
    if memory::is_hugetlbfs(descriptor.as_fd()) {
        return Err(refused(&"it lies on huge pages, which could be taken back"));
    }
    let file = File::from(descriptor);
    let size = file.metadata().map_err(|error| refused(&error))?.len();
    if size != layout::HEADER_BYTES as u64 + bytes {
        return Err(refused(&format_args!("it has {size} bytes, not those of a ring of {bytes}")));
    }
    let ring = Segment::from_fd(file.into(), Access::ReadWrite).map_err(|problem| refused(&problem.brief()))?;
    let fits = ring.kind() == sidestep_ring::Kind::Spsc && ring.stat().capacity_bytes == bytes;
    if !fits || ring.waking() == Waking::Never {
        return Err(refused(&"it is another ring than the one that was said"));
    }
    Ok(ring)
}

fn assemble(
    socket: Socket,
    write: &Segment,
    read: &Segment,
    kind: Kind,
    options: &Options,
) -> Result<ShmLink, Problem> {
    let (producer, mut consumer) = (write.producer()?, read.consumer(Resume::Unread)?);
    let sleeps = options.waiting != Waiting::Spin;
    if sleeps {
        // Before the other end can write. What an early connector has written is told by the bell behind its hello.
        consumer.request_doorbell();
    }
    let prepare = || {
        // What must not wait says so in each call. Zero would mean for ever.
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(options.timeout.max(TIMEOUT_MIN)))
    };
    prepare().map_err(|error| Problem::failed("cannot prepare the socket", error))?;
    let watch = Watch::over(Arc::new(socket), sleeps);
    Ok(ShmLink::new(consumer, producer, watch, kind, (options.waiting, options.timeout)))
}
