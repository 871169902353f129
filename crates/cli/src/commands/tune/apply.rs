//! `sidestep tune apply`.

use crate::args::tune::Apply;
use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_tune::apply::{Outcome, apply};
use sidestep_tune::event::Event;
use sidestep_tune::show::text;
use sidestep_tune::snapshot::Store;

pub(super) fn run(args: &Apply) -> Result<u8, Problem> {
    let host = super::host(&args.subject)?;
    if args.subject.root.is_some() {
        return Err(Problem::usage("cannot change a copy of a host", "--root is read-only").next("leave --root out"));
    }
    let plan = super::plan::make(host.as_ref(), &args.subject, &args.choice)?;
    let outcome = apply(host.as_ref(), &Store::usual(), &plan, args.keep_going, &mut tell)?;
    output::print(&text::outcome(&plan, &outcome, super::page()))?;
    code(&outcome)
}

fn tell(event: Event<'_>) {
    match event {
        Event::Applied(change) => say(format!("{}: {} -> {}", change.location.words(), change.before, change.after)),
        Event::Failed(change, why) => {
            say(format!("{}: cannot be set to {}: {why}", change.location.words(), change.after));
        }
        Event::Immovable(change, why) => {
            say(format!("{}: the kernel refuses to change it: {why}", change.location.words()));
        }
        Event::Reverted(change, state) => say(format!("{}: {}", change.location.words(), state.words())),
        Event::Saved(snapshot) => say(format!("the old values are saved: snapshot {}", snapshot.number)),
        Event::Saving(_) | Event::Writing(_) | Event::Written(_) => {}
    }
}

fn code(outcome: &Outcome) -> Result<u8, Problem> {
    if outcome.is_partial() {
        return Ok(exit::PARTLY_APPLIED);
    }
    match outcome.failed.first() {
        None => Ok(exit::GOOD),
        Some((change, why)) => Err(Problem::failed(format!("cannot change {}", change.location.words()), why)
            .next(format!("everything is reverted; leave it out with --skip {}, or use --keep-going", change.check))),
    }
}
