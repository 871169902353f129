//! `sidestep completions` and `sidestep man`, both generated from the definition of the flags.

use crate::{definition, exit, output};
use clap::Command;
use clap_mangen::Man;
use sidestep_sys::Problem;
use std::io;
use std::path::Path;

pub(super) fn completions(shell: clap_complete::Shell) -> Result<u8, Problem> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut definition(), "sidestep", &mut text);
    output::print(&String::from_utf8_lossy(&text))?;
    Ok(exit::GOOD)
}

pub(super) fn pages(folder: &Path) -> Result<u8, Problem> {
    let failed = |error| {
        Problem::failed(format!("cannot write manual pages to {}", folder.display()), error)
            .next("give a folder you may write to")
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut command = definition().disable_help_subcommand(true);
    command.build();
    write(folder, &command).map_err(failed)?;
    std::fs::write(folder.join("sidestep-tune-checks.7"), sidestep_tune::show::document::manual()).map_err(failed)?;
    output::print(&format!("{}\n", folder.join("sidestep.1").display()))?;
    Ok(exit::GOOD)
}

/// Writes the page of a command, and those of its commands.
fn write(folder: &Path, command: &Command) -> io::Result<()> {
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write(folder, one)?;
    }
    let (name, text) = page(command)?;
    std::fs::write(folder.join(name), text)
}

/// A page, and the name of its file.
fn page(command: &Command) -> io::Result<(String, String)> {
    let source = concat!("sidestep ", env!("CARGO_PKG_VERSION"));
    let (page, mut text) = (Man::new(command.clone()).source(source).manual("sidestep"), Vec::new());
    page.render(&mut text)?;
    Ok((page.get_filename(), in_sections(&String::from_utf8_lossy(&text))))
}

/// Makes sections of what a help text ends with: examples and paths, whose lines are kept (filled, commands run into each other),
/// and remarks.
fn in_sections(page: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (help, after) = rest.find("\n.SH ").map_or((rest, ""), |end| rest.split_at(end + 1));
    let sections: String = help.trim_end().split("\n\n").map(section).collect();
    format!("{before}{sections}{after}")
}

fn section(part: &str) -> String {
    let kept = |name: &str, lines: &str| format!(".SH {name}\n.nf\n{lines}\n.fi\n");
    match (part.strip_prefix("Examples:\n"), part.strip_prefix("Paths:\n")) {
        (Some(examples), _) => kept("EXAMPLES", examples),
        (_, Some(paths)) => kept("PATHS", paths),
        _ => format!(".SH NOTES\n{part}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_remarks_do_not() {
        let page = |help: &str| format!(".SH OPTIONS\na\n.SH EXTRA\n{help}\n.SH VERSION\nv1\n");
        let kept = ".SH OPTIONS\na\n.SH EXAMPLES\n.nf\n  sidestep demo\n.fi\n.SH NOTES\nIt is.\n.SH VERSION\nv1\n";
        assert_eq!(in_sections(&page("Examples:\n  sidestep demo\n\nIt is.")), kept);
        assert!(in_sections(&page("Exit codes: 0")).contains(".SH NOTES\nExit codes: 0\n.SH VERSION"));
    }

    #[test]
    fn pages_are_titled_and_in_sections() {
        let mut all = definition();
        all.build();
        let rr = all.find_subcommand("bench").and_then(|bench| bench.find_subcommand("rr")).expect("it is there");
        let (name, text) = page(rr).expect("memory takes it");
        assert_eq!(name, "sidestep-bench-rr.1");
        let title = text.lines().find(|line| line.starts_with(".TH")).unwrap_or_default();
        assert!(title.contains("sidestep-bench-rr") && title.contains("\"sidestep 0."), "{title}");
        for heading in [".SH EXAMPLES\n.nf\n", ".SH PATHS\n.nf\n"] {
            assert!(text.contains(heading), "{heading}: {text}");
        }
        assert!(!text.contains(".SH EXTRA"), "{text}");
    }
}
