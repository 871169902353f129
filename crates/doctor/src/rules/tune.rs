//! What `tune` needs.

use crate::check::{Check, Group, State};
use crate::facts::{Access, Capability, Facts, Version};
use crate::trials::Trials;

const THIS: Group = Group::Tune;
/// Partitions of cgroup v2 that are isolated.
const ISOLATED: Version = Version(6, 1);

pub(super) fn checks(facts: &Facts, trials: &Trials) -> Vec<Check> {
    vec![settings(facts, trials), apply(facts, trials), isolate(facts), realtime(facts), awake(facts, trials)]
}

fn settings(facts: &Facts, trials: &Trials) -> Check {
    let check = |state, reason: String| Check::new(THIS, "check", state, reason).essential();
    let found = match &trials.settings {
        Ok(found) if found.read > 0 => *found,
        Ok(_) => {
            return check(State::Missing, "no setting can be read: /proc and /sys are missing".into())
                .next("mount -t sysfs sysfs /sys");
        }
        Err(problem) => return check(State::Missing, problem.brief()).next(problem.next_step()),
    };
    let reason = format!("{} checks read, {} of them with another value than wanted", found.read, found.unwanted);
    match found.needs_root {
        0 if facts.machine.sys == Access::Missing => {
            check(State::Partly, format!("{reason}; /sys is missing")).next(facts.as_root("mount -t sysfs sysfs /sys"))
        }
        0 => check(State::Ok, reason),
        count if facts.user.uid == 0 => check(State::Partly, format!("{reason}; {count} more may not be read here")),
        count => check(State::Partly, format!("{reason}; {count} more are for root"))
            .next(facts.as_root("sidestep tune check")),
    }
}

fn apply(facts: &Facts, trials: &Trials) -> Check {
    let check = |state, reason: String| Check::new(THIS, "apply", state, reason);
    let read_only: Vec<&str> = [("/sys", facts.machine.sys), ("/proc/sys", facts.machine.settings)]
        .into_iter()
        .filter(|(_, access)| *access != Access::Writable)
        .map(|(name, _)| name)
        .collect();
    if facts.user.uid != 0 {
        return check(State::Missing, "settings are changed by root".into()).next(facts.as_root("sidestep tune plan"));
    }
    if !read_only.is_empty() {
        let reason = format!("{} cannot be written: settings are changed on the host itself", read_only.join(" and "));
        return check(State::Missing, reason).next("on the host: sidestep tune apply");
    }
    match &trials.snapshots {
        Ok(found) => check(State::Ok, format!("settings can be changed and reverted; {found}")),
        Err(problem) => check(State::Missing, problem.brief()).next(problem.next_step()),
    }
}

fn isolate(facts: &Facts) -> Check {
    let check = |state, reason: String| Check::new(THIS, "isolate", state, reason);
    let machine = &facts.machine;
    if !machine.is_at_least(ISOLATED) {
        let reason = format!("tune run --isolate needs Linux {ISOLATED}; isolcpus= at boot works on this one");
        return check(State::Missing, reason).next("sidestep tune explain iso-domain");
    }
    if !machine.has_cpusets {
        let reason = "tune run --isolate needs cgroup v2 with CPUs (cpuset) at /sys/fs/cgroup; where systemd mounts the older one, \
                      systemd.unified_cgroup_hierarchy=1 at boot changes that";
        return check(State::Missing, reason.into()).next("grep cgroup /proc/mounts");
    }
    if machine.cpus.len() < 2 {
        return check(State::Missing, "no CPU would be left for the rest of the host".into());
    }
    if facts.user.uid != 0 {
        return check(State::Missing, "CPUs are reserved by root".into())
            .next(facts.as_root("sidestep tune run --cpu 1 --isolate -- PROGRAM"));
    }
    check(State::Ok, "CPUs can be reserved for a program (tune run --isolate)".into())
}

fn realtime(facts: &Facts) -> Check {
    let check = |state, reason: &str| Check::new(THIS, "real-time", state, reason);
    if facts.user.has(Capability::SysNice) || facts.user.realtime_priority_max > 0 {
        return check(State::Ok, "programs can run at real-time priority (tune run --fifo)");
    }
    check(State::Missing, "tune run --fifo needs CAP_SYS_NICE or RLIMIT_RTPRIO")
        .next(facts.more_rights("sidestep tune run --fifo 10 -- PROGRAM", "SYS_NICE"))
}

fn awake(facts: &Facts, trials: &Trials) -> Check {
    match &trials.latency_device {
        Ok(found) => Check::new(THIS, "cpus-awake", State::Ok, found),
        Err(problem) => {
            let reason = format!("no tune run --latency-qos: {}", problem.brief());
            let next = match facts.user.uid {
                0 => String::new(),
                _ => facts.as_root("sidestep tune run --latency-qos 0 -- PROGRAM"),
            };
            Check::new(THIS, "cpus-awake", State::Missing, reason).next(next)
        }
    }
}
