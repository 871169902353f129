//! What would be changed: before and after of each setting, and what only people can change.

use crate::audit::{Audit, Finding, Verdict};
use crate::check::{Check, Form, Reading, Set};
use crate::place::Place;
use crate::scope::Scope;
use crate::show::values_words;
use crate::table;
use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;

/// One setting that is changed, as it stands in a plan and in a snapshot. Values are in the one spelling of [`Form`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The check that asks for it.
    pub check: String,
    /// Of what: `cpu3`, `eth0`.
    pub subject: String,
    /// Where it stands.
    pub place: Place,
    /// How it is spelt there.
    pub form: Form,
    /// The value now.
    pub before: String,
    /// The value wanted.
    pub after: String,
}

/// What a person has to do.
#[derive(Clone, Debug, Serialize)]
pub struct ByHand {
    /// The check that asks for it.
    pub check: &'static str,
    /// What was seen.
    pub seen: String,
    /// The command or the steps.
    pub how: &'static str,
    /// Whether it waits for the next boot.
    pub(crate) needs_reboot: bool,
}

/// What to take of what was found.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// These alone; none: all.
    pub only: Vec<String>,
    /// Not these.
    pub skip: Vec<String>,
    /// Dangerous ones that are wanted all the same.
    pub allow: Vec<String>,
}

/// What would be changed.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The profile that asks for it.
    pub profile: String,
    /// Settings of the running kernel, in the order in which they are changed.
    pub changes: Vec<Change>,
    /// Boot parameters, in the order of the table.
    pub boot: Vec<String>,
    /// What a person has to do.
    pub by_hand: Vec<ByHand>,
    /// Dangerous settings that nobody has named.
    pub withheld: Vec<&'static str>,
}

impl Plan {
    /// Makes a plan of what was found. Err names a check that does not exist.
    pub fn of(scope: &Scope<'_>, audit: &Audit, choice: &Choice) -> Result<Self, Problem> {
        for id in choice.only.iter().chain(&choice.skip).chain(&choice.allow) {
            table::named(id)?;
        }
        let mut plan = Self { profile: audit.profile.clone(), ..Self::default() };
        for finding in table::checks().filter_map(|check| audit.finding(check.id)) {
            if choice.takes(finding.check) {
                plan.add(scope, finding, choice);
            }
        }
        Ok(plan)
    }

    fn add(&mut self, scope: &Scope<'_>, finding: &Finding, choice: &Choice) {
        let check = finding.check;
        let is_named = choice.allow.iter().any(|id| id == check.id);
        // What is dangerous is wished by no profile; the value to set is there for who names it.
        let is_asked = check.dangerous && is_named && finding.verdict == Verdict::Info;
        if finding.verdict > Verdict::Warn && !is_asked {
            return;
        }
        if check.dangerous && !is_named {
            return self.withheld.push(check.id);
        }
        match check.set {
            Set::Runtime => self.add_changes(scope, finding),
            Set::Boot(parameter) => self.add_boot(scope, finding, parameter),
            _ => self.by_hand.push(by_hand(finding)),
        }
    }

    fn add_changes(&mut self, scope: &Scope<'_>, finding: &Finding) {
        let mut left_over = false;
        for reading in finding.deciding() {
            match change(scope, finding, reading) {
                Some(change) if self.changes.iter().all(|known| known.place != change.place) => {
                    self.changes.push(change);
                }
                Some(_) => {}
                None => left_over = true,
            }
        }
        if left_over {
            self.by_hand.push(by_hand(finding));
        }
    }

    fn add_boot(&mut self, scope: &Scope<'_>, finding: &Finding, parameter: &str) {
        let hot = &scope.cpus.hot;
        // "remove threadirqs" is for a person.
        if parameter.starts_with("remove ") || (parameter.contains("{hot}") && hot.is_empty()) {
            return self.by_hand.push(by_hand(finding));
        }
        self.boot.push(parameter.replace("{hot}", &hot.to_string()));
    }

    /// The boot parameters in a line.
    pub fn boot_line(&self) -> String {
        self.boot.join(" ")
    }

    /// A drop-in for GRUB (`/etc/default/grub.d`), which takes effect after `update-grub` and a boot.
    pub fn grub_drop_in(&self) -> String {
        format!(
            "# By sidestep tune plan, profile {}. To undo it: remove this file, run update-grub, boot.\n\
             GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {}\"\n",
            self.profile,
            self.boot_line()
        )
    }
}

impl Choice {
    fn takes(&self, check: &Check) -> bool {
        let is_in = |list: &[String]| list.iter().any(|id| id == check.id);
        !is_in(&self.skip) && (self.only.is_empty() || is_in(&self.only) || is_in(&self.allow))
    }
}

fn change(scope: &Scope<'_>, finding: &Finding, reading: &Reading) -> Option<Change> {
    let before = reading.value.clone().ok()?;
    let place = reading.place.clone().filter(Place::is_settable)?;
    let target = || finding.want.as_ref()?.target(&before, &scope.cpus);
    let after = finding.set.clone().or_else(target).filter(|after| *after != before)?;
    let check = finding.check;
    Some(Change { check: check.id.into(), subject: reading.subject.clone(), place, form: check.form, before, after })
}

fn by_hand(finding: &Finding) -> ByHand {
    let check = finding.check;
    ByHand {
        check: check.id,
        seen: values_words(finding.deciding()),
        how: check.how,
        needs_reboot: check.set.needs_reboot(),
    }
}
