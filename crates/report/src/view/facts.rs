//! The host, the set-up and the noise as pairs of name and value.

use crate::number::{self, MISSING};
use crate::schema::{Document, Host, Noise};
use crate::view::words;

/// A name and its value.
pub(crate) type Fact = (&'static str, String);

/// Returns the facts about the machine.
pub(crate) fn host(host: &Host) -> Vec<Fact> {
    let mut facts = vec![
        ("host", host.hostname.clone()),
        ("CPU", format!("{} ({} online)", host.cpu, host.cpus)),
        ("kernel", host.kernel.clone()),
        ("virtual machine", host.virtualised.clone().unwrap_or_else(|| "no".into())),
        ("governor", host.governor.clone().unwrap_or_else(|| "none".into())),
        ("isolated CPUs", if host.isolated.is_empty() { "none".into() } else { host.isolated.clone() }),
        ("clock source of the kernel", host.clocksource.clone()),
        ("kernel command line", cmdline(host)),
    ];
    if measures(host) {
        facts.push(("clock of the measurement", clock(host)));
        facts.push((
            "cost of reading it",
            format!(
                "{} ns for two readings, part of every sample, never subtracted; smallest step {} ns",
                number::up(host.timer_cost_ns, 1),
                number::up(host.timer_resolution_ns, 1)
            ),
        ));
        facts.push((
            "cost of the measuring loop",
            format!(
                "{} ns over a transport that answers at once, the clock's cost included",
                number::up(host.loop_cost_ns, 1)
            ),
        ));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Returns whether the host reads a clock for the run; the peer's does not.
pub(crate) fn measures(host: &Host) -> bool {
    !host.clock.is_empty()
}

/// The clock and its cost on one line.
pub(crate) fn clock_line(host: &Host) -> String {
    format!(
        "clock: {}; reading it costs {} ns, the whole loop {} ns, part of every sample",
        clock(host),
        number::up(host.timer_cost_ns, 1),
        number::up(host.loop_cost_ns, 1)
    )
}

/// The words of the kernel's command line, and how many are not told.
fn cmdline(host: &Host) -> String {
    let others = match host.cmdline_left_out {
        0 => String::new(),
        n => {
            format!("{} left out; --full-cmdline puts them in", words::counted(n as usize, "other word", "other words"))
        }
    };
    let parts: Vec<_> = [host.cmdline.clone(), others].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

fn clock(host: &Host) -> String {
    let mhz = host.tsc_hz.map(|hz| format!(", {} MHz", number::up(hz / 1e6, 3))).unwrap_or_default();
    let reason = host.clock_reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{}{mhz}, error below {} ppm{reason}", host.clock, number::up(host.clock_error_ppm, 1))
}

/// Returns the facts about the set-up between the two ends.
pub(crate) fn setup(document: &Document) -> Vec<Fact> {
    let setup = &document.setup;
    let cpu = |cpu: Option<u32>| cpu.map_or_else(|| MISSING.into(), |cpu| cpu.to_string());
    let mut facts = vec![
        ("between the ends", words::place(&setup.place).to_owned()),
        ("interface", setup.interface.clone()),
        ("address of the peer", setup.address.clone()),
        ("pinned to", format!("CPU {} here, CPU {} at the peer", cpu(setup.client_cpu), cpu(setup.server_cpu))),
        ("duration", format!("{} s", number::up(document.elapsed_s, 1))),
    ];
    if setup.service_time_ns > 0 {
        facts.push(("service time", format!("{} before each answer", number::time(setup.service_time_ns as f64))));
    }
    if setup.service_longer_every > 0 {
        let longer = number::time(setup.service_longer_ns as f64);
        facts.push((
            "longer service time",
            format!("{longer} more before one answer of {}", setup.service_longer_every),
        ));
    }
    if setup.queues > 1 {
        facts.push(("queues of the interface", setup.queues.to_string()));
    }
    if setup.mtu > 0 {
        facts.push(("MTU of the interface", format!("{} bytes", setup.mtu)));
    }
    if let Some(wire) = &setup.wire {
        facts.push(("wire, each way", wire.clone()));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Returns the disturbances of the host during the run.
pub(crate) fn noise(host: &Host) -> Vec<Fact> {
    let during = &host.noise.during;
    vec![
        ("stolen by the hypervisor", format!("{} ms", number::up(during.steal_ms, 0))),
        ("involuntary switches", number::count(during.involuntary_switches)),
        ("interrupts", format!("{}, timer ticks included", number::count(during.interrupts))),
        ("load before the run", number::up(host.noise.load_1m, 2)),
        ("shortest system call", reading(host.noise.yardstick.syscall_ns)),
        ("cache line to the other CPU and back", reading(host.noise.yardstick.cache_line_ns)),
    ]
}

fn reading(ns: Option<f64>) -> String {
    ns.map_or_else(|| MISSING.into(), |ns| format!("{} ns, median over the run", number::up(ns, 1)))
}

/// The noise on one line.
pub(crate) fn noise_line(noise: &Noise) -> String {
    format!(
        "{} ms stolen, {} involuntary switches, {} interrupts",
        number::up(noise.steal_ms, 0),
        number::count(noise.involuntary_switches),
        number::count(noise.interrupts)
    )
}

/// The noisiest CPU before the run, on one line.
pub(crate) fn hiccup_line(host: &Host) -> Option<String> {
    let worst = host.noise.hiccups.iter().max_by(|a, b| a.lost_share.total_cmp(&b.lost_share))?;
    Some(format!(
        "noisiest CPU before the run: {}, {} pauses in {} ms, the longest {}, {} % of the time lost",
        worst.cpu,
        number::count(worst.count),
        number::up(worst.watched_ms, 0),
        number::time(worst.max_ns),
        number::percent(worst.lost_share)
    ))
}

/// Returns the notes on single rows, each with the name of its row; a note on many rows of a curve is given once.
pub(crate) fn row_notes(document: &Document) -> Vec<String> {
    let mut remarks: Vec<(String, &str, Vec<u32>)> = Vec::new();
    for row in &document.results {
        let name = format!("{} over {}", super::label(row), words::transport(&row.transport));
        for note in &row.notes {
            match remarks.iter_mut().find(|(of, said, _)| *of == name && *said == note) {
                Some((.., sizes)) => sizes.push(row.size),
                None => remarks.push((name.clone(), note, vec![row.size])),
            }
        }
    }
    let say = |(name, note, sizes): (String, &str, Vec<u32>)| match sizes.as_slice() {
        [size] => format!("{name}, {}: {note}", number::bytes(*size)),
        many => format!("{name}, {} rows: {note}", many.len()),
    };
    remarks.into_iter().map(say).collect()
}
