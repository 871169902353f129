//! The table of checks: for each the value to read, the reason, and the change.
//!
//! `docs/checks.md`, `sidestep tune explain`, the manual page and the tests are generated from it. The wanted values are in
//! `profiles/tune/*.toml`.

mod cgroups;
mod cpu;
mod firmware;
mod flows;
mod huge_pages;
mod idle;
mod interrupts;
mod isolation;
mod isolation_boot;
mod memory;
mod napi;
mod nic;
mod nic_facts;
mod owners;
mod pcie;
mod polling;
mod scheduler;
mod sockets;

use crate::check::Effect;
use crate::check::{Check, Group, Hosts, Read, Risk, Set};
use crate::reading::Form;
use crate::scope::{Scope, flags};
use sidestep_sys::Problem;

/// The defaults of a row.
const ROW: Check = Check {
    id: "",
    group: Group::Cpu,
    title: "",
    read: Read::Setting(""),
    form: Form::Text,
    hosts: Hosts::All,
    absent: "this kernel has no such setting",
    why: "",
    source: "",
    effect: Effect::Fractions,
    set: Set::Runtime,
    how: "",
    risk: Risk::Low,
    harm: "",
    volatile: false,
    dangerous: false,
};

const PARTS: [&[Check]; 18] = [
    cpu::ROWS,
    idle::ROWS,
    firmware::ROWS,
    isolation::ROWS,
    scheduler::ROWS,
    cgroups::ROWS,
    isolation_boot::ROWS,
    memory::ROWS,
    huge_pages::ROWS,
    nic::ROWS,
    nic_facts::ROWS,
    pcie::ROWS,
    interrupts::ROWS,
    flows::ROWS,
    napi::ROWS,
    polling::ROWS,
    sockets::ROWS,
    owners::ROWS,
];

/// Returns an error if the processor is not of x86: its flags are read where the line has this name there alone.
fn needs_x86(scope: &Scope<'_>) -> Result<(), String> {
    let info = scope.text("proc:cpuinfo");
    match info.is_empty() || flags(&info).next().is_some() {
        true => Ok(()),
        false => Err("this is not an x86 CPU: it has no TSC".into()),
    }
}

/// Returns every check, in the order of the documents, in which settings are also changed.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    PARTS.iter().flat_map(|part| part.iter())
}

/// Returns the check of a name.
pub fn named(id: &str) -> Result<&'static Check, Problem> {
    checks().find(|check| check.id == id).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Problem {
    let mut like: Vec<&str> = checks().map(|check| check.id).filter(|known| is_like(known, id)).collect();
    // Whole words in common come first, and among equals the shortest name.
    let equal = |known: &str| known.split('-').filter(|word| words(id).any(|typed| typed == *word)).count();
    like.sort_by_key(|known| (std::cmp::Reverse(equal(known)), known.split('-').count()));
    like.truncate(5);
    let next = match like[..] {
        [] => "list them all: sidestep tune explain".to_owned(),
        _ => format!("did you mean: {}", like.join(", ")),
    };
    Problem::usage(format!("cannot find the check {id:?}"), "there is none of this name").next(next)
}

/// Returns whether two names share a word.
fn is_like(known: &str, typed: &str) -> bool {
    words(typed).any(|word| word.len() > 2 && known.contains(word))
}

fn words(typed: &str) -> impl Iterator<Item = &str> {
    typed.split(['-', '.', '_'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_complete() {
        let mut ids = BTreeSet::new();
        for check in checks() {
            assert!(ids.insert(check.id), "{} stands twice", check.id);
            assert!(check.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'), "{}", check.id);
            for (field, text) in
                [("title", check.title), ("why", check.why), ("source", check.source), ("how", check.how)]
            {
                assert!(!text.is_empty(), "{}: no {field}", check.id);
            }
            assert!(check.why.ends_with('.'), "{}: the why is a sentence", check.id);
            assert!(check.set == Set::Never || !check.harm.is_empty(), "{}: what can go wrong?", check.id);
            assert!(!check.dangerous || check.risk == Risk::High, "{}", check.id);
        }
        assert!(ids.len() >= 100, "{}", ids.len());
    }

    #[test]
    fn a_name_that_is_not_there_gets_a_hint() {
        assert!(named("rx-usecs").unwrap_err().to_string().contains("nic-rx-usecs"));
        assert!(named("zzz").unwrap_err().to_string().contains("tune explain"));
    }
}
