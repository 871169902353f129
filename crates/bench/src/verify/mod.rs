//! The ladder of changes. Each is kept or dropped by its measured effect on this host: with and without it in one interleaved run, on
//! top of the steps kept before it. Common advice may cost latency; only a measurement shows it. Settings whose effect is rare are judged by
//! the pauses of the CPU over minutes, never by round trips ([`Shows`]).

mod decision;
mod pauses;
mod rates;
mod setting;
mod settle;
mod step;

pub use setting::{Consent, settings};
pub use step::{Means, Shows, Step, ladder};

use crate::fit::fit;
use crate::measure::{Bench, hiccups};
use crate::message;
use crate::path::Path;
use crate::run::{self, Outcome, Setting};
use crate::scenario::{Arm, Findings, Interleave, Means as Here, Pace, Progress, Rung, Switch};
use crate::transport::Transport;
use decision::Decision;
use sidestep_report::schema::{Hiccups, Ratio, Step as Told};
use sidestep_socket::stream::Waiting;
use sidestep_sys::Problem;
use sidestep_sys::problem::Kind;
use std::time::Duration;

/// Time of one hiccup measurement on the measuring CPU, without a step and with it in turn.
const LISTEN: Duration = Duration::from_millis(100);
/// Order of the hiccup measurements: A B B A, twice.
const TURNS: [bool; 8] = [false, true, true, false, false, true, true, false];

/// The load that every step is measured with.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// TCP or UDP.
    pub transport: Transport,
    /// Message size, bytes.
    pub size: u32,
    /// Time for each arm of each step.
    pub duration: Duration,
    /// Time for each arm of a step that shows as pauses.
    pub pause_time: Duration,
    /// Set if the interface's interrupts may be moved (and are moved back).
    pub pin_irq: bool,
}

/// Measures `steps` in order. All changes of the steps are reverted at the end.
pub fn verify(
    setting: &Setting,
    load: &Load,
    steps: Vec<Step>,
    progress: &mut dyn Progress,
) -> Result<Outcome, Problem> {
    message::check_size(load.size, load.transport.size_max())?;
    run::check_duration(load.duration)?;
    check_pause_time(load.pause_time)?;
    run::between_two_ends(setting, progress, |bench, progress| {
        let mut climb = Climb::new(bench, *load);
        let (mut findings, count) = (Findings::default(), steps.len());
        for (number, step) in steps.into_iter().enumerate() {
            let found = climb.step(&format!("{}/{count}", number + 1), step, progress);
            findings.append(found);
            if findings.problem.is_some() {
                break;
            }
        }
        findings
    })
}

/// The flag that lets interrupts be moved.
const PIN_IRQ: &str = "--pin-irq";

/// Why SO_BUSY_POLL has no effect between two ends on one host.
const NOTHING_TO_POLL: &str = "veth and loopback have no NAPI instance to poll: measure against another machine (--to), through a device whose driver has one";

/// The longest watch of one arm: a day.
const PAUSE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

fn check_pause_time(time: Duration) -> Result<(), Problem> {
    if time.is_zero() || time > PAUSE_TIME_MAX {
        return Err(Problem::usage("cannot watch pauses for that long", "the time is above 0 and at most 24 hours")
            .next("give another --pause-time"));
    }
    Ok(())
}

/// The steps kept so far, and the means to measure them.
struct Climb<'a> {
    bench: &'a mut Bench,
    load: Load,
    path: &'static Path,
    kept: Rung,
    switches: Vec<Switch>,
    /// Set once a step is kept whose switch wakes a daemon of the kernel: every turn may make it again.
    wakes_daemon: bool,
}

impl<'a> Climb<'a> {
    fn new(bench: &'a mut Bench, load: Load) -> Self {
        // The first path is that of an untuned program.
        let kept = Rung { cpu: Some(bench.cpus.client), ..Rung::default() };
        Self { bench, load, path: &crate::path::PATHS[0], kept, switches: Vec::new(), wakes_daemon: false }
    }

    fn step(&mut self, number: &str, step: Step, progress: &mut dyn Progress) -> Findings {
        let Step { name, what, means, shows } = step;
        let told = Told { name: name.clone(), what, ..Told::default() };
        let here = run::means(self.bench, self.load.pin_irq);
        let (path, rung) = match self.with(means, &here) {
            Ok(with) => with,
            Err(decision) => {
                let steps = vec![Told { decision: decision.word().into(), reason: decision.reason, ..told }];
                return Findings { steps, ..Findings::default() };
            }
        };
        if shows == Shows::Pauses {
            return self.by_pauses(number, told, rung, progress);
        }
        let names = ["without", "with"].map(|side| format!("{number} {side}: {name}"));
        let arms = vec![self.arm(self.path, &self.kept, &names[0]), self.arm(path, &rung, &names[1])];
        let mut findings = Interleave::new(self.bench, progress, here.irqs.ok())
            .switching(&mut self.switches)
            .against_first()
            .run(arms, Pace::of(self.load.duration));
        let decision = Decision::of(&findings, &names);
        let (is_kept, is_possible) = (decision.is_kept(), decision.outcome != decision::Outcome::Impossible);
        let mut told = Told { decision: decision.word().into(), reason: decision.reason, ..told };
        let is_of_both = |ratio: &&Ratio| ratio.of == names[1] && ratio.against == names[0];
        told.ratios = findings.ratios.iter().filter(is_of_both).cloned().collect();
        if is_possible && findings.problem.is_none() {
            match self.listen(&rung) {
                Ok(heard) => told.hiccups = heard,
                Err(problem) => findings.problem = Some(problem),
            }
        }
        if is_kept {
            (self.path, self.kept) = (path, rung);
        }
        findings.steps.push(told);
        findings
    }

    /// Judges a step by pauses alone.
    fn by_pauses(&mut self, number: &str, told: Told, rung: Rung, progress: &mut dyn Progress) -> Findings {
        let rungs = [&self.kept, &rung];
        let wakes_daemon = self.wakes_daemon || settle::wakes(&told.name);
        let mut arms = pauses::Arms { bench: self.bench, switches: &mut self.switches, rungs, wakes_daemon };
        let name = format!("{number}: {}", told.name);
        let decision = match arms.watch(&name, self.load.pause_time, progress) {
            Ok(arms) => {
                let decision = pauses::decide(&arms);
                let hiccups = arms.map(|arm| arm.heard).into();
                (decision, hiccups, None)
            }
            // A switch that fails is a step that is impossible; what ends the run ends it.
            Err(problem) if problem.kind() == Kind::Failed => (Decision::impossible(problem.brief()), Vec::new(), None),
            Err(problem) => (Decision::impossible(problem.brief()), Vec::new(), Some(problem)),
        };
        let (decision, hiccups, problem) = decision;
        if decision.is_kept() {
            (self.kept, self.wakes_daemon) = (rung, wakes_daemon);
        }
        let step = Told { decision: decision.word().into(), reason: decision.reason, hiccups, ..told };
        Findings { steps: vec![step], problem, ..Findings::default() }
    }

    /// Returns path and rung with this step added; Err has the reason why that is impossible here, or the flag that is missing.
    fn with(&mut self, means: Means, here: &Here) -> Result<(&'static Path, Rung), Decision> {
        let (mut path, mut rung) = (self.path, self.kept.clone());
        match means {
            Means::Path(other) => {
                if let (Waiting::BusyPoll { .. }, true) = (other.waiting, self.bench.ends().same_host) {
                    return Err(Decision::impossible(NOTHING_TO_POLL));
                }
                path = other;
            }
            Means::Interrupts => {
                // Without the right to move them it is known only whether there are any.
                if let Err(why) = &here.irqs {
                    let is_flag = !self.load.pin_irq && why.contains(PIN_IRQ);
                    return Err(if is_flag { Decision::not_tried(PIN_IRQ) } else { Decision::impossible(why) });
                }
                rung.irq = true;
            }
            Means::IsolatedCpu => {
                let none = "no CPU is isolated from the scheduler (/sys/devices/system/cpu/isolated is empty)";
                rung.cpu = Some(here.isolated_cpu.ok_or_else(|| Decision::impossible(none))?);
            }
            Means::Change(change) => {
                rung.switches.push(self.switches.len());
                self.switches.push(Switch::new(change));
            }
            Means::Impossible(reason) => return Err(Decision::impossible(reason)),
            Means::Needs(flag) => return Err(Decision::not_tried(flag)),
        }
        Ok((path, rung))
    }

    /// Returns the hiccups of the measuring CPU without the step and with it, if the step can affect them.
    fn listen(&mut self, with: &Rung) -> Result<Vec<Hiccups>, Problem> {
        if (with.cpu, &with.switches) == (self.kept.cpu, &self.kept.switches) {
            return Ok(Vec::new());
        }
        let mut heard = [Hiccups::default(), Hiccups::default()];
        for turn in TURNS {
            let rung = if turn { with } else { &self.kept };
            for (place, switch) in self.switches.iter_mut().enumerate() {
                switch.turn(rung.switches.contains(&place))?;
            }
            let cpu = rung.cpu.unwrap_or(self.bench.cpus.client);
            for more in hiccups(&self.bench.clock, &[cpu], LISTEN)? {
                add(&mut heard[usize::from(turn)], &more);
            }
        }
        Ok(heard.into())
    }

    fn arm(&self, path: &'static Path, rung: &Rung, name: &str) -> Arm {
        let rung = Rung { name: name.to_owned(), ..rung.clone() };
        fit(Arm::new("rr", path, self.load.transport, self.load.size, "rtt").on_rung(rung), self.bench)
    }
}

/// Adds up several hiccup measurements.
fn add(total: &mut Hiccups, more: &Hiccups) {
    let lost = total.lost_share * total.watched_ms + more.lost_share * more.watched_ms;
    total.watched_ms += more.watched_ms;
    total.lost_share = if total.watched_ms > 0.0 { lost / total.watched_ms } else { 0.0 };
    (total.cpu, total.threshold_ns) = (more.cpu, more.threshold_ns);
    total.count += more.count;
    total.max_ns = total.max_ns.max(more.max_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::PeerProgram;
    use crate::run::Where;
    use crate::scenario::{Change, Silent};
    use crate::service_time::ServiceTime;
    use sidestep_sys::clock::Choice;
    use sidestep_sys::cpu;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counted(Arc<AtomicUsize>);

    impl Change for Counted {
        fn turn(&mut self, on: bool) -> Result<(), Problem> {
            if on {
                self.0.fetch_add(1, Ordering::Relaxed)
            } else {
                self.0.fetch_sub(1, Ordering::Relaxed)
            };
            Ok(())
        }
    }

    struct Refused;

    impl Change for Refused {
        fn turn(&mut self, on: bool) -> Result<(), Problem> {
            if on { Err(Problem::failed("cannot write /sys/x", "read-only")) } else { Ok(()) }
        }
    }

    fn setting() -> Setting {
        Setting {
            place: Where::Loopback,
            consent: crate::Consent::Nothing,
            ipv6: false,
            queues: 1,
            mtu: sidestep_lab::MTU_USUAL,
            frames_pair: false,
            impairment: None,
            program: PeerProgram::Thread,
            clock: Choice::Auto,
            client_cpu: None,
            server_cpu: None,
            service_time: ServiceTime::default(),
            within: None,
            stop: Arc::default(),
            command: "sidestep tune verify".into(),
        }
    }

    #[test]
    fn every_step_is_judged_and_everything_is_put_back() {
        let made = Arc::new(AtomicUsize::new(0));
        let change = |name: &str, means| {
            let shows = if name == "watched" { Shows::Pauses } else { Shows::RoundTrips };
            Step { name: name.into(), what: "a test".into(), means, shows }
        };
        let steps = vec![
            change("pinned", Means::Path(Path::named("kernel-pinned").expect("it exists"))),
            change("counted", Means::Change(Box::new(Counted(made.clone())))),
            change("refused", Means::Change(Box::new(Refused))),
            change("none", Means::Impossible("this host has none".into())),
            change("interrupts", Means::Interrupts),
            change("withheld", Means::Needs("--change-host")),
            change("busy", Means::Path(Path::named("kernel-busypoll").expect("it exists"))),
            change("watched", Means::Change(Box::new(Counted(made.clone())))),
        ];
        let (duration, pause_time) = (Duration::from_millis(60), Duration::from_millis(80));
        let load = Load { transport: Transport::Tcp, size: 64, duration, pause_time, pin_irq: true };
        let before = cpu::allowed();
        let outcome = verify(&setting(), &load, steps, &mut Silent).expect("loopback is there");
        assert!(outcome.problem.is_none(), "{:?}", outcome.problem);
        let steps = &outcome.document.steps;
        let decisions: Vec<&str> = steps.iter().map(|step| step.decision.as_str()).collect();
        assert!(decisions[..2].iter().all(|word| ["kept", "dropped"].contains(word)), "{decisions:?}");
        assert_eq!(decisions[2..7], ["impossible", "impossible", "impossible", "not tried", "impossible"]);
        assert!(steps[5].reason == "needs --change-host" && steps[6].reason.contains("NAPI"), "{steps:?}");
        assert!(["kept", "dropped", "unseen"].contains(&decisions[7]), "{decisions:?}");
        assert!(
            steps[7].ratios.is_empty() && steps[7].hiccups.len() == 2,
            "round trips do not judge it: {:?}",
            steps[7]
        );
        assert!(steps[7].hiccups.iter().all(|heard| heard.watched_ms >= 80.0) && steps[7].reason.contains("pauses"));
        assert!(steps[2].reason.contains("/sys/x") && steps[4].reason.contains("lo"), "{steps:?}");
        // On a busy machine so short a slice may have too few round trips.
        assert!(!steps[0].ratios.is_empty() || steps[0].reason.contains("not enough data"), "{steps:?}");
        assert!(steps[0].hiccups.is_empty());
        assert_eq!(steps[1].hiccups.len(), 2, "{steps:?}");
        assert!(steps[1].hiccups.iter().all(|heard| heard.watched_ms >= 400.0));
        assert_eq!(made.load(Ordering::Relaxed), 0);
        assert_eq!(cpu::allowed(), before);
    }

    #[test]
    fn what_was_heard_adds_up() {
        let one = Hiccups { watched_ms: 100.0, count: 2, max_ns: 5.0, lost_share: 0.1, ..Hiccups::default() };
        let two = Hiccups { watched_ms: 300.0, count: 1, max_ns: 9.0, lost_share: 0.3, ..Hiccups::default() };
        let mut total = Hiccups::default();
        add(&mut total, &one);
        add(&mut total, &two);
        assert_eq!((total.count, total.max_ns, total.watched_ms), (3, 9.0, 400.0));
        assert!((total.lost_share - 0.25).abs() < 1e-12);
    }
}
