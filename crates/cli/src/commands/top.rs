//! `sidestep top`: rates of every stack, and counters that should be 0.

use crate::args::Top as Args;
use crate::{exit, output, signal};
use serde::Serialize;
use sidestep_control_api::client::Client;
use sidestep_control_api::counters::{Counter, Meaning};
use sidestep_control_api::message::{ClientLine, Mode, StackLine, ranges};
use sidestep_control_api::place;
use sidestep_sys::Problem;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Shortest interval. Control answers in tens of microseconds per stack, and must not be kept busy.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest delay until Ctrl-C is noticed.
const NAP: Duration = Duration::from_millis(50);
/// Moves the cursor to the top of a cleared screen (ECMA-48: CUP, ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// A sample: all stacks at one moment.
type Sample = BTreeMap<u32, (StackRow, BTreeMap<String, u64>)>;

#[derive(Clone)]
struct StackRow {
    program: ClientLine,
    stack: StackLine,
}

/// One stack over one interval.
#[derive(Serialize)]
struct Rates {
    pid: Option<u32>,
    program: String,
    stack: u32,
    interface: String,
    queues: Vec<u32>,
    mode: Mode,
    sockets: u64,
    sockets_accelerated: u64,
    rx_per_s: f64,
    tx_per_s: f64,
    rx_kernel_per_s: f64,
    tx_kernel_per_s: f64,
    kicks_per_s: f64,
    /// Counters that should be 0 and are not, since the stack was opened.
    faults: BTreeMap<String, u64>,
}

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let interval = args.interval.max(INTERVAL_MIN);
    let stop = signal::stop_flag()?;
    let path = args.socket.clone().map_or_else(place::socket, Ok)?;
    let mut client = Client::connect_to(&path, "sidestep top")?;
    let mut before = (Instant::now(), sample(&mut client)?);
    loop {
        let until = before.0 + interval;
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(exit::GOOD);
        }
        let now = (Instant::now(), sample(&mut client)?);
        let rates = rates(&before.1, &now.1, (now.0 - before.0).as_secs_f64());
        show(&rates, args)?;
        if args.once {
            return Ok(exit::GOOD);
        }
        before = now;
    }
}

fn sample(client: &mut Client) -> Result<Sample, Problem> {
    let mut seen = Sample::new();
    for program in client.clients()? {
        for stack in &program.stacks {
            // A stack that has ended meanwhile has no counters.
            let values = client.counters(stack.id).unwrap_or_default().into_iter().collect();
            seen.insert(stack.id, (StackRow { program: program.clone(), stack: stack.clone() }, values));
        }
    }
    Ok(seen)
}

fn rates(before: &Sample, now: &Sample, seconds: f64) -> Vec<Rates> {
    now.iter()
        .map(|(id, (row, values))| rates_of(row, before.get(id).map(|(_, values)| values), values, seconds))
        .collect()
}

fn rates_of(
    row: &StackRow,
    before: Option<&BTreeMap<String, u64>>,
    values: &BTreeMap<String, u64>,
    seconds: f64,
) -> Rates {
    let value = |of: &BTreeMap<String, u64>, counter: Counter| of.get(counter.name()).copied().unwrap_or(0);
    let rate = |counter| {
        let earlier = before.map_or(0, |before| value(before, counter));
        value(values, counter).saturating_sub(earlier) as f64 / seconds
    };
    let should_be_0 = |name: &String| {
        let known = Counter::ALL.iter().find(|counter| counter.name() == name);
        known.is_some_and(|counter| counter.meaning() == Meaning::Fault)
    };
    Rates {
        pid: row.program.pid,
        program: row.program.name.clone(),
        stack: row.stack.id,
        interface: row.stack.interface.clone(),
        queues: row.stack.queues.clone(),
        mode: row.stack.mode,
        sockets: value(values, Counter::Sockets),
        sockets_accelerated: value(values, Counter::SocketsAccelerated),
        rx_per_s: rate(Counter::ReceivedFrames),
        tx_per_s: rate(Counter::SentFrames),
        rx_kernel_per_s: rate(Counter::KernelReceives),
        tx_kernel_per_s: rate(Counter::KernelSends),
        kicks_per_s: rate(Counter::Kicks),
        faults: values
            .iter()
            .filter(|(name, _)| should_be_0(name))
            .map(|(name, value)| (name.clone(), *value))
            .collect(),
    }
}

fn show(rates: &[Rates], args: &Args) -> Result<(), Problem> {
    if args.json {
        let failed = |error| Problem::failed("cannot list stacks", error).next("leave --json out");
        let line = serde_json::to_string(rates).map_err(failed)?;
        return output::print(&(line + "\n"));
    }
    let is_screen = !args.once && std::io::stdout().is_terminal();
    let head = if is_screen { CLEAR } else { "" };
    output::print(&format!("{head}{}", table(rates)))
}

fn table(rates: &[Rates]) -> String {
    let mut text = format!(
        "{:>7}  {:<20} {:>5}  {:<18} {:>9} {:>11} {:>11} {:>10} {:>10} {:>9}  should be 0\n",
        "pid", "program", "stack", "queue", "sockets", "rx/s", "tx/s", "rx kern/s", "tx kern/s", "kicks/s"
    );
    if rates.is_empty() {
        text.push_str("no program is accelerated; sidestep ps shows the reasons\n");
    }
    for row in rates {
        let mode = match row.mode {
            Mode::ZeroCopy => "zc",
            Mode::Copy => "copy",
            Mode::Generic => "generic",
        };
        let queue = format!("{} {} {mode}", row.interface, ranges(row.queues.iter().copied()));
        let sockets = format!("{}/{}", row.sockets_accelerated, row.sockets);
        let pid = row.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        let _ = write!(text, "{pid:>7}  {:<20.20} {:>5}  {queue:<18.18} {sockets:>9}", row.program, row.stack);
        let _ = write!(text, " {:>11.0} {:>11.0} {:>10.0}", row.rx_per_s, row.tx_per_s, row.rx_kernel_per_s);
        let faults: Vec<String> = row.faults.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let _ = writeln!(text, " {:>10.0} {:>9.0}  {}", row.tx_kernel_per_s, row.kicks_per_s, faults.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rx: u64, faults: u64) -> Sample {
        let stack = StackLine {
            id: 3,
            interface: "eth1".into(),
            queues: vec![1, 2],
            elsewhere: 0,
            mode: Mode::Copy,
            entries: 1,
            ports: 0,
        };
        let program = ClientLine {
            client: 1,
            pid: Some(77),
            uid: 0,
            name: "feed".into(),
            is_connected: true,
            stacks: vec![stack.clone()],
            refused: 0,
        };
        let values = [("rx_frames".to_owned(), rx), ("link_faults".to_owned(), faults)].into();
        [(3, (StackRow { program, stack }, values))].into()
    }

    #[test]
    fn rates_are_differences_and_faults_are_named() {
        let rates = rates(&sample(1000, 0), &sample(3000, 2), 2.0);
        assert_eq!((rates[0].rx_per_s, rates[0].faults["link_faults"]), (1000.0, 2));
        let text = table(&rates);
        assert!(text.contains("eth1 1-2 copy") && text.contains("link_faults 2"), "{text}");
        assert!(table(&[]).contains("sidestep ps"));
    }
}
