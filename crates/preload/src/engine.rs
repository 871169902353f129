//! The engine of this process, which all its threads use.

use crate::environment::{self, settings};
use crate::per_process::PerProcess;
use crate::signals::{DroppedInside, Inside};
use crate::status::Samples;
use crate::watchers::{OfSockets, Watcher, Watchers};
use crate::{process, report, signals, stream};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketType, connect, getsockname, socket};
use sidestep_socket::shared::{Observer, SharedEngine, SocketEvent, Turns, Wait, Waker, Woken as Ended};
use sidestep_socket::tcp::{Congestion, TcpListener, TcpStream, hosts_congestion, profile};
use sidestep_socket::{Engine, EngineOptions, Handle, Path, Reason};
use sidestep_sys::Problem;
use sidestep_sys::interface::{ethernet_address, names, of_address};
use sidestep_sys::own_descriptors;
use sidestep_sys::signals::with_all_blocked;
use sidestep_unmodified::options::Settings;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The discard port: connecting a socket of UDP there asks for the route, and sends nothing.
const ANY_PORT: u16 = 9;

/// The longest profile of TCP.
const PROFILE_BYTES_MAX: u64 = 64 << 10;

/// The stack on which an engine is opened.
const STACK_BYTES: usize = 1 << 20;

/// Between two looks for control's answers.
const RELEASE_PAUSE: Duration = Duration::from_micros(50);

/// What has ended a wait.
#[derive(Debug)]
pub(crate) enum Woken<T> {
    /// The condition.
    Ready(T),
    /// One of the kernel's descriptors.
    Kernel,
    /// The deadline.
    Deadline,
    /// A signal that has a handler.
    Interrupted,
}

/// The engine, and who watches which of its sockets.
#[derive(Debug)]
pub(crate) struct Shared {
    engine: SharedEngine,
    watched: Arc<Watched>,
    settings: Settings,
}

/// Who watches which socket of the engine.
#[derive(Debug, Default)]
struct Watched {
    streams: OfSockets<TcpStream>,
    listeners: OfSockets<TcpListener>,
    datagrams: OfSockets<Handle>,
    samples: Samples,
}

/// The engine, or the reason why there is none to be had.
type Opened = Result<Arc<Shared>, Reason>;

/// The engine; `None` before the first socket that can use one.
type Place = Mutex<Option<Opened>>;

static ENGINE: PerProcess<Place> = PerProcess::new();

static REFUSES_NEW: AtomicBool = AtomicBool::new(false);

/// The engine, if it is open.
pub(crate) fn opened() -> Option<Arc<Shared>> {
    if !process::is_owner() {
        return None;
    }
    place().clone()?.ok()
}

/// Returns whether the program has closed a socket of this port lately, and may bind it again.
pub(crate) fn was_released(port: u16) -> bool {
    let _inside = Inside::enter();
    opened().is_some_and(|engine| engine.with(|engine| engine.was_released(port)))
}

/// The engine, opened by the first connection to an address.
pub(crate) fn open_toward(remote: IpAddr) -> Opened {
    open(|| of_address(source_toward(remote)?))
}

/// The engine, opened by the first listener at an address.
pub(crate) fn open_at(local: IpAddr) -> Opened {
    open(|| if local.is_unspecified() { of_every_address() } else { of_address(local) })
}

/// The interface of a listener at every address: that of the default route, or the only one of Ethernet.
fn of_every_address() -> Option<String> {
    // 192.0.2.0/24 is nobody's (RFC 5737): what is routed there goes by the default route.
    let by_route = source_toward(Ipv4Addr::new(192, 0, 2, 1).into()).and_then(of_address);
    by_route.or_else(|| {
        let is_ethernet = |name: &String| ethernet_address(name).is_ok_and(|address| address != [0; 6]);
        let mut all = names().into_iter().filter(is_ethernet);
        all.next().filter(|_| all.next().is_none())
    })
}

/// Reports why a socket is the kernel's, if the user asked for it.
pub(crate) fn report_kernel(what: impl FnOnce() -> String, reason: Reason) {
    let settings = settings();
    if settings.why {
        report::say(&settings.log, &format!("{}: {}", what(), Path::Kernel(reason)));
    }
}

/// Reports what has become of a descriptor, if the user asked for reasons.
pub(crate) fn report_reason(text: impl FnOnce() -> String) {
    let settings = settings();
    if settings.why {
        report::say(&settings.log, &text());
    }
}

/// No socket goes past the kernel any more that does not yet. Returns false where that was so before.
pub(crate) fn refuse_new() -> bool {
    !REFUSES_NEW.swap(true, Ordering::Relaxed)
}

/// A descriptor of our own of a socket, with a number that the program does not miss; `None` where there is none left.
pub(crate) fn duplicate(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    own_descriptors::duplicate(socket).ok()
}

/// The same for a moment: with any number.
pub(crate) fn duplicate_briefly(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    duplicate(socket).or_else(|| {
        let low = rustix::io::fcntl_dupfd_cloexec(socket, 0).ok()?;
        own_descriptors::note(low.as_raw_fd());
        Some(low)
    })
}

fn place() -> MutexGuard<'static, Option<Opened>> {
    ENGINE.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the parent's engine in a forked child.
pub(crate) fn renew() {
    ENGINE.renew();
    // The parent's descriptor is closed: the end of this thread must not close its number again.
    let _ = WATCHER.try_with(|place| std::mem::forget(place.take()));
}

/// Closes the engine if nothing uses it: its queue is free for others.
pub(crate) fn close_unused() {
    let mut place = place();
    if place.as_ref().is_some_and(|opened| opened.as_ref().is_ok_and(|engine| Arc::strong_count(engine) == 1)) {
        *place = None;
    }
}

fn open(interface: impl FnOnce() -> Option<String>) -> Opened {
    process::begin_child();
    if REFUSES_NEW.load(Ordering::Relaxed) {
        return Err(Reason::NotWanted);
    }
    let mut place = place();
    if let Some(engine) = &*place {
        return engine.clone();
    }
    let settings = settings();
    // Where no interface is known yet, the next socket may tell it.
    let interface = settings.interface.clone().or_else(interface).ok_or(Reason::NoInterface)?;
    if interface == "lo" {
        return Err(Reason::LoopbackOrLocal);
    }
    signals::start();
    process::own().map_err(|_| Reason::Refused)?;
    let opened = with_large_stack(|| Shared::open(&interface, settings)).unwrap_or_else(|problem| {
        report::say(&settings.log, &problem.line());
        Err(Reason::Refused)
    });
    let engine = opened.map(Arc::new);
    *place = Some(engine.clone());
    engine
}

/// Runs what needs a tenth of a megabyte of stack in a thread of its own: those of a program may have a few pages.
fn with_large_stack<T: Send>(work: impl Fn() -> T + Sync) -> T {
    let inside = || {
        own_descriptors::own_thread();
        let _inside = Inside::enter();
        work()
    };
    let builder = || std::thread::Builder::new().name("sidestep-open".into()).stack_size(STACK_BYTES);
    std::thread::scope(|scope| {
        let begun = with_all_blocked(|| builder().spawn_scoped(scope, inside));
        match begun.map(ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // Without a thread this one's stack may do.
            Err(_) => work(),
        }
    })
}

/// The address that the kernel would send from.
pub(crate) fn source_toward(remote: IpAddr) -> Option<IpAddr> {
    let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let probe = socket(family, SocketType::DGRAM, None).ok()?;
    connect(&probe, &SocketAddr::new(remote, ANY_PORT)).ok()?;
    Some(SocketAddr::try_from(getsockname(&probe).ok()?).ok()?.ip())
}

/// Streams get what their kernel's sockets have; says what they get where the stack does not have that.
fn follow_hosts_congestion(interface: &str, settings: &Settings) {
    stream::follow_hosts_congestion();
    if let Err(name) = hosts_congestion() {
        report::say(&settings.log, &format!("{interface}: TCP past the kernel has cubic instead of the host's {name}"));
    }
}

fn options(interface: &str, settings: &Settings) -> Result<EngineOptions, Problem> {
    let tcp = match settings.tcp.as_str() {
        name if !name.contains(['/', '.']) => profile(name)?,
        file => {
            let text = sidestep_sys::file::read_text(std::path::Path::new(file), PROFILE_BYTES_MAX);
            profile(&text.map_err(|error| Problem::usage(format!("cannot read {file}"), error))?)?
        }
    };
    if tcp.congestion == Congestion::Host {
        follow_hosts_congestion(interface, settings);
    }
    let mut options = EngineOptions::on(interface);
    options.control = environment::control();
    options.queues = settings.queues.clone();
    options.mode = settings.mode;
    options.frames = settings.frames;
    options.control_agent_cpu = settings.helper_cpu;
    options.linger = Duration::from_millis(settings.linger_ms.into());
    options.tcp = tcp;
    Ok(options)
}

impl Shared {
    /// Opens the engine; the reason, with a report, where everything would be the kernel's.
    fn open(interface: &str, settings: &Settings) -> Result<Result<Self, Reason>, Problem> {
        let watched = Arc::new(Watched::default());
        let engine = SharedEngine::open(&options(interface, settings)?, Box::new(Notes(Arc::clone(&watched))))?;
        let refusal = engine.lock().ok().and_then(|engine| {
            watched.samples.begin(&engine);
            engine.refusal().map(|(reason, text)| (reason, text.to_owned()))
        });
        if let Some((reason, text)) = refusal {
            report::say(&settings.log, &format!("{interface}: the kernel carries all sockets: {text}"));
            return Ok(Err(reason));
        }
        Ok(Ok(Self { engine, watched, settings: settings.clone() }))
    }

    /// Lends the engine.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Engine) -> T) -> T {
        match self.engine.lock() {
            Ok(mut engine) => work(&mut engine),
            // Nothing of its parent's engine is left in a forked child's tables.
            Err(_) => std::process::abort(),
        }
    }

    /// Polls the engine, and lends it.
    pub(crate) fn with_polled<T>(&self, work: impl FnOnce(&mut Engine) -> T) -> T {
        match self.engine.lock() {
            Ok(mut engine) => {
                // It fails in a forked child alone.
                let _ = engine.poll();
                work(&mut engine)
            }
            Err(_) => std::process::abort(),
        }
    }

    /// Waits until `ready`, which is called with the engine locked, gives something, or for what else ends it.
    pub(crate) fn wait<T>(
        &self,
        watched: &[&Arc<Watchers>],
        also: &[(BorrowedFd<'_>, PollFlags)],
        deadline: Option<Instant>,
        mut ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Woken<T> {
        let Some(watcher) = ThreadWatcher::of_this_thread() else { return Woken::Interrupted };
        let weak: Weak<dyn Watcher> = Arc::downgrade(&watcher) as Weak<dyn Watcher>;
        watched.iter().for_each(|watchers| watchers.add(Weak::clone(&weak)));
        let spin = Duration::from_micros(self.settings.spin_us.into());
        let woken = signals::with_waker(&watcher.0, || {
            loop {
                let mut wait = Wait { waker: &watcher.0, deadline, spin, also, interrupted: &signals::is_pending };
                match self.engine.wait(&mut wait, &mut ready) {
                    Ok(Ended::Ready(value)) => break Woken::Ready(value),
                    Ok(Ended::Kernel) => break Woken::Kernel,
                    Ok(Ended::Deadline) => break Woken::Deadline,
                    Ok(Ended::Woken) if !signals::is_pending() => {}
                    Ok(Ended::Interrupted | Ended::Woken) | Err(_) => break Woken::Interrupted,
                }
            }
        });
        watched.iter().for_each(|watchers| watchers.remove(&weak));
        woken
    }

    /// Hands all connections to the kernel, for good, and gives all ports back; waits for that, but no longer than the user has set.
    pub(crate) fn release(&self) {
        let deadline = Instant::now() + Duration::from_millis(self.settings.linger_ms.into());
        self.with_polled(|engine| {
            let tcp = engine.tcp();
            let ((all, time_wait), (orphans, _)) = (tcp.connections(), tcp.orphans());
            if all > time_wait || orphans > 0 { engine.release_all() } else { engine.close_stack() }
        });
        while Instant::now() < deadline && self.with_polled(|engine| !engine.is_released()) {
            std::thread::sleep(RELEASE_PAUSE);
        }
    }

    pub(crate) fn know_stream(&self, stream: TcpStream, watchers: &Arc<Watchers>) {
        self.watched.streams.insert(stream, watchers);
    }

    pub(crate) fn forget_stream(&self, engine: &mut Engine, stream: TcpStream) {
        self.watched.samples.remove_stream(engine, stream);
        self.watched.streams.remove(stream);
    }

    pub(crate) fn know_listener(&self, listener: TcpListener, watchers: &Arc<Watchers>) {
        self.watched.listeners.insert(listener, watchers);
    }

    pub(crate) fn forget_listener(&self, engine: &mut Engine, listener: TcpListener) {
        self.watched.samples.remove_listener(engine, listener);
        self.watched.listeners.remove(listener);
    }

    pub(crate) fn know_datagrams(&self, socket: Handle, watchers: &Arc<Watchers>) {
        self.watched.datagrams.insert(socket, watchers);
    }

    pub(crate) fn forget_datagrams(&self, engine: &mut Engine, socket: Handle) {
        self.watched.samples.remove_datagrams(engine, socket);
        self.watched.datagrams.remove(socket);
    }

    /// What the status page shows of the engine's sockets.
    pub(crate) fn samples(&self) -> &Samples {
        &self.watched.samples
    }

    /// Reports what went wrong.
    pub(crate) fn report(&self, text: &str) {
        report::say(&self.settings.log, text);
    }

    /// Reports that a socket's path has changed, if the user asked for it.
    pub(crate) fn report_change(&self, what: impl FnOnce() -> String) {
        if self.settings.why {
            self.report(&what());
        }
    }

    /// Reports the path of a socket, if the user asked for it.
    pub(crate) fn report_path(&self, what: impl FnOnce() -> String, path: Path) {
        if self.settings.why {
            self.report(&format!("{}: {path}", what()));
        }
    }
}

/// Tells the watchers what the engine has noticed.
struct Notes(Arc<Watched>);

impl Observer for Notes {
    fn note(&self, event: SocketEvent) {
        match event {
            SocketEvent::Stream(stream) => self.0.streams.notify(stream),
            SocketEvent::Listener(listener) => self.0.listeners.notify(listener),
            SocketEvent::Datagrams(socket) => self.0.datagrams.notify(socket),
        }
    }

    fn sample(&self, engine: &mut Engine, turns: &Turns) {
        self.0.samples.take(engine, turns);
    }
}

/// A thread that waits in a call.
struct ThreadWatcher(DroppedInside<Waker>);

thread_local! {
    /// With the process that it was made in: the parent's thread has the same descriptor as the child's copy.
    static WATCHER: RefCell<Option<(u32, Arc<ThreadWatcher>)>> = const { RefCell::new(None) };
}

impl ThreadWatcher {
    /// That of the calling thread; `None` where it has no descriptor for it.
    fn of_this_thread() -> Option<Arc<Self>> {
        let make = || Waker::new().ok().map(|waker| Arc::new(Self(DroppedInside::new(waker))));
        let kept = WATCHER.try_with(|place| {
            let mut place = place.borrow_mut();
            match &*place {
                Some((owner, watcher)) if *owner == process::owner() => return Some(Arc::clone(watcher)),
                _ => {}
            }
            let watcher = make()?;
            // The parent's is closed with all else of the parent's.
            std::mem::forget(place.replace((process::owner(), Arc::clone(&watcher))));
            Some(watcher)
        });
        // A thread that ends has none any more.
        kept.unwrap_or_else(|_| make())
    }
}

impl Watcher for ThreadWatcher {
    fn changed(&self) {
        self.0.wake();
    }
}
