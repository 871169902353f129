//! Changes settings one by one and reads each again. If one fails, all are reverted.

use crate::event::Event;
use crate::host::Host;
use crate::location::Location;
use crate::plan::{Change, Plan};
use crate::revert;
use crate::revert_state::RevertState;
use crate::snapshot::{Snapshot, Store};
use rustix::io::Errno;
use sidestep_sys::Problem;
use std::io;

/// The result of `apply`.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The snapshot's number; none if nothing is left to revert.
    pub snapshot: Option<u32>,
    /// The number of settings that have the wanted value.
    pub applied: usize,
    /// Settings that could not be changed, with the reasons.
    pub failed: Vec<(Change, String)>,
    /// Settings that the kernel refuses to change, with its errors: interrupts that it manages (the timer's, a device's), and
    /// settings that a driver reports and does not offer. They look like any other, so only an attempt shows it.
    pub immovable: Vec<(Change, String)>,
    /// Settings that could not be reverted, with the reasons.
    pub stuck: Vec<(Change, String)>,
}

impl Outcome {
    /// Returns whether some settings were changed and others failed.
    pub fn is_partial(&self) -> bool {
        !self.stuck.is_empty() || (!self.failed.is_empty() && self.applied > 0)
    }

    /// Records and reports the result of one change.
    fn record(&mut self, change: &Change, result: Result<(), SetError>, observe: &mut dyn FnMut(Event<'_>)) {
        match result {
            Ok(()) => {
                self.applied += 1;
                observe(Event::Applied(change));
            }
            Err(SetError::Immovable(why)) => {
                observe(Event::Immovable(change, &why));
                self.immovable.push((change.clone(), why));
            }
            Err(SetError::Failed(why)) => {
                observe(Event::Failed(change, &why));
                self.failed.push((change.clone(), why));
            }
        }
    }
}

/// Applies a plan. With `keep_going`, settings that fail are left out; otherwise a failure reverts all.
pub fn apply(
    host: &dyn Host,
    store: &Store,
    plan: &Plan,
    keep_going: bool,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Problem> {
    let lock = store.lock()?;
    unchanged(host, plan)?;
    if plan.changes.is_empty() {
        return Ok(Outcome::default());
    }
    let snapshot =
        store.save(&lock, host.identity(), &plan.profile, &plan.changes, |draft| observe(Event::Saving(draft)))?;
    observe(Event::Saved(&snapshot));
    let mut outcome = Outcome { snapshot: Some(snapshot.number), ..Outcome::default() };
    for change in &plan.changes {
        let result = set(host, change, observe);
        let has_failed = matches!(result, Err(SetError::Failed(_)));
        outcome.record(change, result, observe);
        if has_failed && !keep_going {
            break;
        }
        if has_failed {
            // The driver may have set a third value.
            let state = revert::undo_attempt(host, change);
            outcome.stuck.extend(state.err().map(|why| (change.clone(), why)));
        }
    }
    if outcome.applied == 0 || (!outcome.failed.is_empty() && !keep_going) {
        roll_back(host, store, &snapshot, &mut outcome, observe)?;
    }
    Ok(outcome)
}

/// Returns an error if a setting no longer has the value that the plan was made with.
fn unchanged(host: &dyn Host, plan: &Plan) -> Result<(), Problem> {
    let now = |change: &Change| revert::present(host, change);
    let differs = |change: &&Change| now(change).as_deref() != Ok(change.before.as_str());
    match plan.changes.iter().find(differs) {
        None => Ok(()),
        Some(change) => Err(Problem::failed(
            format!("cannot change {}", change.location.words()),
            format!("it was {:?} when the plan was made, and is no longer", change.before),
        )
        .next("make a new plan: sidestep tune plan")),
    }
}

/// The reason why a setting was not changed.
enum SetError {
    Immovable(String),
    Failed(String),
}

impl SetError {
    /// Classifies an error. For an interrupt that the kernel manages, a write is EIO or EPERM (kernel/irq/proc.c,
    /// `write_irq_affinity`), also for root; without root, open(2) already fails with EACCES. EOPNOTSUPP says of any setting that
    /// the driver does not offer it.
    fn of(location: &Location, error: &io::Error) -> Self {
        let errno = Errno::from_io_error(error);
        let is_managed = location.is_interrupt() && matches!(errno, Some(Errno::IO | Errno::PERM));
        if is_managed || errno == Some(Errno::OPNOTSUPP) {
            Self::Immovable(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}

fn set(host: &dyn Host, change: &Change, observe: &mut dyn FnMut(Event<'_>)) -> Result<(), SetError> {
    observe(Event::Writing(change));
    let written = host.write(&change.location, &change.form.spell(&change.after));
    written.map_err(|error| SetError::of(&change.location, &error))?;
    observe(Event::Written(change));
    match revert::present(host, change) {
        Ok(now) if now == change.after => Ok(()),
        Ok(now) => Err(SetError::Failed(format!("the kernel has set it to {now:?}"))),
        Err(why) => Err(SetError::Failed(why)),
    }
}

fn roll_back(
    host: &dyn Host,
    store: &Store,
    snapshot: &Snapshot,
    outcome: &mut Outcome,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<(), Problem> {
    // The last one, which failed, may have a third value, which is the driver's and not another program's.
    if let Some((change, _)) = outcome.failed.last() {
        let state = revert::undo_attempt(host, change);
        outcome.stuck.extend(state.err().map(|why| (change.clone(), why)));
    }
    let changes: Vec<&Change> = snapshot.changes.iter().collect();
    for (change, state) in revert::put_back(host, &changes, observe) {
        if let RevertState::Failed(why) = state {
            outcome.stuck.push((change, why));
        }
    }
    outcome.applied = 0;
    if outcome.stuck.is_empty() {
        store.remove(snapshot)?;
        outcome.snapshot = None;
    }
    Ok(())
}
