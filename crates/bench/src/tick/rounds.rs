//! Arms measured in turn, A B C C B A, as every other scenario does it: disturbances of the host affect all alike, and the two passes
//! of a round are each arm's A/A control.

use super::arms::Request;
use super::describe;
use super::exchange::Target;
use super::play::Play;
use super::row::Found;
use super::slice::TickSlice;
use crate::measure::{Bench, Target as Echo, Work as EchoWork};
use crate::path::Path;
use crate::scenario::interleave::interrupted;
use crate::scenario::record::{Direction, Key, Record, TICK_TO_TRADE};
use crate::scenario::{Findings, Progress};
use crate::transport::Transport;
use sidestep_report::schema::{Ratio, Row};
use sidestep_sys::Problem;
use std::time::{Duration, Instant};

/// Time to open, settle, drain and close a slice, for the estimate.
const SLICE_OVERHEAD_MS: u64 = 150;
/// A slice of the floor: bare round trips, of which there are many in little time.
const FLOOR_SLICE_MAX: Duration = Duration::from_millis(50);

/// One arm: a combination, or the floor.
struct Arm {
    record: Record,
    found: Found,
    kind: Kind,
}

enum Kind {
    Tick(Target),
    Floor { path: &'static Path, size: u32 },
}

/// Measures a request.
pub(crate) fn measure(bench: &mut Bench, request: &Request, progress: &mut dyn Progress) -> Findings {
    let plan = request.plan();
    // The same messages for all arms of as many lines.
    let plays: Vec<Option<Play>> =
        (1..=2).map(|lines| request.lines.contains(&lines).then(|| Play::new(&plan, lines))).collect();
    let size = plays.iter().flatten().next().map_or(0, Play::datagram_bytes);
    let mut arms = arms(bench, request, size);
    let (rounds, slice) = request.pace();
    let runnable = arms.iter().filter(|arm| arm.record.refusal.is_none()).count() as u64;
    let one_ms = slice.as_millis() as u64 + SLICE_OVERHEAD_MS;
    progress.begin("tick", bench.budget.expected_ms(2 * (u64::from(rounds) + 1) * runnable * one_ms));
    let problem = Turns { bench, plays: &plays, progress }.all(&mut arms, rounds, slice).err();
    progress.end();
    if problem.is_none() {
        arms.iter_mut().for_each(|arm| arm.record.refuse_if_empty());
    }
    let rows: Vec<Row> = arms.iter().filter_map(|arm| arm.found.row(&arm.record, arm.target(), request)).collect();
    Findings {
        infos: describe::paths(request, rows.iter().map(|row| row.path.as_str())),
        rows,
        ratios: ratios(&arms),
        unavailable: arms.iter().filter_map(|arm| arm.record.unavailable()).collect(),
        problem,
        ..Findings::default()
    }
}

impl Arm {
    fn target(&self) -> Option<&Target> {
        match &self.kind {
            Kind::Tick(target) => Some(target),
            Kind::Floor { .. } => None,
        }
    }
}

fn arms(bench: &Bench, request: &Request, size: u32) -> Vec<Arm> {
    let tick = |target: Target| {
        let key = Key {
            scenario: "tick",
            transport: Transport::Multicast.name(),
            path: target.name(),
            size,
            measure: TICK_TO_TRADE,
            ..Key::default()
        };
        let mut record = Record::new(key);
        if let Some(reason) = target.refusal(bench) {
            record.refuse(reason);
        }
        Arm { record, found: Found::default(), kind: Kind::Tick(target) }
    };
    let floor = |path: &'static Path| {
        let transport = Transport::Udp.name();
        let key = Key { scenario: "tick", transport, path: path.name.into(), size, measure: "rtt", ..Key::default() };
        let mut record = Record::new(key);
        if let Some(reason) = crate::fit::refusal(bench.ends(), path, Transport::Udp, size) {
            record.refuse(reason);
        }
        Arm { record, found: Found::default(), kind: Kind::Floor { path, size } }
    };
    request.targets().into_iter().map(tick).chain(request.floor().map(floor)).collect()
}

/// The turns of a run.
struct Turns<'a> {
    bench: &'a mut Bench,
    plays: &'a [Option<Play>],
    progress: &'a mut dyn Progress,
}

impl Turns<'_> {
    fn all(&mut self, arms: &mut [Arm], rounds: u32, slice: Duration) -> Result<(), Problem> {
        self.bench.take_yardstick();
        for arm in arms.iter_mut().filter(|arm| arm.record.refusal.is_none()) {
            let begin = Instant::now();
            // One slice that does not count: code, caches and the neighbours' tables are warm afterwards.
            self.slice(arm, slice, None)?;
            arm.record.warmup.ms = begin.elapsed().as_secs_f64() * 1e3;
            arm.record.warmup.steady = true;
        }
        let mut round = Duration::ZERO;
        for _ in 0..rounds {
            if !self.bench.budget.has_room_for(round) {
                break;
            }
            let begin = Instant::now();
            self.bench.take_yardstick();
            for arm in arms.iter_mut() {
                self.slice(arm, slice, Some(Direction::Forward))?;
            }
            for arm in arms.iter_mut().rev() {
                self.slice(arm, slice, Some(Direction::Backward))?;
            }
            round = begin.elapsed();
        }
        Ok(())
    }

    fn slice(&mut self, arm: &mut Arm, slice: Duration, direction: Option<Direction>) -> Result<(), Problem> {
        if arm.record.refusal.is_some() {
            return Ok(());
        }
        if self.bench.is_stopped() {
            return Err(interrupted());
        }
        let begin = Instant::now();
        let measured = match arm.kind {
            Kind::Tick(target) => self.tick(arm, &target, slice, direction),
            Kind::Floor { path, size } => self.floor(arm, path, size, slice.min(FLOOR_SLICE_MAX), direction),
        };
        match measured {
            Ok(Some(fault)) => return Err(fault),
            Ok(None) => {}
            Err(problem) if self.bench.is_stopped() || self.bench.ends().control.is_closed() => {
                return Err(if self.bench.is_stopped() { interrupted() } else { problem });
            }
            // One that fails says nothing about the others.
            Err(problem) => arm.record.refuse(problem.brief()),
        }
        self.progress.advance(&arm.record.key.path, begin.elapsed().as_millis() as u64);
        Ok(())
    }

    /// Returns the fault of the trader, if there is one.
    fn tick(
        &mut self,
        arm: &mut Arm,
        target: &Target,
        slice: Duration,
        direction: Option<Direction>,
    ) -> Result<Option<Problem>, Problem> {
        let Some(play) = self.plays.get(usize::from(target.lines) - 1).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let found: TickSlice = self.bench.tick(target, play, slice)?;
        if let Some(fault) = found.judgement.fault.as_ref() {
            let (what, count) = (format!("the trader of {} ordered wrongly", target.name()), found.judgement.faults());
            return Ok(Some(Problem::failed(what, format!("{fault} ({count} such in one slice)")).next(
                "report it as a bug of sidestep, with the command: no time of a trader that orders wrongly means anything",
            )));
        }
        let Some(direction) = direction else {
            arm.record.warmup.messages += found.sent;
            return Ok(None);
        };
        arm.record.cpu.add(found.cpu);
        arm.record.take(direction, found.from_due.clone(), found.lost, &found.noise);
        arm.found.take(found);
        Ok(None)
    }

    fn floor(
        &mut self,
        arm: &mut Arm,
        path: &'static Path,
        size: u32,
        slice: Duration,
        direction: Option<Direction>,
    ) -> Result<Option<Problem>, Problem> {
        let target = Echo { work: EchoWork::RoundTrips, transport: Transport::Udp, path, size };
        let trips = self.bench.round_trips(target, slice)?;
        let Some(direction) = direction else {
            arm.record.warmup.messages += trips.slice.len();
            return Ok(None);
        };
        arm.record.cpu.add(trips.cpu);
        arm.record.take(direction, trips.slice, trips.lost, &trips.noise);
        arm.found.floor_note(trips.note);
        Ok(None)
    }
}

/// The controls, and the ratios between arms that differ in one thing.
fn ratios(arms: &[Arm]) -> Vec<Ratio> {
    let targets: Vec<(usize, Target)> =
        arms.iter().enumerate().filter_map(|(at, arm)| Some((at, *arm.target()?))).collect();
    let alone: Vec<Target> = targets.iter().map(|(_, target)| *target).collect();
    let mut ratios = Vec::new();
    for arm in arms {
        ratios.extend(arm.record.controls());
        let baselines = arm.target().map(|target| target.baselines(&alone)).unwrap_or_default();
        for at in baselines {
            ratios.extend(arm.record.against(&arms[targets[at].0].record));
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Slice;
    use crate::tick::{OrderForm, Place, Profile, Work};
    use sidestep_report::schema::Noise;
    use std::net::Ipv4Addr;

    /// Arms of two paths, works, numbers of lines, speeds and gaps each, measured in ten rounds.
    fn measured() -> Vec<Arm> {
        let request = Request {
            paths: ["kernel-spin", "xdp", "ring"].iter().map(|name| Path::named(name).unwrap()).collect(),
            works: vec![Work::Reflex, Work::Book],
            forms: vec![OrderForm::Fix],
            lines: vec![1, 2],
            speeds: vec![1, 8],
            gaps_on_a: vec![0.0, 1.0],
            profile: Profile::Steady,
            rate: 10_000,
            trigger_every: 100,
            place: Place::Any,
            messages_per_packet: 4,
            symbols: 10,
            seed: 1,
            group: Ipv4Addr::new(239, 192, 74, 20),
            duration: Duration::from_secs(8),
        };
        let arm = |target: Target| {
            let key = Key { scenario: "tick", path: target.name(), measure: TICK_TO_TRADE, ..Key::default() };
            let mut record = Record::new(key);
            for direction in [Direction::Forward, Direction::Backward].repeat(10) {
                record.take(direction, Slice::of(1_000..21_000), 0, &Noise::default());
            }
            Arm { record, found: Found::default(), kind: Kind::Tick(target) }
        };
        request.targets().into_iter().map(arm).collect()
    }

    /// The goals of SPEC.md are of these pairs, and of these percentiles.
    #[test]
    fn every_pair_with_a_goal_has_its_ratio_and_every_arm_its_control() {
        let arms = measured();
        let ratios = ratios(&arms);
        let has = |of: &str, against: &str, stat: &str| {
            let found = ratios.iter().find(|ratio| (&*ratio.of, &*ratio.against, &*ratio.stat) == (of, against, stat));
            assert!(found.is_some(), "{stat} of {of} against {against}");
        };
        has("xdp book fix", "kernel-spin book fix", "p50");
        has("ring book fix", "kernel-spin book fix", "p50");
        has("xdp book fix", "xdp reflex fix", "p50");
        has("xdp book fix A+B", "xdp book fix", "p50");
        has("xdp book fix x8", "xdp book fix", "p99");
        has("xdp book fix A+B gap 1 %", "xdp book fix A+B", "p99.9");
        for arm in &arms {
            let name = arm.record.key.name();
            ["p50", "p99", "p99.9"].into_iter().for_each(|stat| has(name, name, stat));
        }
    }
}
