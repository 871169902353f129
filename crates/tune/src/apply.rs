//! Changing settings one by one, each read again; back to where it was when one fails.

use crate::host::Host;
use crate::place::Place;
use crate::plan::{Change, Plan};
use crate::revert::{self, Fate};
use crate::snapshot::{Snapshot, Store};
use rustix::io::Errno;
use sidestep_sys::Problem;
use std::io;

/// What happens, for whoever wants to show it, or to kill the process there.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The way back is written and synced, and not yet in its place.
    Saving(&'a Snapshot),
    /// The way back is on disk.
    Saved(&'a Snapshot),
    /// A setting is about to be written.
    Writing(&'a Change),
    /// It was written, and not yet read again.
    Written(&'a Change),
    /// It has the value that was wanted.
    Applied(&'a Change),
    /// It could not be changed, and why.
    Failed(&'a Change, &'a str),
    /// An interrupt that nobody can move, and what the kernel says.
    Immovable(&'a Change, &'a str),
    /// What has become of a setting on the way back.
    Reverted(&'a Change, &'a Fate),
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The snapshot's number; none where nothing is left to put back.
    pub snapshot: Option<u32>,
    /// Settings that have the value wanted.
    pub applied: usize,
    /// Settings that could not be changed, and why.
    pub failed: Vec<(Change, String)>,
    /// Interrupts that the kernel keeps where they are (the timer's, a device's managed vectors), and what it says. They
    /// look like any other in `/proc/interrupts`, so only the attempt tells.
    pub immovable: Vec<(Change, String)>,
    /// Settings that could not be put back, and why.
    pub stuck: Vec<(Change, String)>,
}

impl Outcome {
    /// Whether some settings are changed and others, which should be, are not.
    pub fn is_partial(&self) -> bool {
        !self.stuck.is_empty() || (!self.failed.is_empty() && self.applied > 0)
    }
}

/// Changes what the plan says. With `keep_going` what fails is left out, else everything is put back.
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
    let snapshot = store.save(&lock, host.identity(), &plan.profile, &plan.changes, observe)?;
    observe(Event::Saved(&snapshot));
    let mut outcome = Outcome { snapshot: Some(snapshot.number), ..Outcome::default() };
    for change in &plan.changes {
        match set(host, change, observe) {
            Ok(()) => {
                outcome.applied += 1;
                observe(Event::Applied(change));
            }
            Err(Refusal::Immovable(why)) => {
                observe(Event::Immovable(change, &why));
                outcome.immovable.push((change.clone(), why));
            }
            Err(Refusal::Failed(why)) => {
                observe(Event::Failed(change, &why));
                outcome.failed.push((change.clone(), why));
                if !keep_going {
                    break;
                }
                // What the driver made of it is not what anybody wanted.
                let fate = revert::undo_attempt(host, change);
                outcome.stuck.extend(fate.err().map(|why| (change.clone(), why)));
            }
        }
    }
    if outcome.applied == 0 || (!outcome.failed.is_empty() && !keep_going) {
        roll_back(host, store, &snapshot, &mut outcome, observe)?;
    }
    Ok(outcome)
}

/// Whether everything still has the value that the plan was made with.
fn unchanged(host: &dyn Host, plan: &Plan) -> Result<(), Problem> {
    let now = |change: &Change| revert::present(host, change);
    let differs = |change: &&Change| now(change).as_deref() != Ok(change.before.as_str());
    match plan.changes.iter().find(differs) {
        None => Ok(()),
        Some(change) => Err(Problem::failed(
            format!("cannot change {}", change.place.words()),
            format!("it was {:?} when the plan was made, and is no longer", change.before),
        )
        .next("look at a new plan: sidestep tune plan")),
    }
}

/// Why a setting was not made.
enum Refusal {
    Immovable(String),
    Failed(String),
}

impl Refusal {
    /// Writing the CPUs of an interrupt that the kernel itself manages is EIO, or EPERM (kernel/irq/proc.c,
    /// `write_irq_affinity`), also for root; who is not root does not get as far, its open fails with EACCES.
    fn of(place: &Place, error: &io::Error) -> Self {
        let is_managed = matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::PERM));
        if place.is_interrupt() && is_managed {
            Self::Immovable(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}

fn set(host: &dyn Host, change: &Change, observe: &mut dyn FnMut(Event<'_>)) -> Result<(), Refusal> {
    observe(Event::Writing(change));
    let written = host.write(&change.place, &change.form.spell(&change.after));
    written.map_err(|error| Refusal::of(&change.place, &error))?;
    observe(Event::Written(change));
    match revert::present(host, change) {
        Ok(now) if now == change.after => Ok(()),
        Ok(now) => Err(Refusal::Failed(format!("the kernel made it {now:?}"))),
        Err(why) => Err(Refusal::Failed(why)),
    }
}

fn roll_back(
    host: &dyn Host,
    store: &Store,
    snapshot: &Snapshot,
    outcome: &mut Outcome,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<(), Problem> {
    // The one that failed last may stand at a third value, which is nobody else's.
    if let Some((change, _)) = outcome.failed.last() {
        let fate = revert::undo_attempt(host, change);
        outcome.stuck.extend(fate.err().map(|why| (change.clone(), why)));
    }
    let changes: Vec<&Change> = snapshot.changes.iter().collect();
    for (change, fate) in revert::put_back(host, &changes, observe) {
        if let Fate::Failed(why) = fate {
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
