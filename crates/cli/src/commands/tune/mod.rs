//! `sidestep tune`.

mod apply;
mod check;
mod drift;
mod explain;
mod plan;
mod policy;
mod revert;
mod run;
mod snapshot;
mod status;
mod verify;

use crate::args::tune::Tune;
use crate::args::tune_subject::Subject;
use crate::output;
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_tune::fleet::{self, HOSTS_MAX, Member, Saved};
use sidestep_tune::host::{Host, Live, Tree};
use sidestep_tune::profile::Profile;
use sidestep_tune::scope::Request;
use sidestep_tune::show::text::Page;
use std::path::{Path, PathBuf};

pub(super) fn run(command: Tune) -> Result<u8, Problem> {
    match command {
        Tune::Check(args) => check::run(&args),
        Tune::Explain { id } => explain::run(id.as_deref()),
        Tune::Plan(args) => plan::run(&args),
        Tune::Apply(args) => apply::run(&args),
        Tune::Status { json } => status::run(json.as_deref()),
        Tune::Revert { all, forget } => revert::run(all, forget),
        Tune::Policy(args) => policy::run(&args),
        Tune::Snapshot(args) => snapshot::run(&args),
        Tune::Drift(args) => drift::run(&args),
        Tune::Verify(args) => verify::run(&args),
        Tune::Run(args) => run::run(&args),
        Tune::RemovePartition { folder, here } => run::remove_partition(&folder, here),
    }
}

fn host(subject: &Subject) -> Result<Box<dyn Host>, Problem> {
    match &subject.root {
        None => Ok(Box::new(Live::new())),
        Some(root) if root.is_file() => Ok(Box::new(Saved::read(root)?)),
        Some(root) => tree(root),
    }
}

fn tree(root: &Path) -> Result<Box<dyn Host>, Problem> {
    if root.join("proc").is_dir() || root.join("sys").is_dir() {
        return Ok(Box::new(Tree::at(root)));
    }
    Err(Problem::usage(format!("cannot audit {}", root.display()), "it has neither proc nor sys")
        .next("give the folder with the copies of a host's proc, sys and etc, or a file of `sidestep tune snapshot`"))
}

/// Reads the hosts of these files and audits each.
fn members(paths: &[PathBuf], subject: &Subject, profile: &Profile) -> Result<Vec<Member>, Problem> {
    if paths.len() > HOSTS_MAX {
        return Err(Problem::usage("cannot check these hosts", format!("there are more than {HOSTS_MAX}"))
            .next("check them in several runs"));
    }
    let member = |path: &PathBuf| {
        let saved = Saved::read(path)?;
        let source = path.display().to_string();
        if saved.is_cut() {
            say(format!("{source}: the host had more to say than a snapshot may hold; some checks have no value"));
        }
        let audit = fleet::audit(&saved, &request(subject), profile)?;
        Ok(Member { name: saved.name, source, audit })
    };
    paths.iter().map(member).collect()
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
