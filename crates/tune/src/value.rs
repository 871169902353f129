//! Values of a policy, checked against the kind of their setting before anything is planned. The kind is known from the check's
//! form and from what the built-in profile wants: the host is not asked, so a policy is right or wrong everywhere.

use crate::check::{Check, Read};
use crate::cpus::CpuSet;
use crate::profile::{Profile, Wish};
use crate::reading::Form;
use crate::table;
use crate::want::Want;

/// Words of the settings that offer a choice (transparent huge pages, shared memory, ASPM, preemption).
const CHOICES: [&str; 19] = [
    "advise",
    "always",
    "default",
    "defer",
    "defer+madvise",
    "deny",
    "force",
    "full",
    "inherit",
    "lazy",
    "madvise",
    "never",
    "none",
    "performance",
    "powersave",
    "powersupersave",
    "voluntary",
    "within_size",
    "auto",
];

/// What a setting takes.
enum Kind {
    Number,
    Switch,
    Choice,
    Cpus,
    Any,
}

impl Kind {
    fn of(check: &Check, usual: Option<&Want>) -> Self {
        match check.form {
            Form::List | Form::Mask => return Self::Cpus,
            Form::Choice => return Self::Choice,
            Form::Text => {}
        }
        let is_computed = !matches!(check.read, Read::Setting(_));
        match usual {
            // A computed value has words of its own ("off now"), and nobody writes it.
            Some(want) if want.is_of_switch() && !is_computed => Self::Switch,
            Some(want) if want.is_of_numbers() && !is_computed => Self::Number,
            _ => Self::Any,
        }
    }

    fn takes(&self, value: &str) -> bool {
        match self {
            Self::Number => value.parse::<i64>().is_ok(),
            Self::Switch => matches!(value, "on" | "off"),
            Self::Choice => CHOICES.contains(&value),
            Self::Cpus => CpuSet::list(value).is_some(),
            Self::Any => true,
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Switch => "on or off",
            Self::Choice => "one of the words that the kernel offers",
            Self::Cpus => "a list of CPUs",
            Self::Any => "any value",
        }
    }
}

/// Returns what is wrong with the values that are wanted of a check.
pub(crate) fn fault(id: &str, wish: &Wish) -> Option<String> {
    let check = table::named(id).ok()?;
    let usual = Profile::built_in("latency").ok()?;
    let usual = usual.wish(id);
    let kind = Kind::of(check, usual.and_then(|usual| usual.want.as_ref()));
    let named = wish.want.iter().flat_map(Want::values).chain(wish.set.as_deref());
    let is_usual = |value: &str| {
        let wants = usual.into_iter().filter_map(|usual| usual.want.as_ref());
        wants.flat_map(Want::values).any(|known| known == value)
    };
    for value in named {
        if !kind.takes(value) && !is_usual(value) {
            return Some(format!("{id} takes {}, and {value:?} is none", kind.words()));
        }
    }
    let (want, set) = (wish.want.as_ref()?, wish.set.as_ref()?);
    let is_met = want.needs_hot() || want.is_met(set, &crate::want::Cpus::default());
    (!is_met).then(|| format!("{id} is set to {set:?}, which is not what is wanted of it: {want}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Option<String> {
        let profile = Profile::parse(text, "f").expect("it has the form of a policy");
        profile.validate("f").err().map(|problem| problem.to_string())
    }

    #[test]
    fn values_that_the_setting_cannot_take_are_named() {
        for (text, words) in [
            ("name = 'x'\n[fail]\nmem-swappiness = 'low'", "mem-swappiness takes a number, and \"low\""),
            ("name = 'x'\n[warn]\nnic-lro = '0'", "nic-lro takes on or off"),
            ("name = 'x'\n[fail]\nmem-huge-transparent = 'newer'", "mem-huge-transparent takes one of the words"),
            ("name = 'x'\n[fail]\nirq-default = 'first'", "irq-default takes a list of CPUs"),
            ("base = 'latency'\nname = 'x'\n[set]\nmem-huge-pages = 'many'", "mem-huge-pages takes a number"),
            ("name = 'x'\n[warn]\nmem-swappiness = '<=10'\n[set]\nmem-swappiness = '60'", "is not what is wanted"),
        ] {
            let told = faults(text).unwrap_or_default();
            assert!(told.contains(words) && told.contains("next:"), "{text}: {told}");
        }
    }

    #[test]
    fn values_that_fit_pass() {
        for text in [
            "name = 'x'\n[fail]\nmem-swappiness = '<=10 | 100'\nmem-huge-daemon = 'stopped | >=60000'",
            "name = 'x'\n[fail]\nirq-default = '0-3'\niso-workqueue = 'avoids hot'\nnic-lro = 'off'",
            "name = 'x'\n[fail]\ncpu-resume-latency = 'n/a'\ncpu-governor = 'schedutil'\niso-timer-migration = 'kept off'",
        ] {
            assert_eq!(faults(text), None, "{text}");
        }
        for name in crate::profile::names() {
            Profile::built_in(name).unwrap().validate(name).unwrap();
        }
    }
}
