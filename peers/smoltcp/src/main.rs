//! What a segment costs in sidestep's TCP and in smoltcp's: the same messages over the same wire in memory, one thread, no
//! system call. Both verify and compute every checksum, and carry timestamps.
//!
//! `sidestep-peers-smoltcp [ROUNDS]`; see `peers/smoltcp/run`. A round takes each contestant twice, on the way forward and
//! back; the two passes are its A/A control.

#[path = "../../allocations.rs"]
mod allocations;
mod contestant;
mod ours;
mod theirs;
mod wire;

use contestant::Contestant;
use ours::Ours;
use std::time::Instant;
use theirs::Theirs;

#[global_allocator]
static COUNTING: allocations::Counting = allocations::Counting;

/// Round trips in one slice: some milliseconds.
const PINGS: usize = 10_000;
/// Bytes of a stream's slice: a multiple of what a full segment carries.
const STREAM_BYTES: usize = 1448 * 5_000;
/// Slices that are thrown away first.
const WARM_UP: usize = 3;

/// What is done in a slice.
#[derive(Clone, Copy)]
enum Work {
    Pings { connections: usize },
    Stream,
}

impl Work {
    fn name(self) -> String {
        match self {
            Self::Pings { connections } => format!("64 B there and back, connections: {connections}"),
            Self::Stream => "1448 B one way, one connection".into(),
        }
    }

    fn connections(self) -> usize {
        match self {
            Self::Pings { connections } => connections,
            Self::Stream => 1,
        }
    }
}

/// What one slice found.
#[derive(Clone, Copy)]
struct Slice {
    ns_per_segment: f64,
    allocations_per_segment: f64,
    frames_per_segment: f64,
}

/// One slice. The connections are served in an order that caches cannot predict.
fn slice<C: Contestant>(contestant: &mut C, work: Work) -> Slice {
    let (frames, segments) = contestant.frames();
    let (allocations, start) = (allocations::so_far(), Instant::now());
    match work {
        Work::Pings { connections } => {
            let mut at = 0;
            for _ in 0..PINGS {
                at = (at * 5 + 1) % connections;
                contestant.ping(at);
            }
        }
        Work::Stream => contestant.stream(STREAM_BYTES),
    }
    let ns = start.elapsed().as_nanos() as f64;
    let (frames_now, segments_now) = contestant.frames();
    let segments = (segments_now - segments) as f64;
    Slice {
        ns_per_segment: ns / segments,
        allocations_per_segment: (allocations::so_far() - allocations) as f64 / segments,
        frames_per_segment: (frames_now - frames) as f64 / segments,
    }
}

/// The median, and the order statistics around it between which the true one lies in 95 of 100 cases.
fn median(values: impl Iterator<Item = f64>) -> (f64, [f64; 2]) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (count, middle) = (values.len(), values.len() / 2);
    let reach = (0.98 * (count as f64).sqrt()).ceil() as usize;
    (values[middle], [values[middle.saturating_sub(reach)], values[(middle + reach).min(count - 1)]])
}

fn percent(control: (f64, [f64; 2])) -> String {
    let off = |value: f64| 100.0 * (value - 1.0);
    format!("{:+.1} % [{:+.1}, {:+.1}]", off(control.0), off(control.1[0]), off(control.1[1]))
}

fn measure(work: Work, rounds: usize) {
    let (mut ours, mut theirs) = (Ours::connected(work.connections()), Theirs::connected(work.connections()));
    for _ in 0..WARM_UP {
        slice(&mut ours, work);
        slice(&mut theirs, work);
    }
    let mut seen: Vec<[Slice; 4]> = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let first = [slice(&mut ours, work), slice(&mut theirs, work)];
        let [theirs_again, ours_again] = [slice(&mut theirs, work), slice(&mut ours, work)];
        seen.push([first[0], first[1], theirs_again, ours_again]);
    }
    println!("{}", work.name());
    let rows = [(Ours::NAME, [0, 3]), (Theirs::NAME, [1, 2])];
    for (name, [one, two]) in rows {
        let (ns, [low, high]) =
            median(seen.iter().flat_map(|round| [round[one], round[two]]).map(|it| it.ns_per_segment));
        let (allocations, _) = median(seen.iter().map(|round| round[one].allocations_per_segment));
        let (frames, _) = median(seen.iter().map(|round| round[one].frames_per_segment));
        let control = median(seen.iter().map(|round| round[two].ns_per_segment / round[one].ns_per_segment));
        println!(
            "  {name:<9} {ns:7.1} ns [{low:.1}, {high:.1}] a segment with data, {allocations:.2} allocations, \
             {frames:.3} frames; second pass against first {}",
            percent(control)
        );
    }
    let sum = |round: &[Slice; 4], [one, two]: [usize; 2]| round[one].ns_per_segment + round[two].ns_per_segment;
    let (ratio, [low, high]) = median(seen.iter().map(|round| sum(round, rows[0].1) / sum(round, rows[1].1)));
    println!("  sidestep against smoltcp: {ratio:.3} [{low:.3}, {high:.3}]");
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_usize).max(2);
    println!("{rounds} rounds; medians with 95 % intervals");
    for work in [Work::Pings { connections: 1 }, Work::Pings { connections: 100 }, Work::Stream] {
        measure(work, rounds);
    }
}
