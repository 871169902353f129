//! The plan: each change with old and new value, and the steps that only an administrator can take.

use crate::audit::{Audit, Finding, Status};
use crate::check::{Check, Set};
use crate::location::Location;
use crate::reading::{Form, Reading};
use crate::scope::Scope;
use crate::show::values_words;
use crate::table;
use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;

/// One change, in a plan and in a snapshot. Values are normalised by [`Form`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The check that asks for it.
    pub check: String,
    /// The subject: `cpu3`, `eth0`.
    pub subject: String,
    /// The location of the setting.
    #[serde(rename = "place")]
    pub location: Location,
    /// The format of the value there.
    pub form: Form,
    /// The old value.
    pub before: String,
    /// The new value.
    pub after: String,
}

/// A step for the administrator.
#[derive(Clone, Debug, Serialize)]
pub struct ByHand {
    /// The check that asks for it.
    pub check: &'static str,
    /// The values found.
    pub seen: String,
    /// The command or the steps.
    pub how: &'static str,
    /// Set if it takes effect at the next boot.
    pub(crate) needs_reboot: bool,
}

/// The choice among the findings.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only these checks; none: all.
    pub only: Vec<String>,
    /// All but these.
    pub skip: Vec<String>,
    /// Dangerous checks that are allowed.
    pub allow: Vec<String>,
}

/// The plan of an `apply`.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The profile.
    pub profile: String,
    /// Settings of the running kernel, in the order of the changes.
    pub changes: Vec<Change>,
    /// Boot parameters, in the order of the table.
    pub boot: Vec<String>,
    /// Steps for the administrator.
    pub by_hand: Vec<ByHand>,
    /// Dangerous checks that are not allowed.
    pub withheld: Vec<&'static str>,
}

impl Plan {
    /// Makes a plan of the findings. Err names a check that does not exist.
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
        // No profile wants a dangerous setting; its value to set is for --allow.
        let is_asked = check.dangerous && is_named && finding.status == Status::Info;
        if finding.status > Status::Warn && !is_asked {
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
                Some(change) if self.changes.iter().all(|known| known.location != change.location) => {
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
        // "remove threadirqs" is for the administrator.
        if parameter.starts_with("remove ") || (parameter.contains("{hot}") && hot.is_empty()) {
            return self.by_hand.push(by_hand(finding));
        }
        self.boot.push(parameter.replace("{hot}", &hot.to_string()));
    }

    /// Returns the boot parameters in one line.
    pub fn boot_line(&self) -> String {
        self.boot.join(" ")
    }

    /// Returns a drop-in for GRUB (`/etc/default/grub.d`). It takes effect after `update-grub` and a reboot.
    pub fn grub_drop_in(&self) -> String {
        format!(
            "# By sidestep tune plan, profile {}. To revert it: remove this file, run update-grub, reboot.\n\
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
    let location = reading.location.clone().filter(Location::is_settable)?;
    let target = || finding.want.as_ref()?.target(&before, &scope.cpus);
    let after = finding.set.clone().or_else(target).filter(|after| *after != before)?;
    let check = finding.check;
    Some(Change { check: check.id.into(), subject: reading.subject.clone(), location, form: check.form, before, after })
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
