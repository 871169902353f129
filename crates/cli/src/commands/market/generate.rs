//! `sidestep market generate`.

use crate::args::MarketGenerate as Args;
use crate::{exit, output};
use sidestep_sbe_generator::{XML_BYTES_MAX, generate};
use sidestep_sys::{Problem, file};
use std::fs;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let Args { schema, folder, runtime } = args;
    let xml = file::read(schema, XML_BYTES_MAX as u64).map_err(|error| {
        Problem::usage(format!("cannot read {}", schema.display()), error)
            .next("name the schema that your venue publishes")
    })?;
    let files = generate(&schema.display().to_string(), &xml, runtime)?;
    for file in &files {
        let path = folder.join(&file.path);
        let above = path.parent().unwrap_or(folder);
        let written = fs::create_dir_all(above).and_then(|()| fs::write(&path, &file.text));
        written.map_err(|error| output::unwritable(&path, error))?;
    }
    output::print(&format!("{}: {} files\n", folder.display(), files.len()))?;
    Ok(exit::GOOD)
}
