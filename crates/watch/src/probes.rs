//! The thread that takes slices of round trips.

use crate::event;
use crate::options::Options;
use crate::round::{Beat, End};
use crate::state::{Cause, Shared, with};
use crate::suspension::Suspension;
use sidestep_bench::probe::{Answers, Failure, Prober};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Takes every probe in each interval, until the end; `done` is called after each round.
pub(crate) fn watch(shared: &Shared, end: &End, options: &Options, mut done: impl FnMut()) {
    let mut prober = Prober::new(options.around.clone());
    let mut beat = Beat::new(Instant::now(), options.every, 0);
    // The first round is at once, in place of the first turn.
    let _ = beat.turn(Instant::now());
    let (mut time, mut missed) = (Instant::now(), 0);
    let mut is_forward = true;
    while end.sleep_until(time) {
        round(shared, &mut prober, options, is_forward, missed);
        done();
        is_forward = !is_forward;
        (time, missed) = beat.turn(Instant::now());
    }
}

/// Takes every probe once. True if one of them had figures.
pub(crate) fn once(shared: &Shared, options: &Options) -> bool {
    let mut prober = Prober::new(options.around.clone());
    round(shared, &mut prober, options, true, 0);
    with(shared, |state| state.probes.iter().any(|probed| probed.is_up == Some(true)))
}

/// Every probe once, in order or in reverse: what one of them does to the next falls on either.
fn round(shared: &Shared, prober: &mut Prober, options: &Options, is_forward: bool, missed: u64) {
    let count = options.probes.len();
    for number in 0..count {
        let index = if is_forward { number } else { count - 1 - number };
        let begin = Instant::now();
        let taken = slice(prober, options, index);
        if options.around.stop.load(Ordering::Relaxed) {
            return;
        }
        with(shared, |state| state.slice(index, begin.elapsed(), taken.as_ref().map_err(Clone::clone)));
        if let Err((Cause::NoPeer, why)) = taken {
            // The others would wait as long as this one did.
            for number in number + 1..count {
                let index = if is_forward { number } else { count - 1 - number };
                with(shared, |state| state.slice(index, begin.elapsed(), Err((Cause::NoPeer, why.clone()))));
            }
            break;
        }
    }
    let peer = prober.peer_process();
    prober.rest();
    with(shared, |state| state.round(missed, peer));
}

fn slice(prober: &mut Prober, options: &Options, index: usize) -> Result<Answers, (Cause, String)> {
    let suspension = Suspension::look();
    let taken = prober.slice(options.probes[index]);
    if let Some(time) = suspension.since() {
        event::tell(format_args!("the host was suspended for {} s; a slice is left out", time.as_secs()));
        return Err((Cause::Suspended, String::new()));
    }
    match taken {
        Ok(answers) if answers.count() == 0 => Err((Cause::Broken, "no message was answered".into())),
        Ok(answers) => Ok(answers),
        Err(Failure::NoPeer(problem)) => Err((Cause::NoPeer, problem.line())),
        Err(Failure::Refused(reason)) => Err((Cause::Refused, reason)),
        Err(Failure::Broken(problem)) => Err((Cause::Broken, problem.line())),
    }
}
