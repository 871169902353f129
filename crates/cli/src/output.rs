//! Outputs of results: standard output and files. A file is checked before the run and replaced whole after it.

use sidestep_report::schema::Document;
use sidestep_report::terminal::Style;
use sidestep_report::{html, json, terminal};
use sidestep_sys::Problem;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Width of a table if COLUMNS is not set.
const WIDTH: usize = 120;

/// The outputs of a run, known to be writable.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl Outputs {
    /// Checks that the files can be written, before time is spent on measuring.
    pub(crate) fn prepare(json: Option<PathBuf>, html: Option<PathBuf>) -> Result<Self, Problem> {
        for path in json.iter().chain(&html).filter(|path| !is_stdout(path)) {
            // Written next to it and renamed later, so the folder must allow a new file.
            let draft = draft(path);
            let check = OpenOptions::new().create(true).append(true).open(&draft).and_then(|_| fs::remove_file(&draft));
            check.map_err(|error| unwritable(path, error))?;
            if path.is_dir() {
                return Err(unwritable(path, ErrorKind::IsADirectory.into()));
            }
        }
        Ok(Self { json, html })
    }

    /// Writes the document everywhere it was asked for; the table goes to standard output unless the JSON does.
    pub(crate) fn write(&self, document: &Document) -> Result<(), Problem> {
        if !self.json.iter().chain(&self.html).any(|path| is_stdout(path)) {
            print(&terminal::render(document, style()))?;
        }
        if let Some(path) = &self.json {
            write(path, &json::to_string(document))?;
        }
        if let Some(path) = &self.html {
            write(path, &html::render(document))?;
        }
        Ok(())
    }
}

/// Returns the terminal's width, and colour if standard output is a terminal and NO_COLOR is not set.
pub(crate) fn style() -> Style {
    let is_terminal = io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(WIDTH);
    Style { colour: is_terminal && !no_colour, width }
}

/// Writes text to a file, or to standard output for `-`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Problem> {
    if is_stdout(path) {
        return print(text);
    }
    let draft = draft(path);
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).map_err(|error| {
        let _ = fs::remove_file(&draft);
        unwritable(path, error)
    })
}

/// Writes text to standard output. A reader that went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Problem> {
    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Problem::failed("cannot print", error).next("check where standard output goes"))
        }
        _ => Ok(()),
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn draft(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.draft", std::process::id()));
    path.with_file_name(name)
}

fn unwritable(path: &Path, error: io::Error) -> Problem {
    Problem::failed(format!("cannot write {}", path.display()), error)
        .next("choose a file in a folder you may write to")
}
