//! Documents for tests: a likely one, a hostile one, and many that no run would write.

#[path = "../examples/sample/mod.rs"]
mod realistic;

use std::sync::OnceLock;

use crate::{histogram, schema};
use schema::{CpuTime, Distribution, Document, Ratio, Row, Step, Unavailable};

/// Text that would break a page or a terminal that lets it through.
pub(crate) const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'&\u{1b}[31m\u{202e}\0]]><!--<script>";

/// The likely document, drawn once: it takes millions of samples.
pub(crate) fn document() -> Document {
    static DOCUMENT: OnceLock<Document> = OnceLock::new();
    DOCUMENT.get_or_init(realistic::document).clone()
}

/// The ratio of two paths' medians of a TCP round trip of 64 B, its interval by the share that it reaches to either side.
pub(crate) fn ratio(of: &str, against: &str, value: f64, reach: f64) -> Ratio {
    Ratio {
        scenario: "rr".into(),
        transport: "tcp".into(),
        size: 64,
        of: of.into(),
        against: against.into(),
        stat: "p50".into(),
        value,
        ci95: [value * (1.0 - reach), value * (1.0 + reach)],
        ..Ratio::default()
    }
}

/// A TCP round trip of 64 B by its median, ns.
pub(crate) fn round_trip(path: &str, p50: f64) -> Row {
    Row {
        scenario: "rr".into(),
        transport: "tcp".into(),
        path: path.into(),
        size: 64,
        measure: "rtt".into(),
        distribution: Distribution { n: 1_000, p50: Some(p50), ..Distribution::default() },
        ..Row::default()
    }
}

/// The likely document with hostile text in every field.
pub(crate) fn hostile() -> Document {
    let mut document = document();
    let h = || HOSTILE.to_owned();
    (document.tool.version, document.started, document.command) = (h(), h(), h());
    (document.host.hostname, document.host.kernel, document.host.cpu) = (h(), h(), h());
    (document.host.cmdline, document.host.clocksource, document.host.isolated) = (h(), h(), h());
    (document.host.virtualised, document.host.governor, document.host.clock_reason) = (Some(h()), Some(h()), Some(h()));
    (document.setup.place, document.setup.interface, document.setup.address) = (h(), h(), h());
    document.peer = Some(document.host.clone());
    document.notes.push(h());
    for row in &mut document.results {
        row.path.push_str(HOSTILE);
        row.transport.push_str(HOSTILE);
        row.measure.push_str(HOSTILE);
        row.notes.push(h());
        row.rung = row.rung.as_ref().map(|rung| format!("{rung}{HOSTILE}"));
        if let Some(causes) = &mut row.causes {
            causes.missing.push(h());
            causes.causes.iter_mut().for_each(|cause| (cause.what, cause.class) = (h(), h()));
            causes.outliers.iter_mut().for_each(|one| (one.cause, one.class) = (h(), h()));
        }
    }
    for ratio in &mut document.ratios {
        (ratio.of, ratio.stat, ratio.scenario) = (h(), h(), h());
    }
    document.unavailable.iter_mut().for_each(|missing| missing.reason.push_str(HOSTILE));
    let ratios = document.ratios.clone();
    document.steps = vec![Step { name: h(), what: h(), decision: h(), reason: h(), ratios, ..Step::default() }];
    document.paths.iter_mut().for_each(|path| path.description.push_str(HOSTILE));
    document.results.push(Row { scenario: h(), ..document.results[0].clone() });
    document
}

/// Documents that no run would write, but a reader may meet.
pub(crate) fn odd_documents() -> Vec<Document> {
    let whole = document();
    let mut odd = vec![Document::default(), hostile()];
    odd.push(Document { results: vec![whole.results[0].clone()], ..Document::default() });
    odd.push(Document { results: whole.results.iter().cycle().take(200).cloned().collect(), ..whole.clone() });
    odd.push(Document { results: vec![Row::default(); 3], ratios: vec![Ratio::default(); 2], ..Document::default() });
    odd.push(Document { unavailable: vec![Unavailable::default()], ..Document::default() });
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -5.0, 0.0, f64::MIN_POSITIVE, f64::MAX] {
        odd.push(with_every_number(&whole, number));
    }
    for text in ["", "!", "AAAA", "HISTFAAAAC"] {
        odd.push(with_every_histogram(&whole, text));
    }
    odd.push(with_every_histogram(&whole, &histogram_of(&[])));
    odd.push(with_every_histogram(&whole, &histogram_of(&[0; 1000])));
    odd.push(with_every_histogram(&whole, &histogram_of(&[1 << 61; 1000])));
    let mut long = whole.clone();
    long.results.iter_mut().for_each(|row| row.path = "very-long-path-".repeat(40));
    odd.push(long);
    odd
}

fn with_every_number(document: &Document, number: f64) -> Document {
    let mut document = document.clone();
    for row in &mut document.results {
        (row.rate_offered, row.rate_achieved) = (Some(number), Some(number));
        set(&mut row.distribution, number);
        row.cpu = Some(CpuTime { per_message_ns: number, peer_per_message_ns: Some(number) });
        if let Some(causes) = &mut row.causes {
            (causes.p50, causes.from_ns, causes.clock_error_ns) = (number, number, number);
            for cause in &mut causes.causes {
                (cause.mean_ns, cause.share, cause.usual) = (Some(number), Some(number), Some(number));
            }
            for outlier in &mut causes.outliers {
                (outlier.ns, outlier.at_ms) = (number, number);
                outlier.events.iter_mut().for_each(|event| (event.from_ns, event.ns) = (number, number));
            }
        }
        if let Some(rate) = &mut row.rate {
            rate.rate_sent = number;
            set(&mut rate.from_actual_send, number);
            set(&mut rate.send_lateness, number);
        }
    }
    for ratio in &mut document.ratios {
        (ratio.value, ratio.ci95) = (number, [number, number]);
    }
    let host = &mut document.host;
    (host.tsc_hz, host.clock_error_ppm, host.timer_cost_ns) = (Some(number), number, number);
    host.noise.during.steal_ms = number;
    for hiccup in &mut host.noise.hiccups {
        (hiccup.max_ns, hiccup.lost_share, hiccup.watched_ms) = (number, number, number);
    }
    document
}

fn set(d: &mut Distribution, number: f64) {
    for field in [
        &mut d.min,
        &mut d.mean,
        &mut d.stddev,
        &mut d.p50,
        &mut d.p90,
        &mut d.p99,
        &mut d.p99_9,
        &mut d.p99_99,
        &mut d.max,
    ] {
        *field = Some(number);
    }
    d.ci95.p50 = Some([number, number]);
}

fn with_every_histogram(document: &Document, text: &str) -> Document {
    let mut document = document.clone();
    document.results.iter_mut().for_each(|row| row.distribution.histogram = text.into());
    document
}

fn histogram_of(values: &[u64]) -> String {
    let mut filled = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 62, 3).unwrap();
    values.iter().for_each(|value| filled.record(*value).unwrap());
    histogram::encode(&filled).unwrap()
}
