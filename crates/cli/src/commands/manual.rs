//! `sidestep completions` and `sidestep man`, both generated from the definition of the flags.

use crate::{definition, exit, output};
use sidestep_sys::Problem;
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
    clap_mangen::generate_to(definition(), folder).map_err(failed)?;
    std::fs::write(folder.join("sidestep-tune-checks.7"), sidestep_tune::show::document::manual()).map_err(failed)?;
    output::print(&format!("{}\n", folder.join("sidestep.1").display()))?;
    Ok(exit::GOOD)
}
