//! `sidestep-sbe-generator SCHEMA.xml OUT_DIR [--runtime PATH]`: writes the views and encoders of a schema.
#![forbid(unsafe_code)]

use sidestep_sbe_generator::{RUNTIME, XML_BYTES_MAX, generate};
use sidestep_sys::problem::say;
use sidestep_sys::{Kind, Problem, file};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: sidestep-sbe-generator SCHEMA.xml OUT_DIR [--runtime PATH]

Writes Rust views and encoders of an SBE 1.0 schema into OUT_DIR, which becomes a module (mod OUT_DIR;).
They need the crate sidestep-market alone; --runtime is the path of its module sbe (sidestep_market::sbe).";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["-h" | "--help"] => {
            println!("{USAGE}");
            Ok(())
        }
        [schema, folder] => run(schema, folder, RUNTIME),
        [schema, folder, "--runtime", runtime] => run(schema, folder, runtime),
        _ => Err(Problem::usage("cannot generate", "a schema and a folder are needed").next(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say(&problem);
            ExitCode::from(if problem.kind() == Kind::Usage { 2 } else { 1 })
        }
    }
}

fn run(schema: &str, folder: &str, runtime: &str) -> Result<(), Problem> {
    let xml = file::read(Path::new(schema), XML_BYTES_MAX as u64);
    let xml = xml.map_err(|error| Problem::usage(format!("cannot read {schema}"), error).next("check the path"))?;
    let files = generate(schema, &xml, runtime)?;
    for file in &files {
        write(&Path::new(folder).join(&file.path), &file.text)?;
    }
    println!("{folder}: {} files", files.len());
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Problem> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text)).map_err(|error| {
        let next = "give a folder in which you may write";
        Problem::failed(format!("cannot write {}", path.display()), error).next(next)
    })
}
