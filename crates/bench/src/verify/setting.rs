//! Settings of the host as steps.

use super::step::{Means, Shows, Step};
use crate::run::Where;
use crate::scenario::Change;
use sidestep_sys::Problem;
use sidestep_tune::location::Reach;
use sidestep_tune::run::{Held, awake};
use sidestep_tune::trial::Trial;

/// Consent to change the host during the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// The host may be changed; all is reverted.
    Given,
    /// The host may not be changed.
    Withheld,
}

const CHANGE_HOST: &str = "--change-host";

/// Returns the CPU wake-up limit and the `trials` as steps; a setting without effect on the measurement becomes impossible.
pub fn settings(trials: Vec<Trial>, place: Where, consent: Consent) -> Vec<Step> {
    let allowed = |means: Means| match consent {
        Consent::Given => means,
        Consent::Withheld => Means::Needs(CHANGE_HOST),
    };
    let awake = Step {
        name: "CPUs awake".into(),
        what: "/dev/cpu_dma_latency held at 0 us: no CPU of the host sleeps".into(),
        means: allowed(Means::Change(Box::new(Awake(None)))),
        shows: Shows::RoundTrips,
    };
    let of = |shows, trial: Trial| Step {
        name: trial.check().to_owned(),
        what: trial.words(),
        means: match unreached(trial.reach(), place) {
            Some(why) => Means::Impossible(why.into()),
            None => allowed(Means::Change(Box::new(trial))),
        },
        shows,
    };
    let of = |trial: Trial| of(shows(trial.check()), trial);
    std::iter::once(awake).chain(trials.into_iter().map(of)).collect()
}

/// Returns what shows the effect of a check's settings.
fn shows(check: &str) -> Shows {
    let check = sidestep_tune::table::named(check);
    if check.is_ok_and(sidestep_tune::check::Check::shows_as_pauses) { Shows::Pauses } else { Shows::RoundTrips }
}

/// Returns the reason why a setting does not affect the measurement at a place.
fn unreached(reach: Reach, place: Where) -> Option<&'static str> {
    match (reach, place) {
        (Reach::Host, _) | (_, Where::Remote(_)) | (Reach::Namespace, Where::Loopback) => None,
        (Reach::Namespace, _) => Some(
            "a lab's hosts have their own setting: measure with --place loopback or against another machine (--to)",
        ),
        (Reach::Interface, _) => {
            Some("no measured message passes its interface: measure against another machine (--to)")
        }
    }
}

impl Change for Trial {
    fn turn(&mut self, on: bool) -> Result<(), Problem> {
        Self::turn(self, on)
    }
}

/// A request that no CPU sleeps, as long as it exists.
struct Awake(Option<Held>);

impl Change for Awake {
    fn turn(&mut self, on: bool) -> Result<(), Problem> {
        self.0 = if on { Some(awake(0)?) } else { None };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reaches_the_messages_is_tried() {
        let remote = Where::Remote(([192, 0, 2, 1], 7411).into());
        for (reach, place, is_tried) in [
            (Reach::Host, Where::Lab, true),
            (Reach::Namespace, Where::Auto, false),
            (Reach::Namespace, Where::Loopback, true),
            (Reach::Interface, Where::Loopback, false),
            (Reach::Interface, remote, true),
        ] {
            assert_eq!(unreached(reach, place).is_none(), is_tried, "{reach:?} {place:?}");
        }
    }

    #[test]
    fn daemons_and_timers_show_as_pauses() {
        for check in ["mem-huge-daemon", "mem-same-page", "mem-numa-balancing", "mem-compaction", "iso-timer-migration"]
        {
            assert_eq!(shows(check), Shows::Pauses, "{check}");
        }
        for check in ["busy-read", "tcp-autocorking", "cpu-governor", "nic-rx-usecs", "no-such"] {
            assert_eq!(shows(check), Shows::RoundTrips, "{check}");
        }
    }

    #[test]
    fn nothing_is_changed_without_consent() {
        let steps = settings(Vec::new(), Where::Loopback, Consent::Withheld);
        assert!(matches!(&steps[..], [Step { means: Means::Needs("--change-host"), .. }]));
        let steps = settings(Vec::new(), Where::Loopback, Consent::Given);
        assert!(matches!(&steps[..], [Step { means: Means::Change(_), .. }]));
    }
}
