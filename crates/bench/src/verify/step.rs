//! The steps: what there is to try.

use crate::path::Path;
use crate::scenario::Change;
use sidestep_sys::Problem;
use std::fmt;

/// One thing to try.
#[derive(Debug)]
pub struct Step {
    /// Its name ("CPU pinned", "busy-read").
    pub name: String,
    /// What is changed, in words.
    pub what: String,
    /// How.
    pub means: Means,
}

/// How a step is taken.
pub enum Means {
    /// The program does it: another path.
    Path(&'static Path),
    /// The interface's interrupts go to the measuring CPU.
    Interrupts,
    /// The measuring end goes to a CPU that the scheduler leaves alone.
    IsolatedCpu,
    /// The host is changed.
    Change(Box<dyn Change>),
    /// It cannot be done here, and why.
    Impossible(String),
}

impl fmt::Debug for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "Path({})", path.name),
            Self::Interrupts => f.write_str("Interrupts"),
            Self::IsolatedCpu => f.write_str("IsolatedCpu"),
            Self::Change(_) => f.write_str("Change"),
            Self::Impossible(reason) => write!(f, "Impossible({reason:?})"),
        }
    }
}

/// The ladder of Waskiewicz's "Anatomy of Networking in High-Frequency Trading" (NetDev 0x16), with `settings` of the host
/// between isolation and polling: a spinning receive does without the wake-up that most of them shorten.
pub fn ladder(settings: Vec<Step>) -> Result<Vec<Step>, Problem> {
    let step = |name: &str, what: &str, means| Step { name: name.into(), what: what.into(), means };
    let path = |name: &str| Path::named(name).map(Means::Path);
    let mut steps = vec![
        step("CPU pinned", "each end on a CPU of its own", path("kernel-pinned")?),
        step("IRQ pinned", "the interface's interrupts on the measuring CPU", Means::Interrupts),
        step("CPU isolated", "the measuring end on a CPU that the scheduler leaves alone", Means::IsolatedCpu),
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
        let setting = Step { name: "x".into(), what: String::new(), means: Means::Impossible("no".into()) };
        let steps = ladder(vec![setting]).expect("the paths exist");
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["CPU pinned", "IRQ pinned", "CPU isolated", "x", "SO_BUSY_POLL", "polling"]);
        assert!(format!("{steps:?}").contains("Path(kernel-spin)"));
    }
}
