//! Stacks: their rates, and counters that should be 0.

use crate::commands::ps::is_wanted;
use serde::Serialize;
use sidestep_control_api::client::Client;
use sidestep_control_api::counters::{Counter, Meaning};
use sidestep_control_api::message::{ClientLine, Mode, StackLine, ranges};
use sidestep_sys::Problem;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A sample: all stacks at one moment.
pub(super) type Sample = BTreeMap<u32, (StackRow, BTreeMap<String, u64>)>;

#[derive(Clone, Debug)]
pub(super) struct StackRow {
    pub(super) program: ClientLine,
    pub(super) stack: StackLine,
}

/// One stack over one interval.
#[derive(Serialize)]
pub(super) struct Rates {
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
    pub(super) faults: BTreeMap<String, u64>,
}

/// Reads the stacks of the programs that are asked for.
pub(super) fn sample(client: &mut Client, filter: &[String]) -> Result<Sample, Problem> {
    let mut seen = Sample::new();
    for program in client.clients()?.into_iter().filter(|line| is_wanted(filter, line.pid, &line.name)) {
        for stack in &program.stacks {
            // A stack that has ended meanwhile has no counters.
            let values = client.counters(stack.id).unwrap_or_default().into_iter().collect();
            seen.insert(stack.id, (StackRow { program: program.clone(), stack: stack.clone() }, values));
        }
    }
    Ok(seen)
}

pub(super) fn rates(before: &Sample, now: &Sample, seconds: f64) -> Vec<Rates> {
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

/// Returns whether a counter should be 0.
pub(super) fn should_be_0(name: &str) -> bool {
    let known = Counter::ALL.iter().find(|counter| counter.name() == name);
    known.is_some_and(|counter| counter.meaning() == Meaning::Fault)
}

pub(super) fn table(rates: &[Rates]) -> String {
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
            feeds: Vec::new(),
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
