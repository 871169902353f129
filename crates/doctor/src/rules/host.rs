//! What concerns every verb.

use crate::check::{Check, Group, State};
use crate::facts::Facts;

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let mut all = vec![kernel(facts), user(facts)];
    all.extend(container(facts));
    all.extend(lockdown(facts));
    all.extend(seccomp(facts));
    all.push(tools(facts));
    all
}

fn check(id: &str, state: State, reason: impl Into<String>) -> Check {
    Check::new(Group::Host, id, state, reason)
}

fn kernel(facts: &Facts) -> Check {
    let machine = &facts.machine;
    let guest = machine.hypervisor.as_ref().map_or_else(String::new, |name| format!(", virtual machine ({name})"));
    match machine.version {
        Some(_) => check("kernel", State::Ok, format!("Linux {}{guest}", machine.release)),
        None => check("kernel", State::Partly, format!("its release is not known ({:?}){guest}", machine.release))
            .next("mount -t proc proc /proc"),
    }
}

fn user(facts: &Facts) -> Check {
    let who = if facts.user.uid == 0 { "root".to_owned() } else { format!("user {}", facts.user.uid) };
    match facts.user.capabilities {
        Some(mask) if facts.user.uid == 0 && mask == 0 => {
            check("user", State::Partly, format!("{who}, without a capability"))
        }
        Some(_) => check("user", State::Ok, who),
        None => check("user", State::Partly, format!("{who}; /proc does not tell its capabilities"))
            .next("mount -t proc proc /proc"),
    }
}

fn container(facts: &Facts) -> Option<Check> {
    let name = facts.machine.container.as_ref()?;
    let reason = format!("{name}; kernel, settings and limits are the host's");
    Some(check("container", State::Ok, reason))
}

fn lockdown(facts: &Facts) -> Option<Check> {
    match facts.machine.lockdown.as_deref()? {
        "none" => None,
        "integrity" => {
            Some(check("lockdown", State::Partly, "integrity: no model-specific registers, no unsigned modules"))
        }
        mode => Some(
            check("lockdown", State::Partly, format!("{mode}: tracepoints and registers cannot be read"))
                .next("grep lockdown /proc/cmdline /sys/kernel/security/lockdown"),
        ),
    }
}

fn seccomp(facts: &Facts) -> Option<Check> {
    (facts.user.seccomp == Some(2)).then(|| {
        let reason = "system calls of this process are filtered (seccomp): some trials below fail by that";
        check("seccomp", State::Partly, reason)
            .next("for a container: docker run --security-opt seccomp=unconfined ...")
    })
}

fn tools(facts: &Facts) -> Check {
    let help = [("ethtool", "ethtool"), ("bpftool", "bpftool"), ("gdb", "gdb")];
    let missing: Vec<(&str, &str)> = help.into_iter().filter(|(program, _)| !facts.has(program)).collect();
    if missing.is_empty() {
        return check("tools", State::Ok, "ethtool, bpftool and gdb are there");
    }
    let names: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    check("tools", State::Partly, format!("not needed, but useful to find faults: {}", names.join(", ")))
        .next(facts.install(&packages.join(" ")))
}
