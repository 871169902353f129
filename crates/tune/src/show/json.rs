//! For scripts: `schema` 1, stable.

use crate::audit::{Audit, Finding, Judged, Verdict};
use crate::check::{Effect, Group, Risk};
use crate::plan::{ByHand, Change, Plan};
use crate::table;
use serde::Serialize;
use sidestep_sys::Problem;
use std::collections::BTreeMap;

/// The number of this format; it changes when a reader would have to.
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
struct Tool {
    name: &'static str,
    version: &'static str,
}

const TOOL: Tool = Tool { name: "sidestep", version: env!("CARGO_PKG_VERSION") };

#[derive(Serialize)]
struct InterfaceLine<'a> {
    name: &'a str,
    driver: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'static str,
    group: Group,
    verdict: Verdict,
    title: &'static str,
    wanted: Option<String>,
    values: Vec<Value<'a>>,
    /// Why there is no verdict.
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
    place: Option<String>,
    value: Option<&'a str>,
    shown: Option<&'a str>,
    verdict: Verdict,
}

/// The whole audit.
pub fn audit(audit: &Audit) -> Result<String, Problem> {
    let document = Document {
        schema: SCHEMA,
        tool: TOOL,
        profile: &audit.profile,
        interfaces: audit.interfaces.iter().map(|(name, driver)| InterfaceLine { name, driver }).collect(),
        hot_cpus: &audit.hot,
        virtual_machine: audit.is_guest,
        counts: Verdict::ALL.iter().map(|verdict| (verdict.words(), audit.count(*verdict))).collect(),
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

/// A plan, with what each change may cost.
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
        // What is not is no change of a plan: it stands under `boot` and `by_hand`.
        reversible: true,
        needs_reboot: false,
    }
}

/// Anything as JSON, with a line's end.
pub fn pretty(value: &impl Serialize) -> Result<String, Problem> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Problem::failed("cannot write JSON", error))?;
    Ok(text + "\n")
}

fn line(finding: &Finding) -> Line<'_> {
    let check = finding.check;
    Line {
        id: check.id,
        group: check.group,
        verdict: finding.verdict,
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

fn value(judged: &Judged) -> Value<'_> {
    let reading = &judged.reading;
    Value {
        subject: &reading.subject,
        place: reading.place.as_ref().map(|place| place.words()),
        value: reading.value.as_ref().ok().map(String::as_str),
        shown: reading.shown.as_deref(),
        verdict: judged.verdict,
    }
}
