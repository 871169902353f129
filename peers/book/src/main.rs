//! What a message costs in sidestep's order books and in others'; see `peers/book/run`.
//!
//! `sidestep-peers-book measure ROUNDS FILE NAME=COMMAND...` writes the messages of a day to a file, holds the levels of each command's
//! books against ours if it has them, and runs all in turn, forward and back. A command is run as `COMMAND time|check FILE INSTRUMENTS
//! FIRST SLICE`; this program is such a command as well (`sidestep-peers-book ours`, ...).

#[path = "../../../crates/market/examples/support/day.rs"]
mod day;
mod file;
mod orderbook_rs;
mod ours;
#[allow(dead_code)] // Rounds are counted otherwise here.
#[path = "../../rounds.rs"]
mod rounds;

use day::Settings;
use rounds::median;
use sidestep_market::book::Depth;
use std::process::{Command, Stdio, exit};

const INSTRUMENTS: u16 = 8_000;
const LIVE: usize = 2_000_000;
/// Of the day; the first half warms up.
const MESSAGES: usize = 4_000_000;
/// Messages of a slice: some ms.
const SLICE: usize = 38 * 500;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["measure", rounds, path, ref peers @ ..] => measure(rounds, path, peers),
        [name, task, path, instruments, first, slice] => {
            let number = |text: &str| text.parse().unwrap_or_else(|_| fail(&format!("{text:?} is no number")));
            contestant(name, task, path, number(instruments) as u16, number(first), number(slice));
        }
        _ => fail("see peers/book/run"),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("sidestep-peers-book: {why}");
    exit(2)
}

fn contestant(name: &str, task: &str, path: &str, instruments: u16, first: usize, slice: usize) {
    let events = file::read(path).unwrap_or_else(|error| fail(&format!("{path}: {error}")));
    let times = match (name, task) {
        ("ours", "check") => return println!("{}", ours::check(&events, instruments)),
        ("ours", _) => ours::numbers(&events, instruments, first, slice),
        ("ours-itch", _) => ours::datagrams(&events, instruments, first, slice, Depth::Levels),
        ("ours-itch-l3", _) => ours::datagrams(&events, instruments, first, slice, Depth::Orders),
        ("orderbook-rs", "check") => return println!("none"),
        ("orderbook-rs", _) => orderbook_rs::time(&events, instruments, first, slice),
        _ => fail(&format!("{name:?} is no contestant")),
    };
    times.iter().for_each(|ns| println!("{ns}"));
}

struct Peer<'a> {
    name: &'a str,
    command: Vec<&'a str>,
    /// The median slice of each run.
    runs: Vec<f64>,
}

impl Peer<'_> {
    fn run(&self, task: &str, path: &str, first: usize) -> String {
        let mut command = Command::new(self.command[0]);
        command.args(&self.command[1..]).args([task, path]);
        command.args([usize::from(INSTRUMENTS), first, SLICE].map(|number| number.to_string()));
        let output = command.stderr(Stdio::inherit()).output();
        match output {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
            Ok(output) => fail(&format!("{}: {}", self.name, output.status)),
            Err(error) => fail(&format!("{}: {error}", self.name)),
        }
    }

    fn time(&self, path: &str, first: usize) -> f64 {
        median(self.run("time", path, first).lines().filter_map(|line| line.parse().ok())).0
    }
}

fn measure(rounds: &str, path: &str, peers: &[&str]) {
    let rounds: usize = rounds.parse().unwrap_or_else(|_| fail("ROUNDS is no number"));
    let own = std::env::current_exe().unwrap_or_else(|error| fail(&error.to_string()));
    let own = own.to_string_lossy();
    let mut peers: Vec<Peer<'_>> = ["ours", "ours-itch", "ours-itch-l3", "orderbook-rs"]
        .map(|name| Peer { name, command: vec![&own, name], runs: Vec::new() })
        .into_iter()
        .chain(peers.iter().map(|peer| {
            let (name, command) = peer.split_once('=').unwrap_or_else(|| fail("a peer is NAME=COMMAND"));
            Peer { name, command: command.split(' ').collect(), runs: Vec::new() }
        }))
        .collect();
    let settings = Settings { instruments: INSTRUMENTS, live: LIVE, step: 1, seed: 7 };
    let first = file::write(path, settings, MESSAGES).unwrap_or_else(|error| fail(&format!("{path}: {error}")));
    agree(&peers, path, first);
    for _ in 0..rounds {
        for at in (0..peers.len()).chain((0..peers.len()).rev()) {
            let ns = peers[at].time(path, first);
            peers[at].runs.push(ns);
        }
    }
    report(&peers, rounds);
}

/// Every command that has levels to show has ours.
fn agree(peers: &[Peer<'_>], path: &str, first: usize) {
    let ours = peers[0].run("check", path, first);
    for peer in peers.iter().filter(|peer| !peer.name.starts_with("ours")) {
        match peer.run("check", path, first) {
            theirs if theirs.trim() == "none" => println!("{}: its levels are not compared", peer.name),
            theirs if theirs == ours => println!("{}: the same levels after every message", peer.name),
            theirs => fail(&format!("{} has other levels: {theirs} instead of {ours}", peer.name)),
        }
    }
}

fn report(peers: &[Peer<'_>], rounds: usize) {
    println!("{rounds} rounds of two runs each, forward and back; ns of CPU time per message: median of the runs' medians, least and most");
    for peer in peers {
        let (ns, _) = median(peer.runs.iter().copied());
        let [least, most] = [f64::min, f64::max].map(|of| peer.runs.iter().copied().reduce(of).unwrap_or(ns));
        let (ratio, _) = median(peers[0].runs.iter().zip(&peer.runs).map(|(ours, theirs)| ours / theirs));
        let passes = peer.runs.chunks_exact(2).map(|run| run[1] / run[0]);
        let (control, _) = median(passes);
        println!(
            "  {:<20} {ns:8.1} ns [{least:.1}, {most:.1}]; ours against it {ratio:.3}; second pass against first {control:.3}",
            peer.name
        );
    }
}
