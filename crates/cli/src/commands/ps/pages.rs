//! Programs under `sidestep run`, by their status pages: also those that hang, are stopped, or have no control plane.

use serde::Serialize;
use sidestep_control_api::message::{Mode, ranges};
use sidestep_unmodified::status::{Engine, EngineFigure, Figure, PathNow, Snapshot, Socket, programs};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A program.
#[derive(Serialize)]
pub(super) struct Page {
    pid: u32,
    uid: u32,
    program: String,
    profile: String,
    /// The state of the process (proc_pid_stat(5)).
    state: char,
    engines: Vec<EngineLine>,
    sockets: Vec<SocketLine>,
    /// The number of sockets for which its page has no room.
    sockets_beyond: u64,
    /// The number of rows that make no sense: the program has overwritten them.
    rows_spoilt: u32,
}

#[derive(Serialize)]
struct EngineLine {
    interface: String,
    queues: Vec<u32>,
    mode: Option<Mode>,
    polls_per_wake_up: Option<f64>,
    figures: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct SocketLine {
    descriptor: u32,
    /// The number of descriptors that share it.
    descriptors: u32,
    kind: &'static str,
    local: Option<String>,
    remote: Option<String>,
    state: Option<&'static str>,
    accelerated: bool,
    queue: Option<u32>,
    /// Why the kernel carries it.
    reason: Option<String>,
    /// True if the program was stopped while it changed the row.
    torn: bool,
    figures: BTreeMap<&'static str, u64>,
}

/// The programs of this network namespace that the caller may see.
pub(super) fn pages() -> Vec<Page> {
    programs().iter().map(|program| page(program.pid, program.uid, program.state, &program.page)).collect()
}

impl Page {
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn name(&self) -> &str {
        &self.program
    }
}

fn page(pid: u32, uid: u32, state: char, seen: &Snapshot) -> Page {
    Page {
        pid,
        uid,
        program: seen.program.clone(),
        profile: seen.profile.clone(),
        state,
        engines: seen.engines.iter().map(engine).collect(),
        sockets: seen.sockets.iter().map(socket).collect(),
        sockets_beyond: seen.beyond,
        rows_spoilt: seen.spoilt,
    }
}

fn engine(seen: &Engine) -> EngineLine {
    let (polls, wake_ups) = (seen.value(EngineFigure::Polls), seen.value(EngineFigure::WakeUps));
    EngineLine {
        interface: seen.interface.clone(),
        queues: seen.queues.clone(),
        mode: seen.mode,
        polls_per_wake_up: (wake_ups > 0).then(|| polls as f64 / wake_ups as f64),
        figures: EngineFigure::ALL.iter().map(|figure| (figure.name(), seen.value(*figure))).collect(),
    }
}

fn socket(seen: &Socket) -> SocketLine {
    let (accelerated, queue, reason) = match &seen.path {
        PathNow::Accelerated { queue, .. } => (true, *queue, None),
        PathNow::Kernel { description, .. } => (false, None, Some(description.clone())),
        PathNow::Undecided => (false, None, Some("neither connected nor listening nor bound yet".to_owned())),
    };
    SocketLine {
        descriptor: seen.descriptor,
        descriptors: seen.descriptors,
        kind: seen.kind.name(),
        local: seen.local.map(|address| address.to_string()),
        remote: seen.remote.map(|address| address.to_string()),
        state: seen.state.map(sidestep_unmodified::status::TcpState::name),
        accelerated,
        queue,
        reason,
        torn: seen.is_torn,
        figures: Figure::ALL.iter().map(|figure| (figure.name(), seen.value(*figure))).collect(),
    }
}

pub(super) fn describe(page: &Page, text: &mut String) {
    let state = if page.state == 'T' { ", stopped" } else { "" };
    let _ = writeln!(text, "{}  {}  (user {}, profile {}{state})", page.pid, page.program, page.uid, page.profile);
    for engine in &page.engines {
        let plural = if engine.queues.len() == 1 { "" } else { "s" };
        let queues = ranges(engine.queues.iter().copied());
        let _ = write!(text, "  engine       {} queue{plural} {queues}", engine.interface);
        match engine.polls_per_wake_up {
            Some(polls) => _ = writeln!(text, ", {polls:.1} polls per wake-up"),
            None => text.push_str(", never slept\n"),
        }
    }
    page.sockets.iter().for_each(|socket| describe_socket(socket, text));
    if page.sockets_beyond > 0 {
        let _ =
            writeln!(text, "  {} sockets have no row in the status page (option status-sockets)", page.sockets_beyond);
    }
    if page.rows_spoilt > 0 {
        let _ = writeln!(
            text,
            "  {} rows of the status page make no sense: the program has overwritten them",
            page.rows_spoilt
        );
    }
}

fn describe_socket(socket: &SocketLine, text: &mut String) {
    let path = if socket.accelerated { "accelerated" } else { "kernel" };
    let _ = write!(text, "  {path:<11}  fd {} {}", socket.descriptor, socket.kind);
    if socket.descriptors > 1 {
        let _ = write!(text, " ({} descriptors)", socket.descriptors);
    }
    let _ = write!(text, " {}", socket.local.as_deref().unwrap_or("-"));
    socket.remote.iter().for_each(|remote| _ = write!(text, " - {remote}"));
    socket.state.iter().for_each(|state| _ = write!(text, " {state}"));
    socket.reason.iter().for_each(|reason| _ = write!(text, ": {reason}"));
    if socket.accelerated && socket.state != Some("LISTEN") {
        socket.queue.iter().for_each(|queue| _ = write!(text, ", queue {queue}"));
        let value = |figure: Figure| socket.figures.get(figure.name()).copied().unwrap_or(0);
        let (retransmits, drops) = (value(Figure::Retransmits), value(Figure::Drops));
        match value(Figure::RttNs) {
            0 => {}
            rtt => _ = write!(text, ", RTT {:.1} us", rtt as f64 / 1000.0),
        }
        let (received, sent) = (value(Figure::Received), value(Figure::Sent));
        let unit = if socket.kind == "udp" { "datagrams" } else { "segments" };
        let _ = write!(text, ", {received} {unit} in, {sent} out, {retransmits} retransmits, {drops} drops");
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_unmodified::status::{Path, SocketKind, StatusPage, StatusView};
    use std::os::fd::AsFd;

    #[test]
    fn sockets_are_told_with_their_path_or_the_reason() {
        let page = StatusPage::create("redis", "latency", 16, &[("fork", "a child has it")]).unwrap();
        let engine = page.open_engine("eth1", Mode::Copy, &[0, 1]).unwrap();
        page.set_engine(engine, EngineFigure::Polls, 300);
        page.set_engine(engine, EngineFigure::WakeUps, 200);
        let stream = page.open_socket(6, SocketKind::TcpStream).unwrap();
        page.set_addresses(stream, "198.18.0.1:6379".parse().ok(), "198.18.0.2:4".parse().ok());
        page.set_path(stream, Path::Accelerated { engine, mode: Mode::Copy, queue: Some(1) });
        page.set_tcp_state(stream, sidestep_unmodified::status::TcpState::Established);
        page.set(stream, Figure::RttNs, 12_300);
        page.set(stream, Figure::Retransmits, 2);
        let other = page.open_socket(7, SocketKind::UdpSocket).unwrap();
        page.set_path(other, Path::Kernel { reason: 0 });
        let seen = StatusView::open(page.as_fd()).unwrap().snapshot();
        let mut text = String::new();
        describe(&super::page(9, 1000, 'T', &seen), &mut text);
        assert_eq!(
            text,
            "9  redis  (user 1000, profile latency, stopped)\n  \
             engine       eth1 queues 0-1, 1.5 polls per wake-up\n  \
             accelerated  fd 6 tcp 198.18.0.1:6379 - 198.18.0.2:4 ESTABLISHED, queue 1, RTT 12.3 us, 0 segments in, 0 out, 2 retransmits, 0 drops\n  \
             kernel       fd 7 udp -: a child has it\n"
        );
        let json = serde_json::to_value(super::page(9, 1000, 'T', &seen)).unwrap();
        assert_eq!(
            (&json["sockets"][0]["figures"]["rtt_ns"], &json["sockets"][1]["reason"]),
            (&12_300.into(), &"a child has it".into())
        );
        assert!(pages().iter().any(|page| page.pid == std::process::id()), "this process has a page");
    }
}
