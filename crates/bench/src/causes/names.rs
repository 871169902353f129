//! The causes that were met, each with a number.

/// More causes than a host has; further ones share the last number. A program that renames its threads cannot fill the memory.
const NAMES_MAX: usize = 1024;
/// The name that stands for further ones.
const OTHERS: &str = "others";

/// The kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// An interrupt or an IPI, on an end's CPU.
    Interrupt,
    /// A softirq there.
    Softirq,
    /// A task that ran while an end waited for the CPU.
    Task,
    /// A CPU that was idle when an end was woken there.
    Idle,
    /// Something without a duration that is known: a page fault, a migration.
    Event,
    /// A counter that grew in the slice.
    Counter,
}

impl Class {
    /// The word for the result file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Softirq => "softirq",
            Self::Task => "task",
            Self::Idle => "idle",
            Self::Event => "event",
            Self::Counter => "counter",
        }
    }
}

/// The number of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u16);

/// All causes met in a run.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<(Class, String)>);

impl Names {
    /// The number of a cause, a new one if it was not met before.
    pub(crate) fn id(&mut self, class: Class, what: &str) -> Id {
        let known = self.0.iter().position(|(known, name)| *known == class && name == what);
        let place = known.unwrap_or_else(|| {
            if self.0.len() < NAMES_MAX {
                let what = if self.0.len() + 1 == NAMES_MAX { OTHERS } else { what };
                self.0.push((class, what.to_owned()));
            }
            self.0.len() - 1
        });
        Id(place as u16)
    }

    /// Its class.
    pub(crate) fn class(&self, id: Id) -> Class {
        self.0[usize::from(id.0)].0
    }

    /// Its name.
    pub(crate) fn what(&self, id: Id) -> &str {
        &self.0[usize::from(id.0)].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_keeps_its_number_and_there_is_an_end_to_them() {
        let mut names = Names::default();
        let timer = names.id(Class::Interrupt, "local timer");
        assert_ne!(timer, names.id(Class::Softirq, "local timer"));
        assert_eq!(timer, names.id(Class::Interrupt, "local timer"));
        assert_eq!((names.class(timer), names.what(timer)), (Class::Interrupt, "local timer"));
        let last = (0..70_000).map(|i| names.id(Class::Task, &format!("task {i}"))).last().unwrap();
        assert_eq!(names.what(last), OTHERS);
        assert_eq!(names.0.len(), NAMES_MAX);
    }
}
