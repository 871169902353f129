//! A document as `sidestep demo` would write it on a virtual machine with two CPUs, its numbers drawn from a formula.

use super::{histogram, schema};
use hdrhistogram::Histogram;
use schema::Yardstick;
use schema::{
    Block, Cause, Causes, Ci95, Distribution, Document, Effective, Hiccups, Host, HostNoise, Mode, Noise,
    ObserverEffect, Outlier, OutlierEvent, PathInfo, RateDetail, Ratio, Row, SCHEMA, Setup, Tool, Unavailable, Warmup,
};

/// Name, median of a TCP round trip in nanoseconds, how it waits, description.
const PATHS: [(&str, f64, &str, &str); 12] = [
    ("kernel-default", 76_100.0, "block", "Blocking socket calls, placed on a CPU by the scheduler."),
    ("kernel-pinned", 71_300.0, "block", "Blocking socket calls, each end pinned to a CPU of its own."),
    (
        "kernel-busypoll",
        70_900.0,
        "busy_poll",
        "As kernel-pinned, with SO_BUSY_POLL: the kernel polls the device before it sleeps.",
    ),
    ("kernel-epoll", 73_800.0, "epoll", "As kernel-pinned, waiting in epoll_wait."),
    ("kernel-spin", 5_590.0, "spin", "Non-blocking socket calls in a loop that never sleeps."),
    ("uring", 77_900.0, "block", "io_uring, waiting in the kernel for each completion."),
    ("uring-spin", 5_210.0, "spin", "io_uring, the completion ring polled in a loop."),
    ("uds", 66_000.0, "block", "A Unix stream socket, blocking."),
    ("uds-spin", 4_030.0, "spin", "A Unix stream socket, non-blocking in a loop that never sleeps."),
    ("shm", 612.0, "spin", "Two rings in memory that both processes share, looked at in a loop."),
    ("shm-block", 58_300.0, "block", "Two rings in memory that both processes share; a receive sleeps."),
    ("floor", 281.0, "spin", "One cache line bounced between two cores: the physical limit of the machine."),
];

const RUNGS: [(&str, &str, f64); 3] = [
    ("1 default", "kernel-default", 76_400.0),
    ("2 CPU pinned", "kernel-pinned", 71_500.0),
    ("5 polled", "kernel-spin", 5_630.0),
];

/// The document.
pub(crate) fn document() -> Document {
    Document {
        schema: SCHEMA,
        tool: Tool { name: "sidestep".into(), version: "0.1.0".into() },
        started: "2026-11-20T20:01:07Z".into(),
        elapsed_s: 61.27,
        command: "sidestep demo --size 64 --duration 60 --html report.html --json result.json".into(),
        host: host(),
        setup: Setup {
            place: "lab".into(),
            interface: "ss0a".into(),
            address: "198.18.0.2:7411".into(),
            client_cpu: Some(0),
            server_cpu: Some(1),
            ..Setup::default()
        },
        results: [round_trips(), ladder(), sizes(), rates()].concat(),
        ratios: ratios(),
        unavailable: unavailable(),
        paths: paths(),
        notes: vec!["the two CPUs may be two threads of one core: the hypervisor does not say".into()],
        ..Document::default()
    }
}

fn paths() -> Vec<PathInfo> {
    let info = |(name, _, waiting, text): (&str, f64, &str, &str)| PathInfo {
        name: name.into(),
        description: text.into(),
        waiting: Some(waiting.into()),
    };
    PATHS.map(info).to_vec()
}

fn host() -> Host {
    let hiccup = |cpu, count, max_ns| Hiccups {
        cpu,
        watched_ms: 500.0,
        threshold_ns: 1_000.0,
        count,
        max_ns,
        lost_share: 0.000_84,
    };
    Host {
        hostname: "trade-lab-7".into(),
        kernel: "6.18.5".into(),
        cpu: "Intel(R) Xeon(R) Processor @ 2.60GHz".into(),
        cpus: 2,
        virtualised: Some("firecracker".into()),
        clocksource: "tsc".into(),
        clock: "tsc".into(),
        tsc_hz: Some(2_600_014_203.0),
        clock_error_ppm: 0.42,
        timer_cost_ns: 18.4,
        timer_resolution_ns: 0.8,
        cmdline: "console=ttyS0 reboot=k panic=1 pci=off".into(),
        noise: HostNoise {
            hiccups: vec![hiccup(0, 131, 214_312.0), hiccup(1, 127, 88_104.0)],
            during: Noise { steal_ms: 40.0, involuntary_switches: 212, interrupts: 31_882 },
            load_1m: 0.31,
            yardstick: Yardstick { syscall_ns: Some(131.0), cache_line_ns: Some(280.0) },
        },
        ..Host::default()
    }
}

fn row(scenario: &str, transport: &str, path: &str, size: u32, distribution: Distribution) -> Row {
    Row {
        scenario: scenario.into(),
        transport: transport.into(),
        path: path.into(),
        size,
        unit: "ns".into(),
        measure: if scenario == "sizes" { "half_rtt" } else { "rtt" }.into(),
        distribution,
        warmup: Warmup { messages: 12_000, ms: 510.0, steady: true },
        noise: Noise { steal_ms: 0.0, involuntary_switches: 9, interrupts: 1_204 },
        blocks: vec![
            Block {
                n: 10_000,
                p50: 5_600.0,
                p99: 7_000.0,
                mean: 5_720.0,
                lost: Some(0),
                cpu: Some(1),
                peer_cpu: Some(0)
            };
            8
        ],
        ..Row::default()
    }
}

fn round_trips() -> Vec<Row> {
    let mut rows = Vec::new();
    for (i, (path, median, ..)) in PATHS.iter().enumerate() {
        let transport = match *path {
            "uds" | "uds-spin" => "uds",
            "shm" | "shm-block" => "shm",
            "floor" => "memory",
            _ => "tcp",
        };
        let n = if *median < 10_000.0 { 400_000 } else { 100_000 };
        rows.push(row("rr", transport, path, 64, distribution(*median, n, i as u64)));
    }
    let mode = |slices: u64, p50, one_cpu| Mode { slices, share: slices as f64 / 8.0, p50, one_cpu: Some(one_cpu) };
    rows[0].modes = vec![mode(3, 9_120.0, 1.0), mode(5, 76_100.0, 0.0)];
    rows[4].causes = Some(Box::new(causes()));
    rows[5].warmup.steady = false;
    rows[5].notes.push("the median was still falling when the warm-up ended".into());
    rows
}

fn causes() -> Causes {
    let cause = |what: &str, class: &str, samples, explains, mean_ns, share, usual| Cause {
        what: what.into(),
        class: class.into(),
        samples,
        explains,
        mean_ns,
        share,
        usual: Some(usual),
    };
    let event =
        |what: &str, class: &str, from_ns, ns| OutlierEvent { what: what.into(), class: class.into(), from_ns, ns };
    let outlier = |i: u32, cause: &str, class: &str, events: Vec<OutlierEvent>| Outlier {
        at_ms: f64::from(i * 79 % 40) * 100.0,
        ns: 900_000.0 / f64::from(i + 1) + 42_000.0,
        cause: cause.into(),
        class: class.into(),
        events,
    };
    let mut outliers = vec![
        outlier(0, "kworker/1:2", "task", vec![event("kworker/1:2", "task", 9_000.0, 880_000.0)]),
        outlier(1, "local timer", "interrupt", {
            let softirq = event("TIMER", "softirq", 330_000.0, 60_000.0);
            vec![
                event("local timer", "interrupt", 20_000.0, 300_000.0),
                softirq,
                event("page fault", "event", 400_000.0, 0.0),
            ]
        }),
    ];
    outliers.extend((2..60).map(|i| match i % 3 {
        0 => outlier(i, "unknown", "unknown", Vec::new()),
        _ => outlier(i, "local timer", "interrupt", Vec::new()),
    }));
    Causes {
        source: "tracepoints".into(),
        n: 398_112,
        p50: 5_702.0,
        p99_9: Some(41_900.0),
        max: 942_000.0,
        slowest: 398,
        from_ns: 42_000.0,
        uncovered: 2,
        events: 1_204_331,
        lost: 4_100,
        clock_error_ns: 31.0,
        observer: Some(ObserverEffect { p50_ratio: 1.021, ci95: [1.004, 1.043] }),
        causes: vec![
            cause("local timer", "interrupt", 290, 201, Some(31_000.0), Some(0.44), 0.031),
            cause("kworker/1:2", "task", 12, 11, Some(402_000.0), Some(0.21), 0.0),
            cause("NET_RX", "softirq", 396, 0, Some(2_900.0), Some(0.01), 1.0),
            cause("page fault", "event", 3, 0, None, None, 0.0),
            cause("steal time, counted in steps of 10 ms", "counter", 40, 0, None, None, 0.05),
            Cause {
                usual: None,
                ..cause(
                    "no event of the kernel explains half of it",
                    "unknown",
                    101,
                    0,
                    Some(38_000.0),
                    Some(0.33),
                    0.0,
                )
            },
        ],
        outliers,
        missing: vec!["SMIs are not counted: the hypervisor refuses MSR 0x34".into()],
    }
}

fn ladder() -> Vec<Row> {
    let rungs = RUNGS.iter().enumerate();
    rungs
        .map(|(i, (rung, path, median))| Row {
            rung: Some((*rung).into()),
            ..row("rr", "udp", path, 64, distribution(*median, 40_000, 90 + i as u64))
        })
        .collect()
}

fn sizes() -> Vec<Row> {
    let mut rows = Vec::new();
    for (transport, extra) in [("tcp", 1.0), ("udp", 0.93)] {
        for (path, median) in [("kernel-pinned", 35_600.0), ("kernel-spin", 2_800.0), ("uring-spin", 2_610.0)] {
            for size in [16, 32, 64, 128, 256, 512, 1024, 1472] {
                let half = median * extra + f64::from(size) * 0.45;
                rows.push(row("sizes", transport, path, size, distribution(half, 20_000, u64::from(size))));
            }
        }
    }
    rows
}

fn rates() -> Vec<Row> {
    let mut rows = Vec::new();
    for (path, median, limit) in [("kernel-pinned", 52_000.0, 290_000.0), ("kernel-spin", 7_100.0, 410_000.0)] {
        for step in 1_u32..=10 {
            let offered = f64::from(step) * 50_000.0;
            rows.push(rate_row(path, median, limit, offered));
            if offered * 0.9 > limit {
                break;
            }
        }
    }
    rows
}

fn rate_row(path: &str, median: f64, limit: f64, offered: f64) -> Row {
    let load = (offered / limit).min(1.3);
    let queued = median * (1.0 + 14.0 * load.powi(8));
    let sent = (offered * 2.0) as u64;
    let received = (offered.min(limit) * 2.0) as u64;
    Row {
        rate_offered: Some(offered),
        rate_achieved: Some(offered.min(limit)),
        lost: sent - received,
        rate: Some(RateDetail {
            sent,
            received,
            rate_sent: offered * 0.999,
            gaps: (sent - received) / 7,
            reflect_every: (offered / 1000.0) as u64,
            from_actual_send: distribution(queued * 0.9, 12_000, 7),
            send_lateness: distribution(400.0 * (1.0 + load), 12_000, 8),
            ..RateDetail::default()
        }),
        ..row("rates", "udp", path, 24, distribution(queued, 12_000, 9))
    }
}

/// For every path the control, and the ratio to the first network path at the same size.
fn ratios() -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for row in round_trips().into_iter().chain(sizes()) {
        let baseline = PATHS[1];
        let median = PATHS.iter().find(|path| path.0 == row.path).map_or(1.0, |path| path.1);
        for (stat, spread) in [("p50", 0.012), ("p99", 0.06)] {
            ratios.push(ratio(&row, &row.path, stat, 1.0 + spread / 6.0, spread));
            if row.path != baseline.0 {
                ratios.push(ratio(&row, baseline.0, stat, median / baseline.1, spread));
            }
        }
    }
    ratios
}

fn ratio(row: &Row, against: &str, stat: &str, value: f64, spread: f64) -> Ratio {
    Ratio {
        scenario: row.scenario.clone(),
        transport: row.transport.clone(),
        size: row.size,
        of: row.path.clone(),
        against: against.into(),
        stat: stat.into(),
        value,
        ci95: [value * (1.0 - spread), value * (1.0 + spread)],
        ..Ratio::default()
    }
}

fn unavailable() -> Vec<Unavailable> {
    let rung = |rung: &str, reason: &str| Unavailable {
        scenario: "rr".into(),
        transport: "udp".into(),
        path: "kernel-pinned".into(),
        rung: Some(rung.into()),
        reason: reason.into(),
    };
    vec![
        rung("3 IRQ pinned", "a veth has no interrupt to pin"),
        rung("4 isolated CPU", "no CPU is isolated; start the kernel with isolcpus= or make a cpuset partition"),
        Unavailable {
            scenario: "rates".into(),
            transport: "multicast".into(),
            path: "kernel-spin".into(),
            rung: None,
            reason: "the interface has no multicast route".into(),
        },
    ]
}

/// A skewed distribution around `median`, with the slow tail of a machine that is shared.
fn distribution(median: f64, n: u64, seed: u64) -> Distribution {
    let mut filled = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("valid bounds");
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for _ in 0..n {
        let centre = (0..6).map(|_| uniform()).sum::<f64>() / 3.0 - 1.0;
        let skew = 1.0 + 0.09 * centre + 0.03 * -uniform().max(1e-12).ln();
        let stall = if uniform() < 0.002 { -uniform().max(1e-12).ln() * 21_000.0 } else { 0.0 };
        let ns = (median * 0.97 * skew + stall).max(1.0);
        filled.record(ns as u64).expect("within bounds");
    }
    summarised(&filled)
}

fn summarised(filled: &Histogram<u64>) -> Distribution {
    let n = filled.len();
    let at = |q: f64, needed: u64| (n >= needed).then(|| filled.value_at_quantile(q) as f64);
    let around = |value: Option<f64>, share: f64| value.map(|v| [v * (1.0 - share), v * (1.0 + share)]);
    let (p50, p99) = (at(0.5, 200), at(0.99, 10_000));
    Distribution {
        n,
        min: Some(filled.min() as f64),
        mean: Some(filled.mean()),
        stddev: Some(filled.stdev()),
        p50,
        p90: at(0.9, 1_000),
        p99,
        p99_9: at(0.999, 100_000),
        p99_99: at(0.9999, 1_000_000),
        max: Some(filled.max() as f64),
        ci95: Ci95 { p50: around(p50, 0.004), p99: around(p99, 0.02), p99_9: None, mean: None },
        effective: Some(Effective {
            largest_ten: 10.0 / n as f64,
            correlation: 0.7,
            slices: 7.0,
            p50: Some(412.0),
            p99: Some(1_830.0),
        }),
        histogram: histogram::encode(filled).expect("counts that fit"),
    }
}
