//! A run: acceptors, workloads, durations; a document at the end.

use super::contest::{Contest, Part};
use super::own::{Exchanges, Own, Starter};
use super::pause::Pause;
use super::remote::Remote;
use super::slice::Near;
use super::{Acceptor, Identity, Load, Workload};
use crate::bypass::Consent;
use crate::cpus_of_ends::{both, choose_cpus, cpus_beside, note_same_machine};
use crate::measure::{Cpus, Yardsticks};
use crate::run::{Outcome, check_duration};
use crate::scenario::{Findings, Pace, Progress};
use crate::surroundings::Surroundings;
use sidestep_report::schema::{PathInfo, Setup};
use sidestep_socket::stream::Waiting;
use sidestep_sys::clock::Choice;
use sidestep_sys::{Problem, cpu};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The most concurrent sessions: each is a connection, and logs on anew for every slice.
const SESSIONS_MAX: u32 = 500;
/// The shortest interval between orders: the client needs about a microsecond for one.
const INTERVAL_MIN: Duration = Duration::from_micros(2);
/// The longest: a slice of 50 ms then has five orders.
const INTERVAL_MAX: Duration = Duration::from_millis(10);
/// The longest warm-up of an acceptor.
const WARMUP_MAX: Duration = Duration::from_secs(600);

/// The circumstances of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The clock.
    pub clock: Choice,
    /// CPU of the client; chosen if none.
    pub client_cpu: Option<u32>,
    /// CPU of our own acceptor, and of the others.
    pub server_cpu: Option<u32>,
    /// This program, to be started as our own acceptor.
    pub program: PathBuf,
    /// The peer on another host (`sidestep bench serve --fix`) that starts our acceptors instead.
    pub to: Option<SocketAddr>,
    /// What this end may do past the kernel, against another host.
    pub consent: Consent,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
    /// The command that repeats the run.
    pub command: String,
}

/// The load.
#[derive(Clone, Debug)]
pub struct Request {
    /// Our own acceptors, to be started; they come first.
    pub own: Own,
    /// Acceptors that run already. The first one of all is the baseline.
    pub acceptors: Vec<Acceptor>,
    /// Names of further acceptors that are baselines.
    pub against: Vec<String>,
    /// The client's identity. The number of the session is appended to its SenderCompID: 001, 002 and so on.
    pub identity: Identity,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The pace of messages.
    pub loads: Vec<Load>,
    /// Numbers of sessions, which take turns.
    pub sessions: Vec<u32>,
    /// The waiting of the client ([`Waiting::Spin`], [`Waiting::Block`]).
    pub waiting: Waiting,
    /// Time for each acceptor under each load.
    pub duration: Duration,
    /// Messages for so long before anything of an acceptor is counted: virtual machines compile what is hot meanwhile.
    pub warmup: Duration,
}

impl Request {
    fn check(&self) -> Result<(), Problem> {
        let refuse = |what: String, why: String, next: &str| Err(Problem::usage(what, why).next(next));
        let mut names = HashSet::new();
        if let Some(twice) = self.acceptors.iter().find(|acceptor| !names.insert(&acceptor.name)) {
            let what = format!("two acceptors are called {}", twice.name);
            return refuse(what, "a name stands for one".into(), "give them different names by --acceptor");
        }
        if let Some(sessions) = self.sessions.iter().find(|count| !(1..=SESSIONS_MAX).contains(*count)) {
            let why = format!("1 to {SESSIONS_MAX} are possible");
            return refuse(format!("cannot open {sessions} sessions"), why, "choose --sessions");
        }
        for load in &self.loads {
            let Load::Paced(interval) = load else { continue };
            if !(INTERVAL_MIN..=INTERVAL_MAX).contains(interval) {
                let limits = format!("a pace is {INTERVAL_MIN:?} to {INTERVAL_MAX:?}");
                return refuse(format!("cannot send an order every {interval:?}"), limits, "choose --pace");
            }
            if self.waiting != Waiting::Spin {
                let why = "a client that sleeps is late for the next order";
                return refuse("cannot keep a pace".into(), why.into(), "choose --waiting spin, or --pace hot");
            }
        }
        if self.warmup > WARMUP_MAX {
            let limit = format!("the limit is {WARMUP_MAX:?}");
            return refuse(format!("cannot warm up for {:?}", self.warmup), limit, "choose a shorter --warmup");
        }
        check_duration(self.duration)
    }

    /// Refuses names that no acceptor has, ours among them.
    fn check_against(&self) -> Result<(), Problem> {
        let is_known = |name: &&String| self.acceptors.iter().any(|acceptor| acceptor.name == **name);
        match self.against.iter().find(|name| !is_known(name)) {
            Some(name) => {
                let names: Vec<&str> = self.acceptors.iter().map(|acceptor| acceptor.name.as_str()).collect();
                Err(Problem::usage(format!("cannot hold anything against {name}"), "no acceptor is called so")
                    .next(format!("choose --against from: {}", names.join(", "))))
            }
            None => Ok(()),
        }
    }

    /// Every workload under every load with every number of sessions.
    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for &workload in &self.workloads {
            for &sessions in &self.sessions {
                parts.extend(self.loads.iter().map(|&load| Part { workload, load, sessions }));
            }
        }
        parts
    }
}

/// Measures the acceptors in turn. Err: nothing was measured.
pub fn run(setting: &Setting, request: &Request, progress: &mut dyn Progress) -> Result<Outcome, Problem> {
    request.check()?;
    request.acceptors.iter().try_for_each(|acceptor| acceptor.reach.check())?;
    let remote = setting.to.map(|to| Remote::connect(to, &setting.consent)).transpose()?.map(Arc::new);
    let wished = (setting.client_cpu, setting.server_cpu);
    let cpus = match &remote {
        Some(remote) => cpus_beside(wished, remote.told.same_machine, remote.told.cpu)?,
        None => choose_cpus(wished.0, wished.1, true)?,
    };
    let before = cpu::allowed();
    let starter = match &remote {
        Some(remote) => Starter::There { remote: remote.clone(), cpu: setting.server_cpu },
        None => Starter::Here { program: &setting.program, cpu: cpus.server.unwrap_or(cpus.client) },
    };
    let mut exchanges = Exchanges::start(&request.own, &starter)?;
    let acceptors = std::mem::take(&mut exchanges.acceptors).into_iter().chain(request.acceptors.iter().cloned());
    let request = &Request { acceptors: acceptors.collect(), ..request.clone() };
    request.check().and_then(|()| request.check_against())?;
    // First of all, or an acceptor that spins would be taken for the noise of the host.
    let pause = Pause::all(&request.acceptors)?;
    let is_shared = remote.as_ref().is_none_or(|remote| remote.told.same_machine);
    let mut around = Surroundings::begin(setting.clock, both(cpus, is_shared))?;
    around.notes.extend(one_cpu(cpus, is_shared, request));
    cpu::restrict(&[cpus.client])?;
    let near = Near::new(around.clock.clone(), setting.stop.clone());
    let (stop, clock) = (setting.stop.clone(), around.clock.clone());
    let yardsticks = Yardsticks::default();
    let mut contest = Contest { request, pause, near, clock, cpus, stop, yardsticks, warmed: HashSet::new(), progress };
    let (parts, pace) = (request.parts(), Pace::of(request.duration));
    contest.progress.begin("fix", parts.iter().map(|part| contest.expected_ms(*part, pace)).sum());
    let meter = around.meter();
    let findings = measure_all(&mut contest, &parts, pace);
    contest.progress.end();
    around.host.noise.during = meter.stop();
    around.host.noise.yardstick = contest.yardsticks.medians();
    drop(contest);
    drop(exchanges);
    cpu::restrict(&before)?;
    around.notes.push(
        "the client is the same for every acceptor and encodes beforehand; a sample begins before the order is handed to \
         the transport and ends when the answer has come whole"
            .into(),
    );
    let mut setup = Setup {
        place: place(&request.acceptors).into(),
        client_cpu: Some(cpus.client),
        server_cpu: cpus.server,
        ..Setup::default()
    };
    let peer = remote.map(|remote| {
        around.notes.extend(remote.take_notes());
        around.notes.extend(note_same_machine(remote.told.same_machine));
        (setup.interface, setup.address) = (remote.interface(), remote.server.to_string());
        setup.server_cpu = cpus.server.or(remote.told.cpu);
        remote.told.host.clone()
    });
    let paths = paths(&findings, &request.acceptors);
    Ok(around.end(setting.command.clone(), setup, peer, findings, paths))
}

/// Returns the note on ends that spin on one CPU: a message then waits for the scheduler.
fn one_cpu(cpus: Cpus, is_shared: bool, request: &Request) -> Option<String> {
    let spins = request.waiting == Waiting::Spin && request.own.spin && !request.own.transports.is_empty();
    (is_shared && spins && cpus.server == Some(cpus.client)).then(|| {
        format!(
            "client and acceptor both spin on CPU {}: each waits until the scheduler takes the other off it, milliseconds; give \
             each a CPU of its own (--cpus), or --waiting block --own-waiting block",
            cpus.client
        )
    })
}

fn measure_all(contest: &mut Contest<'_>, parts: &[Part], pace: Pace) -> Findings {
    let mut all = Findings::default();
    for part in parts {
        all.append(contest.measure(*part, pace));
        if all.problem.is_some() {
            break;
        }
    }
    all
}

/// Over the network only if no acceptor is here; in labs, if all are.
fn place(acceptors: &[Acceptor]) -> &'static str {
    let in_lab = acceptors.iter().filter(|acceptor| acceptor.reach.is_in_lab()).count();
    if in_lab > 0 {
        return if in_lab == acceptors.len() { "lab" } else { "loopback and lab" };
    }
    let is_far = |acceptor: &Acceptor| {
        let address = acceptor.reach.socket_address();
        address.is_some_and(|address| sidestep_sys::interface::of_address(address.ip()).is_none())
    };
    if acceptors.iter().any(is_far) { "remote" } else { "loopback" }
}

fn paths(findings: &Findings, acceptors: &[Acceptor]) -> Vec<PathInfo> {
    let is_measured = |name: &str| findings.rows.iter().any(|row| row.path == name);
    let measured = acceptors.iter().filter(|acceptor| is_measured(&acceptor.name));
    let info = |acceptor: &Acceptor| PathInfo {
        name: acceptor.name.clone(),
        description: acceptor.description.clone(),
        waiting: None,
    };
    measured.map(info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fix::toy::{self, Fault};
    use crate::scenario::Silent;
    use sidestep_report::schema::Row;

    fn request() -> Request {
        let acceptor = |name: &str| Acceptor {
            name: name.into(),
            reach: "127.0.0.1:9001".parse().expect("an address"),
            pid: None,
            description: String::new(),
            beside: Vec::new(),
        };
        Request {
            own: Own::default(),
            acceptors: vec![acceptor("a"), acceptor("b")],
            against: Vec::new(),
            identity: Identity { begin_string: "FIX.4.4".into(), sender: "BENCH".into(), target: "EXCHANGE".into() },
            workloads: vec![Workload::Orders, Workload::TestRequests],
            loads: vec![Load::ClosedLoop, Load::Paced(Duration::from_micros(100))],
            sessions: vec![1, 10],
            waiting: Waiting::Spin,
            duration: Duration::from_millis(100),
            warmup: Duration::ZERO,
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_by_name() {
        let refused = |request: &Request| request.check().expect_err("out of range").to_string();
        assert!(request().check().is_ok());
        let mut twice = request();
        twice.acceptors[1].name = "a".into();
        assert!(refused(&twice).contains("called a"));
        let strange = Request { against: vec!["b".into(), "c".into()], ..request() };
        assert!(strange.check_against().expect_err("there is no c").to_string().contains("against c"));
        assert!(refused(&Request { sessions: vec![0], ..request() }).contains("0 sessions"));
        assert!(refused(&Request { sessions: vec![501], ..request() }).contains("501 sessions"));
        assert!(refused(&Request { loads: vec![Load::Paced(Duration::ZERO)], ..request() }).contains("every"));
        assert!(refused(&Request { waiting: Waiting::Block, ..request() }).contains("sleeps"));
        assert!(refused(&Request { warmup: Duration::from_secs(601), ..request() }).contains("warm up"));
        assert!(refused(&Request { duration: Duration::ZERO, ..request() }).contains("1 ms to 1 h"));
    }

    #[test]
    fn every_workload_is_measured_under_every_load() {
        assert_eq!(request().parts().len(), 8);
    }

    fn measured(request: &Request) -> Outcome {
        let setting = Setting {
            clock: Choice::Auto,
            client_cpu: None,
            server_cpu: None,
            program: PathBuf::new(),
            to: None,
            consent: Consent::Nothing,
            stop: Default::default(),
            command: String::new(),
        };
        run(&setting, request, &mut Silent).expect("it begins")
    }

    #[test]
    fn acceptors_are_measured_side_by_side() {
        let loads = vec![Load::ClosedLoop, Load::Paced(Duration::from_millis(5))];
        let acceptors = vec![toy::start("one", Fault::None), toy::start("two", Fault::None)];
        let workloads = vec![Workload::Orders];
        let outcome = measured(&Request { acceptors, workloads, loads, sessions: vec![2], ..request() });
        let document = outcome.document;
        assert!(outcome.problem.is_none());
        // A busy machine may not keep the pace, and says so; without a pace there is nothing to be kept.
        for missing in &document.unavailable {
            assert!(missing.reason.contains("does not keep up"), "{missing:?}");
        }
        let hot = document.results.iter().filter(|row| row.rate_offered.is_none());
        assert_eq!(hot.count(), 4, "two acceptors, two answers each");
        assert_eq!(document.results.len() + 2 * document.unavailable.len(), 8);
        for row in &document.results {
            assert!(row.distribution.n > 0 && row.sessions == Some(2) && row.size > 150, "{row:?}");
            let same = |other: &&Row| (&other.path, other.rate_offered) == (&row.path, row.rate_offered);
            let mean = |measure: &str| {
                document.results.iter().filter(same).find(|other| other.measure == measure)?.distribution.mean
            };
            assert!(mean("rtt_ack") <= mean("rtt_fill"), "{row:?}");
        }
        assert_eq!(document.paths.len(), 2);
        assert!(document.ratios.iter().all(|ratio| ratio.of == ratio.against || ratio.against == "one"));
    }

    #[test]
    fn test_requests_are_answered_by_heartbeats() {
        let acceptors = vec![toy::start("one", Fault::None)];
        let (workloads, loads) = (vec![Workload::TestRequests], vec![Load::ClosedLoop]);
        let outcome = measured(&Request { acceptors, workloads, loads, sessions: vec![1], ..request() });
        let row = &outcome.document.results[0];
        assert!(row.distribution.n > 0 && row.measure == "rtt_heartbeat", "{row:?}");
    }

    #[test]
    fn an_acceptor_that_does_it_wrong_is_named_with_the_reason_and_disturbs_no_other() {
        let wrong = [
            (Fault::NoFill, "no answer for 3 s"),
            (Fault::Order, "instead of Ack"),
            (Fault::Gap, "wrong answer"),
            (Fault::Reject, "did not take the order"),
        ];
        let mut acceptors = vec![toy::start("good", Fault::None)];
        acceptors.extend(wrong.iter().map(|(fault, _)| toy::start(&format!("{fault:?}"), *fault)));
        let (workloads, loads) = (vec![Workload::Orders], vec![Load::ClosedLoop]);
        let document = measured(&Request { acceptors, workloads, loads, sessions: vec![1], ..request() }).document;
        assert!(document.results.iter().all(|row| row.path == "good") && document.results.len() == 2);
        for (fault, reason) in wrong {
            let found = document.unavailable.iter().find(|row| row.path == format!("{fault:?}")).expect("it is named");
            assert!(found.reason.contains(reason), "{fault:?}: {}", found.reason);
        }
    }
}
