//! The program without an interface: it tells the outcome of a frame (BPF_PROG_TEST_RUN).

use std::time::Duration;

use libbpf_rs::{Object, ProgramInput};
use sidestep_sys::Problem;

use crate::feed::FeedId;
use crate::layout::put;
use crate::maps::Maps;
use crate::program::{self, Build, Loaded};
use crate::reason::{Reason, Verdict};
use crate::tables::Tables;

/// `XDP_DROP`, `XDP_PASS` and `XDP_REDIRECT` of linux/bpf.h.
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

/// `struct xdp_md` of linux/bpf.h: its size, and the offsets of the fields that are set.
const CONTEXT_BYTES: usize = 24;
const CONTEXT_DATA_END: usize = 4;
const CONTEXT_IFINDEX: usize = 12;
const CONTEXT_QUEUE: usize = 16;

/// A loaded program with its own tables. Needs CAP_BPF, CAP_NET_ADMIN; no interface.
#[derive(Debug)]
pub struct Rehearsal {
    object: Object,
    tables: Tables,
}

/// The outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The destination.
    pub verdict: Verdict,
    /// The reason.
    pub reason: Reason,
    /// The program's average run time over the repetitions; the kernel reports whole nanoseconds.
    pub duration: Duration,
}

impl Rehearsal {
    /// Loads the program for an interface with this Ethernet address.
    pub fn new(mac: [u8; 6]) -> Result<Self, Problem> {
        Self::of(program::load()?, mac)
    }

    /// Loads the program for kernels before Linux 5.18.
    pub fn for_older_kernels(mac: [u8; 6]) -> Result<Self, Problem> {
        Self::of(program::load_build(Build::OneBuffer)?, mac)
    }

    fn of(Loaded { object, .. }: Loaded, mac: [u8; 6]) -> Result<Self, Problem> {
        let tables = Tables { maps: Maps::of_object(&object)? };
        tables.initialise(0, mac)?;
        Ok(Self { object, tables })
    }

    /// Its tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The number of instructions of the program as compiled.
    pub fn instructions(&self) -> usize {
        self.object.progs().map(|program| program.insn_cnt()).sum()
    }

    /// Runs the program over a frame as if received on queue 0, `repeat` times (at least once). The kernel accepts
    /// frames from 14 bytes on. A frame longer than about 3,500 bytes has several buffers; the program for older
    /// kernels cannot be run over it.
    pub fn run(&mut self, frame: &[u8], repeat: u32) -> Result<Outcome, Problem> {
        self.run_with(frame, repeat, None)
    }

    /// Runs the program for a receive queue of an interface, which must have XDP attached natively (its queues are set
    /// up then).
    pub fn run_on(&mut self, frame: &[u8], ifindex: u32, queue: u32) -> Result<Outcome, Problem> {
        let mut context = [0; CONTEXT_BYTES];
        put(&mut context, CONTEXT_DATA_END, &(frame.len() as u32).to_ne_bytes());
        put(&mut context, CONTEXT_IFINDEX, &ifindex.to_ne_bytes());
        put(&mut context, CONTEXT_QUEUE, &queue.to_ne_bytes());
        self.run_with(frame, 1, Some(&mut context))
    }

    /// Has the ring of a queue look as if another CPU were writing it, until this is called with `false`.
    pub fn occupy(&mut self, feed: FeedId, queue: u32, is_busy: bool) -> Result<(), Problem> {
        self.tables.mark_busy(feed, queue, is_busy)
    }

    /// Runs the program on queue 0 for a frame that its device has split after this many bytes, 14 at least (Linux
    /// 6.18).
    pub fn run_cut(&mut self, frame: &[u8], first_bytes: usize) -> Result<Outcome, Problem> {
        let mut context = [0; CONTEXT_BYTES];
        put(&mut context, CONTEXT_DATA_END, &(first_bytes as u32).to_ne_bytes());
        self.run_with(frame, 1, Some(&mut context))
    }

    fn run_with(&mut self, frame: &[u8], repeat: u32, context: Option<&mut [u8]>) -> Result<Outcome, Problem> {
        let problem = |why: String| Problem::failed(format!("cannot rehearse a frame of {} bytes", frame.len()), why);
        let before = self.tables.counters()?;
        let program = self.object.progs_mut().find(|program| program.name() == program::NAME);
        let program = program.ok_or_else(|| problem("the compiled program does not have it".to_owned()))?;
        let input = ProgramInput { context_in: context, data_in: Some(frame), repeat, ..Default::default() };
        let output = program.test_run(input).map_err(|error| problem(error.to_string()))?;
        let after = self.tables.counters()?;
        let counted = after.iter().zip(&before).find(|(after, before)| after.value != before.value);
        let (counter, _) = counted.ok_or_else(|| problem("no counter has moved".to_owned()))?;
        let verdict = match output.return_value {
            XDP_DROP => Verdict::Drop,
            XDP_PASS => Verdict::Pass,
            XDP_REDIRECT => Verdict::Redirect,
            other => return Err(problem(format!("the program returned {other}"))),
        };
        Ok(Outcome { verdict, reason: counter.reason, duration: output.duration })
    }
}
