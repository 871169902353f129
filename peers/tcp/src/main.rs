//! What TCP costs in sidestep, in smoltcp and in lwIP: the same messages over the same wire in memory, one thread, no system call.
//! Messages of one segment there and back, and a stream, counted by full segments. All verify and compute every checksum, and carry
//! timestamps.
//!
//! `sidestep-peers-tcp [ROUNDS [LWIP_OF_CLIENT LWIP_OF_SERVER]]`; see `peers/tcp/run`. A round takes each contestant twice, on the
//! way forward and back; the two passes are its A/A control. lwIP takes part if its library is given, in two files.

#[path = "../../allocations.rs"]
mod allocations;
mod contestant;
mod lwip_pair;
#[path = "../../rounds.rs"]
mod rounds;
mod sidestep_pair;
mod smoltcp_pair;
mod wire;

use contestant::Contestant;
use lwip_pair::LwipPair;
use rounds::{median, rounds};
use sidestep_pair::SidestepPair;
use smoltcp_pair::SmoltcpPair;
use std::path::PathBuf;
use std::process;
use std::time::Instant;

#[global_allocator]
static COUNTING: allocations::Counting = allocations::Counting;

/// Round trips in one slice: some milliseconds.
const PINGS: usize = 10_000;
/// A stream's slice, in full segments, and what each of them carries.
const STREAM_SEGMENTS: usize = 5_000;
const SEGMENT_BYTES: usize = 1448;
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

    /// What its figures are for each of. A stream is cut into segments by each stack in its own way, so it is counted by its bytes.
    fn unit(self) -> &'static str {
        match self {
            Self::Pings { .. } => "message",
            Self::Stream => "1448 B",
        }
    }

    fn units(self) -> usize {
        match self {
            Self::Pings { .. } => 2 * PINGS,
            Self::Stream => STREAM_SEGMENTS,
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
    /// It takes its memory from this program's allocator, which counts.
    allocates_here: bool,
    connected: Box<dyn Fn(usize) -> Box<dyn Contestant>>,
}

/// What one slice found, for each of its units.
#[derive(Clone, Copy)]
struct Slice {
    ns: f64,
    allocations: f64,
    frames: f64,
    with_data: f64,
}

/// One slice. The connections are served in turn, each once before any is again (the multiplier of a full period, for a hundred and for
/// one), in an order that caches cannot predict.
fn slice(contestant: &mut dyn Contestant, work: Work) -> Slice {
    let (frames, with_data) = contestant.frames();
    let (allocations, start) = (allocations::so_far(), Instant::now());
    match work {
        Work::Pings { connections } => {
            let mut at = 0;
            for _ in 0..PINGS {
                at = (at * 21 + 7) % connections;
                contestant.ping(at);
            }
        }
        Work::Stream => contestant.stream(STREAM_SEGMENTS * SEGMENT_BYTES),
    }
    let ns = start.elapsed().as_nanos() as f64;
    let (frames_now, with_data_now) = contestant.frames();
    let each = |count: u64| count as f64 / work.units() as f64;
    Slice {
        ns: ns / work.units() as f64,
        allocations: each(allocations::so_far() - allocations),
        frames: each(frames_now - frames),
        with_data: each(with_data_now - with_data),
    }
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
    // By entrant: the two passes of every round. Each round begins with another one, so that none has the same before it always.
    let mut seen: Vec<Vec<[Slice; 2]>> = entrants.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..rounds {
        let order = (0..entrants.len()).map(|at| (at + round) % entrants.len());
        let forward: Vec<_> = order.clone().map(|at| slice(&mut *pairs[at], work)).collect();
        for (at, first) in order.zip(forward).rev() {
            seen[at].push([first, slice(&mut *pairs[at], work)]);
        }
    }
    println!("{}", work.name());
    for (entrant, rounds) in entrants.iter().zip(&seen) {
        println!("  {:<9} {}", entrant.name, figures(entrant, work.unit(), rounds));
    }
    let both = |[one, two]: &[Slice; 2]| one.ns + two.ns;
    for (entrant, rounds) in entrants.iter().zip(&seen).skip(1) {
        let (ratio, [low, high]) = median(seen[0].iter().zip(rounds).map(|(ours, theirs)| both(ours) / both(theirs)));
        println!("  {} against {}: {ratio:.3} [{low:.3}, {high:.3}]", entrants[0].name, entrant.name);
    }
}

fn figures(entrant: &Entrant, unit: &str, rounds: &[[Slice; 2]]) -> String {
    let of_all = |part: fn(&Slice) -> f64| median(rounds.iter().flatten().map(part));
    let (ns, [low, high]) = of_all(|slice| slice.ns);
    let allocations = if entrant.allocates_here {
        format!("{:.2} allocations", of_all(|slice| slice.allocations).0)
    } else {
        "allocations of its own (not counted)".into()
    };
    format!(
        "{ns:7.1} ns [{low:.1}, {high:.1}] for each {unit}, {allocations}, {:.3} frames, {:.3} of them with data; \
         itself, second pass against first {}",
        of_all(|slice| slice.frames).0,
        of_all(|slice| slice.with_data).0,
        percent(median(rounds.iter().map(|[one, two]| two.ns / one.ns)))
    )
}

fn main() {
    let rounds = rounds(100);
    let libraries: Vec<PathBuf> = std::env::args_os().skip(2).map(PathBuf::from).collect();
    let mut entrants = vec![
        Entrant {
            name: "sidestep",
            allocates_here: true,
            connected: Box::new(|count| Box::new(SidestepPair::connected(count))),
        },
        Entrant {
            name: "smoltcp",
            allocates_here: true,
            connected: Box::new(|count| Box::new(SmoltcpPair::connected(count))),
        },
    ];
    if let [client, server] = &libraries[..] {
        let files = [client.clone(), server.clone()];
        let connected = move |count| -> Box<dyn Contestant> { Box::new(LwipPair::connected(count, &files)) };
        entrants.push(Entrant { name: "lwIP", allocates_here: false, connected: Box::new(connected) });
    } else if !libraries.is_empty() {
        eprintln!("give no file of lwIP's library or two, which are copies of each other");
        process::exit(2);
    }
    println!("{rounds} rounds; medians with 95 % intervals; both hosts together, ACKs included");
    for work in [Work::Pings { connections: 1 }, Work::Pings { connections: 100 }, Work::Stream] {
        measure(work, rounds, &entrants);
    }
}
