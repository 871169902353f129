//! Which sockets go past the kernel, and the calls by which they begin to: connect(2), listen(2), accept(2).

use crate::answer::{Answer, Stop};
use crate::description::{Description, Kind};
use crate::descriptors::State;
use crate::engine::{self, Shared, Woken};
use crate::listener::Listener;
use crate::signals::Inside;
use crate::status::Why;
use crate::stream::{Progress, Stream, of_twin, unfollowed};
use crate::waiting::Waiting;
use crate::watchers::Watchers;
use crate::{descriptors, environment, epoll, handover, pending, process, status, stdio};
use libc::c_int;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, getpeername, getsockname, ipproto, sockopt};
use sidestep_socket::tcp::{Answering, TcpListener, TcpStream};
use sidestep_socket::{Path, Reason};
use sidestep_sys::socket::{TcpState, listen_backlog, tcp_state};
use sidestep_sys::{drop_filter, stream_options};
use sidestep_unmodified::options::Transport;
use sidestep_unmodified::status::SocketKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// O_ASYNC: the kernel raises the signals, so it keeps the socket.
pub(crate) const ASYNC: OFlags = OFlags::from_bits_retain(libc::O_ASYNC as u32);

/// A kernel socket of the program that may become a twin.
#[derive(Debug)]
struct Candidate<'a> {
    socket: BorrowedFd<'a>,
    is_ipv6: bool,
    is_nonblocking: bool,
    /// O_ASYNC
    raises_signals: bool,
    local: Option<SocketAddr>,
}

impl<'a> Candidate<'a> {
    /// A socket of TCP that is nobody's yet; `None` for everything else.
    fn tcp(socket: BorrowedFd<'a>) -> Option<Self> {
        let family = sockopt::socket_domain(socket).ok()?;
        let is_tcp = [AddressFamily::INET, AddressFamily::INET6].contains(&family)
            && sockopt::socket_type(socket).ok()? == SocketType::STREAM
            && sockopt::socket_protocol(socket).ok()? == Some(ipproto::TCP);
        if !is_tcp || getpeername(socket).is_ok() {
            return None;
        }
        let local = getsockname(socket).ok().and_then(|any| SocketAddr::try_from(any).ok());
        let flags = fcntl_getfl(socket).ok()?;
        let (is_nonblocking, raises_signals) = (flags.contains(OFlags::NONBLOCK), flags.contains(ASYNC));
        Some(Self { socket, is_ipv6: family == AddressFamily::INET6, is_nonblocking, raises_signals, local })
    }

    /// A descriptor of our own of the same socket.
    fn duplicate(&self) -> Option<OwnedFd> {
        engine::duplicate(self.socket)
    }
}

/// Returns whether packets to an address can leave this host to one peer.
fn is_elsewhere(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Begins a connection past the kernel. Returns false where it is the kernel's.
pub(crate) fn begin_connection(number: c_int, remote: SocketAddr) -> bool {
    let remote = canonical(remote);
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let Some(candidate) = Candidate::tcp(socket) else { return false };
    if !tcp_state(socket).is_ok_and(|state| state == TcpState::Closed) {
        // It listens, or the kernel makes a connection of it.
        return false;
    }
    if unfollowed::has_one(socket) {
        by_kernel(number, SocketKind::TcpStream, Why::Option, || format!("TCP to {remote}"));
        return false;
    }
    if let Some(why) = stdio::why_kernel(number, socket) {
        by_kernel(number, SocketKind::TcpStream, why, || format!("TCP to {remote}"));
        return false;
    }
    match engine_toward(&candidate, remote) {
        Ok(engine) => begin_on(&engine, number, &candidate, remote),
        Err(reason) => {
            status::by_kernel(number, SocketKind::TcpStream, Why::Of(reason));
            engine::report_kernel(|| format!("TCP to {remote}"), reason);
            false
        }
    }
}

/// The engine for a connection, or the reason why the kernel makes it.
fn engine_toward(candidate: &Candidate<'_>, remote: SocketAddr) -> Result<Arc<Shared>, Reason> {
    if !is_elsewhere(remote.ip()) || remote.port() == 0 {
        return Err(Reason::LoopbackOrLocal);
    }
    if candidate.raises_signals {
        return Err(Reason::NotWanted);
    }
    let local = candidate.local.filter(|local| local.port() != 0);
    if !environment::settings().accelerate.admits(Transport::Tcp, local, Some(remote)) {
        return Err(Reason::NotWanted);
    }
    engine::open_toward(remote.ip())
}

/// Shows and reports why the kernel carries a socket.
fn by_kernel(number: c_int, kind: SocketKind, why: Why, what: impl FnOnce() -> String) {
    status::by_kernel(number, kind, why);
    engine::report_reason(|| format!("{}: kernel: {}", what(), why.description()));
}

/// Begins a connection on an engine. Returns false where it is the kernel's.
fn begin_on(engine: &Arc<Shared>, number: c_int, candidate: &Candidate<'_>, remote: SocketAddr) -> bool {
    let socket = candidate.socket;
    let Some(twin) = candidate.duplicate() else {
        by_kernel(number, SocketKind::TcpStream, Why::NoDescriptor, || format!("TCP to {remote}"));
        return false;
    };
    let watchers = Arc::new(Watchers::default());
    let profile = engine.with(|engine| engine.tcp().defaults());
    let options = of_twin(socket, remote.is_ipv6(), profile);
    let begun = engine.with(|engine| engine.tcp().connect_beside(twin, remote, options));
    let Ok(handle) = begun else { return false };
    engine.know_stream(handle, &watchers);
    let stream = Stream::new(Arc::clone(engine), handle, candidate.is_ipv6, false);
    if let Progress::Detour(reason) = engine.with(|engine| stream.progress(engine)) {
        status::by_kernel(number, SocketKind::TcpStream, Why::Of(reason));
        engine.report_path(|| format!("TCP to {remote}"), Path::Kernel(reason));
        return false;
    }
    put(number, &Description::new(Kind::Stream(stream), watchers, candidate.is_nonblocking))
}

/// Makes a number ours, in the epoll sets of the kernel that it stands in, too.
pub(crate) fn put(number: c_int, description: &Arc<Description>) -> bool {
    let is_put = descriptors::insert(number, Arc::clone(description));
    if is_put {
        description.follow_timeouts(number);
        epoll::adopt(number, description);
        for other in pending::take_others(number) {
            if descriptors::insert(other, Arc::clone(description)) {
                epoll::adopt(other, description);
            }
        }
        show(number, description);
    }
    is_put
}

/// The status page shows what is past the kernel from here on.
fn show(number: c_int, description: &Description) {
    match &description.kind {
        Kind::Stream(stream) => {
            let row = status::row(number, SocketKind::TcpStream);
            let engine = stream.engine();
            engine.with(|locked| engine.samples().add_stream(locked, stream.handle(), row));
        }
        Kind::Listener(listener) => {
            let row = status::row(number, SocketKind::TcpListener);
            let engine = listener.engine();
            engine.with(|locked| engine.samples().add_listener(locked, listener.handle(), row));
        }
        Kind::Datagrams(datagrams) => {
            let row = status::row(number, SocketKind::UdpSocket);
            let engine = datagrams.engine();
            engine.with(|locked| engine.samples().add_datagrams(locked, datagrams.handle(), row));
        }
        Kind::Epoll(_) => {}
    }
}

/// connect(2) of a connection that has begun past the kernel.
pub(crate) fn connect(description: &Arc<Description>, waiting: &mut Waiting<'_>) -> Answer<c_int> {
    let stream = description.stream().ok_or(Errno::ISCONN)?;
    if stream.was_told() {
        return Err(Errno::ISCONN.into());
    }
    let is_first = stream.note_connect();
    let decided = |progress| (progress != Progress::Opening).then_some(progress);
    let mut progress = stream.engine().with_polled(|engine| stream.progress(engine));
    if waiting.is_nonblocking() && is_first && !matches!(progress, Progress::Detour(_)) {
        // However fast the answer was: programs know this one from the kernel.
        return Err(Errno::INPROGRESS.into());
    }
    if progress == Progress::Opening {
        if waiting.is_nonblocking() {
            return Err(Errno::ALREADY.into());
        }
        progress = match waiting.wait(stream.engine(), &[], |engine| decided(stream.progress(engine))) {
            Woken::Ready(progress) => progress,
            Woken::Interrupted => return Err(Errno::INTR.into()),
            Woken::Deadline | Woken::Kernel => return Err(Errno::INPROGRESS.into()),
        };
    }
    match progress {
        Progress::Made | Progress::Opening => {
            stream.note_told();
            Ok(0)
        }
        Progress::Detour(_) => {
            handover::leave(description);
            Err(Stop::Kernel)
        }
        Progress::Failed(_) => {
            let errno = stream.take_error();
            // The descriptor is an unconnected socket again, which may connect anew.
            handover::leave(description);
            match errno {
                0 => Err(Stop::Kernel),
                errno => Err(Errno::from_raw_os_error(errno).into()),
            }
        }
    }
}

/// Connections that were found to be the kernel's while somebody waited for them: it begins them now, or has them. Called without
/// the engine's lock.
pub(crate) fn settle(number: c_int, description: &Arc<Description>) {
    if let Kind::Epoll(set) = &description.kind {
        set.take_unsettled().iter().for_each(|(number, description)| settle(*number, description));
    }
    let Some(stream) = description.stream() else { return };
    if stream.is_connected() {
        handover::leave_if_handed_over(description);
        settle_urgent(description);
        return;
    }
    let Some((_, remote)) = stream.ends() else { return };
    if handover::leave(description) {
        // SAFETY: the program has the number open; its socket is not connected.
        connect_by_kernel(unsafe { BorrowedFd::borrow_raw(number) }, remote);
    }
}

/// The kernel gets a connection of which urgent data has come: it follows the urgent pointer. Returns whether the connection goes on past
/// the kernel nevertheless, with that data in line.
pub(crate) fn settle_urgent(description: &Arc<Description>) -> bool {
    let Some(stream) = description.stream() else { return false };
    let is_urgent = stream.engine().with(|engine| stream.is_urgent(engine));
    let is_refused = is_urgent && handover::give_to_kernel(description, handover::Cause::UrgentArrived).is_err();
    if is_refused {
        stream.take_urgent_inline();
    }
    is_refused
}

/// Begins a connection by the kernel, and does not wait for it: the outcome is what the socket tells from now on.
fn connect_by_kernel(socket: BorrowedFd<'_>, remote: SocketAddr) {
    let Ok(flags) = fcntl_getfl(socket) else { return };
    let is_blocking = !flags.contains(OFlags::NONBLOCK);
    if is_blocking {
        let _ = fcntl_setfl(socket, flags | OFlags::NONBLOCK);
    }
    let _ = rustix::net::connect(socket, &remote);
    if is_blocking {
        let _ = fcntl_setfl(socket, flags);
    }
}

/// The kernel begins a connection for which there is no path past it, before another call than connect(2) is made on it. Returns false
/// for all others.
pub(crate) fn settle_detour(number: c_int, description: &Arc<Description>) -> bool {
    let is_detour = description.stream().is_some_and(Stream::is_detour);
    if is_detour {
        settle(number, description);
    }
    is_detour
}

/// Resets a connection, or forgets one that is being made: the descriptor is an unconnected socket again.
pub(crate) fn dissolve(description: &Arc<Description>) {
    if let Some(stream) = description.stream() {
        stream.abort();
        descriptors::release(description);
    }
}

/// The errno of bind(2) on a socket that has a connection past the kernel (inet_bind, linux/net/ipv4/af_inet.c).
pub(crate) fn refusal_of_bind(number: c_int, local: SocketAddr) -> Stop {
    // SAFETY: the program has the number open during its call.
    let twin = unsafe { BorrowedFd::borrow_raw(number) };
    let bound = getsockname(twin).ok().and_then(|any| SocketAddr::try_from(any).ok());
    if bound.is_some_and(|bound| bound.port() != 0) || sockopt::socket_domain(twin).ok() != Some(family_of(local)) {
        return Stop::Kernel;
    }
    // The address is checked first, by a socket that may be bound.
    let probe = rustix::net::socket(family_of(local), SocketType::STREAM, None);
    match probe.and_then(|probe| rustix::net::bind(probe, &SocketAddr::new(local.ip(), 0))) {
        Err(Errno::ADDRNOTAVAIL) => Errno::ADDRNOTAVAIL.into(),
        _ => Errno::INVAL.into(),
    }
}

fn family_of(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// The engine for a listener, or the reason why it is the kernel's alone.
fn engine_at(candidate: &Candidate<'_>, local: SocketAddr) -> Result<Arc<Shared>, Reason> {
    if local.ip().is_loopback() {
        return Err(Reason::LoopbackOrLocal);
    }
    if candidate.raises_signals || !environment::settings().accelerate.admits(Transport::Tcp, Some(local), None) {
        return Err(Reason::NotWanted);
    }
    engine::open_at(local.ip())
}

/// Listens past the kernel beside a socket that listens there.
pub(crate) fn begin_listening(number: c_int, backlog: c_int) {
    let is_shared = descriptors::state(number) != State::Kernel;
    listen_beside(number, backlog, is_shared);
}

/// Returns whether a number is ours, for a call that waits for what comes there: what another process has given becomes the kernel's
/// before, and what listens goes past it.
#[inline]
pub(crate) fn is_ours_to_wait(number: c_int) -> bool {
    if descriptors::state(number) == State::Listens {
        begin_waiting(number);
    }
    descriptors::is_ours_to_use(number)
}

/// Listens past the kernel beside a socket that other processes may have, too, now that this one waits for its connections.
#[cold]
pub(crate) fn begin_waiting(number: c_int) {
    process::begin_child();
    if process::is_child() || Inside::is_entered() || descriptors::state(number) != State::Listens {
        return;
    }
    let _inside = Inside::enter();
    descriptors::set_state(number, State::Kernel);
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    if let Ok(backlog) = listen_backlog(socket) {
        listen_beside(number, c_int::try_from(backlog).unwrap_or(c_int::MAX), true);
    }
}

/// A listener has the backlog that the kernel's socket has.
pub(crate) fn follow_backlog(number: c_int) {
    if let Some(description) = descriptors::find(number)
        && let Kind::Listener(listener) = &description.kind
    {
        // SAFETY: the program has the number open during its call.
        listener.follow_backlog(unsafe { BorrowedFd::borrow_raw(number) });
    }
}

/// Follows an option of a listener that was set: the kernel alone listens where the program has asked for what only it can do.
pub(crate) fn follow_listener(number: c_int, listener: &Listener) {
    // SAFETY: the program has the number open during its call.
    let twin = unsafe { BorrowedFd::borrow_raw(number) };
    match listener_of_kernel(twin) {
        Some(why) => {
            listener.leave();
            by_kernel(number, SocketKind::TcpListener, why, || format!("descriptor {number}, a TCP listener"));
        }
        None => listener.follow(twin),
    }
}

/// The reason why only the kernel can do what the program has asked of a listener.
fn listener_of_kernel(socket: BorrowedFd<'_>) -> Option<Why> {
    if drop_filter::is_programs(socket) {
        return Some(Why::Filtered);
    }
    if unfollowed::has_one(socket) {
        return Some(Why::Option);
    }
    stream_options::defer_accept_s(socket).is_ok_and(|seconds| seconds != 0).then_some(Why::Deferred)
}

fn listen_beside(number: c_int, backlog: c_int, is_shared: bool) {
    // SAFETY: the program has the number open during its call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let Some(candidate) = Candidate::tcp(socket) else { return };
    let Some(local) = candidate.local.map(canonical) else { return };
    let what = || format!("TCP listener at {local}");
    if let Some(why) = listener_of_kernel(socket) {
        return by_kernel(number, SocketKind::TcpListener, why, what);
    }
    let engine = match engine_at(&candidate, local) {
        Ok(engine) => engine,
        Err(reason) => {
            status::by_kernel(number, SocketKind::TcpListener, Why::Of(reason));
            return engine::report_kernel(what, reason);
        }
    };
    let Some(twin) = candidate.duplicate() else {
        return by_kernel(number, SocketKind::TcpListener, Why::NoDescriptor, what);
    };
    let watchers = Arc::new(Watchers::default());
    let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
    // A program that has not waited yet may leave its connections to a child.
    let answering = if is_shared { Answering::AtOnce } else { Answering::OnceAwaited };
    let begun = engine.with(|engine| {
        let mut tcp = engine.tcp();
        let options = of_twin(twin.as_fd(), local.is_ipv6(), tcp.defaults());
        tcp.listen_beside(twin, backlog, options, answering)
    });
    match begun {
        Ok(handle) => {
            let ipv4 = listen_beside_ipv4(&engine, &candidate, local, (backlog, answering));
            [Some(handle), ipv4].into_iter().flatten().for_each(|handle| engine.know_listener(handle, &watchers));
            let listener = Listener::new(Arc::clone(&engine), handle, ipv4, candidate.is_ipv6, is_shared);
            engine.with(|engine| listener.report_path(engine));
            put(number, &Description::new(Kind::Listener(listener), watchers, candidate.is_nonblocking));
        }
        Err(problem) => {
            status::by_kernel(number, SocketKind::TcpListener, Why::Of(Reason::Refused));
            engine.report(&problem.brief());
        }
    }
}

/// Listens for IPv4, too, where a socket of IPv6 takes both.
fn listen_beside_ipv4(
    engine: &Arc<Shared>,
    candidate: &Candidate<'_>,
    local: SocketAddr,
    (backlog, answering): (usize, Answering),
) -> Option<TcpListener> {
    let takes_both = candidate.is_ipv6 && !sockopt::ipv6_v6only(candidate.socket).unwrap_or(true);
    let twin = candidate.duplicate().filter(|_| takes_both && local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED))?;
    let begun = engine.with(|engine| {
        let mut tcp = engine.tcp();
        let options = of_twin(twin.as_fd(), false, tcp.defaults());
        tcp.listen_beside_ipv4(twin, backlog, options, answering)
    });
    // Without it IPv4 is the kernel's.
    begun.inspect_err(|problem| engine.report(&problem.brief())).ok()
}

/// Gives the program's new descriptor an accepted connection. Returns the peer.
pub(crate) fn accepted(
    listening: c_int,
    number: c_int,
    listener: &Listener,
    handle: TcpStream,
    is_nonblocking: bool,
) -> Option<SocketAddr> {
    // SAFETY: both are open: the listening one during its call, the other was just made.
    let (from, twin) = unsafe { (BorrowedFd::borrow_raw(listening), BorrowedFd::borrow_raw(number)) };
    listener.inherit(from, twin);
    let engine: &Arc<Shared> = listener.engine();
    let watchers = Arc::new(Watchers::default());
    engine.know_stream(handle, &watchers);
    let stream = Stream::new(Arc::clone(engine), handle, listener.is_ipv6, true);
    follow_options(number, &stream);
    if let Some(own) = engine::duplicate(twin) {
        // Without a twin a hand-over that another process asks for is refused.
        let _ = engine.with(|engine| engine.tcp().set_twin(handle, own));
    }
    let ends = stream.ends();
    engine.with(|engine| stream.report_path(engine));
    put(number, &Description::new(Kind::Stream(stream), watchers, is_nonblocking));
    stdio::leave(number);
    ends.map(|(_, remote)| remote)
}

/// Gives a connection the options that its twin has.
pub(crate) fn follow_options(number: c_int, stream: &Stream) {
    // SAFETY: the program has the number open during its call.
    let twin = unsafe { BorrowedFd::borrow_raw(number) };
    stream.follow(twin);
}
