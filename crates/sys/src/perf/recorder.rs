//! Tracepoints recorded on several CPUs at once.

use super::attributes::{
    Attributes, DISABLED, SAMPLE_ID_ALL, SAMPLE_RAW, SAMPLE_TIME, TRACEPOINT, USE_CLOCKID, WATERMARK, filter,
};
use super::refused;
use super::ring::CpuRing;
use crate::Problem;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A tracepoint to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its name (`sched/sched_switch`).
    pub name: String,
    /// Its number, of [`super::Format`].
    pub id: u16,
    /// An expression over its fields, which the kernel evaluates; empty for all.
    pub filter: String,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// An event.
    Event {
        /// CLOCK_MONOTONIC_RAW.
        ns: u64,
        /// The fields, as [`super::Format`] describes them; the first two bytes are the tracepoint's number.
        bytes: &'a [u8],
    },
    /// So many events did not fit into the ring since it was emptied.
    Lost(u64),
}

/// Records tracepoints, each CPU's into a ring of its own.
#[derive(Debug)]
pub struct Recorder(Vec<CpuRing>);

impl Recorder {
    /// Opens the tracepoints on `cpus`, each with a ring of `ring_bytes` (a power of two, at least 64 KiB). Nothing is recorded yet.
    /// The memory counts as locked (RLIMIT_MEMLOCK, kernel.perf_event_mlock_kb). Dropping it may take half a second: the
    /// kernel waits until no CPU is in a tracepoint any more.
    ///
    /// # Errors
    /// Fails if the process may not record what happens on whole CPUs, with what would allow it.
    pub fn open(cpus: &[u32], tracepoints: &[Tracepoint], ring_bytes: usize) -> Result<Self, Problem> {
        let ring_bytes = ring_bytes.next_power_of_two().max(64 << 10);
        let ring = |cpu: &u32| {
            let events: io::Result<Vec<OwnedFd>> =
                tracepoints.iter().map(|tracepoint| event(tracepoint, *cpu, ring_bytes)).collect();
            CpuRing::map(*cpu, events?, ring_bytes)
                .map_err(|error| io::Error::new(error.kind(), format!("{error} (ring of CPU {cpu})")))
        };
        let rings: io::Result<Vec<_>> = cpus.iter().map(ring).collect();
        rings.map(Self).map_err(|error| refused("cannot record what the kernel does", &error))
    }

    /// Begins recording.
    ///
    /// # Errors
    /// Fails if the kernel refuses it, for example because a CPU went offline.
    pub fn enable(&self) -> Result<(), Problem> {
        let enabled = self.0.iter().try_for_each(CpuRing::enable);
        enabled.map_err(|error| refused("cannot record what the kernel does", &error))
    }

    /// Ends recording. What was recorded stays in the rings.
    pub fn disable(&self) {
        // It fails only for a CPU that is gone, which records nothing.
        self.0.iter().for_each(|ring| drop(ring.disable()));
    }

    /// Hands over what was recorded, CPU by CPU, and empties the rings. Returns the CPUs whose ring was full: what happened
    /// there later was lost.
    pub fn drain(&mut self, mut take: impl FnMut(u32, Record<'_>)) -> Vec<u32> {
        let drain = |ring: &mut CpuRing| {
            let cpu = ring.cpu;
            ring.drain(|record| take(cpu, record)).then_some(cpu)
        };
        self.0.iter_mut().filter_map(drain).collect()
    }
}

fn event(tracepoint: &Tracepoint, cpu: u32, ring_bytes: usize) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: TRACEPOINT,
        config: tracepoint.id.into(),
        sample_period: 1,
        sample_type: SAMPLE_TIME | SAMPLE_RAW,
        flags: DISABLED | WATERMARK | SAMPLE_ID_ALL | USE_CLOCKID,
        // Nobody is to be woken; the kernel allows no more than the ring's size, and interrupts itself once per ring.
        wakeup_watermark: u32::try_from(ring_bytes).unwrap_or(u32::MAX),
        clock: libc::CLOCK_MONOTONIC_RAW,
        ..Attributes::default()
    };
    let event = attributes.open(cpu).map_err(|error| {
        io::Error::new(error.kind(), format!("{error} (tracepoint {} on CPU {cpu})", tracepoint.name))
    })?;
    if !tracepoint.filter.is_empty() {
        filter(event.as_fd(), &CString::new(tracepoint.filter.as_str())?)?;
    }
    Ok(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_raw_ns;
    use crate::perf::Tracefs;
    use crate::{cpu, process};
    use std::sync::{Mutex, PoisonError};

    /// One recorder at a time: tests shall not fill each other's time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn what_a_cpu_does_is_recorded_in_its_time() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if !process::is_root() {
            return eprintln!("skipped: needs root");
        }
        let tracefs = match Tracefs::open() {
            Ok(tracefs) => tracefs,
            Err(problem) => return eprintln!("skipped: {problem}"),
        };
        let switch = tracefs.format("sched/sched_switch").unwrap();
        let cpus = cpu::allowed();
        let all = Tracepoint { name: "switch".into(), id: switch.id, filter: String::new() };
        let none = Tracepoint { filter: "next_pid == 0 && next_pid == 1".into(), ..all.clone() };
        for (tracepoint, is_seen) in [(all, true), (none, false)] {
            let mut recorder = Recorder::open(&cpus, &[tracepoint], 1 << 20).unwrap();
            let begin = monotonic_raw_ns();
            recorder.enable().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            recorder.disable();
            let end = monotonic_raw_ns();
            let (mut seen, mut ours) = (0, 0);
            let (prev, next) = (switch.field("prev_pid").unwrap(), switch.field("next_pid").unwrap());
            let tid = u64::from(process::thread_id());
            recorder.drain(|cpu, record| {
                let Record::Event { ns, bytes } = record else { return };
                assert!(cpus.contains(&cpu) && (begin..=end).contains(&ns), "{ns} is outside of {begin}..{end}");
                assert_eq!(bytes[..2], switch.id.to_ne_bytes());
                seen += 1;
                // Linux 6.18 was seen to leave out, for good, all switches from the idle task of one CPU: either will do.
                ours += u32::from([prev, next].iter().any(|field| field.number(bytes) == Some(tid)));
            });
            assert_eq!(seen > 0, is_seen);
            // In a pid namespace tracepoints tell other numbers.
            assert!(!is_seen || ours > 0 || !process::is_in_first_pid_namespace());
            assert!(recorder.drain(|_, _| panic!("it was emptied")).is_empty());
        }
    }

    #[test]
    fn a_full_ring_says_so() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        if !process::is_root() {
            return eprintln!("skipped: needs root");
        }
        let Ok(tracefs) = Tracefs::open() else { return eprintln!("skipped: needs tracefs") };
        let Ok(calls) = tracefs.format("raw_syscalls/sys_enter") else {
            return eprintln!("skipped: needs raw_syscalls");
        };
        let cpus = cpu::allowed();
        let tracepoint = Tracepoint { name: "calls".into(), id: calls.id, filter: String::new() };
        let mut recorder = Recorder::open(&cpus, &[tracepoint], 64 << 10).unwrap();
        recorder.enable().unwrap();
        for _ in 0..20_000 {
            process::thread_id();
        }
        recorder.disable();
        assert!(!recorder.drain(|_, _| {}).is_empty(), "20,000 records of 80 bytes do not fit");
        recorder.enable().unwrap();
        cpus.iter().for_each(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
        recorder.disable();
        let mut lost = 0;
        recorder.drain(|_, record| lost += if let Record::Lost(count) = record { count } else { 0 });
        assert!(lost > 0, "the next record after a full ring tells what is missing");
    }

    #[test]
    fn a_cpu_or_a_tracepoint_that_is_not_there_is_refused() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let tracepoint = Tracepoint { name: "none".into(), id: u16::MAX, filter: String::new() };
        assert!(Recorder::open(&[0], std::slice::from_ref(&tracepoint), 1).is_err());
        assert!(Recorder::open(&[100_000], &[tracepoint], 1).unwrap_err().to_string().contains("perf_event_paranoid"));
        assert!(Recorder::open(&[0], &[], 1).is_err());
    }
}
