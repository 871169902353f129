//! Outputs of results: standard output and files. A file is checked before the run and replaced whole after it; what is no regular
//! file (a device, a pipe) is written to, and stays.

use crate::args::{Output, Shown};
use rustix::termios::tcgetwinsize;
use sidestep_report::schema::Document;
use sidestep_report::terminal::Style;
use sidestep_report::{cmdline, html, json, terminal};
use sidestep_sys::Problem;
pub(crate) use sidestep_sys::file::replace::unwritable;
use sidestep_sys::file::replace::{Target, try_replace};
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
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
    shown: Shown,
}

impl Outputs {
    /// Checks that the files can be written, before time is spent on measuring.
    pub(crate) fn prepare(Output { json, html, shown }: Output) -> Result<Self, Problem> {
        for path in json.iter().chain(&html).filter(|path| !is_stdout(path)) {
            let tried = match Target::of(path) {
                // Written next to it and renamed later, so the folder must allow a new file.
                Ok(Target::File(file)) => try_replace(&file, TRIAL_BYTES),
                // To open a pipe on trial would end its reader.
                other => other.map(drop),
            };
            tried.map_err(|error| unwritable(path, error))?;
        }
        Ok(Self { json, html, shown })
    }

    /// Writes the document everywhere it was asked for; the table goes to standard output unless the JSON does.
    pub(crate) fn write(&self, document: &mut Document) -> Result<(), Problem> {
        if !self.shown.full_cmdline {
            cmdline::redact(document);
        }
        if !self.json.iter().chain(&self.html).any(|path| is_stdout(path)) {
            print(&terminal::render(document, Style { verbose: self.shown.verbose, ..style() }))?;
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
    Style { colour: is_terminal && !no_colour, width: width(columns.as_deref(), io::stdout()), verbose: false }
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
    let written = Target::of(path).and_then(|target| target.write(text.as_bytes()));
    written.map_err(|error| unwritable(path, error))
}

/// Returns whether two paths name one file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    identity(one).is_some_and(|file| identity(other) == Some(file))
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

    /// A folder of its own, which goes with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sidestep-output-{}-{name}", std::process::id()));
            fs::create_dir(&path).expect("a new folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn to(json: PathBuf) -> Output {
        Output { json: Some(json), ..Output::default() }
    }

    #[test]
    fn devices_and_pipes_are_written_to_and_stay() {
        let folder = Folder::new("devices");
        let pipe = folder.0.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
        Outputs::prepare(to(pipe.clone())).expect("it can be written");
        assert!(write(&pipe, "x").expect_err("nothing reads it").to_string().contains("start its reader"));
        let mut reader = std::process::Command::new("cat");
        let reader = reader.arg(&pipe).stdout(std::process::Stdio::piped()).spawn().expect("it runs");
        while write(&pipe, "whole").is_err() {
            std::thread::yield_now();
        }
        assert_eq!(reader.wait_with_output().expect("it ends").stdout, b"whole");
        assert!(!pipe.is_file(), "it is still a pipe");
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_a_run() {
        let full = Outputs::prepare(to("/dev/full/a".into())).expect_err("no folder");
        assert!(full.to_string().contains("is a file"), "{full}");
    }
}
