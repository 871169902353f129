//! `sidestep ring`: reads a ring without disturbing its two sides, or packets from rings that the kernel fills.

mod dump;
mod flow;
mod stat;
mod tail;

use crate::args::Ring as Args;
use sidestep_ring::Segment;
use sidestep_sys::Problem;
use std::path::Path;

pub(super) fn run(args: Args) -> Result<u8, Problem> {
    match args {
        Args::Stat(args) => stat::run(&args),
        Args::Tail(args) => match args.flow.flow {
            Some(target) => flow::run(&args, target),
            None => tail::run(&args),
        },
    }
}

/// Opens the ring in a file, in the module's device, or in a pinned BPF map; mapped read-only.
fn open(file: &Path, number: u32) -> Result<Segment, Problem> {
    Segment::view(file, number).map_err(|problem| match problem.next_step() {
        "" => problem.next("name a file that a program made as a ring of this version (Segment::create)"),
        _ => problem,
    })
}
