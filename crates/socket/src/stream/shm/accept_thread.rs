//! Accepting shared memory beside a thread that must not wait.

use super::{Acceptor, Rings};
use crate::stream::{Credentials, is_retry};
use sidestep_sys::cpu;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections that wait to be taken up.
const WAITING_MAX: usize = 64;
/// The time between two looks whether the thread is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Accepts on a thread of its own: neither a connector that says nothing nor the mapping of its rings holds up the caller.
pub(crate) struct AcceptThread {
    accepted: Receiver<(Rings, Option<Credentials>)>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AcceptThread {
    /// Starts it. Where no thread can be started, `acceptor` comes back.
    pub(crate) fn start(acceptor: Acceptor) -> Result<Self, (Box<Acceptor>, io::Error)> {
        let (sender, accepted) = sync_channel(WAITING_MAX);
        let (hand_over, handed_over) = sync_channel::<Acceptor>(1);
        let end = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&end);
        let maker = cpu::allowed();
        let work = move || {
            cpu::move_to_helper_cpus(&maker);
            let Ok(mut acceptor) = handed_over.recv() else { return };
            while !asked.load(Ordering::Relaxed) {
                match acceptor.accept(LOOK_EVERY) {
                    // More than can wait are dropped, which their connectors see.
                    Ok(one) => drop(sender.try_send(one)),
                    Err(error) if is_retry(&error) || error.kind() == ErrorKind::TimedOut => {}
                    Err(_) => std::thread::sleep(LOOK_EVERY),
                }
            }
        };
        match std::thread::Builder::new().name("shm-accept".into()).spawn(work) {
            Ok(thread) => {
                // There is room for one, and the thread lives.
                drop(hand_over.send(acceptor));
                Ok(Self { accepted, end, thread: Some(thread) })
            }
            Err(error) => Err((Box::new(acceptor), error)),
        }
    }

    /// Returns the next connection.
    pub(crate) fn next(&self) -> Option<(Rings, Option<Credentials>)> {
        self.accepted.try_recv().ok()
    }

    /// Waits for the next connection; `None` when none came within `timeout`.
    pub(crate) fn next_within(&self, timeout: Duration) -> Option<(Rings, Option<Credentials>)> {
        self.accepted.recv_timeout(timeout).ok()
    }
}

impl Drop for AcceptThread {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
