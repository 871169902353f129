//! Text output for a terminal.

use super::values_words;
use crate::apply::Outcome;
use crate::audit::{Audit, Finding, Status};
use crate::check::{Check, Read, Set};
use crate::driver;
use crate::plan::{Change, Plan};
use crate::profile::{self, Profile};
use crate::revert_state::RevertState;
use crate::snapshot::Snapshot;
use crate::table;
use sidestep_sys::Problem;
use sidestep_sys::printable::printable;
use std::fmt::Write;

const DIM: &str = "\u{1b}[2m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";

/// The narrowest page that lines are wrapped to.
const NARROWEST: usize = 40;
/// Indentation of the sentences below a finding.
const INDENT: usize = 6;

/// The width and colour of the output.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Colours are used.
    pub colour: bool,
    /// Characters per line.
    pub width: usize,
}

impl Page {
    /// Returns a text that is safe to display, in a colour: values, names and reasons come from files that may be anyone's.
    fn paint(self, colour: &str, text: &str) -> String {
        let text = printable(text, usize::MAX);
        if self.colour { format!("{colour}{text}{RESET}") } else { text }
    }

    /// Appends a line that is not wrapped.
    pub(super) fn line(self, text: &str, out: &mut String) {
        let _ = writeln!(out, "{}", printable(text, usize::MAX));
    }

    /// Appends an indented paragraph without colour.
    pub(super) fn paragraph(self, indent: usize, text: &str, out: &mut String) {
        self.wrapped("", indent, text, out);
    }

    /// Appends an indented paragraph.
    fn wrapped(self, colour: &str, indent: usize, text: &str, out: &mut String) {
        let width = self.width.max(NARROWEST) - indent;
        let mut line = String::new();
        let mut flush = |line: &mut String| {
            _ = writeln!(out, "{:indent$}{}", "", self.paint(colour, line));
            line.clear();
        };
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                flush(&mut line);
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
        if !line.is_empty() {
            flush(&mut line);
        }
    }
}

fn colour(status: Status) -> &'static str {
    match status {
        Status::Fail => RED,
        Status::Warn | Status::NeedsRoot => YELLOW,
        Status::Pass => GREEN,
        Status::Info | Status::NotApplicable => DIM,
    }
}

/// Returns the findings; `all` adds those that pass, are unknown or do not apply.
pub fn audit(audit: &Audit, all: bool, page: Page) -> String {
    let mut text = String::new();
    page.wrapped(BOLD, 0, &about(audit), &mut text);
    text.push('\n');
    let wanted = |finding: &&Finding| all || finding.status <= Status::Warn;
    audit.findings.iter().filter(wanted).for_each(|finding| finding_lines(finding, page, &mut text));
    notes(audit, page, &mut text);
    page.wrapped(BOLD, 0, &summary(audit), &mut text);
    text
}

fn about(audit: &Audit) -> String {
    let interface = |(name, driver): &(String, String)| match driver.as_str() {
        "" => name.clone(),
        driver => format!("{name} ({driver})"),
    };
    let interfaces: Vec<String> = audit.interfaces.iter().map(interface).collect();
    let interfaces = if interfaces.is_empty() { "no interface".to_owned() } else { interfaces.join(", ") };
    let hot =
        if audit.hot.is_empty() { "hot CPUs not named (--cpus)".to_owned() } else { format!("hot CPUs {}", audit.hot) };
    let machine = if audit.is_guest { "virtual machine" } else { "bare metal" };
    format!("profile {}; {interfaces}; {hot}; {machine}", audit.profile)
}

fn finding_lines(finding: &Finding, page: Page, text: &mut String) {
    let check = finding.check;
    let status = page.paint(colour(finding.status), &format!("{:<16}", finding.status.words()));
    let _ = writeln!(text, "{status}{:<26}{}", check.id, page.paint(DIM, check.effect.words()));
    page.wrapped("", INDENT, &seen(finding), text);
    if finding.status <= Status::Warn {
        page.wrapped(DIM, INDENT, check.why, text);
    }
}

/// Returns the values found and the wanted value.
pub fn seen(finding: &Finding) -> String {
    if !finding.reason.is_empty() {
        return format!("{}: {}", finding.check.title, finding.reason);
    }
    let seen = format!("{}: {}", finding.check.title, values_words(finding.deciding()));
    match &finding.want {
        Some(want) if finding.status <= Status::Warn => format!("{seen}; wanted {want}"),
        _ => seen,
    }
}

fn notes(audit: &Audit, page: Page, text: &mut String) {
    for (interface, name) in &audit.interfaces {
        let Some(driver) = driver::named(name) else { continue };
        page.wrapped(BOLD, 0, &format!("{interface}: {} ({name})", driver.name), text);
        driver.notes.iter().for_each(|note| page.wrapped(DIM, 2, &format!("- {note}"), text));
        text.push('\n');
    }
}

fn summary(audit: &Audit) -> String {
    let counts = Status::ALL.map(|status| (audit.count(status), status.words()));
    let shown: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
    let hint = match audit.count(Status::Fail) + audit.count(Status::Warn) {
        0 => "",
        _ => ". Next: sidestep tune explain ID, sidestep tune plan",
    };
    format!("{}{hint}", shown.join(", "))
}

/// Returns one row of the table in full.
pub fn explain(check: &Check, page: Page) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}  {}", page.paint(BOLD, check.id), check.title);
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            page.wrapped("", 2, &format!("{name}: {value}"), &mut text);
        }
    };
    field("why", check.why);
    field("expected effect", check.effect.words());
    field("read", &reads(check));
    for name in profile::names() {
        field(&format!("wanted by {name}"), &wish_words(name, check.id));
    }
    field("changed", check.set.words());
    field("how", check.how);
    if let Set::Boot(parameter) = check.set {
        field("boot parameter", parameter);
    }
    field("undone", check.set.revert());
    if check.set != Set::Never {
        field("risk", &format!("{}: {}", check.risk.word(), check.harm));
    }
    if check.dangerous {
        field("dangerous", &format!("applied only with --allow {}", check.id));
    }
    field("no value means", check.absent);
    field("source", check.source);
    text
}

/// Returns the changes of a plan.
pub fn plan(plan: &Plan, page: Page) -> String {
    let mut text = String::new();
    let count = match plan.changes.len() {
        1 => "1 setting".to_owned(),
        count => format!("{count} settings"),
    };
    page.wrapped(BOLD, 0, &format!("plan for profile {}: {count}", plan.profile), &mut text);
    for (change, next) in plan.changes.iter().zip(plan.changes.iter().skip(1).map(Some).chain([None])) {
        let words = change.location.words();
        page.line(&format!("  {:<26}{words}: {} -> {}", change.check, change.before, change.after), &mut text);
        if next.is_none_or(|next| next.check != change.check) {
            cost_lines(change, page, &mut text);
        }
    }
    if !plan.boot.is_empty() {
        page.wrapped(BOLD, 0, "boot parameters (not applied; --grub FILE writes a drop-in):", &mut text);
        page.line(&format!("  {}", plan.boot_line()), &mut text);
    }
    if !plan.by_hand.is_empty() {
        page.wrapped(BOLD, 0, "by hand:", &mut text);
    }
    for step in &plan.by_hand {
        page.wrapped("", 2, &format!("{}: {}", step.check, step.how), &mut text);
        page.wrapped(DIM, INDENT, &format!("seen: {}", step.seen), &mut text);
    }
    if !plan.withheld.is_empty() {
        page.wrapped(
            YELLOW,
            0,
            &format!("dangerous, applied only with --allow: {}", plan.withheld.join(", ")),
            &mut text,
        );
    }
    text
}

/// Appends effect and risk, once for all changes of a check.
fn cost_lines(change: &Change, page: Page, text: &mut String) {
    let Ok(check) = table::named(&change.check) else { return };
    let words = format!(
        "{}; takes effect at once, can be reverted; risk {}: {} [{}]",
        check.effect.words(),
        check.risk.word(),
        check.harm,
        check.source
    );
    page.wrapped(DIM, INDENT, &words, text);
}

/// Returns the outcome of `apply`.
pub fn outcome(plan: &Plan, outcome: &Outcome, page: Page) -> String {
    let mut text = String::new();
    page.wrapped(BOLD, 0, &format!("{} of {} settings changed", outcome.applied, plan.changes.len()), &mut text);
    for (change, why) in &outcome.failed {
        page.wrapped(YELLOW, 2, &format!("{}: {why}", change.location.words()), &mut text);
    }
    for (change, why) in &outcome.immovable {
        page.wrapped(
            DIM,
            2,
            &format!("{}: the kernel refuses to change it: {why}", change.location.words()),
            &mut text,
        );
    }
    for (change, why) in &outcome.stuck {
        page.wrapped(
            RED,
            2,
            &format!("{} could not be reverted to {}: {why}", change.location.words(), change.before),
            &mut text,
        );
    }
    if !plan.boot.is_empty() || !plan.by_hand.is_empty() {
        let rest = format!("{} boot parameters and {} steps are left for you", plan.boot.len(), plan.by_hand.len());
        page.wrapped(DIM, 0, &format!("{rest}: sidestep tune plan"), &mut text);
    }
    if outcome.snapshot.is_some() {
        page.wrapped(DIM, 0, "to revert: sidestep tune revert", &mut text);
    }
    text
}

/// Returns the states of the settings of a snapshot.
pub fn snapshot(snapshot: &Snapshot, states: &Result<Vec<(Change, RevertState)>, Problem>, page: Page) -> String {
    let mut text = String::new();
    page.line(&format!("snapshot {}, profile {}", snapshot.number, snapshot.profile), &mut text);
    match states {
        Err(problem) => page.line(&format!("  {}", problem.brief()), &mut text),
        Ok(states) => {
            for (change, state) in states {
                let values = format!("{} -> {}", change.before, change.after);
                page.line(&format!("  {}: {values}, {}", change.location.words(), state.words()), &mut text);
            }
        }
    }
    text
}

/// Returns every check in one line.
pub fn list(checks: impl Iterator<Item = &'static Check>) -> String {
    checks.map(|check| format!("{:<26}{}\n", check.id, check.title)).collect()
}

pub(crate) fn reads(check: &Check) -> String {
    match check.read {
        Read::Setting(template) => {
            crate::location::Location::parse(template).map_or(template.to_owned(), |location| location.words())
        }
        Read::Boot(name) => format!("{name} of /proc/cmdline"),
        Read::Derived(words, _) => words.to_owned(),
    }
}

/// Returns the wanted value of a check in a built-in profile.
pub(crate) fn wish_words(profile: &str, id: &str) -> String {
    let wish = Profile::built_in(profile).ok().and_then(|profile| profile.wish(id).cloned());
    match wish.as_ref().map(|wish| (&wish.want, wish.severity)) {
        Some((Some(want), profile::Severity::Fail)) => format!("{want}, or it fails"),
        Some((Some(want), _)) => format!("{want}, or it warns"),
        _ => "nothing".into(),
    }
}
