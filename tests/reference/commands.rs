//! The pages of commands, one for each command of the first level, from the definition of the flags.

use crate::plain;
use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

const HEAD: &str = "# Commands

```text
";

const AFTER: &str = "
These pages are made from the definition of the flags, as is `--help` of each command, the manual pages (`sidestep man FOLDER`) and
the completions of shells (`sidestep completions bash`); a test compares them.

| command | what it does |
|---|---|
";

/// Names and texts: `index`, then one page for each command.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut command = sidestep_cli::definition().disable_help_subcommand(true).term_width(100);
    command.build();
    let mut index = format!("{HEAD}{}\n```\n", command.clone().render_usage());
    index.push_str(AFTER);
    let mut pages = Vec::new();
    for one in visible(&command) {
        let (name, about) = (one.get_name(), about(one));
        let _ = writeln!(index, "| [{name}]({name}.md) | {} |", plain(&about));
        let mut text = String::new();
        section(one, 1, &mut text);
        pages.push((name.to_owned(), text));
    }
    if let Some(help) = command.get_after_help() {
        after(&help.to_string(), &mut index);
    }
    pages.insert(0, ("index".to_owned(), index));
    pages
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set())
}

fn about(command: &Command) -> String {
    let text = command.get_long_about().or_else(|| command.get_about());
    text.map(ToString::to_string).unwrap_or_default()
}

/// A command and those below it.
fn section(command: &Command, level: usize, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let marks = "#".repeat(level.min(4));
    let _ = writeln!(text, "{marks} {name}\n\n{}.\n", plain(&about(command)));
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(text, "```text\n{}\n```", usage.trim_start_matches("Usage: "));
    arguments(command, text);
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        after(&help.to_string(), text);
    }
    for one in visible(command) {
        text.push('\n');
        section(one, level + 1, text);
    }
}

/// The text behind the flags, as it is on a terminal.
fn after(help: &str, text: &mut String) {
    let _ = writeln!(text, "\n```text\n{}\n```", help.trim_end());
}

/// Positional arguments first, then flags, in the order and under the headings of `--help`.
fn arguments(command: &Command, text: &mut String) {
    let shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let all: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    let (first, flags): (Vec<&Arg>, Vec<&Arg>) = all.into_iter().partition(|arg| arg.is_positional());
    let mut groups: Vec<(Option<&str>, Vec<&Arg>)> = vec![(None, first)];
    for flag in flags {
        let heading = flag.get_help_heading();
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, group)) => group.push(flag),
            None => groups.push((heading, vec![flag])),
        }
    }
    for (heading, group) in groups.into_iter().filter(|(_, group)| !group.is_empty()) {
        if let Some(heading) = heading {
            let _ = writeln!(text, "\n{heading}:");
        }
        text.push_str("\n| argument | meaning |\n|---|---|\n");
        for arg in group {
            let _ = writeln!(text, "| `{}` | {} |", form(arg).replace('|', "\\|"), meaning(arg));
        }
    }
}

/// `-6, --ipv6`, `--size <BYTES>`.
fn form(arg: &Arg) -> String {
    let text = arg.to_string();
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {text}"),
        _ => text,
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut parts = vec![plain(&help)];
    let values: Vec<String> = match arg.is_hide_possible_values_set() {
        false => arg.get_possible_values().iter().filter(|one| !one.is_hide_set()).map(value).collect(),
        true => Vec::new(),
    };
    if !values.is_empty() && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        parts.push(format!("<br>Values: {}", values.join("; ")));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|one| format!("`{}`", one.to_string_lossy().replace('|', "\\|"))).collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() && takes_value(arg) {
        parts.push(format!("<br>Default: {}", defaults.join(", ")));
    }
    parts.join(" ")
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn value(one: &clap::builder::PossibleValue) -> String {
    let help = one.get_help().map(|help| format!(": {}", plain(&help.to_string()))).unwrap_or_default();
    format!("`{}`{help}", one.get_name())
}
