//! Outputs of results: standard output and files. A file is checked before the run and replaced whole after it.

use rustix::termios::tcgetwinsize;
use sidestep_report::schema::Document;
use sidestep_report::terminal::Style;
use sidestep_report::{html, json, terminal};
use sidestep_sys::Problem;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Width of a table where neither COLUMNS nor a terminal says another.
const WIDTH: usize = 120;
/// Written on trial before a run: about the bytes of a large result.
const TRIAL_BYTES: usize = 1 << 20;

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
            if path.is_dir() {
                return Err(unwritable(path, ErrorKind::IsADirectory.into()));
            }
            // Written next to it and renamed later, so the folder must allow a new file.
            let draft = draft(path);
            let tried = fs::write(&draft, vec![0; TRIAL_BYTES]);
            let removed = fs::remove_file(&draft);
            tried.and(removed).map_err(|error| unwritable(path, error))?;
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
    let columns = std::env::var("COLUMNS").ok();
    Style { colour: is_terminal && !no_colour, width: width(columns.as_deref(), io::stdout()) }
}

/// Returns the width of the terminal that standard output is; none where it is none.
pub(crate) fn terminal_width() -> Option<usize> {
    io::stdout().is_terminal().then(|| style().width)
}

/// Returns COLUMNS, where somebody has exported it, or the width of the terminal (TIOCGWINSZ, ioctl_tty(2)). Shells set COLUMNS,
/// but do not export it.
fn width(columns: Option<&str>, output: impl AsFd) -> usize {
    let of_terminal = || tcgetwinsize(output).ok().map(|size| usize::from(size.ws_col));
    let asked = columns.and_then(|columns| columns.parse().ok()).filter(|width| *width > 0);
    asked.or_else(|| of_terminal().filter(|width| *width > 0)).unwrap_or(WIDTH)
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

/// Returns the error of a file that cannot be written, with the step that its reason asks for.
pub(crate) fn unwritable(path: &Path, error: io::Error) -> Problem {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.display();
    let next = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("free space there (df {folder}), or choose a file on another file system")
        }
        ErrorKind::NotFound => format!("make its folder: mkdir -p {folder}"),
        ErrorKind::IsADirectory => format!("choose a file in it: {}", path.join("result").display()),
        ErrorKind::NotADirectory => "choose a file in a folder: a part of its path is a file".into(),
        ErrorKind::ReadOnlyFilesystem => "choose a file on a file system that is mounted for writing".into(),
        _ => "choose a file in a folder you may write to".into(),
    };
    Problem::failed(format!("cannot write {}", path.display()), error).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::termios::{Winsize, tcsetwinsize};
    use std::fs::OpenOptions;

    #[test]
    fn the_terminal_says_how_wide_it_is_unless_somebody_asks_for_another_width() {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/ptmx").expect("a terminal");
        let size = |ws_col| Winsize { ws_row: 24, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size(83)).expect("it is a terminal");
        assert_eq!(width(None, &terminal), 83);
        assert_eq!(width(Some("70"), &terminal), 70);
        assert_eq!(width(Some("0"), &terminal), 83);
        assert_eq!(width(Some("wide"), &terminal), 83);
        tcsetwinsize(&terminal, size(0)).expect("it is a terminal");
        assert_eq!(width(None, &terminal), WIDTH, "a serial line does not know");
        assert_eq!(width(None, fs::File::open("/dev/null").expect("it is there")), WIDTH);
    }

    #[test]
    fn the_next_step_is_that_of_the_reason() {
        let next =
            |errno| unwritable(Path::new("/srv/a/b.json"), io::Error::from_raw_os_error(errno)).next_step().to_owned();
        assert!(next(28).contains("df /srv/a"), "ENOSPC: {}", next(28));
        assert_eq!(next(2), "make its folder: mkdir -p /srv/a");
        assert!(next(13).contains("you may write to") && next(20).contains("is a file"));
        let full = Outputs::prepare(Some("/dev/full/a".into()), None).expect_err("no folder");
        assert!(full.to_string().contains("is a file"), "{full}");
    }
}
