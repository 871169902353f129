//! What it costs to decode a FIX order of 200 bytes: sidestep's codec beside others of the registry, one thread, no system call.
//!
//! `sidestep-peers-codec [ROUNDS]`; see `peers/codec/run`. A round takes each contestant twice, on the way forward and back; the
//! two passes are its A/A control. All verify CheckSum and BodyLength and index every field, and all must read the same.

#[path = "../../allocations.rs"]
mod allocations;
mod contestant;
mod fefix;
mod fix_codec;
mod ironfix;
mod orders;
mod ours;
#[path = "../../rounds.rs"]
mod rounds;

use contestant::Contestant;
use rounds::{median, rounds};
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static COUNTING: allocations::Counting = allocations::Counting;

/// Messages in one slice: about a millisecond.
const MESSAGES: usize = 5_000;
/// Slices that are thrown away first.
const WARM_UP: usize = 20;

/// What is done with every order.
#[derive(Clone, Copy)]
struct Work {
    name: &'static str,
    /// Tags whose values are looked up.
    read: &'static [u32],
}

const WORKS: [Work; 2] = [
    Work { name: "decode", read: &[] },
    Work {
        name: "decode, then look up Account, ClOrdID, OrderQty, Price, Side and Symbol",
        read: &[1, 11, 38, 44, 54, 55],
    },
];

/// What one slice found.
#[derive(Clone, Copy)]
struct Slice {
    ns: f64,
    allocations: f64,
}

fn slice(contestant: &mut dyn Contestant, orders: &[Vec<u8>], work: Work) -> Slice {
    let (allocations, start) = (allocations::so_far(), Instant::now());
    for at in 0..MESSAGES {
        black_box(contestant.decode(black_box(&orders[at % orders.len()]), work.read));
    }
    let ns = start.elapsed().as_nanos() as f64;
    let allocations = (allocations::so_far() - allocations) as f64;
    Slice { ns: ns / MESSAGES as f64, allocations: allocations / MESSAGES as f64 }
}

fn measure(contestants: &mut [Box<dyn Contestant>], orders: &[Vec<u8>], work: Work, rounds: usize) {
    for contestant in contestants.iter_mut() {
        (0..WARM_UP).for_each(|_| _ = slice(contestant.as_mut(), orders, work));
    }
    // By contestant: the two passes of every round.
    let mut seen: Vec<Vec<[Slice; 2]>> = contestants.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for _ in 0..rounds {
        let forward: Vec<Slice> = contestants.iter_mut().map(|one| slice(one.as_mut(), orders, work)).collect();
        for (at, one) in contestants.iter_mut().enumerate().rev() {
            seen[at].push([forward[at], slice(one.as_mut(), orders, work)]);
        }
    }
    println!("{}", work.name);
    let both = |[one, two]: &[Slice; 2]| one.ns + two.ns;
    for (contestant, rounds) in contestants.iter().zip(&seen) {
        let (ns, [low, high]) = median(rounds.iter().flatten().map(|slice| slice.ns));
        let (allocations, _) = median(rounds.iter().map(|round| round[0].allocations));
        let (control, [least, most]) = median(rounds.iter().map(|[one, two]| two.ns / one.ns));
        let (ratio, [from, to]) = median(seen[0].iter().zip(rounds).map(|(ours, theirs)| both(ours) / both(theirs)));
        println!(
            "  {:<22} {ns:7.1} ns [{low:.1}, {high:.1}], {allocations:.2} allocations; sidestep against it \
             {ratio:.3} [{from:.3}, {to:.3}]; its second pass against the first {control:.3} [{least:.3}, {most:.3}]",
            contestant.name()
        );
    }
}

fn main() {
    let rounds = rounds(200);
    let orders = orders::orders();
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(ours::Ours::default()),
        Box::new(ironfix::Ironfix::default()),
        Box::new(fix_codec::FixCodec::default()),
        Box::new(fefix::Fefix::default()),
    ];
    contestant::agree(&mut contestants, &orders, WORKS[1].read);
    let bytes = orders.iter().map(Vec::len).sum::<usize>() / orders.len();
    println!("{} orders of {bytes} bytes on average; {rounds} rounds; medians with 95 % intervals", orders.len());
    for work in WORKS {
        measure(&mut contestants, &orders, work, rounds);
    }
}
