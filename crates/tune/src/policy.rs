//! A policy made from a known-good host: its values become the wanted values of other hosts.

use crate::audit::{Audit, Finding, Status};
use crate::check::Set;
use crate::host::Host;
use crate::location::Location;
use crate::want::Want;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The most values of one check in a policy; more differ by chance, not by intent.
const VALUES_MAX: usize = 8;

/// Returns the host's name.
pub fn host_name(host: &dyn Host) -> String {
    let name = host.read(&Location::of("proc:sys/kernel/hostname")).unwrap_or_default();
    if name.is_empty() { "host".into() } else { name }
}

/// Returns the text of a policy, which [`Profile::parse`](crate::profile::Profile::parse) reads.
pub fn of(audit: &Audit, name: &str) -> String {
    let about = format!("as {name} was when this was made; profile {}", audit.profile);
    let mut findings: Vec<&Finding> = audit.findings.iter().collect();
    findings.sort_by_key(|finding| (finding.check.group, finding.check.id));
    let (mut report, mut fail) = (String::new(), String::new());
    for finding in findings {
        let id = finding.check.id;
        match wish(finding) {
            Some(want) => _ = writeln!(fail, "{id} = {}", quoted(&String::from(want))),
            None => _ = writeln!(report, "    {},", quoted(id)),
        }
    }
    format!(
        "# A policy of sidestep tune: the values of a known-good host, by check. Edit it as you like.\n\nname = {}\nabout = \
         {}\n\n# Reported only.\nreport = [\n{report}]\n\n[fail]\n{fail}",
        quoted(name),
        quoted(&about)
    )
}

/// Quotes a string for TOML: a JSON string is one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the wanted value that the values match: the profile's own if it matches and means more than a value (hot CPUs,
/// bounds): another host has other CPUs.
fn wish(finding: &Finding) -> Option<Want> {
    let is_met = finding.status == Status::Pass;
    match &finding.want {
        Some(want) if is_met && (want.needs_hot() || finding.check.set == Set::Never) => return Some(want.clone()),
        Some(want) if want.needs_hot() => return None,
        _ => {}
    }
    if finding.check.set == Set::Never {
        return None;
    }
    let values: Option<BTreeSet<&str>> =
        finding.values.iter().map(|checked| checked.reading.value.as_ref().ok().map(String::as_str)).collect();
    let values = values.filter(|values| !values.is_empty() && values.len() <= VALUES_MAX)?;
    let text = values.into_iter().collect::<Vec<_>>().join(" | ");
    // A value that reads as a bound, or as nothing, cannot be wanted by its text.
    Want::parse(&text)
        .ok()
        .filter(|want| finding.values.iter().all(|checked| is_exact(want, checked.reading.value.as_deref().ok())))
}

fn is_exact(want: &Want, value: Option<&str>) -> bool {
    value.is_some_and(|value| want.is_met(value, &crate::want::Cpus::default()))
}
