//! Hosts side by side, and drift, for a terminal and as JSON.

use super::clean;
use super::json::{TOOL, Tool, pretty};
use super::text::{Page, seen};
use crate::audit::{Finding, Status};
use crate::fleet::drift::{Difference, Drift};
use crate::fleet::{Fleet, Member};
use serde::Serialize;
use sidestep_sys::Problem;
use std::collections::BTreeMap;
use std::fmt::Write;

const SCHEMA: u32 = 1;
/// Columns of a check's name.
const NAME: usize = 26;
/// The most differing values of one check that are shown in text.
const VALUES_SHOWN_MAX: usize = 4;

/// Returns the sign of a status in the table.
fn sign(finding: Option<&Finding>) -> char {
    match finding.map(|finding| finding.status) {
        Some(Status::Fail) => 'F',
        Some(Status::Warn) => 'w',
        Some(Status::NeedsRoot) => '?',
        Some(Status::Pass) => '.',
        Some(Status::Info) => 'i',
        Some(Status::NotApplicable) | None => '-',
    }
}

/// Returns the hosts, then a row for each check with a sign for each host. Without `all` only rows with a failure, a warning or a
/// value that only root may read.
pub fn table(fleet: &Fleet, all: bool, page: Page) -> String {
    let mut text = format!("profile {}; hosts: {}\n\n", fleet.profile, fleet.members.len());
    let digits = fleet.members.len().to_string().len();
    for (number, member) in (1..).zip(&fleet.members) {
        page.line(&format!("{number:>digits$}  {}  {}", member_words(member), counts_words(member)), &mut text);
    }
    text.push_str("\nF fails, w warns, ? only root may read it, . passes, i is reported, - does not apply\n");
    let columns = (page.width.saturating_sub(NAME) / (digits + 1)).max(1);
    for (block, members) in fleet.members.chunks(columns).enumerate() {
        let first = block * columns;
        let numbers: String = (first + 1..=first + members.len()).map(|number| format!(" {number:>digits$}")).collect();
        let _ = writeln!(text, "\n{:<NAME$}{numbers}", "check");
        for check in fleet.checks() {
            let findings = fleet.findings(check);
            let is_bad = findings.iter().flatten().any(|finding| finding.status <= Status::NeedsRoot);
            if all || is_bad {
                let signs = &findings[first..first + members.len()];
                let signs: String = signs.iter().map(|one| format!(" {:>digits$}", sign(*one))).collect();
                let _ = writeln!(text, "{:<NAME$}{signs}", check.id);
            }
        }
    }
    text.push_str(&bad_values(fleet, digits, page));
    text
}

fn member_words(member: &Member) -> String {
    let hot = if member.audit.hot.is_empty() { "not named" } else { &member.audit.hot };
    format!("{} ({}), hot CPUs {hot}:", clean(&member.name), clean(&member.source))
}

fn counts_words(member: &Member) -> String {
    let counts = Status::ALL.map(|status| (member.audit.count(status), status.words()));
    let shown = counts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"));
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns what was found where a check fails: equal findings once, with the numbers of their hosts.
fn bad_values(fleet: &Fleet, digits: usize, page: Page) -> String {
    let mut text = String::new();
    for check in fleet.checks() {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for (number, finding) in (1..).zip(fleet.findings(check)) {
            let Some(finding) = finding.filter(|finding| finding.status <= Status::Warn) else { continue };
            let words = seen(finding);
            match groups.iter_mut().find(|(known, _)| *known == words) {
                Some((_, hosts)) => hosts.push(number.to_string()),
                None => groups.push((words, vec![number.to_string()])),
            }
        }
        for (words, hosts) in groups {
            page.line(&format!("{:<NAME$} {:>digits$}: {words}", check.id, hosts.join(",")), &mut text);
        }
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

#[derive(Serialize)]
struct TableDocument<'a> {
    schema: u32,
    tool: Tool,
    profile: &'a str,
    hosts: Vec<HostLine<'a>>,
    checks: Vec<CheckLine>,
}

#[derive(Serialize)]
struct HostLine<'a> {
    name: &'a str,
    source: &'a str,
    hot_cpus: &'a str,
    counts: BTreeMap<&'static str, usize>,
}

#[derive(Serialize)]
struct CheckLine {
    id: &'static str,
    /// One for each host; null where the policy says nothing of it.
    verdicts: Vec<Option<Status>>,
    /// What was found, for each host.
    seen: Vec<Option<String>>,
}

/// Returns the same as JSON.
pub fn table_json(fleet: &Fleet) -> Result<String, Problem> {
    let counts = |member: &Member| Status::ALL.iter().map(|one| (one.words(), member.audit.count(*one))).collect();
    let hosts = fleet.members.iter().map(|member| HostLine {
        name: &member.name,
        source: &member.source,
        hot_cpus: &member.audit.hot,
        counts: counts(member),
    });
    let checks = fleet.checks().map(|check| {
        let findings = fleet.findings(check);
        CheckLine {
            id: check.id,
            verdicts: findings.iter().map(|finding| finding.map(|finding| finding.status)).collect(),
            seen: findings.iter().map(|finding| finding.map(seen)).collect(),
        }
    });
    let (hosts, checks) = (hosts.collect(), checks.collect());
    pretty(&TableDocument { schema: SCHEMA, tool: TOOL, profile: &fleet.profile, hosts, checks })
}

/// Returns what differs on one host from the good one.
pub fn drift(good: &str, other: &str, drifts: &[Drift], page: Page) -> String {
    let mut text = format!("{} against {}: ", clean(other), clean(good));
    let worse = drifts.iter().filter(|one| one.is_worse()).count();
    let _ = match drifts.len() {
        0 => writeln!(text, "nothing differs"),
        count => writeln!(text, "checks that differ: {count}, worse: {worse}"),
    };
    for one in drifts {
        let verdict = match one.good == one.other {
            true => one.good.words().to_owned(),
            false => format!("{} -> {}", one.good.words(), one.other.words()),
        };
        let _ = writeln!(text, "  {:<NAME$}{verdict}", one.check.id);
        let shown: Vec<String> = one.values.iter().take(VALUES_SHOWN_MAX).map(difference_words).collect();
        let more = one.values.len().saturating_sub(VALUES_SHOWN_MAX);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        if !shown.is_empty() {
            page.paragraph(4, &format!("{}: {}{more}", one.check.title, shown.join("; ")), &mut text);
        }
    }
    text
}

fn difference_words(one: &Difference) -> String {
    let value = |value: &Option<String>| value.as_ref().map_or_else(|| "none".to_owned(), |value| clean(value));
    let subject = if one.subject.is_empty() { String::new() } else { format!(" ({})", clean(&one.subject)) };
    format!("{} -> {}{subject}", value(&one.good), value(&one.other))
}

#[derive(Serialize)]
struct DriftDocument<'a> {
    schema: u32,
    tool: Tool,
    good: &'a str,
    hosts: Vec<DriftHost<'a>>,
}

#[derive(Serialize)]
struct DriftHost<'a> {
    name: &'a str,
    checks: Vec<DriftLine<'a>>,
}

#[derive(Serialize)]
struct DriftLine<'a> {
    id: &'static str,
    good: Status,
    now: Status,
    values: Vec<DriftValue<'a>>,
}

#[derive(Serialize)]
struct DriftValue<'a> {
    subject: &'a str,
    good: Option<&'a str>,
    now: Option<&'a str>,
}

/// Returns the drift of several hosts as JSON.
pub fn drift_json<'a>(good: &'a str, hosts: &'a [(String, Vec<Drift>)]) -> Result<String, Problem> {
    let host = |(name, drifts): &'a (String, Vec<Drift>)| DriftHost { name, checks: drifts.iter().map(line).collect() };
    let hosts = hosts.iter().map(host).collect();
    pretty(&DriftDocument { schema: SCHEMA, tool: TOOL, good, hosts })
}

fn line(one: &Drift) -> DriftLine<'_> {
    let values = one.values.iter().map(|value| DriftValue {
        subject: &value.subject,
        good: value.good.as_deref(),
        now: value.other.as_deref(),
    });
    DriftLine { id: one.check.id, good: one.good, now: one.other, values: values.collect() }
}
