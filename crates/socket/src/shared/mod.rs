//! An engine that several threads use: [`SharedEngine`].
//!
//! [`Engine`] itself belongs to one thread. Here it stands behind a lock. Whoever is in a call polls it: a thread that spins tries
//! the lock and polls, a thread that sleeps does so on the engine's descriptors for all others (the *leader*), and a helper thread
//! does it when no thread of the program is in a call, so that timers, ACKs and the heartbeat never wait for the program.
//!
//! * [`lock`](SharedEngine::lock) lends the engine for a call. What has changed is shown to the [`Observer`] before the lock is released.
//! * [`wait`](SharedEngine::wait) waits until a condition holds: it spins, then sleeps.
//! * [`poll`](SharedEngine::poll) polls once, unless another thread is at it.
//! * A [`Waker`] ends a wait from any other thread. A condition is checked, and a thread noted as asleep, under the one lock under
//!   which observers are told: no wake-up is lost.

mod helper;
mod lock;
mod sleepers;
mod sources;
mod turns;
mod wait;
mod waker;

pub use turns::Turns;
pub use wait::{Wait, Woken};
pub use waker::Waker;

use crate::engine::Engine;
use crate::error::Error;
use crate::options::EngineOptions;
use crate::tcp::{TcpEvent, TcpListener, TcpStream};
use crate::udp::socket::Handle;
use lock::Lock;
use sidestep_sys::Problem;
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::own_descriptors::own_thread;
use sidestep_sys::signals::with_all_blocked;
use sleepers::Sleepers;
use sources::{Sources, Watched};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Between two samples, at the least.
const SAMPLE_NS: u64 = 1_000_000;

/// A socket whose readiness may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketEvent {
    /// A TCP stream.
    Stream(TcpStream),
    /// A TCP listener.
    Listener(TcpListener),
    /// A UDP socket that datagrams have come for.
    Datagrams(Handle),
}

/// Is told of sockets whose readiness may have changed.
pub trait Observer: Send + Sync {
    /// Takes an event. Called with the engine locked: it must not lock the engine.
    fn note(&self, event: SocketEvent);

    /// Takes a sample of the engine: after a poll, at most once a millisecond, with the engine locked.
    fn sample(&self, _engine: &mut Engine, _turns: &Turns) {}
}

/// What threads share.
struct Shared {
    engine: Lock<Locked>,
    observer: Box<dyn Observer>,
    guard: ForkGuard,
    /// The time of the program's last poll, CLOCK_MONOTONIC, as the engine has read it.
    polled_ns: AtomicU64,
    sources: Sources,
    is_stopped: AtomicBool,
    helper: Waker,
    /// Turns of the helper thread.
    helper_turns: AtomicU64,
}

/// What the lock protects.
struct Locked {
    engine: Engine,
    sleepers: Sleepers,
    watched: Watched,
    turns: Turns,
    /// The time of the last sample.
    sampled_ns: u64,
}

/// An engine that several threads use. See the [module](self).
pub struct SharedEngine {
    shared: Arc<Shared>,
    helper: Mutex<Option<JoinHandle<()>>>,
}

/// The engine, locked.
pub struct Guard<'a> {
    shared: &'a Shared,
    locked: MutexGuard<'a, Locked>,
    /// Nothing has changed since observers were told.
    is_shown: bool,
}

impl SharedEngine {
    /// Opens an engine, and starts the helper thread. All signals are blocked in every thread that an engine starts.
    pub fn open(options: &EngineOptions, observer: Box<dyn Observer>) -> Result<Self, Problem> {
        let failed = |error: std::io::Error| Problem::failed("cannot open an engine for several threads", error);
        let guard = ForkGuard::new().map_err(failed)?;
        let sources = Sources::new().map_err(|error| failed(error.into()))?;
        let mut engine = Engine::open(options)?;
        engine.sockets.filled = Some(Vec::new());
        engine.agent.iter().for_each(|control| control.wake_owner_by(sources.agent()));
        let (sleepers, watched, turns) = (Sleepers::default(), Watched::default(), Turns::default());
        let locked = Locked { engine, sleepers, watched, turns, sampled_ns: 0 };
        let shared = Arc::new(Shared {
            engine: Lock::new(locked),
            observer,
            guard,
            polled_ns: AtomicU64::new(0),
            sources,
            is_stopped: AtomicBool::new(false),
            helper: Waker::new()?,
            helper_turns: AtomicU64::new(0),
        });
        let theirs = Arc::clone(&shared);
        let helper = std::thread::Builder::new().name("sidestep-helper".into());
        let helper = with_all_blocked(|| {
            helper.spawn(move || {
                own_thread();
                helper::run(&theirs);
            })
        })
        .map_err(failed)?;
        Ok(Self { shared, helper: Mutex::new(Some(helper)) })
    }

    /// Locks the engine. A forked child gets an error, and never touches the lock.
    pub fn lock(&self) -> Result<Guard<'_>, Error> {
        self.shared.lock()
    }

    /// Polls the engine once, unless another thread is at it; returns whether it was polled.
    pub fn poll(&self) -> Result<bool, Error> {
        let Some(mut guard) = self.shared.try_lock()? else { return Ok(false) };
        guard.poll()?;
        Ok(true)
    }

    /// The number of times that the helper thread has been woken.
    pub fn helper_turns(&self) -> u64 {
        self.shared.helper_turns.load(Ordering::Relaxed)
    }

    /// Waits until `is_ready` gives something. It is called with the engine locked, after a poll: when the waker has been woken, and now
    /// and then while the thread spins. So the [`Observer`] wakes the waker at each change that the condition depends on.
    pub fn wait<T>(
        &self,
        wait: &mut Wait<'_>,
        is_ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> Result<Woken<T>, Error> {
        wait::run(&self.shared, wait, is_ready)
    }

    /// Ends the helper thread: before execve(2), and at the end. From then on the engine is polled by callers alone.
    pub fn stop(&self) {
        if !self.shared.guard.is_same_process() {
            return;
        }
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        self.shared.helper.wake();
        let helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner).take();
        helper.into_iter().for_each(|helper| _ = helper.join());
    }
}

impl Drop for SharedEngine {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for SharedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedEngine").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> Result<Guard<'_>, Error> {
        self.check()?;
        Ok(Guard::new(self, self.engine.lock()))
    }

    #[inline]
    fn try_lock(&self) -> Result<Option<Guard<'_>>, Error> {
        self.check()?;
        Ok(self.engine.try_lock().map(|locked| Guard::new(self, locked)))
    }

    #[inline]
    fn check(&self) -> Result<(), Error> {
        if self.guard.is_same_process() { Ok(()) } else { Err(Error::Forked) }
    }
}

impl<'a> Guard<'a> {
    #[inline]
    fn new(shared: &'a Shared, locked: MutexGuard<'a, Locked>) -> Self {
        Self { shared, locked, is_shown: false }
    }

    /// Polls the engine once.
    pub fn poll(&mut self) -> Result<usize, Error> {
        self.is_shown = false;
        let unread = self.locked.engine.poll()?;
        let now_ns = self.locked.engine.heartbeat.now_ns();
        self.shared.polled_ns.store(now_ns, Ordering::Relaxed);
        self.locked.turns.polls += 1;
        if self.locked.watched.is_idle(self.locked.turns.polls) {
            self.stop_watching();
        }
        self.sample(now_ns);
        Ok(unread)
    }

    /// Has the kernel report frames, for a thread that is going to sleep on the engine's descriptors.
    fn watch(&mut self) {
        let Locked { watched, turns, .. } = &mut *self.locked;
        self.shared.sources.arm(watched, turns.polls);
    }

    /// Has the kernel report frames no more, unless a thread of the program waits for that: the others poll.
    #[cold]
    fn stop_watching(&mut self) {
        let Locked { watched, turns, sleepers, .. } = &mut *self.locked;
        let is_led = sleepers.is_led_by_program(&self.shared.helper);
        if self.shared.sources.disarm(watched, turns.polls, is_led) {
            // It may sleep there, and is to look at the program's polls from now on.
            self.shared.helper.wake();
        }
    }

    /// Polls the engine once, for a program that does not.
    fn poll_as_helper(&mut self) {
        // It fails in a forked child alone.
        self.is_shown = false;
        let _ = self.locked.engine.poll();
        self.locked.turns.helper_polls += 1;
        self.sample(self.locked.engine.heartbeat.now_ns());
    }

    #[inline]
    fn sample(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.locked.sampled_ns) >= SAMPLE_NS {
            let Locked { engine, turns, sampled_ns, .. } = &mut *self.locked;
            *sampled_ns = now_ns;
            self.shared.observer.sample(engine, turns);
        }
    }

    fn turns(&mut self) -> &mut Turns {
        &mut self.locked.turns
    }

    fn sleepers(&mut self) -> &mut Sleepers {
        &mut self.locked.sleepers
    }

    /// Shows what has changed.
    #[inline]
    fn show_events(&mut self) {
        if std::mem::replace(&mut self.is_shown, true) {
            return;
        }
        let engine = &mut self.locked.engine;
        while let Some(event) = engine.tcp().next_event() {
            self.shared.observer.note(match event {
                TcpEvent::Stream(stream) => SocketEvent::Stream(stream),
                TcpEvent::Listener(listener) => SocketEvent::Listener(listener),
            });
        }
        for socket in engine.sockets.filled.iter_mut().flat_map(|filled| filled.drain(..)) {
            self.shared.observer.note(SocketEvent::Datagrams(socket));
        }
    }
}

impl Deref for Guard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.locked.engine
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        self.is_shown = false;
        &mut self.locked.engine
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let Locked { engine, watched, .. } = &mut *self.locked;
        self.shared.sources.follow(watched, engine);
        if !std::thread::panicking() {
            self.show_events();
        }
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.locked.engine.fmt(f)
    }
}
