//! What a segment costs in sidestep's TCP, in smoltcp's and in lwIP's: the same messages over the same wire in memory, one
//! thread, no system call. All verify and compute every checksum, and carry timestamps.
//!
//! `sidestep-peers-tcp [ROUNDS [LWIP_OF_CLIENT LWIP_OF_SERVER]]`; see `peers/tcp/run`. A round takes each contestant twice, on the
//! way forward and back; the two passes are its A/A control. lwIP takes part if its library is given, in two files.

#[path = "../../allocations.rs"]
mod allocations;
mod contestant;
mod lwip_pair;
mod sidestep_pair;
mod smoltcp_pair;
mod wire;

use contestant::Contestant;
use lwip_pair::LwipPair;
use sidestep_pair::SidestepPair;
use smoltcp_pair::SmoltcpPair;
use std::path::PathBuf;
use std::time::Instant;

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

/// Who takes part, and how two connected hosts of it are made.
struct Entrant {
    name: &'static str,
    connected: Box<dyn Fn(usize) -> Box<dyn Contestant>>,
}

/// What one slice found.
#[derive(Clone, Copy)]
struct Slice {
    ns_per_segment: f64,
    allocations_per_segment: f64,
    frames_per_segment: f64,
}

/// One slice. The connections are served in an order that caches cannot predict.
fn slice(contestant: &mut dyn Contestant, work: Work) -> Slice {
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

fn measure(work: Work, rounds: usize, entrants: &[Entrant]) {
    let mut pairs: Vec<_> = entrants.iter().map(|entrant| (entrant.connected)(work.connections())).collect();
    for _ in 0..WARM_UP {
        for pair in &mut pairs {
            slice(&mut **pair, work);
        }
    }
    let mut seen: Vec<Vec<Slice>> = Vec::with_capacity(rounds);
    let there_and_back: Vec<usize> = (0..pairs.len()).chain((0..pairs.len()).rev()).collect();
    for _ in 0..rounds {
        seen.push(there_and_back.iter().map(|&at| slice(&mut *pairs[at], work)).collect());
    }
    println!("{}", work.name());
    let passes = |at: usize| [at, there_and_back.len() - 1 - at];
    for (at, entrant) in entrants.iter().enumerate() {
        row(entrant.name, passes(at), &seen);
    }
    let sum = |round: &[Slice], at: usize| passes(at).map(|pass| round[pass].ns_per_segment).iter().sum::<f64>();
    for (at, entrant) in entrants.iter().enumerate().skip(1) {
        let (ratio, [low, high]) = median(seen.iter().map(|round| sum(round, 0) / sum(round, at)));
        println!("  {} against {}: {ratio:.3} [{low:.3}, {high:.3}]", entrants[0].name, entrant.name);
    }
}

fn row(name: &str, [one, two]: [usize; 2], seen: &[Vec<Slice>]) {
    let (ns, [low, high]) = median(seen.iter().flat_map(|round| [round[one], round[two]]).map(|it| it.ns_per_segment));
    let (allocations, _) = median(seen.iter().map(|round| round[one].allocations_per_segment));
    let (frames, _) = median(seen.iter().map(|round| round[one].frames_per_segment));
    let control = median(seen.iter().map(|round| round[two].ns_per_segment / round[one].ns_per_segment));
    println!(
        "  {name:<9} {ns:7.1} ns [{low:.1}, {high:.1}] a segment with data, {allocations:.2} allocations, \
         {frames:.3} frames; second pass against first {}",
        percent(control)
    );
}

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let rounds = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(100_usize).max(2);
    let mut entrants = vec![
        Entrant { name: "sidestep", connected: Box::new(|count| Box::new(SidestepPair::connected(count))) },
        Entrant { name: "smoltcp", connected: Box::new(|count| Box::new(SmoltcpPair::connected(count))) },
    ];
    if let (Some(client), Some(server)) = (arguments.next(), arguments.next()) {
        let files = [client, server].map(PathBuf::from);
        let connected = move |count| -> Box<dyn Contestant> { Box::new(LwipPair::connected(count, &files)) };
        entrants.push(Entrant { name: "lwIP", connected: Box::new(connected) });
    }
    println!("{rounds} rounds; medians with 95 % intervals");
    for work in [Work::Pings { connections: 1 }, Work::Pings { connections: 100 }, Work::Stream] {
        measure(work, rounds, &entrants);
    }
}
