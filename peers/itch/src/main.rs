//! The cost of decoding a message of ITCH and of reading all its fields: sidestep's views beside other decoders of the registry, one
//! thread, no system call. First all of them read the same bytes, and every field must be the same.
//!
//! `sidestep-peers-itch [ROUNDS]`; see `peers/itch/run`. A round takes each contestant twice, on the way forward and back; the
//! two passes are its A/A control.

mod differential;
mod itch5_parser;
mod itchy_stream;
mod ours;
#[path = "../../rounds.rs"]
mod rounds;
mod stream;
mod value;

use rounds::{median, rounds};
use std::hint::black_box;
use std::time::Instant;

/// Messages in one slice: more than a branch predictor can learn, and less than a scheduler takes a CPU away for.
const MESSAGES: usize = 20_000;
/// Messages of all types that are compared.
const COMPARED: usize = 240_000;
/// Slices that are thrown away first.
const WARM_UP: usize = 20;

struct Contestant {
    name: &'static str,
    sum: fn(&[u8]) -> u64,
}

const CONTESTANTS: [Contestant; 3] = [
    Contestant { name: "sidestep", sum: ours::sum },
    Contestant { name: "itch5 0.1", sum: itch5_parser::sum },
    Contestant { name: "itchy 0.3", sum: itchy_stream::sum },
];

/// One pass, ns per message.
fn slice(contestant: &Contestant, stream: &[u8]) -> f64 {
    let start = Instant::now();
    black_box((contestant.sum)(black_box(stream)));
    start.elapsed().as_nanos() as f64 / MESSAGES as f64
}

fn measure(stream: &[u8], rounds: usize) {
    for contestant in &CONTESTANTS {
        (0..WARM_UP).for_each(|_| _ = slice(contestant, stream));
    }
    // By contestant: the two passes of every round.
    let mut seen = CONTESTANTS.each_ref().map(|_| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        let forward = CONTESTANTS.each_ref().map(|contestant| slice(contestant, stream));
        for (at, contestant) in CONTESTANTS.iter().enumerate().rev() {
            seen[at].push([forward[at], slice(contestant, stream)]);
        }
    }
    for (contestant, rounds) in CONTESTANTS.iter().zip(&seen) {
        let (ns, [low, high]) = median(rounds.iter().flatten().copied());
        let (control, [least, most]) = median(rounds.iter().map(|[one, two]| two / one));
        let both = |[one, two]: &[f64; 2]| one + two;
        let (ratio, [from, to]) = median(seen[0].iter().zip(rounds).map(|(ours, theirs)| both(ours) / both(theirs)));
        println!(
            "  {:<10} {ns:6.2} ns a message [{low:.2}, {high:.2}], {:5.0} M messages/s; sidestep against it {ratio:.3} \
             [{from:.3}, {to:.3}]; its second pass against the first {control:.3} [{least:.3}, {most:.3}]",
            contestant.name,
            1000.0 / ns
        );
    }
}

/// The messages of a stream with their lengths.
fn framed(stream: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut messages) = (stream, Vec::new());
    while let [high, low, _, ..] = *rest {
        let (message, behind) = rest.split_at(2 + usize::from(u16::from_be_bytes([high, low])));
        messages.push(message);
        rest = behind;
    }
    messages
}

/// The messages of a stream whose types are not among `without`, and their types.
fn filtered(stream: &[u8], without: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let kept: Vec<&[u8]> = framed(stream).into_iter().filter(|message| !without.contains(&message[2])).collect();
    (kept.concat(), kept.iter().map(|message| message[2]).collect())
}

/// The same messages, by type.
fn sorted(stream: &[u8]) -> Vec<u8> {
    let mut messages = framed(stream);
    messages.sort_by_key(|message| message[2]);
    messages.concat()
}

fn compare() {
    let all = stream::every_type(COMPARED, 1);
    let (bytes, kinds) = filtered(&all, b"");
    let (messages, fields) =
        differential::compare("itch5", &kinds, &ours::fields(&bytes), &itch5_parser::fields(&bytes));
    println!("the same as itch5 in {fields} fields of {messages} messages of 23 types");
    let (bytes, kinds) = filtered(&all, b"hO");
    let (messages, fields) =
        differential::compare("itchy", &kinds, &ours::fields(&bytes), &itchy_stream::fields(&bytes));
    println!("the same as itchy in {fields} fields of {messages} messages of 21 types (it does not know h and O)");
}

fn main() {
    let rounds = rounds(200);
    compare();
    let day = stream::day(MESSAGES, 2);
    let expected = ours::sum(&day);
    for contestant in &CONTESTANTS {
        assert_eq!((contestant.sum)(&day), expected, "{}", contestant.name);
    }
    println!(
        "decode and read every field: {MESSAGES} messages (A 45.5 %, D 43.6, U 7.6, E 2.8, X 0.5) of {:.1} bytes on average; \
         {rounds} rounds; medians with 95 % intervals",
        day.len() as f64 / MESSAGES as f64
    );
    measure(&day, rounds);
    println!("the same messages by type, so that no branch is mispredicted:");
    measure(&sorted(&day), rounds);
}
