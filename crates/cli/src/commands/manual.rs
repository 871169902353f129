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
    let (page, mut text) = (Man::new(command.clone()), Vec::new());
    page.render(&mut text)?;
    std::fs::write(folder.join(page.get_filename()), verbatim(&String::from_utf8_lossy(&text)))
}

/// Keeps the lines of the examples as they are: filled, commands run into each other.
fn verbatim(page: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (help, after) = rest.find("\n.SH ").map_or((rest, ""), |end| rest.split_at(end + 1));
    match help.strip_prefix("Examples:\n") {
        Some(examples) => format!("{before}.SH EXAMPLES\n.nf\n{examples}.fi\n{after}"),
        None => format!("{before}.SH NOTES\n{help}{after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines() {
        let page = |help: &str| format!(".SH OPTIONS\na\n.SH EXTRA\n{help}\n.SH VERSION\nv1\n");
        let kept = ".SH OPTIONS\na\n.SH EXAMPLES\n.nf\n  sidestep demo\n.fi\n.SH VERSION\nv1\n";
        assert_eq!(verbatim(&page("Examples:\n  sidestep demo")), kept);
        assert!(verbatim(&page("Exit codes: 0")).contains(".SH NOTES\nExit codes: 0\n.SH VERSION"));
        let mut main = Vec::new();
        Man::new(definition()).render(&mut main).expect("memory takes it");
        let main = verbatim(&String::from_utf8_lossy(&main));
        assert!(main.contains(".SH EXAMPLES\n.nf\n") && !main.contains(".SH EXTRA"), "{main}");
    }
}
