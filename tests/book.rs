//! The book and the README hold: every command in them runs, or says why not and parses; every link leads somewhere; every page is
//! in the table of contents. `SIDESTEP_BOOK=PART_OF_A_NAME cargo test --test book` runs the commands of some pages.

#[path = "book/hosts.rs"]
mod hosts;
#[path = "book/links.rs"]
mod links;
#[path = "book/page.rs"]
mod page;
#[path = "book/shell.rs"]
mod shell;
mod support;

use page::{Block, Page, Way};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Why a block of commands is not run: what this test cannot have, or must not do. `<!-- not run: REASON -->` stands before it, where
/// more may stand behind one of these.
const REASONS: &[&str] = &[
    "builds it",
    "changes a NIC",
    "changes this host",
    "needs a NIC",
    "needs a program",
    "needs a recorded day",
    "needs systemd",
    "needs the installed library",
    "needs two hosts",
    "runs until it is stopped",
    "takes too long for a test",
];

/// Programs in the book that a machine may lack (`scripts/bootstrap programs` installs them): the page is skipped by its name then.
const MAY_BE_ABSENT: &[&str] = &["curl", "ethtool", "python3"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source() -> PathBuf {
    root().join("docs/book/src")
}

/// The pages whose commands are run: the README, and the book's own.
fn pages() -> Vec<Page> {
    let mut files = vec![root().join("README.md")];
    files.extend(page::files(&source()));
    files.iter().map(|file| Page::read(root(), file)).collect()
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = Page::read(root(), &source().join("SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = contents.links.iter().map(|link| source().join(&link.to)).collect();
    for file in &listed {
        assert!(file.exists(), "SUMMARY.md: there is no {}", file.display());
    }
    let decisions = std::fs::read_dir(source().join("docs/decisions")).unwrap().flatten().map(|entry| entry.path());
    for file in page::files(&source()).into_iter().chain(decisions) {
        let is_contents = file.ends_with("SUMMARY.md");
        assert!(is_contents || listed.contains(&file), "SUMMARY.md does not list {}", file.display());
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = links::of_book(root(), &source());
    for name in
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SPEC.md", "THREATS.md", "GLOSSARY.md", "CHANGELOG.md"]
    {
        wrong.extend(links::of_file(root(), &root().join(name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn reasons_are_known_and_used() {
    let mut used = BTreeSet::new();
    for page in pages() {
        for block in &page.blocks {
            let Way::NotRun(reason) = &block.way else { continue };
            let known = REASONS.iter().find(|known| reason.starts_with(**known));
            used.insert(
                *known.unwrap_or_else(|| panic!("{}: {reason:?} is no reason that this test knows", block.place)),
            );
        }
    }
    for reason in REASONS {
        assert!(used.contains(reason), "nothing is not run because it {reason}: take it off the list");
    }
}

/// Also of commands that are run: a block whose end is never reached is checked, too.
#[test]
fn every_command_parses() {
    let mut wrong = Vec::new();
    for page in pages() {
        for block in &page.blocks {
            wrong.extend(
                shell::faults(root(), &block.text).into_iter().map(|fault| format!("{}: {fault}", block.place)),
            );
        }
        for code in &page.codes {
            wrong.extend(shell::unknown_flags(&code.text).into_iter().map(|fault| format!("{}: {fault}", code.place)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_command_that_can_be_run_here_works() {
    if !support::is_root() {
        return;
    }
    let wanted = std::env::var("SIDESTEP_BOOK").unwrap_or_default();
    for page in pages().iter().filter(|page| page.name.contains(&wanted)) {
        let blocks: Vec<&Block> = page.blocks.iter().filter(|block| !matches!(block.way, Way::NotRun(_))).collect();
        match blocks.iter().find_map(|block| shell::absent(&block.text, MAY_BE_ABSENT)) {
            Some(program) => eprintln!("skipped: {} needs {program}", page.name),
            None if blocks.is_empty() => {}
            None => hosts::run(&page.name, &blocks),
        }
    }
}
