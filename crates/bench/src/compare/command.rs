//! One command of a comparison, in a process group of its own: what it starts ends with it.

use sidestep_sys::printable::printable;
use sidestep_sys::process::{Process, Watch, kill_group};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Signals as signal(7) numbers them on every architecture of Linux that runs here.
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// Time between two looks at a command that runs.
const LOOK: Duration = Duration::from_millis(20);
/// Time for a group to end in order after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// What is read of the end of a command's words, bytes.
const TAIL_BYTES: usize = 64 << 10;
/// What is repeated of them, bytes.
const LAST_BYTES: usize = 300;

/// Runs a command until it ends or `stop` is set, and ends its whole group then. Returns its status and its last line, with its
/// standard error in the new file `said`.
pub(super) fn run(command: &str, said: &Path, stop: &AtomicBool) -> io::Result<(ExitStatus, String)> {
    let said = OpenOptions::new().read(true).write(true).create_new(true).open(said)?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.try_clone()?)
        .process_group(0) // A signal to the shell alone would leave what it has started.
        .spawn()?;
    let status = wait(&child, stop).and_then(|()| end(&mut child));
    if status.is_err() {
        let _ = kill_group(child.id(), SIGKILL);
    }
    Ok((status?, last_line(&said)?))
}

/// Waits until the command ends or `stop` is set. It is left a zombie, so that the number of its group stays its own.
fn wait(child: &Child, stop: &AtomicBool) -> io::Result<()> {
    let Some(process) = Process::of(child.id())? else { return Ok(()) };
    let Some(watch) = Watch::new(process)? else { return Ok(()) };
    while !stop.load(Ordering::Relaxed) && !watch.has_ended() {
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Ends what is left of a command's group: in order, then by force.
fn end(child: &mut Child) -> io::Result<ExitStatus> {
    let group = child.id();
    // Programs of another user (sudo) may refuse: they have the same time.
    let _ = kill_group(group, SIGTERM);
    let begin = Instant::now();
    while begin.elapsed() < GRACE {
        // After the leader was waited for, its number is not given to others while the group has a process.
        if child.try_wait()?.is_some() && !kill_group(group, 0).unwrap_or(true) {
            return child.wait();
        }
        std::thread::sleep(LOOK);
    }
    let forced = kill_group(group, SIGKILL);
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    forced?;
    child.wait()
}

/// How it ended, with its last words.
pub(super) fn ended(status: ExitStatus, last: &str) -> String {
    let last = if last.is_empty() { "it said nothing" } else { last };
    match status.code() {
        Some(code) => format!("exit code {code}: {last}"),
        None => format!("a signal ended it: {last}"),
    }
}

/// The last line of a file that is not blank, fit to be shown; empty if there is none.
fn last_line(said: &File) -> io::Result<String> {
    let from = said.metadata()?.len().saturating_sub(TAIL_BYTES as u64);
    let mut tail = vec![0; TAIL_BYTES];
    let mut filled = 0;
    while filled < tail.len() {
        match said.read_at(&mut tail[filled..], from + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    let text = String::from_utf8_lossy(&tail[..filled]);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Ok(printable(last.unwrap_or_default(), LAST_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_in(folder: &Path, command: &str, stop: bool) -> (ExitStatus, String) {
        run(command, &folder.join("said"), &AtomicBool::new(stop)).expect("it can be run")
    }

    /// The process whose number a command has written to `file`.
    fn written(file: &Path) -> Option<Process> {
        let number = std::fs::read_to_string(file).expect("written").trim().parse().expect("a number");
        Process::of(number).expect("it can be read")
    }

    #[test]
    fn what_a_command_leaves_behind_ends_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let left = folder.path().join("left");
        let (status, _) = run_in(folder.path(), &format!("sleep 1000 & echo $! >'{}'", left.display()), false);
        assert!(status.success());
        assert_eq!(written(&left), None);
    }

    #[test]
    fn a_stop_reaches_what_the_shell_waits_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let (started, stop) = (folder.path().join("started"), AtomicBool::new(false));
        let command =
            format!("sh -c 'echo $$ >\"{0}.new\"; mv \"{0}.new\" \"{0}\"; sleep 1000'; true", started.display());
        std::thread::scope(|threads| {
            let ran = threads.spawn(|| run(&command, &folder.path().join("said"), &stop).expect("it can be run"));
            while !started.exists() {
                std::thread::sleep(LOOK);
            }
            stop.store(true, Ordering::Relaxed);
            assert!(!ran.join().expect("no panic").0.success());
        });
        assert_eq!(written(&started), None);
    }

    #[test]
    fn last_words_are_told_however_many_there_were() {
        let last = |command: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            run_in(folder.path(), command, false).1
        };
        let much = "head -c 2000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo no such device >&2; echo >&2";
        assert_eq!(last(much), "no such device");
        assert_eq!(last("head -c 2000000 /dev/zero | tr '\\0' x >&2").len(), LAST_BYTES);
        let strange = last("printf 'bad \\377\\033[2J\\n' >&2");
        assert!(strange.starts_with("bad ") && !strange.contains('\u{1b}'), "{strange}");
        assert_eq!(last("true"), "");
    }
}
