//! Settings of the host as steps.

use super::step::{Means, Step};
use crate::run::Where;
use crate::scenario::Change;
use sidestep_sys::Problem;
use sidestep_tune::location::Reach;
use sidestep_tune::run::{Held, awake};
use sidestep_tune::trial::Trial;

/// Whether the host may be changed while it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// It may, and everything is put back.
    Given,
    /// It may not.
    Withheld,
}

const WITHHELD: &str = "add --change-host to have it made for the time of the measurement, and put back";

/// The CPUs' sleep, and what `trials` change, as steps; what has no effect on what is measured there says so.
pub fn settings(trials: Vec<Trial>, place: Where, consent: Consent) -> Vec<Step> {
    let allowed = |means: Means| match consent {
        Consent::Given => means,
        Consent::Withheld => Means::Impossible(WITHHELD.into()),
    };
    let awake = Step {
        name: "CPUs awake".into(),
        what: "/dev/cpu_dma_latency held at 0 us: no CPU of the host sleeps".into(),
        means: allowed(Means::Change(Box::new(Awake(None)))),
    };
    let of = |trial: Trial| Step {
        name: trial.check().to_owned(),
        what: trial.words(),
        means: match unreached(trial.reach(), place) {
            Some(why) => Means::Impossible(why.into()),
            None => allowed(Means::Change(Box::new(trial))),
        },
    };
    std::iter::once(awake).chain(trials.into_iter().map(of)).collect()
}

/// Why a setting means nothing to what is measured there.
fn unreached(reach: Reach, place: Where) -> Option<&'static str> {
    match (reach, place) {
        (Reach::Host, _) | (_, Where::Remote(_)) | (Reach::Namespace, Where::Loopback) => None,
        (Reach::Namespace, _) => Some(
            "a lab's hosts have a setting of their own: measure with --place loopback or against another machine (--to)",
        ),
        (Reach::Interface, _) => {
            Some("it is of an interface that no measured message passes here: measure against another machine (--to)")
        }
    }
}

impl Change for Trial {
    fn turn(&mut self, on: bool) -> Result<(), Problem> {
        Self::turn(self, on)
    }
}

/// No CPU sleeps while it is there.
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
    fn nothing_is_changed_without_consent() {
        let steps = settings(Vec::new(), Where::Loopback, Consent::Withheld);
        assert!(matches!(&steps[..], [Step { means: Means::Impossible(why), .. }] if why.contains("--change-host")));
        let steps = settings(Vec::new(), Where::Loopback, Consent::Given);
        assert!(matches!(&steps[..], [Step { means: Means::Change(_), .. }]));
    }
}
