//! Rate sweeps: messages upstream at one rate after another, until the path no longer keeps up.

use super::interleave::interrupted;
use super::open_loop::not_tried;
use super::{Findings, Progress};
use crate::cpu_time::BothSpent;
use crate::fit;
use crate::measure::{Bench, RateSlice, RateTarget, noise};
use crate::path::{Medium, Path};
use crate::stats::{Accumulator, Censored, Statistic};
use crate::transport::Transport;
use sidestep_report::schema::{Noise, RateDetail, Row, Unavailable};
use sidestep_socket::stream::{Backend, Waiting};
use sidestep_sys::Problem;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// A path that achieves less than this share of what is offered does not keep up.
const KEEPS_UP: f64 = 0.9;
/// Samples per second aimed at when the user does not say how many messages come back: enough for p99 in two seconds,
/// few enough that answering does not load the peer.
const SAMPLES_PER_SECOND: f64 = 5_000.0;
/// Time to open and close a slice, for the estimate.
const SLICE_OVERHEAD_MS: u64 = 60;

/// The parameters of a sweep.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Unicast, multicast, or both.
    pub transports: Vec<Transport>,
    /// The paths.
    pub paths: Vec<&'static Path>,
    /// Message size, bytes.
    pub size: u32,
    /// Messages per second, ascending.
    pub rates: Vec<f64>,
    /// Set if a path that has fallen behind is not measured at higher rates; the report names these.
    pub until_behind: bool,
    /// Time at each rate.
    pub duration: Duration,
    /// One message in so many comes back; chosen by rate if none.
    pub reflect_every: Option<u64>,
    /// Messages that are due at the same time: the kernel's paths send and receive them by sendmmsg(2) and recvmmsg(2).
    pub batch: u32,
    /// The group, for multicast.
    pub group: Ipv4Addr,
}

/// One path over one transport, going up in rate.
struct Climber {
    path: &'static Path,
    transport: Transport,
    /// Returns a note on its messages, for the report.
    note: Option<String>,
    /// The reason why it is not measured at higher rates.
    over: Option<Over>,
}

/// Why a path is not measured at higher rates.
#[derive(Clone, Debug, PartialEq)]
enum Over {
    /// At this rate it fell behind.
    Behind(f64),
    /// It failed, with the reason.
    Failed(String),
}

impl Over {
    /// The reason for the report, with the rates `above` that are therefore not tried; none if nothing is missing.
    fn reason(self, above: &[f64]) -> Option<String> {
        let above = not_tried(above);
        match self {
            Self::Behind(rate) => above.map(|above| format!("{above}: at {rate:.0}/s it already fell behind")),
            Self::Failed(why) => Some(above.map_or_else(|| why.clone(), |above| format!("{why}; {above}"))),
        }
    }
}

/// The results of the slices at one rate.
#[derive(Default)]
struct Tally {
    from_due: Censored,
    from_actual: Censored,
    lateness: Accumulator,
    detail: RateDetail,
    elapsed_s: f64,
    noise: Noise,
    cpu: BothSpent,
    lost_samples: u64,
    receive_buffer: usize,
    /// A note on the frame path, of the last slice.
    frames: Option<String>,
}

/// Sweeps the rates; every rate is measured over all paths in turn, forward and back.
pub(crate) fn sweep(bench: &mut Bench, rates: &Rates, progress: &mut dyn Progress) -> Findings {
    let mut findings = Findings::default();
    let mut climbers = climbers(bench, rates, &mut findings.unavailable);
    let slice_ms = rates.duration.as_millis() as u64 / 2 + SLICE_OVERHEAD_MS;
    let planned = 2 * slice_ms * (climbers.len() * rates.rates.len()) as u64;
    progress.begin("rates", bench.budget.expected_ms(planned));
    for (index, &rate) in rates.rates.iter().enumerate() {
        let slices = 2 * climbers.len() * (rates.rates.len() - index);
        let around = Duration::from_millis(SLICE_OVERHEAD_MS);
        let duration = bench.budget.slice(rates.duration / 2, slices, around);
        let result = step(bench, rates, (rate, duration), &mut climbers, progress, &mut findings);
        let above = if result.is_ok() { &rates.rates[index + 1..] } else { &[] };
        for climber in climbers.extract_if(.., |climber| climber.over.is_some()) {
            let missing = climber.over.and_then(|over| over.reason(above));
            findings.unavailable.extend(missing.map(|reason| unavailable_row(climber.path, climber.transport, reason)));
        }
        if let Err(problem) = result {
            findings.problem = Some(problem);
            break;
        }
    }
    progress.end();
    findings
}

fn climbers(bench: &Bench, rates: &Rates, unavailable: &mut Vec<Unavailable>) -> Vec<Climber> {
    let mut climbers = Vec::new();
    for &transport in &rates.transports {
        for &path in &rates.paths {
            let spins = path.waiting == Waiting::Spin;
            let refused = refusal(path, rates.batch)
                .map(str::to_owned)
                .or_else(|| fit::shared_cpu(bench).filter(|_| spins).map(fit::one_cpu))
                .or_else(|| fit::refusal(bench.ends(), path, transport, rates.size));
            let note = fit::fragments(bench.ends(), transport, rates.size);
            match refused {
                None => climbers.push(Climber { path, transport, note, over: None }),
                Some(reason) => unavailable.push(unavailable_row(path, transport, reason)),
            }
        }
    }
    climbers
}

fn refusal(path: &Path, batch: u32) -> Option<&'static str> {
    let calls_socket = path.backend == Backend::Kernel && path.waiting != Waiting::Epoll;
    match path.medium {
        Medium::Inet if batch > 1 && !calls_socket => Some("batches are of sendmmsg(2) and recvmmsg(2) here"),
        Medium::Inet if path.pinned => None,
        Medium::Stack => None,
        Medium::Inet => Some("the sender keeps its schedule by spinning on a CPU of its own; choose a pinned path"),
        Medium::Frames => Some("bare frames are measured in round trips only"),
        _ => Some("a rate sweep is of datagrams"),
    }
}

fn unavailable_row(path: &Path, transport: Transport, reason: String) -> Unavailable {
    Unavailable {
        scenario: "rates".into(),
        transport: transport.name().into(),
        path: path.name.into(),
        rung: None,
        reason,
    }
}

/// Measures one rate over everything that still keeps up.
fn step(
    bench: &mut Bench,
    rates: &Rates,
    (rate, duration): (f64, Duration),
    climbers: &mut [Climber],
    progress: &mut dyn Progress,
    findings: &mut Findings,
) -> Result<(), Problem> {
    let mut tallies: Vec<Tally> = climbers.iter().map(|_| Tally::default()).collect();
    let order: Vec<usize> = (0..climbers.len()).chain((0..climbers.len()).rev()).collect();
    let mut result = Ok(());
    bench.take_yardstick();
    for index in order {
        if climbers[index].over.is_some() {
            continue;
        }
        let begin = Instant::now();
        let climber = &mut climbers[index];
        match slice(bench, rates, (rate, duration), climber) {
            Ok(slice) => tallies[index].take(slice),
            Err(problem) if bench.is_stopped() || bench.ends().control.is_closed() => {
                result = Err(if bench.is_stopped() { interrupted() } else { problem });
                break;
            }
            Err(problem) => {
                climber.over = Some(Over::Failed(format!("at {rate:.0}/s: {}", problem.brief())));
            }
        }
        let label = format!("{} {} {rate:.0}/s", climber.transport, climber.path.name);
        progress.advance(&label, begin.elapsed().as_millis() as u64);
    }
    for (climber, tally) in climbers.iter_mut().zip(tallies) {
        if let Some(row) = tally.row(rates, rate, climber) {
            let keeps_up = row.rate_achieved.is_some_and(|achieved| achieved >= KEEPS_UP * rate);
            if rates.until_behind && !keeps_up {
                climber.over.get_or_insert(Over::Behind(rate));
            }
            findings.rows.push(row);
        }
    }
    result
}

fn slice(
    bench: &mut Bench,
    rates: &Rates,
    (rate, duration): (f64, Duration),
    climber: &Climber,
) -> Result<RateSlice, Problem> {
    if bench.is_stopped() {
        return Err(interrupted());
    }
    let target = RateTarget {
        path: climber.path,
        size: rates.size,
        rate,
        group: (climber.transport == Transport::Multicast).then_some(rates.group),
        reflect_every: reflect_every(rates, rate),
        batch: rates.batch,
    };
    bench.rate(target, duration)
}

fn reflect_every(rates: &Rates, rate: f64) -> u64 {
    rates.reflect_every.unwrap_or_else(|| (rate / SAMPLES_PER_SECOND).round().max(1.0) as u64)
}

/// The samples of a slice that are missing: those that did not come back, or as large a share as was lost of all messages.
fn missing_samples(slice: &RateSlice) -> u64 {
    let lost = slice.sent.saturating_sub(slice.done.received) as f64 / slice.sent.max(1) as f64;
    let sampled = slice.from_due.len() + slice.lost_samples;
    slice.lost_samples.max((lost * sampled as f64).ceil() as u64)
}

impl Tally {
    fn take(&mut self, slice: RateSlice) {
        let missing = missing_samples(&slice);
        self.from_due.push(slice.from_due, missing);
        self.from_actual.push(slice.from_actual, missing);
        self.lateness.push(slice.lateness);
        self.detail.sent += slice.sent;
        self.detail.received += slice.done.received;
        self.detail.gaps += slice.done.gaps;
        self.detail.duplicates += slice.done.duplicates;
        self.detail.reordered += slice.done.reordered;
        self.elapsed_s += slice.elapsed_s;
        self.lost_samples += slice.lost_samples;
        self.receive_buffer = slice.receive_buffer;
        self.frames = slice.note;
        self.cpu.add(BothSpent { here: slice.cpu, peer: slice.done.cpu });
        noise::add(&mut self.noise, &slice.noise);
    }

    fn row(self, rates: &Rates, rate: f64, climber: &Climber) -> Option<Row> {
        if self.elapsed_s == 0.0 {
            return None;
        }
        let lost = self.detail.sent.saturating_sub(self.detail.received);
        let mut notes: Vec<String> = climber.note.iter().cloned().chain(self.frames).collect();
        if lost > 0 && self.receive_buffer > 0 {
            notes.push(format!("the receiver's socket buffer is {} bytes (net.core.rmem_max)", self.receive_buffer));
        }
        if self.lost_samples > 0 {
            notes.push(format!("{} reflected samples did not come back", self.lost_samples));
        }
        Some(Row {
            scenario: "rates".into(),
            transport: climber.transport.name().into(),
            path: climber.path.name.into(),
            size: rates.size,
            loop_kind: Some("open".into()),
            rate_offered: Some(rate),
            rate_achieved: Some(self.detail.received as f64 / self.elapsed_s),
            unit: "ns".into(),
            measure: "rtt".into(),
            distribution: self.from_due.distribution(),
            lost,
            blocks: self.from_due.blocks(),
            noise: self.noise,
            cpu: self.cpu.row(),
            notes,
            rate: Some(RateDetail {
                rate_sent: self.detail.sent as f64 / self.elapsed_s,
                reflect_every: reflect_every(rates, rate),
                batch: rates.batch,
                from_actual_send: self.from_actual.distribution(),
                send_lateness: self.lateness.distribution(1.0, Statistic::Mean),
                ..self.detail
            }),
            ..Row::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::protocol::Done;
    use crate::stats::Slice;

    fn slice(sent: u64, received: u64, samples: u64, lost_samples: u64) -> RateSlice {
        let (from_due, from_actual) = (Slice::of(1..=samples), Slice::of(1..=samples));
        let done = Done { received, ..Done::default() };
        RateSlice { from_due, from_actual, sent, lost_samples, elapsed_s: 1.0, done, ..RateSlice::default() }
    }

    fn row(slice: impl Fn() -> RateSlice) -> Row {
        let rates = Rates {
            transports: vec![Transport::Udp],
            paths: Vec::new(),
            size: 24,
            rates: Vec::new(),
            until_behind: false,
            duration: Duration::from_secs(1),
            reflect_every: None,
            batch: 1,
            group: Ipv4Addr::new(239, 1, 1, 1),
        };
        let path = Path::named("kernel-spin").expect("a path");
        let climber = Climber { path, transport: Transport::Udp, note: None, over: None };
        let mut tally = Tally::default();
        (0..4).for_each(|_| tally.take(slice()));
        tally.row(&rates, 1e6, &climber).expect("it was measured")
    }

    #[test]
    fn p99_is_withheld_where_one_in_a_hundred_was_lost() {
        let said = |row: Row| (row.distribution.p50.is_some(), row.distribution.p99.is_some());
        assert_eq!(said(row(|| slice(100_000, 100_000, 5_000, 0))), (true, true));
        assert_eq!(said(row(|| slice(100_000, 99_500, 4_975, 25))), (true, true));
        assert_eq!(said(row(|| slice(100_000, 98_900, 5_000, 0))), (true, false), "of the messages, though no sample");
        assert_eq!(said(row(|| slice(100_000, 100_000, 4_930, 70))), (true, false), "of the samples, on the way back");
        assert_eq!(said(row(|| slice(100_000, 40_000, 2_000, 3_000))), (false, false));
    }

    #[test]
    fn rates_that_are_not_tried_are_named_with_the_reason() {
        let behind = Over::Behind(5e3);
        assert_eq!(behind.clone().reason(&[]), None, "nothing is missing");
        let expected = "20000/s, 50000/s not tried: at 5000/s it already fell behind";
        assert_eq!(behind.reason(&[2e4, 5e4]).as_deref(), Some(expected));
        let failed = || Over::Failed("at 5000/s: no route".into());
        assert_eq!(failed().reason(&[]).as_deref(), Some("at 5000/s: no route"));
        assert_eq!(failed().reason(&[2e4]).as_deref(), Some("at 5000/s: no route; 20000/s not tried"));
    }

    #[test]
    fn a_rate_is_an_open_loop() {
        assert_eq!(row(|| slice(10, 10, 10, 0)).loop_kind.as_deref(), Some("open"));
    }
}
