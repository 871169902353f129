//! `sidestep tune`.

mod apply;
mod check;
mod explain;
mod plan;
mod policy;
mod revert;
mod run;
mod status;
mod verify;

use crate::args::tune::Tune;
use crate::args::tune_subject::Subject;
use crate::output;
use sidestep_sys::Problem;
use sidestep_tune::host::{Host, Live, Tree};
use sidestep_tune::profile::Profile;
use sidestep_tune::scope::Request;
use sidestep_tune::show::text::Page;

pub(super) fn run(command: Tune) -> Result<u8, Problem> {
    match command {
        Tune::Check(args) => check::run(&args),
        Tune::Explain { id } => explain::run(id.as_deref()),
        Tune::Plan(args) => plan::run(&args),
        Tune::Apply(args) => apply::run(&args),
        Tune::Status { json } => status::run(json.as_deref()),
        Tune::Revert { all, forget } => revert::run(all, forget),
        Tune::Policy(args) => policy::run(&args),
        Tune::Verify(args) => verify::run(&args),
        Tune::Run(args) => run::run(&args),
        Tune::RemovePartition { folder, here } => run::remove_partition(&folder, here),
    }
}

fn host(subject: &Subject) -> Result<Box<dyn Host>, Problem> {
    let Some(root) = &subject.root else { return Ok(Box::new(Live::new())) };
    if root.join("proc").is_dir() || root.join("sys").is_dir() {
        return Ok(Box::new(Tree::at(root)));
    }
    Err(Problem::usage(format!("cannot audit {}", root.display()), "it has neither proc nor sys")
        .next("give the folder with the copies of a host's proc, sys and etc"))
}

fn profile(subject: &Subject) -> Result<Profile, Problem> {
    match &subject.policy {
        Some(path) => Profile::read(path),
        None => Profile::built_in(&subject.profile),
    }
}

fn request(subject: &Subject) -> Request {
    Request { interfaces: subject.interface.clone(), hot: subject.cpus.clone() }
}

fn page() -> Page {
    let style = output::style();
    Page { colour: style.colour, width: style.width }
}
