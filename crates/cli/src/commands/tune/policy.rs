//! `sidestep tune policy`.

use crate::args::tune::Policy;
use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_tune::audit::Audit;
use sidestep_tune::policy;
use sidestep_tune::scope::Scope;

pub(super) fn run(args: &Policy) -> Result<u8, Problem> {
    let profile = super::profile(&args.subject)?;
    let host = super::host(&args.subject)?;
    let scope = Scope::of(host.as_ref(), &super::request(&args.subject))?;
    let name = args.name.clone().unwrap_or_else(|| policy::host_name(host.as_ref()));
    output::print(&policy::of(&Audit::of(&scope, &profile), &name))?;
    Ok(exit::GOOD)
}
