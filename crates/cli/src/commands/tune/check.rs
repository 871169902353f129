//! `sidestep tune check`.

use crate::args::tune::{Check, FailOn};
use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_tune::audit::{Audit, Status};
use sidestep_tune::fleet::Fleet;
use sidestep_tune::scope::Scope;
use sidestep_tune::show::{fleet, json, text};

pub(super) fn run(args: &Check) -> Result<u8, Problem> {
    let profile = super::profile(&args.subject)?;
    if !args.snapshots.is_empty() {
        let fleet =
            Fleet { profile: profile.name.clone(), members: super::members(&args.snapshots, &args.subject, &profile)? };
        match &args.json {
            Some(path) => output::write(path, &fleet::table_json(&fleet)?)?,
            None => output::print(&fleet::table(&fleet, args.all, super::page()))?,
        }
        return Ok(code(args.fail_on, fleet.worst()));
    }
    let host = super::host(&args.subject)?;
    let scope = Scope::of(host.as_ref(), &super::request(&args.subject))?;
    let audit = Audit::of(&scope, &profile);
    match &args.json {
        Some(path) => output::write(path, &json::audit(&audit)?)?,
        None => output::print(&text::audit(&audit, args.all, super::page()))?,
    }
    Ok(code(args.fail_on, audit.findings.iter().map(|finding| finding.status).min()))
}

fn code(fail_on: FailOn, worst: Option<Status>) -> u8 {
    let limit = match fail_on {
        FailOn::Never => return exit::GOOD,
        FailOn::Fail => Status::Fail,
        FailOn::Warn => Status::Warn,
    };
    if worst.is_some_and(|worst| worst <= limit) { exit::FINDINGS } else { exit::GOOD }
}
