//! CPUs that are kept awake: a thread on each that runs only when nothing else does, so that the CPU never halts.
//!
//! Each ends by itself. On Linux 6.18 such threads were seen to keep ordinary ones from their CPUs for 18 minutes ("workqueue lockup"),
//! which SCHED_IDLE should exclude; the scheduler's base of virtual time could stand still there (mended by "sched/fair: Fix
//! zero_vruntime tracking", b3d99f43c72b). The event's sender would then never end the slice, and nobody these threads.

use sidestep_sys::{Problem, cpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Turns between two looks at the clock.
const TURNS_PER_LOOK: u32 = 1 << 12;

/// Threads that keep CPUs awake until it is dropped.
pub(super) struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps these CPUs awake, no longer than `limit`. Returns when each thread is in its place.
    pub(super) fn keep(cpus: &[u32], limit: Duration) -> Result<Self, Problem> {
        let mut awake = Self { stop: Arc::default(), threads: Vec::new() };
        for cpu in cpus.iter().copied() {
            let stop = Arc::clone(&awake.stop);
            let (tell, told) = std::sync::mpsc::channel();
            let thread = std::thread::Builder::new().name(format!("awake-{cpu}")).spawn(move || {
                let placed = cpu::restrict(&[cpu]).and_then(|()| cpu::run_idle());
                let is_placed = placed.is_ok();
                let _ = tell.send(placed);
                let end = Instant::now() + limit;
                while is_placed && !stop.load(Ordering::Relaxed) && Instant::now() < end {
                    (0..TURNS_PER_LOOK).for_each(|_| std::hint::spin_loop());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_by_itself() {
        let cpu = cpu::allowed()[0];
        let awake = Awake::keep(&[cpu], Duration::from_millis(20)).unwrap();
        let begin = Instant::now();
        while !awake.threads.iter().all(JoinHandle::is_finished) {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(Awake::keep(&[cpu], Duration::from_secs(3600)).unwrap());
    }
}
