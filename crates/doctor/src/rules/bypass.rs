//! What `control`, `run` and programs past the kernel need.

use super::{bytes, interfaces};
use crate::check::{Check, Group, State};
use crate::facts::{Capability, Facts, Version};
use crate::trials::{Control, Trials};
use sidestep_sys::Problem;

const THIS: Group = Group::Bypass;
/// The oldest kernel.
const OLDEST: Version = Version(5, 14);
/// What newer kernels add.
const ADDED: [(Version, &str); 3] = [
    (Version(5, 18), "steering at an MTU above a page, connections handed over with what is in flight"),
    (Version(6, 6), "frames longer than a buffer (large MTUs)"),
    (Version(6, 7), "events by timers that stay on their CPU (bench ring --source)"),
];
/// The memory of a stack's frames, bytes: 4096 frames of 2 KiB for each queue, and rings.
const FRAMES_BYTES: u64 = 16 << 20;
/// Open files that a control plane keeps for itself.
const FILES_MIN: u64 = 4096;

pub(super) fn checks(facts: &Facts, trials: &Trials) -> Vec<Check> {
    let mut all = vec![
        way(facts, trials),
        kernel(facts),
        control(facts, trials),
        group(facts),
        memory(facts),
        huge_pages(facts),
        library(facts, trials),
    ];
    all.extend(files(facts));
    all.extend(interfaces::checks(facts, trials));
    all
}

fn check(id: &str, state: State, reason: impl Into<String>) -> Check {
    Check::new(THIS, id, state, reason)
}

/// Whether this user comes past the kernel: by a control plane that serves it, or by one that it can start.
fn way(facts: &Facts, trials: &Trials) -> Check {
    let check = |state, reason: String| check("af-xdp", state, reason).essential();
    if !facts.machine.is_at_least(OLDEST) {
        let reason = format!("Linux {} is older than {OLDEST}", facts.machine.release);
        return check(State::Missing, reason).next("boot a newer kernel; on Debian: apt-get install linux-image-amd64");
    }
    if let Control::Serves(pid) = trials.control {
        return check(State::Ok, format!("the control plane (process {pid}) serves this user"));
    }
    match (&trials.steering, &trials.af_xdp) {
        (Ok(steering), Ok(frame)) => check(State::Ok, format!("{steering}; {frame}")),
        (Err(problem), _) if lacks_rights(facts) => refused(facts, trials, problem),
        (Ok(_), Err(problem)) if lacks_rights(facts) => refused(facts, trials, problem),
        (Ok(steering), Err(problem)) => {
            check(State::Partly, format!("{steering}; not tried further: {}", problem.brief()))
                .next(problem.next_step())
        }
        (Err(problem), _) => check(State::Missing, problem.brief()).next(problem.next_step()),
    }
}

fn lacks_rights(facts: &Facts) -> bool {
    let user = &facts.user;
    let may_load = user.has(Capability::SysAdmin) || user.has(Capability::Bpf);
    !(may_load && user.has(Capability::NetAdmin) && user.has(Capability::NetRaw))
}

/// The next step of a user without rights is a control plane, which root runs.
fn refused(facts: &Facts, trials: &Trials, problem: &Problem) -> Check {
    let check = |reason: String| check("af-xdp", State::Missing, reason).essential();
    if let Control::Refuses { is_other_version, reason } = &trials.control {
        let next =
            if *is_other_version { facts.as_root("systemctl restart sidestep-control") } else { add_user(facts) };
        return check(format!("the control plane refuses: {reason}")).next(next);
    }
    if facts.user.uid == 0 {
        let missing = missing_capabilities(facts);
        return check(format!("this process has no {}: {}", missing.join(", "), problem.brief()))
            .next(facts.more_rights("sidestep control", "NET_ADMIN NET_RAW BPF SYS_ADMIN IPC_LOCK"));
    }
    check("no control plane runs, and this user cannot start one".into())
        .next(facts.as_root(&format!("sidestep control --background --allow-uid {}", facts.user.uid)))
}

fn missing_capabilities(facts: &Facts) -> Vec<&'static str> {
    let all = [
        (Capability::NetAdmin, "CAP_NET_ADMIN"),
        (Capability::NetRaw, "CAP_NET_RAW"),
        (Capability::Bpf, "CAP_BPF"),
        (Capability::SysAdmin, "CAP_SYS_ADMIN"),
    ];
    all.into_iter().filter(|(capability, _)| !facts.user.has(*capability)).map(|(_, name)| name).collect()
}

fn kernel(facts: &Facts) -> Check {
    let machine = &facts.machine;
    if !machine.is_at_least(OLDEST) {
        return check("kernel-features", State::Missing, format!("AF_XDP as it is used here needs Linux {OLDEST}"));
    }
    let lacking: Vec<String> = ADDED
        .iter()
        .filter(|(since, _)| !machine.is_at_least(*since))
        .map(|(since, what)| format!("{what} ({since})"))
        .collect();
    if lacking.is_empty() {
        return check("kernel-features", State::Ok, "the kernel has all that is used");
    }
    check("kernel-features", State::Partly, format!("a newer kernel adds: {}", lacking.join("; ")))
}

fn control(facts: &Facts, trials: &Trials) -> Check {
    match &trials.control {
        Control::Serves(pid) => check("control", State::Ok, format!("process {pid} serves this network namespace")),
        Control::Refuses { is_other_version: true, reason } => {
            check("control", State::Missing, format!("{reason}: both have to be of one release; end the one that runs"))
                .next(facts.as_root("systemctl restart sidestep-control"))
        }
        Control::Refuses { reason, .. } => check("control", State::Missing, reason).next(add_user(facts)),
        Control::NotRunning(reason) if facts.user.uid == 0 => {
            let reason = format!("{reason}; sidestep run as root starts one by itself");
            check("control", State::Partly, reason).next("sidestep control --background")
        }
        Control::NotRunning(reason) => check("control", State::Missing, reason)
            .next(facts.as_root(&format!("sidestep control --background --allow-uid {}", facts.user.uid))),
    }
}

fn add_user(facts: &Facts) -> String {
    facts.as_root("usermod -aG sidestep $USER")
}

fn group(facts: &Facts) -> Check {
    match facts.user.group {
        Some(group) if group.is_member || facts.user.uid == 0 => {
            check("group", State::Ok, format!("group sidestep ({}): its members may bypass the kernel", group.gid))
        }
        Some(_) => {
            let reason = "this user is not in the group sidestep; membership counts from the next login on";
            check("group", State::Partly, reason).next(add_user(facts))
        }
        None => {
            let reason = "there is no group sidestep: root alone may bypass the kernel, and users named by --allow-uid";
            check("group", State::Partly, reason).next(facts.as_root("groupadd --system sidestep"))
        }
    }
}

fn memory(facts: &Facts) -> Check {
    let user = &facts.user;
    match user.memlock_bytes {
        _ if user.has(Capability::IpcLock) => check("locked-memory", State::Ok, "no limit holds (CAP_IPC_LOCK)"),
        None => check("locked-memory", State::Ok, "RLIMIT_MEMLOCK is unlimited"),
        Some(limit) if limit >= FRAMES_BYTES => {
            check("locked-memory", State::Ok, format!("RLIMIT_MEMLOCK is {}", bytes(limit)))
        }
        // The frames of users are control's: the limit of root counts.
        Some(limit) if user.uid != 0 => {
            let reason = format!("RLIMIT_MEMLOCK is {}; frames are registered by the control plane", bytes(limit));
            check("locked-memory", State::Ok, reason)
        }
        Some(limit) => {
            let reason = format!("RLIMIT_MEMLOCK is {}, less than the frames of a stack", bytes(limit));
            check("locked-memory", State::Partly, reason)
                .next("ulimit -l unlimited; in a unit of systemd: LimitMEMLOCK=infinity")
        }
    }
}

fn huge_pages(facts: &Facts) -> Check {
    match facts.machine.huge_pages_free {
        Some(free) if free >= 8 => check("huge-pages", State::Ok, format!("{free} huge pages of 2 MiB are free")),
        Some(free) => {
            let reason =
                format!("{free} huge pages of 2 MiB are free: frames lie on small ones, which costs TLB misses");
            check("huge-pages", State::Partly, reason).next(facts.as_root("sysctl vm.nr_hugepages=64"))
        }
        None => check("huge-pages", State::Partly, "the kernel tells of no huge pages of 2 MiB"),
    }
}

fn library(facts: &Facts, trials: &Trials) -> Check {
    match &trials.library {
        Ok(path) => check("run", State::Ok, format!("sidestep run loads {path}")),
        Err(problem) => {
            let reason = format!("no sidestep run: {}", problem.brief());
            check("run", State::Missing, reason).next(facts.as_root("make install"))
        }
    }
}

/// The files that a control plane can hold: one for every entry and every reserved port.
fn files(facts: &Facts) -> Option<Check> {
    let limit = facts.user.files_max.filter(|limit| *limit < FILES_MIN)?;
    let reason = format!("at most {limit} open files: connections and ports are refused early");
    Some(check("open-files", State::Partly, reason).next("ulimit -n 65536; in a unit of systemd: LimitNOFILE=65536"))
}
