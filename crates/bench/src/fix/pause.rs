//! Acceptors that are not measured are stopped (SIGSTOP), and continued whatever happens.

use super::Acceptor;
use sidestep_sys::Problem;
use sidestep_sys::process::Process;

/// Signal numbers of x86 and ARM (signal(7)).
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// The processes of acceptors, all stopped but one.
pub(super) struct Pause {
    processes: Vec<Option<Process>>,
}

impl Pause {
    /// Stops the acceptors whose process is known.
    pub(super) fn all(acceptors: &[Acceptor]) -> Result<Self, Problem> {
        let process = |acceptor: &Acceptor| match acceptor.pid {
            None => Ok(None),
            Some(pid) => match Process::of(pid) {
                Ok(Some(process)) => Ok(Some(process)),
                Ok(None) => Err(no_process(acceptor, "there is none with that number")),
                Err(error) => Err(no_process(acceptor, error)),
            },
        };
        let pause = Self { processes: acceptors.iter().map(process).collect::<Result<_, _>>()? };
        pause.processes.iter().try_for_each(|process| signal(process.as_ref(), SIGSTOP))?;
        Ok(pause)
    }

    /// Continues acceptor `index` during `work`.
    pub(super) fn without<T>(&self, index: usize, work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
        let process = self.processes[index].as_ref();
        signal(process, SIGCONT)?;
        let done = work();
        signal(process, SIGSTOP)?;
        done
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        for process in &self.processes {
            let _ = signal(process.as_ref(), SIGCONT);
        }
    }
}

fn signal(process: Option<&Process>, signal: i32) -> Result<(), Problem> {
    let Some(process) = process else { return Ok(()) };
    match process.signal(signal) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Problem::failed(format!("lost acceptor process {}", process.pid), "it has ended")),
        Err(error) => Err(Problem::failed(format!("cannot stop or continue process {}", process.pid), error)
            .next("run as the user that has started it, or leave --pid out")),
    }
}

fn no_process(acceptor: &Acceptor, why: impl std::fmt::Display) -> Problem {
    let pid = acceptor.pid.unwrap_or_default();
    Problem::usage(format!("cannot find process {pid} of {}", acceptor.name), why)
        .next("give --pid of a running acceptor")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn state(child: &Child) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        stat.rsplit(')').next().unwrap_or_default().trim().chars().take(1).collect()
    }

    fn until(child: &Child, wanted: fn(&str) -> bool) {
        while !wanted(&state(child)) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn only_the_one_that_is_measured_runs_and_in_the_end_all() {
        let mut children = [0, 1].map(|_| Command::new("sleep").arg("60").spawn().expect("sleep can be run"));
        let acceptors = children.each_ref().map(|child| Acceptor {
            name: "sleep".into(),
            reach: "127.0.0.1:1".parse().expect("an address"),
            pid: Some(child.id()),
            description: String::new(),
            beside: Vec::new(),
        });
        let pause = Pause::all(&acceptors).expect("they run");
        children.iter().for_each(|child| until(child, |state| state == "T"));
        pause
            .without(0, || {
                until(&children[0], |state| state != "T");
                assert_eq!(state(&children[1]), "T");
                Ok(())
            })
            .expect("both live");
        until(&children[0], |state| state == "T");
        drop(pause);
        children.iter().for_each(|child| until(child, |state| state != "T"));
        for child in &mut children {
            child.kill().and_then(|()| child.wait()).expect("it is ours");
        }
        assert!(Pause::all(&acceptors).is_err(), "they have ended");
    }
}
