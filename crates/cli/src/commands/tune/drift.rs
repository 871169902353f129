//! `sidestep tune drift`.

use crate::args::tune::Drift as Args;
use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_tune::audit::Audit;
use sidestep_tune::fleet::drift::{Drift, between};
use sidestep_tune::policy::host_name;
use sidestep_tune::scope::{Request, Scope};
use sidestep_tune::show::fleet as show;
use std::slice::from_ref;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let profile = super::profile(&args.subject)?;
    let good = super::members(from_ref(&args.good), &args.subject, &profile)?.remove(0);
    let others = match args.others.is_empty() {
        true => {
            let host = super::host(&args.subject)?;
            // The same CPUs are hot as on the good host, unless others are named: that is what is compared.
            let hot = args.subject.cpus.clone().or_else(|| sidestep_tune::cpus::CpuSet::list(&good.audit.hot));
            let request = Request { hot: hot.filter(|hot| !hot.is_empty()), ..super::request(&args.subject) };
            let scope = Scope::of(host.as_ref(), &request)?;
            vec![(host_name(host.as_ref()), Audit::of(&scope, &profile))]
        }
        false => super::members(&args.others, &args.subject, &profile)?
            .into_iter()
            .map(|member| (format!("{} ({})", member.name, member.source), member.audit))
            .collect(),
    };
    let found: Vec<(String, Vec<Drift>)> =
        others.into_iter().map(|(name, audit)| (name, between(&good.audit, &audit))).collect();
    let good = format!("{} ({})", good.name, good.source);
    match &args.json {
        Some(path) => output::write(path, &show::drift_json(&good, &found)?)?,
        None => {
            for (name, drifts) in &found {
                output::print(&show::drift(&good, name, drifts, super::page()))?;
            }
        }
    }
    let is_worse = found.iter().any(|(_, drifts)| drifts.iter().any(Drift::is_worse));
    Ok(if is_worse { exit::FINDINGS } else { exit::GOOD })
}
