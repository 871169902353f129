//! Everything that has a rate: stacks, engines, sockets.

use super::stacks;
use crate::commands::ps::is_wanted;
use sidestep_control_api::counters::Counter;
use sidestep_control_api::message::ranges;
use sidestep_unmodified::status::{Engine, EngineFigure, Figure, PathNow, Program, Socket, SocketKind, programs};
use std::collections::HashMap;
use std::time::Instant;

/// Everything at one moment.
#[derive(Debug)]
pub(super) struct Sample {
    at: Instant,
    pub(super) stacks: stacks::Sample,
    programs: Vec<Program>,
}

/// Names a row from one sample to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Stack(u32),
    Engine { pid: u32, number: u32 },
    Socket { pid: u32, descriptor: u32, since_ns: u64 },
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) pid: Option<u32>,
    pub(super) program: String,
    /// "fd 6 tcp", "engine eth1", "stack 3".
    pub(super) subject: String,
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) is_accelerated: bool,
    /// "accelerated", or the reason why the kernel carries it.
    pub(super) path: String,
    pub(super) queue: String,
    /// Segments, datagrams or frames.
    pub(super) rx_per_s: f64,
    pub(super) tx_per_s: f64,
    pub(super) rtt_ns: Option<u64>,
    pub(super) retransmits: u64,
    pub(super) drops: u64,
    pub(super) polls_per_wake_up: Option<f64>,
    /// Sums that the rates are made of.
    counted: [u64; 2],
}

impl Row {
    pub(super) fn is_socket(&self) -> bool {
        matches!(self.key, Key::Socket { .. })
    }

    /// Returns whether a text occurs in what is shown of it.
    pub(super) fn has(&self, text: &str) -> bool {
        let pid = self.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let all = [&pid, &self.program, &self.subject, &self.local, &self.remote, &self.path];
        all.iter().any(|part| part.contains(text))
    }
}

impl Sample {
    pub(super) fn of(stacks: stacks::Sample, filter: &[String]) -> Self {
        let mut programs = programs();
        programs.retain(|program| is_wanted(filter, Some(program.pid), &program.page.program));
        Self { at: Instant::now(), stacks, programs }
    }

    pub(super) fn seconds_since(&self, before: &Self) -> f64 {
        self.at.saturating_duration_since(before.at).as_secs_f64().max(0.001)
    }

    /// Rows without rates. A stack whose program shows its engine is left out: the engine's row tells more.
    fn lines(&self) -> Vec<Row> {
        let shown = |pid: Option<u32>| self.programs.iter().any(|program| Some(program.pid) == pid);
        let stacks = self.stacks.iter().filter(|(_, (row, _))| !shown(row.program.pid));
        let mut rows: Vec<Row> = stacks.map(|(id, (row, values))| of_stack(*id, row, values)).collect();
        for program in &self.programs {
            rows.extend(program.page.engines.iter().map(|engine| of_engine(program, engine)));
            rows.extend(program.page.sockets.iter().map(|socket| of_socket(program, socket)));
        }
        rows
    }
}

/// Returns the rows of a sample, with rates since the one before.
pub(super) fn rows(before: &Sample, now: &Sample) -> Vec<Row> {
    let seconds = now.seconds_since(before);
    let earlier: HashMap<Key, [u64; 2]> = before.lines().iter().map(|row| (row.key, row.counted)).collect();
    let mut rows = now.lines();
    for row in &mut rows {
        // What was not there before has no rate yet.
        let Some(counted) = earlier.get(&row.key) else { continue };
        let rate = |place: usize| row.counted[place].saturating_sub(counted[place]) as f64 / seconds;
        (row.rx_per_s, row.tx_per_s) = (rate(0), rate(1));
    }
    rows
}

fn of_stack(id: u32, row: &stacks::StackRow, values: &std::collections::BTreeMap<String, u64>) -> Row {
    let value = |counter: Counter| values.get(counter.name()).copied().unwrap_or(0);
    Row {
        key: Key::Stack(id),
        pid: row.program.pid,
        program: row.program.name.clone(),
        subject: format!("stack {id}"),
        local: row.stack.interface.clone(),
        remote: String::new(),
        is_accelerated: true,
        path: format!("{} of {} sockets", value(Counter::SocketsAccelerated), value(Counter::Sockets)),
        queue: ranges(row.stack.queues.iter().copied()),
        rx_per_s: 0.0,
        tx_per_s: 0.0,
        rtt_ns: None,
        retransmits: 0,
        drops: values.iter().filter(|(name, _)| stacks::should_be_0(name)).map(|(_, value)| *value).sum(),
        polls_per_wake_up: None,
        counted: [value(Counter::ReceivedFrames), value(Counter::SentFrames)],
    }
}

fn of_engine(program: &Program, engine: &Engine) -> Row {
    let wake_ups = engine.value(EngineFigure::WakeUps);
    Row {
        key: Key::Engine { pid: program.pid, number: engine.number },
        pid: Some(program.pid),
        program: named(program),
        subject: format!("engine {}", engine.interface),
        local: engine.interface.clone(),
        remote: String::new(),
        is_accelerated: true,
        path: match program.page.sockets.len() {
            1 => "1 socket".to_owned(),
            count => format!("{count} sockets"),
        },
        queue: ranges(engine.queues.iter().copied()),
        rx_per_s: 0.0,
        tx_per_s: 0.0,
        rtt_ns: None,
        retransmits: program
            .page
            .sockets
            .iter()
            .map(|socket| socket.value(Figure::Retransmits))
            .fold(0, u64::saturating_add),
        drops: engine.value(EngineFigure::DroppedFrames),
        polls_per_wake_up: (wake_ups > 0).then(|| engine.value(EngineFigure::Polls) as f64 / wake_ups as f64),
        counted: [engine.value(EngineFigure::ReceivedFrames), engine.value(EngineFigure::SentFrames)],
    }
}

fn of_socket(program: &Program, socket: &Socket) -> Row {
    let (is_accelerated, path, queue) = match &socket.path {
        PathNow::Accelerated { queue, .. } => (true, "accelerated".to_owned(), *queue),
        PathNow::Kernel { description, .. } => (false, format!("kernel: {description}"), None),
        PathNow::Undecided => (false, "not begun".to_owned(), None),
    };
    let shown = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
    Row {
        key: Key::Socket { pid: program.pid, descriptor: socket.descriptor, since_ns: socket.since_ns },
        pid: Some(program.pid),
        program: named(program),
        subject: format!("fd {} {}", socket.descriptor, short(socket.kind)),
        local: shown(socket.local),
        remote: shown(socket.remote),
        is_accelerated,
        path,
        queue: queue.map(|queue| queue.to_string()).unwrap_or_default(),
        rx_per_s: 0.0,
        tx_per_s: 0.0,
        rtt_ns: Some(socket.value(Figure::RttNs)).filter(|rtt_ns| *rtt_ns > 0),
        retransmits: socket.value(Figure::Retransmits),
        drops: socket.value(Figure::Drops),
        polls_per_wake_up: None,
        counted: [socket.value(Figure::Received), socket.value(Figure::Sent)],
    }
}

/// The name of a kind in a narrow column.
fn short(kind: SocketKind) -> &'static str {
    match kind {
        SocketKind::TcpListener => "listen",
        SocketKind::TcpStream | SocketKind::UdpSocket => kind.name(),
    }
}

fn named(program: &Program) -> String {
    let stopped = if program.state == 'T' { " (stopped)" } else { "" };
    format!("{}{stopped}", program.page.program)
}

#[cfg(test)]
pub(super) fn row(descriptor: u32, program: &str, rx_per_s: f64, rtt_ns: Option<u64>) -> Row {
    Row {
        key: Key::Socket { pid: 100 + descriptor, descriptor, since_ns: 0 },
        pid: Some(100 + descriptor),
        program: program.to_owned(),
        subject: format!("fd {descriptor} tcp"),
        local: "198.18.0.1:6379".to_owned(),
        remote: format!("198.18.0.2:{}", 40_000 + descriptor),
        is_accelerated: rtt_ns.is_some(),
        path: if rtt_ns.is_some() { "accelerated".to_owned() } else { "kernel: a child has it".to_owned() },
        queue: "0".to_owned(),
        rx_per_s,
        tx_per_s: rx_per_s,
        rtt_ns,
        retransmits: u64::from(descriptor),
        drops: 0,
        polls_per_wake_up: None,
        counted: [0; 2],
    }
}
