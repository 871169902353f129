//! `sidestep tune verify`.

use crate::args::tune_run::Under;
use crate::args::tune_verify::Verify;
use crate::args::{ClockKind, Place};
use crate::commands::measured;
use crate::output::Outputs;
use crate::progress::Bar;
use crate::values::Cpus;
use sidestep_bench::service_time::ServiceTime;
use sidestep_bench::verify::{Consent, Load, Means, Shows, Step, ladder, settings, verify};
use sidestep_lab::MTU_USUAL;
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_tune::host::Live;
use sidestep_tune::snapshot::Store;
use sidestep_tune::trial::Trial;
use std::time::Duration;

pub(super) fn run(args: &Verify) -> Result<u8, Problem> {
    if args.subject.root.is_some() {
        return Err(Problem::usage("cannot measure a copy of a host", "--root is read-only").next("leave --root out"));
    }
    let outputs = Outputs::prepare(args.output.clone())?;
    let setting = measured::setting(&place(args))?;
    let plan = super::plan::make(&Live::new(), &args.subject, &args.choice)?;
    let consent = if args.change_host { Consent::Given } else { Consent::Withheld };
    let steps = ladder(settings(Trial::all_of(&plan, &Store::usual()), setting.place, consent))?;
    announce(&steps, args.pause_time);
    let transport = measured::streams(&[args.transport])[0];
    let load = Load {
        transport,
        size: args.size,
        duration: args.duration,
        pause_time: args.pause_time,
        pin_irq: args.pin_irq,
    };
    measured::write_outcome(verify(&setting, &load, steps, &mut Bar::new())?, &outputs)
}

/// Tells how long the steps take that are judged by pauses: minutes each.
fn announce(steps: &[Step], pause_time: Duration) {
    let is_watched = |step: &&Step| step.shows == Shows::Pauses && matches!(step.means, Means::Change(_));
    let count = steps.iter().filter(is_watched).count();
    if count > 0 {
        let seconds = (2.0 * count as f64 * pause_time.as_secs_f64()).ceil() as u64;
        let time = humantime::format_duration(Duration::from_secs(seconds));
        say(format!("settings judged by pauses of the CPU: {count}, about {time} in all (--pause-time changes that)"));
    }
}

/// Returns the place: the measuring end runs on the first hot CPU.
fn place(args: &Verify) -> Place {
    let first = args.subject.cpus.as_ref().and_then(|cpus| cpus.iter().next());
    Place {
        interface: None,
        start_control: false,
        place: args.place,
        to: args.to,
        ipv6: false,
        queues: 1,
        mtu: MTU_USUAL,
        impair: None,
        cpus: first.map(|client| Cpus { client, peer: None }),
        clock: ClockKind::Auto,
        service_time: ServiceTime::default(),
        under: Under::default(),
    }
}
