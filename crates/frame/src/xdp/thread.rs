//! A thread that makes the sending calls for the thread that owns the link. The TX ring stays single-producer: this
//! thread only reads its indices.

use sidestep_sys::futex::{self, Scope};
use sidestep_sys::idle::{Idle, IdleStrategy};
use sidestep_sys::signals::with_all_blocked;
use sidestep_sys::xdp::{Probe, kick as call};
use sidestep_sys::{Problem, cpu};
use std::hint::spin_loop;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering, fence};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause between two attempts while the interface is down.
const DOWN_PAUSE: Duration = Duration::from_millis(1);

/// The state that both threads share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// 1 while the thread sleeps, or is about to.
    asleep: AtomicU32,
    /// The last error number, 0 for none.
    error: AtomicI32,
}

#[derive(Debug)]
pub(super) struct Thread {
    shared: Arc<Shared>,
    parks: bool,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    pub(super) fn start(
        idle: IdleStrategy,
        cpu: Option<u32>,
        socket: BorrowedFd<'_>,
        tx: Probe,
    ) -> Result<Self, Problem> {
        let failed = |error: io::Error| Problem::failed("cannot start a sending thread", error);
        let socket = socket.try_clone_to_owned().map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let (pinned, answer) = channel();
        let run = move || run(&theirs, idle, cpu, &socket, &tx, &pinned);
        let builder = std::thread::Builder::new().name("sidestep-send".into());
        let handle = with_all_blocked(|| builder.spawn(run)).map_err(failed)?;
        let thread = Self { shared, parks: idle.parks(), handle: Some(handle) };
        answer.recv().unwrap_or_else(|_| Err(Problem::failed("cannot start a sending thread", "it died")))?;
        Ok(thread)
    }

    /// Wakes the thread after frames have been published.
    #[inline]
    pub(super) fn kick(&mut self, calls: &mut u64) -> io::Result<()> {
        if self.parks {
            // Pairs with the fence in `sleep`: either the thread sees the published frames, or this one sees that it
            // sleeps.
            fence(Ordering::SeqCst);
            if self.shared.asleep.load(Ordering::Relaxed) == 1 {
                *calls += 1;
                self.wake();
            }
        }
        self.report()
    }

    fn wake(&self) {
        self.shared.asleep.store(0, Ordering::SeqCst);
        futex::wake_all(&self.shared.asleep, Scope::Private);
    }

    /// The last error, reported once.
    #[inline]
    pub(super) fn report(&mut self) -> io::Result<()> {
        if self.shared.error.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        match self.shared.error.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

fn run(
    shared: &Shared,
    idle: IdleStrategy,
    cpu: Option<u32>,
    socket: &OwnedFd,
    tx: &Probe,
    pinned: &Sender<Result<(), Problem>>,
) {
    let placed = cpu.map_or(Ok(()), |cpu| cpu::restrict(&[cpu]));
    let is_placed = placed.is_ok();
    let _ = pinned.send(placed);
    let mut idle = Idle::new(idle);
    while is_placed && !shared.stop.load(Ordering::Relaxed) {
        if tx.pending() == 0 {
            idle.next_pause().take(|limit| sleep(shared, tx, limit));
            continue;
        }
        idle.reset();
        if !tx.needs_wakeup() {
            // The driver is taking them by itself.
            spin_loop();
        } else if !transmit(shared, socket) {
            return;
        }
    }
}

/// Sends; false if the interface has gone for good.
fn transmit(shared: &Shared, socket: &OwnedFd) -> bool {
    match call::transmit(socket.as_fd()) {
        Err(error) if !call::is_retry(&error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            shared.error.store(errno, Ordering::Relaxed);
            std::thread::sleep(DOWN_PAUSE);
            errno == libc::ENETDOWN
        }
        _ => true,
    }
}

/// Sleeps until the owner of the link wakes it, at most for `limit`.
fn sleep(shared: &Shared, tx: &Probe, limit: Duration) {
    shared.asleep.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if tx.pending() == 0 && !shared.stop.load(Ordering::Relaxed) {
        futex::wait(&shared.asleep, 1, limit, Scope::Private);
    }
    shared.asleep.store(0, Ordering::Relaxed);
}
