//! The steps of `tune verify`.

use crate::path::Path;
use crate::scenario::Change;
use sidestep_sys::Problem;
use std::fmt;

/// One step.
#[derive(Debug)]
pub struct Step {
    /// Its name ("CPU pinned", "busy-read").
    pub name: String,
    /// A description of the change.
    pub what: String,
    /// The means.
    pub means: Means,
    /// The measurement that shows its effect.
    pub shows: Shows,
}

/// The measurement that shows the effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Round trips, most of which it changes.
    RoundTrips,
    /// Pauses of the CPU, which come a few times a minute or an hour.
    Pauses,
}

/// The means of a step.
pub enum Means {
    /// Another path of the program.
    Path(&'static Path),
    /// The interface's interrupts go to the measuring CPU.
    Interrupts,
    /// The measuring end runs on an isolated CPU.
    IsolatedCpu,
    /// A change of the host.
    Change(Box<dyn Change>),
    /// Impossible here, with the reason.
    Impossible(String),
    /// Possible, but not allowed by this flag of `tune verify`, which is missing.
    Needs(&'static str),
}

impl fmt::Debug for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "Path({})", path.name),
            Self::Interrupts => f.write_str("Interrupts"),
            Self::IsolatedCpu => f.write_str("IsolatedCpu"),
            Self::Change(_) => f.write_str("Change"),
            Self::Needs(flag) => write!(f, "Needs({flag})"),
            Self::Impossible(reason) => write!(f, "Impossible({reason:?})"),
        }
    }
}

/// The ladder of Waskiewicz's "Anatomy of Networking in High-Frequency Trading" (NetDev 0x16), with `settings` of the host
/// between isolation and polling: most of them shorten a wake-up, which a spinning receive does not have.
pub fn ladder(settings: Vec<Step>) -> Result<Vec<Step>, Problem> {
    let step =
        |name: &str, what: &str, means| Step { name: name.into(), what: what.into(), means, shows: Shows::RoundTrips };
    let path = |name: &str| Path::named(name).map(Means::Path);
    let mut steps = vec![
        step("CPU pinned", "each end on a CPU of its own", path("kernel-pinned")?),
        step("IRQ pinned", "the interface's interrupts on the measuring CPU", Means::Interrupts),
        step("CPU isolated", "the measuring end on an isolated CPU", Means::IsolatedCpu),
    ];
    steps.extend(settings);
    steps.push(step("SO_BUSY_POLL", "a receive polls the device for 50 us before it sleeps", path("kernel-busypoll")?));
    steps.push(step("polling", "a receive never sleeps: one CPU per end", path("kernel-spin")?));
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_between_isolation_and_polling() {
        let setting =
            Step { name: "x".into(), what: String::new(), means: Means::Impossible("no".into()), shows: Shows::Pauses };
        let steps = ladder(vec![setting]).expect("the paths exist");
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["CPU pinned", "IRQ pinned", "CPU isolated", "x", "SO_BUSY_POLL", "polling"]);
        assert!(format!("{steps:?}").contains("Path(kernel-spin)"));
    }
}
