//! What `demo`, `bench`, `compare` and `lab` need.

use super::tried;
use crate::check::{Check, Group, State};
use crate::facts::{Facts, Version};
use crate::trials::Trials;

const THIS: Group = Group::Measure;
/// The path `uring` needs deferred task work.
const URING: Version = Version(6, 1);

pub(super) fn checks(facts: &Facts, trials: &Trials) -> Vec<Check> {
    let by_problem = |problem: &sidestep_sys::Problem| problem.next_step().to_owned();
    let mut all = vec![
        tried(THIS, "loopback", &trials.loopback, State::Missing, by_problem).essential(),
        cpus(facts),
        isolation(facts),
        clock(trials),
        lab(facts, trials),
        tried(THIS, "shared-memory", &trials.shared_memory, State::Partly, by_problem),
        io_uring(facts, trials),
        causes(facts, trials),
    ];
    all.extend(timestamps(facts));
    all
}

fn cpus(facts: &Facts) -> Check {
    let cpus = &facts.machine.cpus;
    if cpus.len() >= 2 {
        return Check::new(THIS, "cpus", State::Ok, format!("{} CPUs may be used", cpus.len()));
    }
    let reason = "both ends share 1 CPU: paths that spin wait for each other, and every figure has the scheduler in it";
    Check::new(THIS, "cpus", State::Partly, reason)
        .next("sidestep bench serve on another host; then here: sidestep bench rr --to HOST")
}

fn isolation(facts: &Facts) -> Check {
    let isolated = &facts.machine.isolated;
    if !isolated.is_empty() {
        return Check::new(
            THIS,
            "cpu-isolation",
            State::Ok,
            format!("CPUs {isolated} are left alone by the scheduler"),
        );
    }
    let reason = "no CPU is left alone by the scheduler: other tasks are in the tails";
    let next = match facts.machine.cpus.as_slice() {
        [_, _, .., last] => facts.as_root(&format!("sidestep tune run --cpu {last} --isolate -- sidestep bench rr")),
        _ => "sidestep tune explain iso-domain".to_owned(),
    };
    Check::new(THIS, "cpu-isolation", State::Partly, reason).next(next)
}

fn clock(trials: &Trials) -> Check {
    match &trials.clock {
        Ok(found) => Check::new(THIS, "clock", State::Ok, found),
        Err(problem) => {
            let reason = format!("{}: CLOCK_MONOTONIC_RAW is, which costs a call for each reading", problem.brief());
            Check::new(THIS, "clock", State::Partly, reason).next("sidestep tune explain cpu-clocksource")
        }
    }
}

fn lab(facts: &Facts, trials: &Trials) -> Check {
    let next = |problem: &sidestep_sys::Problem| {
        let is_right = problem.brief().contains("namespace") || problem.brief().contains("capabilit");
        match is_right {
            true if facts.user.uid != 0 => facts.as_root("sidestep demo"),
            true => facts.more_rights("sidestep demo", "SYS_ADMIN NET_ADMIN"),
            false => problem.next_step().to_owned(),
        }
    };
    let check = tried(THIS, "lab", &trials.lab, State::Partly, next);
    match check.state {
        State::Ok => check,
        _ => Check { reason: format!("loopback alone is measured, no lab: {}", check.reason), ..check },
    }
}

fn io_uring(facts: &Facts, trials: &Trials) -> Check {
    let next = |_: &sidestep_sys::Problem| match facts.machine.io_uring_disabled {
        Some(1 | 2) => facts.as_root("sysctl kernel.io_uring_disabled=0"),
        _ if facts.user.seccomp == Some(2) => "docker run --security-opt seccomp=unconfined ...".to_owned(),
        _ => "sidestep bench rr --paths kernel-spin,xdp".to_owned(),
    };
    let check = tried(THIS, "io-uring", &trials.io_uring, State::Partly, next);
    let why = match (check.state, facts.machine.io_uring_disabled) {
        (State::Ok, _) => return check,
        (_, Some(mode @ (1 | 2))) => format!(" (kernel.io_uring_disabled is {mode})"),
        _ if !facts.machine.is_at_least(URING) => format!(" (it needs Linux {URING})"),
        _ => String::new(),
    };
    Check { reason: format!("paths uring and uring-spin are not measured: {}{why}", check.reason), ..check }
}

fn causes(facts: &Facts, trials: &Trials) -> Check {
    let command = "sidestep bench rr --paths kernel-spin --causes";
    let next = |problem: &sidestep_sys::Problem| match facts.user.uid {
        0 => problem.next_step().to_owned(),
        _ => facts.as_root(command),
    };
    let check = tried(THIS, "causes", &trials.tracepoints, State::Partly, next);
    let paranoid = facts.machine.perf_event_paranoid;
    match (check.state, paranoid) {
        (State::Ok, _) => check,
        (_, Some(level)) => {
            Check { reason: format!("no --causes: {} (kernel.perf_event_paranoid is {level})", check.reason), ..check }
        }
        _ => Check { reason: format!("no --causes: {}", check.reason), ..check },
    }
}

/// What `bench rr --timestamps` finds on the wire: of interfaces that tell.
fn timestamps(facts: &Facts) -> Option<Check> {
    let telling: Vec<_> = facts.interfaces.iter().filter_map(|one| Some((&one.name, one.timestamps?))).collect();
    let with = |is_hardware: bool| -> Vec<&str> {
        let is_it = |(_, can): &&(&String, sidestep_sys::timestamping::Capabilities)| can.has_hardware() == is_hardware;
        telling.iter().filter(is_it).map(|(name, _)| name.as_str()).collect()
    };
    let (hardware, software) = (with(true), with(false));
    if telling.is_empty() {
        return None;
    }
    if hardware.is_empty() {
        let reason = format!("stages of the kernel alone: {} stamp no packet on the wire", software.join(", "));
        return Some(Check::new(THIS, "timestamps", State::Ok, reason));
    }
    let reason = format!("{} stamp packets on the wire (bench rr --timestamps, as root)", hardware.join(", "));
    Some(Check::new(THIS, "timestamps", State::Ok, reason))
}
