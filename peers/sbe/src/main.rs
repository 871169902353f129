//! What it costs to decode SBE market data with all fields read: sidestep's generated views beside those of sbe_gen, of the same schema, one
//! thread, no system call.
//!
//! `sidestep-peers-sbe [ROUNDS]`; see `peers/sbe/run`. A round takes A B B A; the two passes of each are its A/A control. Both step by the
//! received block lengths, check every length, and make optional values of null values, and neither allocates.

#[path = "../../allocations.rs"]
mod allocations;
mod messages;
mod ours;
#[path = "../../rounds.rs"]
mod rounds;
mod sum;
mod theirs;

use messages::{Messages, messages};
use rounds::{median, rounds};
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static COUNTING: allocations::Counting = allocations::Counting;

type Decode = fn(&[u8]) -> Option<u64>;

const CONTESTANTS: [(&str, Decode); 2] = [("sidestep", ours::decode), ("sbe_gen 0.7.3", theirs::decode)];

/// Passes over the messages in one slice: some hundred microseconds.
const PASSES: usize = 40;
/// Slices that are thrown away first.
const WARM_UP: usize = 10;

/// Nanoseconds for one message.
fn slice(decode: Decode, messages: &Messages) -> f64 {
    let start = Instant::now();
    for _ in 0..PASSES {
        for message in &messages.all {
            black_box(decode(black_box(message)));
        }
    }
    start.elapsed().as_nanos() as f64 / (PASSES * messages.all.len()) as f64
}

fn agree(messages: &Messages) {
    for message in &messages.all {
        let [ours, theirs] = CONTESTANTS.map(|(_, decode)| decode(message));
        assert!(ours.is_some() && ours == theirs, "{}: the sums differ", messages.name);
        let short = &message[..message.len() - 1];
        assert!(ours::decode(short).is_none(), "{}: a message cut short is taken", messages.name);
    }
}

fn measure(messages: &Messages, rounds: usize) {
    for (name, decode) in CONTESTANTS {
        let before = allocations::so_far();
        (0..WARM_UP).for_each(|_| _ = slice(decode, messages));
        assert_eq!(allocations::so_far(), before, "{name} allocates");
    }
    let mut seen: [Vec<[f64; 2]>; 2] = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
    for _ in 0..rounds {
        let [a, b, b_again, a_again] = [0, 1, 1, 0].map(|at| slice(CONTESTANTS[at].1, messages));
        seen[0].push([a, a_again]);
        seen[1].push([b, b_again]);
    }
    let (count, bytes) = (messages.all.len(), messages.all.iter().map(Vec::len).sum::<usize>());
    let entries = messages.entries as f64 / count as f64;
    println!("{}: {count} messages of {} bytes and {entries:.1} entries on average", messages.name, bytes / count);
    for ((name, _), own) in CONTESTANTS.iter().zip(&seen) {
        let (ns, [low, high]) = median(own.iter().flatten().copied());
        let (control, [least, most]) = median(own.iter().map(|[one, two]| two / one));
        let (ratio, [from, to]) =
            median(seen[0].iter().zip(own).map(|(ours, own)| (ours[0] + ours[1]) / (own[0] + own[1])));
        println!(
            "  {name:<14} {ns:6.1} ns [{low:.1}, {high:.1}]; sidestep against it {ratio:.3} [{from:.3}, {to:.3}]; its second pass \
             against the first {control:.3} [{least:.3}, {most:.3}]"
        );
    }
}

fn main() {
    let rounds = rounds(200);
    println!("{rounds} rounds; medians with 95 % intervals");
    for messages in messages() {
        agree(&messages);
        measure(&messages, rounds);
    }
}
