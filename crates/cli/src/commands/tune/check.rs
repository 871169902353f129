//! `sidestep tune check`.

use crate::args::tune::{Check, FailOn};
use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_tune::audit::{Audit, Status};
use sidestep_tune::scope::Scope;
use sidestep_tune::show::{json, text};

pub(super) fn run(args: &Check) -> Result<u8, Problem> {
    let profile = super::profile(&args.subject)?;
    let host = super::host(&args.subject)?;
    let scope = Scope::of(host.as_ref(), &super::request(&args.subject))?;
    let audit = Audit::of(&scope, &profile);
    match &args.json {
        Some(path) => output::write(path, &json::audit(&audit)?)?,
        None => output::print(&text::audit(&audit, args.all, super::page()))?,
    }
    let worst = match args.fail_on {
        None => return Ok(exit::GOOD),
        Some(FailOn::Fail) => Status::Fail,
        Some(FailOn::Warn) => Status::Warn,
    };
    let is_found = audit.findings.iter().any(|finding| finding.status <= worst);
    Ok(if is_found { exit::FINDINGS } else { exit::GOOD })
}
