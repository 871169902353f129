//! The handshake: the connector's hello with its rings, and the listener's checks.

use super::hello::{HELLO_BYTES, Hello, Refusal};
use super::watch::Watch;
use super::{Kind, RING_BYTES_MAX, RING_BYTES_MIN, Rings, Settings, Users};
use crate::stream::socket_file::connect_file;
use crate::stream::{Backend, Options, Waiting};
use rustix::cmsg_space;
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
use socket2::{Domain, Socket, Type};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// The longest wait of a listener for a hello. An honest one is sent by the next call after the connect.
pub(crate) const HELLO_MAX: Duration = Duration::from_millis(500);

/// A connector that a listener did not take.
pub(crate) struct TurnedAway(pub(crate) String);

/// Makes the socket of the handshake: message borders, and an end that is seen.
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
pub(crate) fn dial(path: &Path, kind: Kind, settings: &Settings, options: &Options) -> Result<Rings, Problem> {
    check(settings, options)?;
    let fail = |error: io::Error| {
        Problem::failed(format!("cannot connect to {}", path.display()), error)
            .next("check that the other side listens there for a connection through shared memory")
    };
    let [up, down] = [make(settings)?, make(settings)?];
    let socket = open_socket().and_then(|socket| connect_file(socket, path, options.timeout)).map_err(fail)?;
    let listener = Credentials::of_peer(socket.as_fd()).map_err(fail)?;
    if !settings.users.allow(listener.uid) {
        let why = format!("user {} listens there (process {})", listener.uid, listener.pid.unwrap_or(0));
        return Err(
            fail(io::Error::new(ErrorKind::PermissionDenied, why)).next("allow that user, or find out who it is")
        );
    }
    let mut rings = assemble(socket, &up, &down)?;
    rings.set_waiting(options).map_err(fail)?;
    let bytes = settings.ring_bytes as u64;
    say_hello(rings.descriptor(), Hello { kind, up_bytes: bytes, down_bytes: bytes }, [&up, &down]).map_err(fail)?;
    Ok(rings)
}

fn make(settings: &Settings) -> Result<Segment, Problem> {
    let (kind, bytes) = (sidestep_ring::Kind::Spsc, settings.ring_bytes);
    Segment::memfd(&sidestep_ring::Options { kind, cell: Cell::Line, bytes, waking: Waking::Barrier })
}

/// The rings, and then a bell: the listener may sleep on a ring that was written before it could ask for one. One that
/// has taken the rings and ended before the bell has accepted all the same: the next read sees the end.
fn say_hello(socket: impl AsFd, hello: Hello, rings: [&Segment; 2]) -> io::Result<()> {
    let descriptors = rings.map(Segment::fd);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(&socket, &[IoSlice::new(&hello.encode())], &mut control, flags)?;
    match send(&socket, &super::hello::BELL, flags) {
        Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        rung => Ok(rung.map(drop)?),
    }
}

/// Takes a connector that was accepted and has said something, or says to it and to the caller why not. Its calls never wait.
pub(crate) fn admit(socket: Socket, kind: Kind, settings: &Settings) -> Result<Rings, TurnedAway> {
    let rings = identify(&socket, &settings.users).and_then(|()| {
        let (hello, [up, down]) = hear_hello(&socket, kind, settings)?;
        Ok([attach(up, hello.up_bytes)?, attach(down, hello.down_bytes)?])
    });
    match rings {
        Err(why) => Err(turn_away(&socket, why)),
        Ok([up, down]) => assemble(socket, &down, &up).map_err(|problem| TurnedAway(problem.brief())),
    }
}

/// Refuses a connector that has said nothing for [`HELLO_MAX`].
pub(crate) fn refuse_silent(socket: &Socket) -> TurnedAway {
    turn_away(socket, NotTaken(Refusal::NoHello, format!("silent for {} ms", HELLO_MAX.as_millis())))
}

fn turn_away(socket: &Socket, NotTaken(refusal, why): NotTaken) -> TurnedAway {
    // To one that does not read it, nothing is owed.
    let _ = send(socket, &refusal.encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    TurnedAway(if why.is_empty() { refusal.to_string() } else { format!("{refusal} ({why})") })
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
fn hear_hello(socket: &Socket, kind: Kind, settings: &Settings) -> Result<(Hello, [OwnedFd; 2]), NotTaken> {
    let unheard = |error: Errno| NotTaken(Refusal::NoHello, error.to_string());
    let mut bytes = [0; HELLO_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let heard = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags).map_err(unheard)?;
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    let hello = Hello::decode(&bytes[..heard.bytes], kind, settings.ring_bytes)?;
    match <[OwnedFd; 2]>::try_from(descriptors) {
        Ok(descriptors) if !heard.flags.contains(ReturnFlags::CTRUNC) => Ok((hello, descriptors)),
        _ => Err(Refusal::Descriptors.into()),
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

fn assemble(socket: Socket, write: &Segment, read: &Segment) -> Result<Rings, Problem> {
    let (producer, consumer) = (write.producer()?, read.consumer(Resume::Unread)?);
    // A call that must not wait says so itself.
    socket.set_nonblocking(false).map_err(|error| Problem::failed("cannot prepare the socket", error))?;
    Ok(Rings::new(consumer, producer, Watch::over(socket)))
}
