//! Open loops: response time against load, path by path in turn, until the paths no longer keep up.

use super::climb::{Climb, Offered};
use super::interleave::ROUNDS_MIN;
use super::interleave::interrupted;
use super::{Findings, Progress};
use crate::cpu_time::BothSpent;
use crate::fit;
use crate::measure::{Arrival, Bench, OpenLoad, OpenSlice, Target, Work, noise};
use crate::path::{Medium, Path};
use crate::stats::{Accumulator, Censored, Statistic};
use crate::transport::Transport;
use sidestep_report::schema::{Noise, RateDetail, Row, Unavailable};
use sidestep_sys::Problem;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The longest slice: it holds all of its samples.
const SLICE_MAX: Duration = Duration::from_secs(1);
/// Time to open, settle, drain and close a slice, for the estimate.
const SLICE_OVERHEAD_MS: u64 = 60;
/// The parameters of the open loops.
#[derive(Clone, Debug)]
pub struct OpenLoops {
    /// TCP, UDP or both.
    pub transports: Vec<Transport>,
    /// The paths.
    pub paths: Vec<&'static Path>,
    /// Message sizes, bytes.
    pub sizes: Vec<u32>,
    /// Messages per second.
    pub rates: Offered,
    /// The spacing of messages.
    pub arrival: Arrival,
    /// Time of each path at each rate.
    pub duration: Duration,
}

/// One curve: a path over one transport at one size.
struct Curve {
    target: Target,
    climb: Climb,
    /// A note on its messages, for the report.
    note: Option<String>,
}

/// Measures the curves, all at their next rate in the same rounds.
pub(crate) fn open_loops(bench: &mut Bench, loops: &OpenLoops, progress: &mut dyn Progress) -> Findings {
    let mut findings = Findings::default();
    let mut curves = curves(bench, loops, &mut findings.unavailable);
    let (rounds, slice) = pace(loops.duration);
    let rates: usize = curves.iter().map(|curve| curve.climb.rates_max()).sum();
    let one_ms = 2 * u64::from(rounds) * (slice.as_millis() as u64 + SLICE_OVERHEAD_MS);
    progress.begin("open-loop", bench.budget.expected_ms(one_ms * rates as u64));
    while curves.iter().any(|curve| curve.climb.next().is_some()) && findings.problem.is_none() {
        findings.problem =
            step(bench, loops, &mut curves, progress, &mut (&mut findings.rows, &mut findings.unavailable)).err();
    }
    progress.end();
    // In the order of the curves, as they climb at different speeds.
    let place = |row: &Row| {
        let is_of = |curve: &Curve| {
            let Target { transport, path, size, .. } = curve.target;
            row.transport == transport.name() && row.path == path.name && row.size == size
        };
        curves.iter().position(is_of)
    };
    findings.rows.sort_by(|one, two| {
        let offered = |row: &Row| row.rate_offered.unwrap_or(0.0);
        place(one).cmp(&place(two)).then(offered(one).total_cmp(&offered(two)))
    });
    findings
}

/// Divides the time of a path at a rate into rounds and slices.
fn pace(duration: Duration) -> (u32, Duration) {
    let slice = (duration / (2 * ROUNDS_MIN)).clamp(Duration::from_millis(1), SLICE_MAX);
    let rounds = duration.as_secs_f64() / (2.0 * slice.as_secs_f64());
    ((rounds.round() as u32).max(ROUNDS_MIN), slice)
}

fn curves(bench: &Bench, loops: &OpenLoops, unavailable: &mut Vec<Unavailable>) -> Vec<Curve> {
    let (mut curves, mut seen) = (Vec::new(), HashSet::new());
    for &size in &loops.sizes {
        for &asked in &loops.transports {
            for &path in &loops.paths {
                let transport = path.transport(asked);
                if !seen.insert((path.name, transport, size)) {
                    continue;
                }
                let target = Target { work: Work::OpenLoop, transport, path, size };
                match refusal(bench, target) {
                    Some(reason) => unavailable.push(missing(target, reason)),
                    None => {
                        let climb = Climb::new(loops.rates.clone());
                        curves.push(Curve { target, climb, note: fit::fragments(bench.ends(), transport, size) });
                    }
                }
            }
        }
    }
    curves
}

/// Returns the reason why a path has no open loop here.
fn refusal(bench: &Bench, target: Target) -> Option<String> {
    let Target { transport, path, size, .. } = target;
    let ends = bench.ends();
    match path.medium {
        Medium::Frames => return Some("bare frames have one message under way".into()),
        Medium::CacheLine => return Some("a cache line carries one message at a time".into()),
        Medium::Unmodified => return Some("its program is a closed loop: it waits for each answer".into()),
        Medium::Unix | Medium::SharedMemory if !ends.same_host => return Some("both ends must be on one host".into()),
        Medium::Inet | Medium::Stack | Medium::FeedRing | Medium::Unix | Medium::SharedMemory => {}
    }
    if ends.same_host && bench.cpus.server == Some(bench.cpus.client) {
        return Some("the sender spins on its schedule and needs a CPU of its own".into());
    }
    fit::refusal(ends, path, transport, size)
}

fn missing(target: Target, reason: String) -> Unavailable {
    Unavailable {
        scenario: "open-loop".into(),
        transport: target.transport.name().into(),
        path: target.path.name.into(),
        rung: None,
        reason,
    }
}

/// Names rates that are not tried; none where there are none.
pub(super) fn not_tried(rates: &[f64]) -> Option<String> {
    let rates: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}/s")).collect();
    (!rates.is_empty()).then(|| format!("{} not tried", rates.join(", ")))
}

/// Measures every curve that still climbs at its next rate, A B C C B A.
fn step(
    bench: &mut Bench,
    loops: &OpenLoops,
    curves: &mut [Curve],
    progress: &mut dyn Progress,
    found: &mut (&mut Vec<Row>, &mut Vec<Unavailable>),
) -> Result<(), Problem> {
    let (rounds, slice) = pace(loops.duration);
    let mut tallies: Vec<Tally> = curves.iter().map(|_| Tally::default()).collect();
    let order: Vec<usize> = (0..curves.len()).chain((0..curves.len()).rev()).collect();
    let mut result = Ok(());
    'rounds: for round in 0..rounds {
        bench.take_yardstick();
        for (pass, &index) in order.iter().enumerate() {
            let curve = &mut curves[index];
            let Some(rate) = curve.climb.next() else { continue };
            // The same schedule for all curves of a pass.
            let number = u64::from(2 * round) + u64::from(pass >= order.len() / 2);
            let load = OpenLoad { rate, arrival: loops.arrival, slice: number };
            let begin = Instant::now();
            match measure(bench, curve.target, load, slice) {
                Ok(slice) => tallies[index].take(slice),
                Err(problem) if bench.is_stopped() || bench.ends().control.is_closed() => {
                    result = Err(if bench.is_stopped() { interrupted() } else { problem });
                    break 'rounds;
                }
                Err(problem) => {
                    let above = not_tried(curve.climb.above()).map(|above| format!("; {above}")).unwrap_or_default();
                    found.1.push(missing(curve.target, format!("at {rate:.0}/s: {}{above}", problem.brief())));
                    curve.climb.give_up();
                }
            }
            let label = format!("{} {} {rate:.0}/s", curve.target.transport, curve.target.path.name);
            progress.advance(&label, begin.elapsed().as_millis() as u64);
        }
    }
    for (curve, tally) in curves.iter_mut().zip(tallies) {
        if let Some(row) = curve.climb.next().and_then(|rate| tally.row(loops, rate, curve)) {
            curve.climb.measured(&row);
            found.0.push(row);
        }
    }
    result
}

fn measure(bench: &mut Bench, target: Target, load: OpenLoad, slice: Duration) -> Result<OpenSlice, Problem> {
    if bench.is_stopped() {
        return Err(interrupted());
    }
    bench.open_loop(target, load, slice)
}

/// The results of the slices of one curve at one rate.
#[derive(Default)]
struct Tally {
    response: Censored,
    service: Censored,
    lateness: Accumulator,
    detail: RateDetail,
    due_s: f64,
    elapsed_s: f64,
    noise: Noise,
    cpu: BothSpent,
    note: Option<String>,
}

impl Tally {
    fn take(&mut self, slice: OpenSlice) {
        let unanswered = slice.sent.saturating_sub(slice.answered);
        self.response.push(slice.response, unanswered + slice.unsent);
        self.service.push(slice.service, unanswered);
        self.lateness.push(slice.lateness);
        let detail = &mut self.detail;
        detail.sent += slice.sent;
        detail.received += slice.answered;
        detail.unsent += slice.unsent;
        detail.late += slice.late;
        detail.duplicates += slice.duplicates;
        detail.reordered += slice.reordered;
        detail.unknown += slice.unknown;
        self.due_s += slice.due_s;
        self.elapsed_s += slice.elapsed_s;
        self.cpu.add(slice.cpu);
        self.note = slice.note.or(self.note.take());
        noise::add(&mut self.noise, &slice.noise);
    }

    fn row(self, loops: &OpenLoops, rate: f64, curve: &Curve) -> Option<Row> {
        if self.elapsed_s == 0.0 {
            return None;
        }
        let Target { transport, path, size, .. } = curve.target;
        let lost = self.detail.sent.saturating_sub(self.detail.received) + self.detail.unsent;
        let (arrival, seed) = match loops.arrival {
            Arrival::Constant => ("constant", None),
            Arrival::Poisson { seed } => ("poisson", Some(seed)),
        };
        Some(Row {
            scenario: "open-loop".into(),
            transport: transport.name().into(),
            path: path.name.into(),
            size,
            loop_kind: Some("open".into()),
            rate_offered: Some(rate),
            rate_achieved: Some(self.detail.received as f64 / self.elapsed_s),
            unit: "ns".into(),
            measure: "rtt".into(),
            distribution: self.response.distribution(),
            lost,
            blocks: self.response.blocks(),
            noise: self.noise,
            cpu: self.cpu.row(),
            notes: curve.note.iter().cloned().chain(self.note).collect(),
            rate: Some(RateDetail {
                rate_due: (self.detail.received + lost) as f64 / self.due_s.max(1e-9),
                rate_sent: self.detail.sent as f64 / self.elapsed_s,
                reflect_every: 1,
                from_actual_send: self.service.distribution(),
                send_lateness: self.lateness.distribution(1.0, Statistic::Mean),
                arrival: arrival.into(),
                seed,
                ..self.detail
            }),
            ..Row::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Slice;

    #[test]
    fn the_time_of_a_rate_is_divided_into_rounds_of_slices() {
        let s = Duration::from_secs;
        assert_eq!(pace(s(16)), (8, s(1)));
        assert_eq!(pace(s(60)), (30, s(1)));
        assert_eq!(pace(Duration::from_millis(160)), (8, Duration::from_millis(10)));
        assert_eq!(pace(Duration::from_millis(1)), (8, Duration::from_millis(1)));
    }

    #[test]
    fn what_could_not_leave_and_what_was_not_answered_are_lost_and_counted_apart() {
        let loops = OpenLoops {
            transports: vec![Transport::Udp],
            paths: Vec::new(),
            sizes: vec![64],
            rates: Offered::Auto,
            arrival: Arrival::Poisson { seed: 9 },
            duration: Duration::from_secs(1),
        };
        let path = Path::named("kernel-spin").expect("a path");
        let target = Target { work: Work::OpenLoop, transport: Transport::Udp, path, size: 64 };
        let curve = Curve { target, climb: Climb::new(Offered::Auto), note: None };
        let mut tally = Tally::default();
        assert!(Tally::default().row(&loops, 1e4, &curve).is_none(), "nothing was measured");
        for _ in 0..2 {
            tally.take(OpenSlice {
                response: Slice::of(1..=9_000),
                service: Slice::of(1..=9_000),
                sent: 9_400,
                answered: 9_000,
                unsent: 600,
                late: 5,
                unknown: 1,
                due_s: 1.0,
                elapsed_s: 1.0,
                ..OpenSlice::default()
            });
        }
        let row = tally.row(&loops, 1e4, &curve).expect("it was measured");
        assert_eq!((row.lost, row.rate_achieved, row.distribution.n), (2_000, Some(9_000.0), 18_000));
        let detail = row.rate.expect("it has details");
        assert_eq!((detail.sent, detail.unsent, detail.late, detail.unknown), (18_800, 1_200, 10, 2));
        assert_eq!((detail.arrival.as_str(), detail.seed), ("poisson", Some(9)));
        assert!(row.distribution.p50.is_some() && row.distribution.p90.is_none(), "a tenth is lost");
        assert!(detail.from_actual_send.p90.is_some(), "4 % of what left was not answered");
        assert!(detail.from_actual_send.p99.is_none());
    }
}
