//! Settings of one check, applied and reverted repeatedly during a measurement. While they are in force, their snapshot is
//! on disk, as with [`apply`]: after a kill, `sidestep tune revert` reverts them.

use crate::apply::apply;
use crate::host::{Host, Live};
use crate::location::Reach;
use crate::plan::{Change, Plan};
use crate::revert::revert;
use crate::revert_state::RevertState;
use crate::snapshot::{Snapshot, Store};
use sidestep_sys::Problem;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// The settings that one check asks for.
#[derive(Debug)]
pub struct Trial {
    check: String,
    changes: Vec<Change>,
    turns: Option<Sender<bool>>,
    results: Receiver<Result<(), Problem>>,
    thread: Option<JoinHandle<()>>,
}

impl Trial {
    /// Returns one trial for each check of the plan, in its order. They act in the network namespace of the calling thread,
    /// whichever thread switches them.
    pub fn all_of(plan: &Plan, store: &Store) -> Vec<Self> {
        let mut trials: Vec<(String, Vec<Change>)> = Vec::new();
        for change in &plan.changes {
            match trials.iter_mut().find(|(check, _)| *check == change.check) {
                Some((_, changes)) => changes.push(change.clone()),
                None => trials.push((change.check.clone(), vec![change.clone()])),
            }
        }
        let part = |changes| Plan { profile: plan.profile.clone(), changes, ..Plan::default() };
        trials.into_iter().map(|(check, changes)| Self::new(check, part(changes), store.clone(), Live::new)).collect()
    }

    /// Returns a trial of changes without a plan; `host` creates a fresh view of the host.
    pub fn one<H: Host>(
        check: &str,
        changes: Vec<Change>,
        store: Store,
        host: impl Fn() -> H + Send + 'static,
    ) -> Self {
        Self::new(check.into(), Plan { changes, ..Plan::default() }, store, host)
    }

    fn new<H: Host>(check: String, part: Plan, store: Store, host: impl Fn() -> H + Send + 'static) -> Self {
        let (turns, orders) = channel();
        let (answers, results) = channel();
        let changes = part.changes.clone();
        let thread = thread::spawn(move || {
            let mut standing = None;
            for on in orders {
                // A host caches the answers of devices: each switch begins with a fresh one.
                let result = turn(&host(), &store, &part, &mut standing, on);
                if answers.send(result).is_err() {
                    break;
                }
            }
            // A failure here leaves its snapshot on disk: `tune status` shows it.
            let _ = turn(&host(), &store, &part, &mut standing, false);
        });
        Self { check, changes, turns: Some(turns), results, thread: Some(thread) }
    }

    /// Returns the check that asks for it.
    pub fn check(&self) -> &str {
        &self.check
    }

    /// Returns a description: the first setting, and the number of others.
    pub fn words(&self) -> String {
        let Some(first) = self.changes.first() else { return String::new() };
        let more = self.changes.len() - 1;
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!("{}: {} -> {}{more}", first.location.words(), first.before, first.after)
    }

    /// Returns the narrowest scope of its settings.
    pub fn reach(&self) -> Reach {
        let reaches = self.changes.iter().map(|change| change.location.reach());
        reaches.fold(Reach::Host, |least, one| match (least, one) {
            (Reach::Interface, _) | (_, Reach::Interface) => Reach::Interface,
            (Reach::Namespace, _) | (_, Reach::Namespace) => Reach::Namespace,
            _ => Reach::Host,
        })
    }

    /// Applies the settings, or reverts them. On an error they are as before.
    pub fn turn(&mut self, on: bool) -> Result<(), Problem> {
        let died = || Problem::failed(format!("cannot change {}", self.check), "the thread of the trial has died");
        self.turns.as_ref().ok_or_else(died)?.send(on).map_err(|_| died())?;
        self.results.recv().map_err(|_| died())?
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        drop(self.turns.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn turn(host: &dyn Host, store: &Store, part: &Plan, standing: &mut Option<Snapshot>, on: bool) -> Result<(), Problem> {
    match (on, standing.take()) {
        (true, None) => *standing = make(host, store, part)?,
        (true, Some(snapshot)) => *standing = Some(snapshot),
        (false, None) => {}
        (false, Some(snapshot)) => unmake(host, store, &snapshot)?,
    }
    Ok(())
}

fn make(host: &dyn Host, store: &Store, part: &Plan) -> Result<Option<Snapshot>, Problem> {
    let outcome = apply(host, store, part, false, &mut |_| {})?;
    let refused = outcome.failed.first().or(outcome.immovable.first().filter(|_| outcome.applied == 0));
    if let Some((change, why)) = refused {
        return Err(Problem::failed(format!("cannot change {}", change.location.words()), why));
    }
    Ok(store.list()?.into_iter().find(|snapshot| Some(snapshot.number) == outcome.snapshot))
}

fn unmake(host: &dyn Host, store: &Store, snapshot: &Snapshot) -> Result<(), Problem> {
    let states = revert(host, store, snapshot, &mut |_| {})?;
    match states.iter().find(|(_, state)| *state != RevertState::Back) {
        None => Ok(()),
        Some((change, state)) => {
            Err(Problem::failed(format!("cannot revert {}", change.location.words()), state.words())
                .next("see: sidestep tune status"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Tree;
    use crate::location::Location;
    use crate::reading::Form;
    use std::fs;
    use std::path::Path;

    fn change(check: &str, location: &str) -> Change {
        let location = Location::parse(location).unwrap();
        let (subject, before, after) = (String::new(), "0".into(), "50".into());
        Change { check: check.into(), subject, location, form: Form::Text, before, after }
    }

    /// A host of two settings, in a folder.
    fn trial(folder: &Path) -> Trial {
        fs::create_dir_all(folder.join("proc/sys/net/core")).unwrap();
        for name in ["busy_read", "busy_poll"] {
            fs::write(folder.join("proc/sys/net/core").join(name), "0\n").unwrap();
        }
        let changes = ["busy_read", "busy_poll"].map(|name| change("busy-read", &format!("proc:sys/net/core/{name}")));
        let part = Plan { changes: changes.to_vec(), ..Plan::default() };
        let tree = Tree::at(folder);
        Trial::new("busy-read".into(), part, Store::at(folder.join("state")), move || tree.clone())
    }

    fn values(folder: &Path) -> [String; 2] {
        ["busy_read", "busy_poll"].map(|name| fs::read_to_string(folder.join("proc/sys/net/core").join(name)).unwrap())
    }

    #[test]
    fn made_and_taken_back_with_the_way_back_on_disk_in_between() {
        let folder = tempfile::tempdir().unwrap();
        let (mut trial, store) = (trial(folder.path()), Store::at(folder.path().join("state")));
        for _ in 0..3 {
            trial.turn(true).unwrap();
            trial.turn(true).unwrap();
            assert_eq!(values(folder.path()), ["50\n", "50\n"]);
            assert_eq!(store.list().unwrap().len(), 1, "it can be reverted from outside");
            trial.turn(false).unwrap();
            assert_eq!(values(folder.path()), ["0\n", "0\n"]);
            assert!(store.list().unwrap().is_empty());
        }
        trial.turn(true).unwrap();
        drop(trial);
        assert_eq!(values(folder.path()), ["0\n", "0\n"], "also at the end");
    }

    #[test]
    fn what_fails_or_was_changed_by_others_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut trial = trial(folder.path());
        trial.turn(true).unwrap();
        fs::write(folder.path().join("proc/sys/net/core/busy_read"), "7\n").unwrap();
        assert!(trial.turn(false).unwrap_err().to_string().contains("busy_read"));
        assert_eq!(values(folder.path()), ["7\n", "0\n"], "theirs stays");
        assert!(
            trial.turn(true).unwrap_err().to_string().contains("no longer"),
            "the plan was made with another value"
        );
    }

    #[test]
    fn one_for_each_check_and_how_far_it_reaches() {
        let changes = vec![
            change("governor", "sys:devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            change("autocork", "proc:sys/net/ipv4/tcp_autocorking"),
            change("governor", "sys:devices/system/cpu/cpu1/cpufreq/scaling_governor"),
            change("mixed", "proc:sys/net/ipv4/tcp_autocorking"),
            change("mixed", "ethtool:eth0/coalesce/rx-usecs"),
        ];
        let plan = Plan { changes, ..Plan::default() };
        let trials = Trial::all_of(&plan, &Store::at("/nonexistent"));
        let told: Vec<_> = trials.iter().map(|trial| (trial.check(), trial.reach())).collect();
        assert_eq!(told, [("governor", Reach::Host), ("autocork", Reach::Namespace), ("mixed", Reach::Interface)]);
        assert!(trials[0].words().ends_with("0 -> 50, and 1 more"), "{}", trials[0].words());
    }
}
