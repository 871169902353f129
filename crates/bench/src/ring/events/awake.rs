//! CPUs that are kept awake: a thread on each that runs only when nothing else does, so that the CPU never halts.

use sidestep_sys::{Problem, cpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that keep CPUs awake until it is dropped.
pub(super) struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps these CPUs awake. Returns when each thread is in its place.
    pub(super) fn keep(cpus: &[u32]) -> Result<Self, Problem> {
        let mut awake = Self { stop: Arc::default(), threads: Vec::new() };
        for cpu in cpus.iter().copied() {
            let stop = Arc::clone(&awake.stop);
            let (tell, told) = std::sync::mpsc::channel();
            let thread = std::thread::Builder::new().name(format!("awake-{cpu}")).spawn(move || {
                let placed = cpu::restrict(&[cpu]).and_then(|()| cpu::run_idle());
                let is_placed = placed.is_ok();
                let _ = tell.send(placed);
                while is_placed && !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let failed = |why: String| Problem::failed(format!("cannot keep CPU {cpu} awake"), why);
            awake.threads.push(thread.map_err(|error| failed(error.to_string()))?);
            told.recv().map_err(|_| failed("its thread ended".into()))??;
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
