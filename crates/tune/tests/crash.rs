//! Killed at every step, on the way there and on the way back: a later revert gives the original bytes.

mod support;

use sidestep_sys::process::Process;
use sidestep_tune::apply::apply;
use sidestep_tune::audit::Audit;
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::event::Event;
use sidestep_tune::host::Tree;
use sidestep_tune::plan::{Choice, Plan};
use sidestep_tune::profile::Profile;
use sidestep_tune::revert::revert;
use sidestep_tune::scope::{Request, Scope};
use sidestep_tune::snapshot::Store;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{HOSTS, bytes, unpack};

const FOLDER: &str = "SIDESTEP_TUNE_CRASH_FOLDER";
const STATE: &str = "SIDESTEP_TUNE_CRASH_STATE";
const STEP: &str = "SIDESTEP_TUNE_CRASH_STEP";
const SIGKILL: i32 = 9;
/// More steps than the plan below has: an upper bound, so that a test that never ends fails.
const STEPS_MAX: usize = 200;

/// One setting of each form and kind of location.
const CHECKS: [&str; 8] = [
    "nic-adaptive-rx",
    "nic-rx-usecs",
    "mem-huge-transparent",
    "iso-workqueue",
    "irq-others",
    "mem-swappiness",
    "busy-read",
    "cpu-governor",
];

/// Kills this very process when it has come to the step that was asked for.
fn mortal() -> impl FnMut(Event<'_>) {
    let last: usize = std::env::var(STEP).unwrap().parse().unwrap();
    let mut step = 0;
    move |_| {
        if step == last {
            Process::this().unwrap().signal(SIGKILL).unwrap();
        }
        step += 1;
    }
}

fn stage() -> Option<(Tree, Store)> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    Some((Tree::at(path(FOLDER)?), Store::at(path(STATE)?)))
}

fn apply_all(host: &Tree, store: &Store, observe: &mut dyn FnMut(Event<'_>)) {
    let request = Request { hot: CpuSet::list("2-3"), ..Request::default() };
    let scope = Scope::of(host, &request).unwrap();
    let choice = Choice { only: CHECKS.map(str::to_owned).to_vec(), ..Choice::default() };
    let plan = Plan::of(&scope, &Audit::of(&scope, &Profile::built_in("latency").unwrap()), &choice).unwrap();
    assert!(plan.changes.len() >= CHECKS.len());
    apply(host, store, &plan, false, observe).unwrap();
}

fn revert_all(host: &Tree, store: &Store, observe: &mut dyn FnMut(Event<'_>)) {
    for snapshot in store.list().unwrap().iter().rev() {
        revert(host, store, snapshot, observe).unwrap();
    }
}

#[test]
#[ignore = "the one who is killed: started by the tests below"]
fn victim_of_apply() {
    let Some((host, store)) = stage() else { return };
    apply_all(&host, &store, &mut mortal());
}

#[test]
#[ignore = "the one who is killed: started by the tests below"]
fn victim_of_revert() {
    let Some((host, store)) = stage() else { return };
    revert_all(&host, &store, &mut mortal());
}

/// Runs a victim up to a step; false when it came to its end.
fn dies(victim: &str, folder: &Path, state: &Path, step: usize) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", victim, "--ignored", "--test-threads=1"]);
    command.env(FOLDER, folder).env(STATE, state).env(STEP, step.to_string());
    let output = command.output().unwrap();
    let killed = output.status.signal() == Some(SIGKILL);
    assert!(killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    killed
}

fn original(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    bytes(folder).into_iter().filter(|(path, _)| !path.ends_with(".draft")).collect()
}

#[test]
fn killed_while_it_changes_settings() {
    let folder = unpack(HOSTS[0].1);
    let before = original(folder.path());
    let mut changed = 0;
    for step in 0..STEPS_MAX {
        let state = tempfile::tempdir().unwrap();
        let killed = dies("victim_of_apply", folder.path(), state.path(), step);
        changed += usize::from(original(folder.path()) != before);
        revert_all(&Tree::at(folder.path()), &Store::at(state.path()), &mut |_| ());
        assert_eq!(original(folder.path()), before, "killed at step {step}");
        assert!(Store::at(state.path()).list().unwrap().is_empty());
        if !killed {
            assert!(step > 3 * CHECKS.len() && changed > 2 * CHECKS.len(), "{step} steps, {changed} changed something");
            return;
        }
    }
    panic!("it does not end");
}

#[test]
fn killed_while_it_puts_them_back() {
    let folder = unpack(HOSTS[0].1);
    let before = original(folder.path());
    let host = Tree::at(folder.path());
    for step in 0..STEPS_MAX {
        let state = tempfile::tempdir().unwrap();
        let store = Store::at(state.path());
        apply_all(&host, &store, &mut |_| ());
        let killed = dies("victim_of_revert", folder.path(), state.path(), step);
        revert_all(&host, &store, &mut |_| ());
        assert_eq!(original(folder.path()), before, "killed at step {step}");
        if !killed {
            assert!(step > CHECKS.len());
            return;
        }
    }
    panic!("it does not end");
}
