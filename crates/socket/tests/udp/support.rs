//! What the tests share: a lab, its control planes, an engine, a way to wait.

use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_frame::xdp::Kick;
use sidestep_lab::{Host, Lab};
use sidestep_socket::{Datagram, Engine, EngineOptions, Handle, Path, Reason, UdpOptions};
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::process::is_root;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A watchdog, not a measurement: what takes longer hangs.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// Whether this process may make labs.
pub(crate) fn is_root_or_say() -> bool {
    if !is_root() {
        eprintln!("skipped: needs root");
    }
    is_root()
}

/// A lab, if this process may make one.
pub(crate) fn lab() -> Option<Lab> {
    if !is_root_or_say() {
        return None;
    }
    Some(Lab::up(&sidestep_lab::Options::default()).expect("root can make a lab"))
}

/// The control plane of a host, on a thread of this process.
pub(crate) struct Control {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    pub(crate) fn start(host: &Host) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, there) = (stop.clone(), host.clone());
        let serve = move || {
            there.enter().expect("root can enter");
            let options =
                Options { interfaces: Vec::new(), permit: Permit::new(&[], &[]), socket: None, detaches_unused: false };
            run(&options, &seen).expect("root can run a control plane");
        };
        let thread = Some(std::thread::spawn(serve));
        wait_for_control(host);
        Self { stop, thread }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking(), "the control plane has panicked");
    }
}

/// Waits until a control plane serves a host.
pub(crate) fn wait_for_control(host: &Host) {
    let path = host.within(place::socket).expect("it has a place");
    wait("a control plane", || Client::connect_to(&path, "test").and_then(Client::bye).ok());
}

pub(crate) fn address(host: &Host, is_v6: bool) -> IpAddr {
    if is_v6 { host.ipv6.expect("this kernel has IPv6").into() } else { host.ipv4.into() }
}

/// An engine on a host, with everything by default.
pub(crate) fn engine(host: &Host) -> Engine {
    engine_with(host, |options| options)
}

/// One with other options.
pub(crate) fn engine_with(host: &Host, change: fn(EngineOptions) -> EngineOptions) -> Engine {
    let options =
        EngineOptions { ring_entries: 512, frames: 1024, timestamps: true, ..EngineOptions::on(&host.interface) };
    let engine = host.within(|| Engine::open(&change(options))).expect("an engine opens");
    assert_eq!(engine.refusal(), None);
    engine
}

/// Every way to make frames leave.
pub(crate) const SENDERS: [fn(EngineOptions) -> EngineOptions; 4] = [
    |options| options,
    |options| EngineOptions { kick: Kick::Thread { idle: IdleStrategy::SPIN, cpu: None }, ..options },
    |options| EngineOptions { kick: Kick::Thread { idle: IdleStrategy::SPIN_THEN_PARK, cpu: None }, ..options },
    |options| EngineOptions { kick: Kick::Sqpoll { cpu: None, idle_ms: 1000 }, ..options },
];

/// Sets the MTU of an interface.
pub(crate) fn set_mtu(host: &Host, mtu: u32) {
    ip(host, &format!("link set {} mtu {mtu}", host.interface));
}

/// A socket of an engine, bound on its host.
pub(crate) fn bind(host: &Host, engine: &mut Engine, address: SocketAddr) -> Handle {
    let socket = host.within(|| engine.bind(address, &UdpOptions::default())).expect("the port is free");
    settled(engine, socket);
    socket
}

/// Joins a group on the engine's interface; which way its datagrams come.
pub(crate) fn join_group(
    host: &Host,
    engine: &mut Engine,
    socket: Handle,
    group: IpAddr,
    source: Option<IpAddr>,
) -> Path {
    host.within(|| engine.join(socket, group, 0, source)).expect("the kernel joins");
    settled(engine, socket)
}

/// Which way a socket goes, once control has answered: on a busy machine it may take longer than set-up waits.
pub(crate) fn settled(engine: &mut Engine, socket: Handle) -> Path {
    wait("control's answer", || {
        let path = engine.path(socket).expect("it is open");
        if path != Path::Kernel(Reason::Opening) {
            return Some(path);
        }
        engine.poll().expect("it is ours");
        None
    })
}

/// A kernel socket on a host; reading gives up after the watchdog.
pub(crate) fn kernel(host: &Host, address: SocketAddr) -> UdpSocket {
    let socket = host.within(|| Ok(UdpSocket::bind(address).expect("the port is free"))).expect("root can");
    socket.set_read_timeout(Some(WATCHDOG)).expect("it can");
    socket
}

/// What a kernel socket hears. The engine is polled meanwhile: a frame that the kernel would not take at once leaves at
/// a later poll.
pub(crate) fn heard(engine: &mut Engine, socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    socket.set_nonblocking(true).expect("it can");
    let datagram = wait("a datagram there", || {
        engine.poll().expect("it is ours");
        socket.recv_from(buffer).ok()
    });
    socket.set_nonblocking(false).expect("it can");
    datagram
}

/// Tries until it gives something.
pub(crate) fn wait<T>(what: &str, attempt: impl FnMut() -> Option<T>) -> T {
    wait_at_most(WATCHDOG, what, attempt)
}

/// The same with another watchdog.
pub(crate) fn wait_at_most<T>(limit: Duration, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        // There may be more spinning threads than CPUs.
        std::thread::yield_now();
    }
}

/// How long a test that is started by hand goes on.
pub(crate) fn seconds() -> u64 {
    std::env::var("SIDESTEP_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120)
}

/// The next datagram of a socket.
pub(crate) fn receive(engine: &mut Engine, socket: Handle) -> Datagram {
    wait("a datagram", || engine.receive(socket).expect("it is open"))
}

/// Bytes that only this number has.
pub(crate) fn message(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u32).wrapping_mul(31).wrapping_add(number) as u8).collect()
}

/// Runs `ip` on a host.
pub(crate) fn ip(host: &Host, words: &str) {
    let mut command = Command::new("ip");
    let done = host.spawn(command.args(words.split(' '))).expect("ip is there").wait().expect("it ends");
    assert!(done.success(), "ip {words}");
}

/// Waits until a host has an answer of another: the kernel asks for a neighbour once a second, engines wait a fifth of one.
pub(crate) fn reach(host: &Host, address: IpAddr) {
    wait("the neighbour", || {
        let mut ping = Command::new("ping");
        ping.args(["-n", "-q", "-c", "1", "-W", "1", &address.to_string()]).stdout(Stdio::null());
        host.spawn(&mut ping).expect("ping is there").wait().expect("it ends").success().then_some(())
    });
}

/// Takes the wire between two hosts away, looks what that does, and makes another one with the same names and addresses.
pub(crate) fn relink(a: &Host, b: &Host, meanwhile: impl FnOnce()) {
    ip(b, &format!("link del {}", b.interface));
    meanwhile();
    ip(a, &format!("link add {} type veth peer name {} netns {}", a.interface, b.interface, b.namespace));
    for host in [a, b] {
        ip(host, &format!("link set {} up", host.interface));
        ip(host, &format!("address add {}/24 dev {}", host.ipv4, host.interface));
        ip(host, &format!("route add 224.0.0.0/4 dev {}", host.interface));
    }
}

/// Hands an engine to a forked child, which says whether all is well, and gives it back to the parent.
pub(crate) fn child(engine: Engine, work: impl FnOnce(Engine) -> bool) -> Engine {
    // SAFETY: the child makes no call that needs another thread, and ends by _exit; the allocator of glibc works after fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(!work(engine));
        // SAFETY: _exit runs no handler of this process.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: `status` is a valid place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child was refused everything");
    engine
}
