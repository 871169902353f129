//! JSON output: `schema` 1, stable.

use crate::audit::{Audit, CheckedValue, Finding, Status};
use crate::check::{Effect, Group, Risk};
use crate::plan::{ByHand, Change, Plan};
use crate::table;
use serde::Serialize;
use sidestep_sys::Problem;
use std::collections::BTreeMap;

/// The version of the format; it changes when readers have to change.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    tool: Tool,
    profile: &'a str,
    interfaces: Vec<InterfaceLine<'a>>,
    hot_cpus: &'a str,
    virtual_machine: bool,
    counts: BTreeMap<&'static str, usize>,
    findings: Vec<Line<'a>>,
}

#[derive(Serialize)]
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
}

pub(super) const TOOL: Tool = Tool { name: "sidestep", version: env!("CARGO_PKG_VERSION") };

#[derive(Serialize)]
struct InterfaceLine<'a> {
    name: &'a str,
    driver: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'static str,
    group: Group,
    #[serde(rename = "verdict")]
    status: Status,
    title: &'static str,
    wanted: Option<String>,
    values: Vec<Value<'a>>,
    /// The reason why the check was not evaluated.
    reason: &'a str,
    why: &'static str,
    source: &'static str,
    effect: Effect,
    risk: Risk,
    needs_reboot: bool,
}

#[derive(Serialize)]
struct Value<'a> {
    subject: &'a str,
    #[serde(rename = "place")]
    location: Option<String>,
    value: Option<&'a str>,
    shown: Option<&'a str>,
    #[serde(rename = "verdict")]
    status: Status,
}

/// Returns an audit as JSON.
pub fn audit(audit: &Audit) -> Result<String, Problem> {
    let document = Document {
        schema: SCHEMA,
        tool: TOOL,
        profile: &audit.profile,
        interfaces: audit.interfaces.iter().map(|(name, driver)| InterfaceLine { name, driver }).collect(),
        hot_cpus: &audit.hot,
        virtual_machine: audit.is_guest,
        counts: Status::ALL.iter().map(|status| (status.words(), audit.count(*status))).collect(),
        findings: audit.findings.iter().map(line).collect(),
    };
    pretty(&document)
}

#[derive(Serialize)]
struct PlanDocument<'a> {
    schema: u32,
    tool: Tool,
    profile: &'a str,
    changes: Vec<Step<'a>>,
    boot: &'a [String],
    by_hand: &'a [ByHand],
    withheld: &'a [&'static str],
}

#[derive(Serialize)]
struct Step<'a> {
    #[serde(flatten)]
    change: &'a Change,
    effect: Option<Effect>,
    risk: Option<Risk>,
    harm: &'a str,
    source: &'a str,
    reversible: bool,
    needs_reboot: bool,
}

/// Returns a plan as JSON, with the risk of each change.
pub fn plan(plan: &Plan) -> Result<String, Problem> {
    pretty(&PlanDocument {
        schema: SCHEMA,
        tool: TOOL,
        profile: &plan.profile,
        changes: plan.changes.iter().map(step).collect(),
        boot: &plan.boot,
        by_hand: &plan.by_hand,
        withheld: &plan.withheld,
    })
}

fn step(change: &Change) -> Step<'_> {
    let check = table::named(&change.check).ok();
    Step {
        change,
        effect: check.map(|check| check.effect),
        risk: check.map(|check| check.risk),
        harm: check.map_or("", |check| check.harm),
        source: check.map_or("", |check| check.source),
        // Changes that are not made at run time are in `boot` and `by_hand`.
        reversible: true,
        needs_reboot: false,
    }
}

/// Returns a value as indented JSON with a final newline.
pub fn pretty(value: &impl Serialize) -> Result<String, Problem> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Problem::failed("cannot write JSON", error))?;
    Ok(text + "\n")
}

fn line(finding: &Finding) -> Line<'_> {
    let check = finding.check;
    Line {
        id: check.id,
        group: check.group,
        status: finding.status,
        title: check.title,
        wanted: finding.want.as_ref().map(ToString::to_string),
        values: finding.values.iter().map(value).collect(),
        reason: &finding.reason,
        why: check.why,
        source: check.source,
        effect: check.effect,
        risk: check.risk,
        needs_reboot: check.set.needs_reboot(),
    }
}

fn value(checked: &CheckedValue) -> Value<'_> {
    let reading = &checked.reading;
    Value {
        subject: &reading.subject,
        location: reading.location.as_ref().map(|location| location.words()),
        value: reading.value.as_ref().ok().map(String::as_str),
        shown: reading.shown.as_deref(),
        status: checked.status,
    }
}
