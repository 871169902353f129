//! `sidestep lab`.

use crate::args::{HostKind, Lab as Args, LabExec, LabUp};
use crate::{exit, output, signal};
use sidestep_bench::run::this_program;
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Checksums, Condition, Lab, Lifetime, Listing, Options, Removal, Side, run_wire};
use sidestep_sys::problem::{Problem, say};
use std::fmt::Write;
use std::os::unix::process::CommandExt;

pub(super) fn run(args: Args) -> Result<u8, Problem> {
    match args {
        Args::Up(args) => up(&args),
        Args::Down { name, force } => down(name, force),
        Args::Exec(args) => exec(args),
        Args::Status { json } => status(json),
        Args::Wire { name } => run_wire(&name, &*signal::stop_flag()?).map(|()| exit::GOOD),
    }
}

fn up(args: &LabUp) -> Result<u8, Problem> {
    let lab = Lab::up(&Options {
        name: args.name.clone(),
        lifetime: Lifetime::Persistent,
        checksums: if args.true_checksums { Checksums::True } else { Checksums::Offloaded },
        impairment: impairment(args)?,
        queues: args.queues,
        mtu: args.mtu,
        frames_pair: false,
        relay_program: Some(this_program()),
    })?;
    lab.swept().iter().for_each(say);
    let name = lab.name();
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    output::print(&format!(
        "lab {name} is up\n  a  {}  {} on {}\n  b  {}  {} on {}\ntry: sidestep lab exec --lab {name} a -- ping -c 3 {}\nend: sidestep lab down {name}\n",
        a.namespace, a.ipv4, a.interface, b.namespace, b.ipv4, b.interface, b.ipv4
    ))?;
    Ok(exit::GOOD)
}

/// Parses the impairment: `--impair` is for both directions unless `--impair-back` is given.
fn impairment(args: &LabUp) -> Result<Option<Directions<Impairment>>, Problem> {
    let forth = args.impair.as_deref().map(Impairment::parse).transpose()?;
    let back = args.impair_back.as_deref().map(Impairment::parse).transpose()?;
    if forth.is_none() && back.is_none() {
        return Ok(None);
    }
    let back = back.or_else(|| forth.clone()).unwrap_or_default();
    Ok(Some(Directions { a_to_b: forth.unwrap_or_default(), b_to_a: back }))
}

fn down(name: Option<String>, force: bool) -> Result<u8, Problem> {
    let name = name.map_or_else(|| only_lab("there is nothing to remove"), Ok)?;
    let removal = if force { Removal::Forced } else { Removal::Careful };
    if let Some(remark) = Lab::down_by_name(&name, removal)? {
        say(remark);
    }
    Ok(exit::GOOD)
}

fn exec(args: LabExec) -> Result<u8, Problem> {
    let lab = Lab::open(&args.lab.map_or_else(|| only_lab("create one with: sidestep lab up"), Ok)?)?;
    let side = match args.host {
        HostKind::A => Side::A,
        HostKind::B => Side::B,
    };
    let (program, rest) = args.command.split_first().expect("clap asks for a command");
    let mut command = lab.host(side).command(program)?;
    // Comes back only if it could not be started.
    let error = command.args(rest).exec();
    Err(Problem::failed(format!("cannot run {}", program.display()), error).next("check its name and PATH"))
}

/// Returns the name of the only lab that is up. `next` is the next step if none is.
fn only_lab(next: &str) -> Result<String, Problem> {
    choose(&Lab::list()?, next)
}

/// Chooses the only lab. Labs that a running command has created for itself do not count.
fn choose(labs: &[Listing], next: &str) -> Result<String, Problem> {
    let is_anybodys = |lab: &&Listing| !matches!(lab.condition, Condition::Owned(_));
    let names: Vec<&str> = labs.iter().filter(is_anybodys).map(|lab| lab.name.as_str()).collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err(Problem::usage("no lab given", "none is up").next(next)),
        _ => Err(Problem::usage("no lab given", "several are up").next(format!("name one of: {}", names.join(", ")))),
    }
}

fn status(json: bool) -> Result<u8, Problem> {
    let labs = Lab::list()?;
    if json {
        let failed = |error| Problem::failed("cannot list labs", error).next("leave --json out");
        let text = serde_json::to_string_pretty(&labs).map_err(failed)?;
        output::print(&(text + "\n"))?;
    } else if labs.is_empty() {
        output::print("no labs\n")?;
    } else {
        let mut text = String::new();
        labs.iter().for_each(|lab| describe(lab, &mut text));
        output::print(&text)?;
    }
    Ok(exit::GOOD)
}

fn describe(lab: &Listing, text: &mut String) {
    let condition = match &lab.condition {
        Condition::Persistent => "up".to_owned(),
        Condition::Owned(pid) => format!("up until process {pid} ends"),
        Condition::Stale(reason) => format!("dead ({reason}); creating the next lab removes it"),
        Condition::Damaged(reason) => format!("its record is damaged ({reason}); sidestep lab down {}", lab.name),
    };
    let _ = writeln!(text, "{}  {condition}", lab.name);
    for host in &lab.hosts {
        let _ = writeln!(text, "  {}  {} on {}", host.namespace, host.ipv4, host.interface);
    }
    if let Some(wire) = &lab.impairment {
        let _ = writeln!(text, "  wire a to b: {}\n  wire b to a: {}", wire.a_to_b, wire.b_to_a);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_of_a_running_command_is_not_taken_for_the_users() {
        let lab = |name: &str, condition| Listing {
            name: name.into(),
            condition,
            hosts: Vec::new(),
            checksums: None,
            impairment: None,
            wire_pid: None,
        };
        let (bench, mine, other) = (
            lab("bench", Condition::Owned(1)),
            lab("mine", Condition::Persistent),
            lab("other", Condition::Stale("its owner has ended".into())),
        );
        assert_eq!(choose(&[bench.clone(), mine.clone()], "").unwrap(), "mine");
        assert!(choose(&[bench], "make one").unwrap_err().next_step().contains("make one"));
        assert!(choose(&[mine, other], "").unwrap_err().next_step().contains("mine, other"));
    }
}
