//! What has been seen, as Prometheus reads it. SPEC.md has the table.

use crate::process;
use crate::state::{Cause, Probed, Shared, State, Watched, with};
use sidestep_metrics::text::{Kind, Text};
use sidestep_tune::audit::Status;
use std::fmt::Display;
use std::time::{Instant, SystemTime};

/// Renders the state.
pub(crate) fn render(shared: &Shared) -> String {
    let mut text = Text::default();
    with(shared, |state| {
        watch(&mut text, state);
        probes(&mut text, state);
        hiccups(&mut text, state);
        checks(&mut text, state);
        plane(&mut text, state);
    });
    text.finish()
}

fn watch(text: &mut Text, state: &State) {
    let version = env!("CARGO_PKG_VERSION");
    text.metric("sidestep_build_info", Kind::Gauge, "1; the version as a label").line(&[("version", &version)], 1);
    let profile = state.checks.as_ref().map_or("", |checks| &checks.profile);
    text.metric("sidestep_watch_info", Kind::Gauge, "1; what is watched, as labels")
        .line(&[("place", &state.place), ("peer", &state.peer), ("profile", &profile)], 1);
    text.metric("sidestep_watch_start_time_seconds", Kind::Gauge, "Unix time at which the watch began")
        .line(&[], unix(Some(state.started)));
    text.metric("sidestep_watch_interval_seconds", Kind::Gauge, "Time from one round of probes to the next")
        .line(&[], state.every.as_secs_f64());
    text.metric(
        "sidestep_watch_last_round_timestamp_seconds",
        Kind::Gauge,
        "Unix time of the last round's end; 0 before",
    )
    .line(&[], unix(state.last_round));
    text.metric("sidestep_watch_rounds_total", Kind::Counter, "Rounds of probes").line(&[], state.rounds);
    text.metric(
        "sidestep_watch_rounds_missed_total",
        Kind::Counter,
        "Rounds left out because the one before took too long",
    )
    .line(&[], state.rounds_missed);
    let mut spent = text.metric(
        "sidestep_watch_cpu_seconds_total",
        Kind::Counter,
        "CPU time of the watch, and of its peer on this host",
    );
    let processes = [("watch", Some(std::process::id())), ("peer", state.peer_process)];
    for (name, pid) in processes {
        if let Some(seconds) = pid.and_then(process::cpu_seconds) {
            spent.line(&[("process", &name)], seconds);
        }
    }
    if let Some(bytes) = process::resident_bytes() {
        text.metric("sidestep_watch_resident_memory_bytes", Kind::Gauge, "Resident memory of the watch")
            .line(&[], bytes);
    }
}

fn unix(time: Option<SystemTime>) -> f64 {
    time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).map_or(0.0, |since| since.as_secs_f64())
}

/// A metric with one line for each probe.
struct OfProbes<'a> {
    text: &'a mut Text,
    state: &'a State,
}

impl OfProbes<'_> {
    fn metric<T: Display>(&mut self, name: &str, kind: Kind, help: &str, read: impl Fn(&Probed) -> T) {
        let mut metric = self.text.metric(name, kind, help);
        for probed in &self.state.probes {
            metric.line(&labels(self.state, probed), read(probed));
        }
    }
}

fn labels<'a>(state: &'a State, probed: &'a Probed) -> [(&'a str, &'a dyn Display); 3] {
    [("path", &probed.probe.path.name), ("transport", &probed.probe.transport), ("place", &state.place)]
}

fn probes(text: &mut Text, state: &State) {
    if state.probes.is_empty() {
        return;
    }
    let mut rtt = text.metric("sidestep_rtt_seconds", Kind::Histogram, "Round trips of the probes");
    for probed in &state.probes {
        rtt.histogram(&labels(state, probed), &probed.rtt);
    }
    let now = Instant::now();
    let mut longest = text.metric(
        "sidestep_rtt_max_seconds",
        Kind::Gauge,
        "The longest round trip of the last one to two minutes; none where none was seen",
    );
    for probed in &state.probes {
        if let Some(ns) = probed.longest.max(now) {
            longest.line(&labels(state, probed), ns as f64 / 1e9);
        }
    }
    let mut of = OfProbes { text: &mut *text, state };
    of.metric("sidestep_probe_up", Kind::Gauge, "1 if the last slice of the probe had figures", |probed| {
        u8::from(probed.is_up == Some(true))
    });
    of.metric("sidestep_probe_slices_total", Kind::Counter, "Slices with figures", |probed| probed.slices);
    of.metric(
        "sidestep_probe_lost_total",
        Kind::Counter,
        "Messages of the probe that were not answered in time",
        |probed| probed.lost,
    );
    of.metric(
        "sidestep_probe_involuntary_switches_total",
        Kind::Counter,
        "Times that another task took the CPU from an end of the probe",
        |probed| probed.involuntary_switches,
    );
    of.metric(
        "sidestep_watch_probe_duration_seconds",
        Kind::Gauge,
        "Time that the last slice took, with its set-up",
        |probed| probed.took.as_secs_f64(),
    );
    let mut failures = text.metric("sidestep_probe_failures_total", Kind::Counter, "Slices without figures, by reason");
    for probed in &state.probes {
        let [path, transport, place] = labels(state, probed);
        for ((_, reason), count) in Cause::ALL.iter().zip(probed.failures) {
            failures.line(&[path, transport, place, ("reason", reason)], count);
        }
    }
}

fn hiccups(text: &mut Text, state: &State) {
    if state.cpus.is_empty() {
        return;
    }
    let help = "How late a timer woke a thread that slept, by CPU";
    let mut late = text.metric("sidestep_hiccup_seconds", Kind::Histogram, help);
    for watched in &state.cpus {
        late.histogram(&[("cpu", &watched.cpu)], &watched.late);
    }
    let now = Instant::now();
    let help = "The latest wake-up of the last one to two minutes; none where none was seen";
    let mut latest = text.metric("sidestep_hiccup_max_seconds", Kind::Gauge, help);
    for watched in &state.cpus {
        if let Some(ns) = watched.longest.max(now) {
            latest.line(&[("cpu", &watched.cpu)], ns as f64 / 1e9);
        }
    }
    let mut of_cpus = |name: &str, kind, help: &str, read: &dyn Fn(&Watched) -> f64| {
        let mut metric = text.metric(name, kind, help);
        for watched in &state.cpus {
            metric.line(&[("cpu", &watched.cpu)], read(watched));
        }
    };
    let help = "1 while the watch may run on the CPU";
    of_cpus("sidestep_cpu_watched", Kind::Gauge, help, &|watched| f64::from(u8::from(watched.is_there)));
    let help = "Time that the hypervisor gave to others";
    of_cpus("sidestep_cpu_steal_seconds_total", Kind::Counter, help, &|watched| {
        process::seconds_of(watched.counters.steal_ticks)
    });
    let help = "Interrupts of all kinds";
    of_cpus("sidestep_cpu_interrupts_total", Kind::Counter, help, &|watched| watched.counters.interrupts as f64);
}

fn checks(text: &mut Text, state: &State) {
    let Some(checks) = &state.checks else { return };
    let mut findings = text.metric(
        "sidestep_tune_findings",
        Kind::Gauge,
        "Values of a check that are not as wanted; 0 for one that was cured while the watch ran",
    );
    for ((check, severity), values) in &checks.findings {
        findings.line(&[("check", check), ("severity", severity)], values);
    }
    let mut verdicts = text.metric("sidestep_tune_checks", Kind::Gauge, "Checks of the last audit by verdict");
    for status in Status::ALL {
        verdicts.line(&[("verdict", &status.words().replace(' ', "_"))], checks.count(status));
    }
    text.metric("sidestep_tune_changes_total", Kind::Counter, "Verdicts that changed from one audit to the next")
        .line(&[], checks.changes);
    text.metric("sidestep_tune_up", Kind::Gauge, "1 unless the last audit could not be made")
        .line(&[], u8::from(checks.is_up));
    text.metric("sidestep_tune_last_timestamp_seconds", Kind::Gauge, "Unix time of the last audit; 0 before")
        .line(&[], unix(checks.last));
}

fn plane(text: &mut Text, state: &State) {
    let plane = &state.plane;
    let mut gauge = |name: &str, help: &str, value: u64| _ = text.metric(name, Kind::Gauge, help).line(&[], value);
    gauge("sidestep_control_up", "1 while a control plane answers in this network namespace", plane.is_up.into());
    if !plane.is_up {
        return;
    }
    gauge("sidestep_control_programs", "Programs that are connected to the control plane", plane.programs);
    gauge("sidestep_control_stacks", "AF_XDP stacks of programs", plane.stacks);
    gauge("sidestep_control_feeds", "Feeds of programs", plane.feeds);
    gauge("sidestep_control_accelerated", "Flows, listeners and ports that go past the kernel", plane.accelerated);
    let mut left = text.metric(
        "sidestep_control_left_to_kernel",
        Kind::Gauge,
        "Times that sockets of the present programs were left to the kernel, by reason",
    );
    for (reason, times) in &plane.left_to_kernel {
        left.line(&[("reason", reason)], times);
    }
}
