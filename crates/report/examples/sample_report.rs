//! Writes the report of a made-up run, to look at: `cargo run -p sidestep-report --example sample_report DIRECTORY`.
#![forbid(unsafe_code)]

mod sample;

use std::path::PathBuf;
use std::{env, fs, io};

use sidestep_report::{histogram, html, json, schema, terminal};

fn main() -> io::Result<()> {
    let directory = env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let document = sample::document();
    fs::write(directory.join("report.html"), html::render(&document))?;
    fs::write(directory.join("picture.svg"), html::picture(&document, html::Theme::Light))?;
    fs::write(directory.join("picture-dark.svg"), html::picture(&document, html::Theme::Dark))?;
    fs::write(directory.join("result.json"), json::to_string(&document))?;
    print!("{}", terminal::render(&document, terminal::Style::default()));
    Ok(())
}
