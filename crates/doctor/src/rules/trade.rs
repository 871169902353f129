//! What `fix` and engines of one's own need.

use super::bytes;
use crate::check::{Check, Group, State};
use crate::facts::Facts;
use crate::trials::{Control, FileSystem, Trials};
use std::time::Duration;

const THIS: Group = Group::Trade;
/// A day of a busy session.
const FREE_MIN_BYTES: u64 = 1 << 30;
/// A disk that is slower than this keeps orders waiting where a journal is synced.
const SYNC_SLOW: Duration = Duration::from_millis(10);
/// Connections and journals of some hundred sessions.
const FILES_MIN: u64 = 1024;

pub(super) fn checks(facts: &Facts, trials: &Trials) -> Vec<Check> {
    vec![
        sessions(trials),
        journal(trials),
        disk(trials),
        files(facts),
        past_the_kernel(facts, trials),
        Check::new(THIS, "tls", State::Ok, "TLS is built in; certificates are the session's (fix settings)"),
    ]
}

fn check(id: &str, state: State, reason: impl Into<String>) -> Check {
    Check::new(THIS, id, state, reason)
}

fn sessions(trials: &Trials) -> Check {
    match &trials.loopback {
        Ok(_) => check("sessions", State::Ok, "FIX sessions over the kernel's TCP").essential(),
        Err(problem) => check("sessions", State::Missing, problem.brief()).next(problem.next_step()).essential(),
    }
}

fn journal(trials: &Trials) -> Check {
    let found = match &trials.journal {
        Ok(found) => found,
        Err(problem) => return check("journal", State::Missing, problem.brief()).next(problem.next_step()),
    };
    let (name, folder) = (found.file_system.name(), found.folder.display());
    let partly = |why: &str| {
        check("journal", State::Partly, format!("{folder} is on {name}: {why}"))
            .next("give journals a folder on a local disk (FileStorePath), and run sidestep doctor there")
    };
    match found.file_system {
        FileSystem::Memory(_) => partly("a journal there is gone after a reboot"),
        FileSystem::Remote(_) => {
            partly("the other end may fail while this host goes on, and mapped stores wait for it")
        }
        _ if !found.is_mapped => partly(
            "messages are written by system calls: it does not write in place, so memory cannot be mapped safely",
        ),
        _ => check("journal", State::Ok, format!("{folder} is on {name}: messages are stored to mapped memory")),
    }
}

fn disk(trials: &Trials) -> Check {
    let Ok(found) = &trials.journal else {
        return check("disk", State::Partly, "not known: no journal can be written here");
    };
    let sync = format!("{:.1} ms to bring 1 MiB to the disk", found.sync.as_secs_f64() * 1e3);
    let free = format!("{} free", bytes(found.free_bytes));
    if found.free_bytes < FREE_MIN_BYTES {
        let next = format!("df {}", found.folder.display());
        return check("disk", State::Partly, format!("{free}: a day of a busy session needs more; {sync}")).next(next);
    }
    if found.sync > SYNC_SLOW {
        let reason = format!("{sync}: sessions that wait for the disk (FileStoreSync) are as slow; {free}");
        return check("disk", State::Partly, reason).next("measure it: sidestep bench fix --help");
    }
    check("disk", State::Ok, format!("{free}; {sync}"))
}

fn files(facts: &Facts) -> Check {
    match facts.user.files_max {
        Some(limit) if limit < FILES_MIN => {
            let reason = format!("at most {limit} open files: a session needs about four");
            check("open-files", State::Partly, reason).next("ulimit -n 65536; in a unit of systemd: LimitNOFILE=65536")
        }
        Some(limit) => check("open-files", State::Ok, format!("up to {limit} open files")),
        None => check("open-files", State::Ok, "no limit on open files"),
    }
}

/// Sessions over our own TCP: what `bypass` says, in a line.
fn past_the_kernel(facts: &Facts, trials: &Trials) -> Check {
    match (&trials.control, facts.user.uid, &trials.af_xdp) {
        (Control::Serves(_), ..) => {
            check("own-tcp", State::Ok, "sessions past the kernel, by the control plane that runs")
        }
        (_, 0, Ok(_)) => check("own-tcp", State::Ok, "sessions past the kernel, once a control plane runs"),
        _ => check("own-tcp", State::Partly, "sessions go by the kernel: see bypass"),
    }
}
