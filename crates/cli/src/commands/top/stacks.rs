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

/// A column of the list: title, width, whether its text stands to the left, and its cell.
struct Column(&'static str, usize, bool, fn(&Rates) -> String);

const COLUMNS: [Column; 10] = [
    Column("pid", 7, false, |row| row.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string())),
    Column("program", 16, true, |row| row.program.clone()),
    Column("stack", 5, false, |row| row.stack.to_string()),
    Column("queue", 16, true, queue),
    Column("sockets", 9, false, |row| format!("{}/{}", row.sockets_accelerated, row.sockets)),
    Column("rx/s", 9, false, |row| format!("{:.0}", row.rx_per_s)),
    Column("tx/s", 9, false, |row| format!("{:.0}", row.tx_per_s)),
    Column("rx kern/s", 9, false, |row| format!("{:.0}", row.rx_kernel_per_s)),
    Column("tx kern/s", 9, false, |row| format!("{:.0}", row.tx_kernel_per_s)),
    Column("kicks/s", 8, false, |row| format!("{:.0}", row.kicks_per_s)),
];

fn queue(row: &Rates) -> String {
    let mode = match row.mode {
        Mode::ZeroCopy => "zc",
        Mode::Copy => "copy",
        Mode::Generic => "generic",
    };
    format!("{} {} {mode}", row.interface, ranges(row.queues.iter().copied()))
}

fn faults(row: &Rates) -> String {
    let faults: Vec<String> = row.faults.iter().map(|(name, value)| format!("{name} {value}")).collect();
    faults.join(", ")
}

/// Formats the stacks as lines of text, with the columns that `width` has room for.
pub(super) fn table(rates: &[Rates], width: usize) -> String {
    let mut used = 0;
    let fits = |column: &&Column| {
        used += column.1 + 1;
        used <= width + 1
    };
    let shown: Vec<&Column> = COLUMNS.iter().take_while(fits).collect();
    let line = |cell: &dyn Fn(&Column) -> String| {
        let cells = shown.iter().map(|column| match column {
            Column(_, width, true, _) => format!("{:<width$.width$}", cell(column)),
            Column(_, width, false, _) => format!("{:>width$}", cell(column)),
        });
        format!("{}\n", cells.collect::<Vec<_>>().join(" ").trim_end())
    };
    let head = line(&|column| column.0.to_owned());
    if rates.is_empty() {
        return head + "no program is accelerated; sidestep ps shows the reasons\n";
    }
    let mut text = rates.iter().fold(head, |text, row| text + &line(&|column| column.3(row)));
    for row in rates.iter().filter(|row| !row.faults.is_empty()) {
        let _ = writeln!(text, "should be 0, of stack {}: {}", row.stack, faults(row));
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
        let text = table(&rates, 120);
        assert!(text.contains("eth1 1-2 copy") && text.contains("kicks/s"), "{text}");
        assert!(text.contains("should be 0, of stack 3: link_faults 2"), "{text}");
        assert!(table(&[], 120).contains("sidestep ps"));
        for width in [0, 20, 80, 81, 120, 200] {
            let table = table(&rates, width);
            let lines = table.lines().filter(|line| !line.starts_with("should be 0, of"));
            lines.for_each(|line| assert!(line.chars().count() <= width, "{width}: {line}"));
        }
        assert!(table(&rates, 80).contains("tx/s"));
    }
}
