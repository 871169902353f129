//! `sidestep tune plan`.

use crate::args::tune::Plan as Args;
use crate::args::tune_subject::Choice;
use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_tune::audit::Audit;
use sidestep_tune::host::Host;
use sidestep_tune::plan::{self, Plan};
use sidestep_tune::scope::Scope;
use sidestep_tune::show;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let host = super::host(&args.subject)?;
    let plan = make(host.as_ref(), &args.subject, &args.choice)?;
    if let Some(path) = &args.grub {
        write_drop_in(path, &plan)?;
    }
    match &args.json {
        Some(path) => output::write(path, &show::json::plan(&plan)?)?,
        None => {
            if args.subject.cpus.is_none() {
                say(
                    "hot CPUs not named (--cpus): changes that need them are left out, unless CPUs are isolated already",
                );
            }
            output::print(&show::text::plan(&plan, super::page()))?;
        }
    }
    Ok(exit::GOOD)
}

/// Audits a host and returns the plan for it.
pub(super) fn make(
    host: &dyn Host,
    subject: &crate::args::tune_subject::Subject,
    choice: &Choice,
) -> Result<Plan, Problem> {
    let scope = Scope::of(host, &super::request(subject))?;
    let audit = Audit::of(&scope, &super::profile(subject)?);
    let choice = plan::Choice { only: choice.only.clone(), skip: choice.skip.clone(), allow: choice.allow.clone() };
    Plan::of(&scope, &audit, &choice)
}

/// Writes a new file. An existing one is never overwritten.
fn write_drop_in(path: &Path, plan: &Plan) -> Result<(), Problem> {
    let what = format!("cannot write {}", path.display());
    if plan.boot.is_empty() {
        return Err(Problem::usage(what, "the plan has no boot parameters")
            .next("leave --grub out, or give the hot CPUs (--cpus): some parameters need them"));
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(plan.grub_drop_in().as_bytes())).map_err(|error| {
        Problem::failed(what, error).next("choose a new file, such as /etc/default/grub.d/90-sidestep.cfg")
    })
}
