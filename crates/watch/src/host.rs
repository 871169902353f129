//! The thread that reads the host: findings of the audit, the control plane, the kernel's counters of the watched CPUs.

use crate::options::Options;
use crate::plane::Plane;
use crate::round::{Beat, End};
use crate::state::{Shared, with};
use crate::tuning;
use sidestep_sys::proc::Roots;
use std::time::Instant;

/// Reads it in each interval, until the end. The audit has an interval of its own.
pub(crate) fn watch(shared: &Shared, end: &End, options: &Options) {
    let mut beat = Beat::new(Instant::now(), options.every, 6);
    let mut audited: Option<Instant> = None;
    let mut time = Instant::now();
    while end.sleep_until(time) {
        let is_due = |every| audited.is_none_or(|last| last.elapsed() >= every);
        let audits = options.tuning.as_ref().is_some_and(|tuning| is_due(tuning.every));
        if audits {
            audited = Some(Instant::now());
        }
        look(shared, options, audits);
        time = beat.turn(Instant::now()).0;
    }
}

/// Reads it once.
pub(crate) fn look(shared: &Shared, options: &Options, audits: bool) {
    let (cpus, before): (Vec<u32>, Plane) =
        with(shared, |state| (state.cpus.iter().map(|watched| watched.cpu).collect(), state.plane.clone()));
    let counters = Roots::default().cpu_counters(&cpus);
    with(shared, |state| state.counters(&counters));
    // An answer may take seconds: nobody waits for the state meanwhile.
    let plane = Plane::look(&before, &options.control);
    with(shared, |state| state.plane = plane);
    if let Some(tuning) = options.tuning.as_ref().filter(|_| audits) {
        let audit = tuning::audit(tuning);
        with(shared, |state| state.checks.as_mut().map(|checks| checks.take(audit.as_ref())));
    }
}
