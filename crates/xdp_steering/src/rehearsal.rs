//! The program attached to nothing: what would become of a frame (BPF_PROG_TEST_RUN).

use std::time::Duration;

use libbpf_rs::{Object, ProgramInput};
use sidestep_sys::Problem;

use crate::layout::put;
use crate::maps::Maps;
use crate::program::{self, Build, Loaded};
use crate::reason::{Reason, Verdict};
use crate::tables::Tables;

/// `XDP_DROP`, `XDP_PASS` and `XDP_REDIRECT` of linux/bpf.h.
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

/// `struct xdp_md` of linux/bpf.h: bytes, and the offsets that are filled in.
const CONTEXT_BYTES: usize = 24;
const CONTEXT_DATA_END: usize = 4;
const CONTEXT_IFINDEX: usize = 12;
const CONTEXT_QUEUE: usize = 16;

/// A loaded program with tables of its own. Needs CAP_BPF, CAP_NET_ADMIN; no interface.
#[derive(Debug)]
pub struct Rehearsal {
    object: Object,
    tables: Tables,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Where it would go.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// How long the program ran, on average over the repetitions; the kernel tells it in whole nanoseconds.
    pub duration: Duration,
}

impl Rehearsal {
    /// Loads the program for an interface with this Ethernet address.
    pub fn new(mac: [u8; 6]) -> Result<Self, Problem> {
        Self::of(program::load()?, mac)
    }

    /// The program that kernels before Linux 5.18 get.
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

    /// Instructions of the program as the compiler made it.
    pub fn instructions(&self) -> usize {
        self.object.progs().map(|program| program.insn_cnt()).sum()
    }

    /// Runs the program over a frame as if received on queue 0, `repeat` times (at least once). The kernel takes
    /// frames of 14 bytes on. Of what is longer than about 3,500 bytes the program gets several buffers; that of older kernels
    /// gets none of it.
    pub fn run(&mut self, frame: &[u8], repeat: u32) -> Result<Outcome, Problem> {
        self.run_with(frame, repeat, None)
    }

    /// The same for a receive queue of an interface, which must have XDP attached natively (its queues are set up then).
    pub fn run_on(&mut self, frame: &[u8], ifindex: u32, queue: u32) -> Result<Outcome, Problem> {
        let mut context = [0; CONTEXT_BYTES];
        put(&mut context, CONTEXT_DATA_END, &(frame.len() as u32).to_ne_bytes());
        put(&mut context, CONTEXT_IFINDEX, &ifindex.to_ne_bytes());
        put(&mut context, CONTEXT_QUEUE, &queue.to_ne_bytes());
        self.run_with(frame, 1, Some(&mut context))
    }

    /// The same on queue 0 for a frame that its device has cut behind the first so many bytes, 14 at least (Linux 6.18).
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
