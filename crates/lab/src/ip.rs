//! The `ip` command of iproute2. Every failure names the command, its output, and the next step.

use std::env;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sidestep_sys::{Problem, process};

/// Directories missing in the PATH of some accounts; Debian has `ip` there.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];

/// The `ip` command of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Ip {
    program: PathBuf,
}

impl Ip {
    /// Finds the command, so that its absence is known before anything is changed.
    pub(crate) fn find() -> Result<Self, Problem> {
        let path = env::var_os("PATH").unwrap_or_default();
        Self::find_in(env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)))
    }

    fn find_in(directories: impl Iterator<Item = PathBuf>) -> Result<Self, Problem> {
        let program = directories.map(|directory| directory.join("ip")).find(|program| program.is_file());
        program.map(|program| Self { program }).ok_or_else(|| {
            Problem::failed("cannot make a lab", "the command ip is not installed")
                .next("install iproute2, on Debian with: apt-get install iproute2")
        })
    }

    /// Runs one command and returns what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, Problem> {
        let label = format!("ip {}", arguments.join(" "));
        let output = self.command(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| self.not_started(&label, &error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(failure(&label, &reason(&output), &label))
    }

    /// Runs commands inside a namespace, in one process, until one fails.
    pub(crate) fn batch(&self, namespace: &str, lines: &[String]) -> Result<(), Problem> {
        let label = format!("ip -n {namespace} -batch -");
        let output = self.feed(&["-n", namespace, "-batch", "-"], &lines.join("\n"));
        let output = output.map_err(|error| self.not_started(&label, &error))?;
        if output.status.success() {
            return Ok(());
        }
        let reason = reason(&output);
        let command = match failed_line(&reason).and_then(|number| lines.get(number - 1)) {
            Some(line) => format!("ip -n {namespace} {line}"),
            None => label,
        };
        Err(failure(&command, &reason, &command))
    }

    fn feed(&self, arguments: &[&str], input: &str) -> std::io::Result<Output> {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // An early exit of ip breaks the pipe; its exit status is the better error.
            let _ = stdin.write_all(input.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
        }
        child.wait_with_output()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // A process group of its own: Ctrl-C ends sidestep in order, and must not end the cleaning commands.
        command.args(arguments).env("LC_ALL", "C").process_group(0);
        // The command must not outlive a killed sidestep either, and make something after the next lab's cleanup.
        process::die_with_parent(&mut command);
        command
    }

    fn not_started(&self, label: &str, error: &std::io::Error) -> Problem {
        let program = Path::new(&self.program).display();
        Problem::failed(format!("cannot run {label}"), error).next(format!("check that {program} can be executed"))
    }
}

fn failure(what: &str, reason: &str, by_hand: &str) -> Problem {
    Problem::failed(format!("{what} failed"), reason).next(format!("run it by hand as root to see more: {by_hand}"))
}

fn reason(output: &Output) -> String {
    match String::from_utf8_lossy(&output.stderr).trim() {
        "" => format!("it ended with {} and said nothing", output.status),
        text => text.to_owned(),
    }
}

/// The line number in an error of `ip -batch`: `Command failed -:3`.
fn failed_line(reason: &str) -> Option<usize> {
    let number = reason.rsplit_once("Command failed -:")?.1;
    number.split_whitespace().next()?.parse().ok().filter(|&number| number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_ip_command_is_said_with_its_package() {
        let problem = Ip::find_in(std::iter::once(PathBuf::from("/nonexistent"))).unwrap_err();
        assert!(problem.to_string().contains("iproute2"), "{problem}");
    }

    #[test]
    fn the_failed_line_of_a_batch_is_found() {
        assert_eq!(failed_line("Error: no such device.\nCommand failed -:3"), Some(3));
        assert_eq!(failed_line("Command failed -:0"), None);
        assert_eq!(failed_line("Cannot open network namespace"), None);
    }

    #[test]
    fn a_failure_names_the_command_and_its_reason() {
        let Ok(ip) = Ip::find() else { return eprintln!("skipped: needs iproute2") };
        let problem = ip.run(&["link", "show", "dev", "none0"]).unwrap_err().to_string();
        assert!(problem.contains("ip link show dev none0 failed"), "{problem}");
        assert!(problem.contains("does not exist"), "{problem}");
    }
}
