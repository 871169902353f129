//! Conditions that a program of the trading path runs under: CPUs, memory of one node, real-time priority, locked memory, no deep
//! sleep of the CPUs.
//!
//! [`Conditions::exec`] replaces this process by a program, so that its signals, its exit code and its pid are its
//! own. [`Conditions::enter`] applies to this process; `sidestep bench` uses it.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sidestep_sys::credentials::has_capability;
use sidestep_sys::{Problem, cpu, numa};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The device that limits wake-up latency as long as it is open (Documentation/power/pm_qos_interface.rst).
const LATENCY_DEVICE: &str = "/dev/cpu_dma_latency";

/// The conditions. A condition that is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The CPUs to run on; empty for the current ones.
    pub cpus: Vec<u32>,
    /// The only NUMA node to allocate memory from.
    pub node: Option<u32>,
    /// Real-time priority, SCHED_FIFO, 1 to 99.
    pub fifo: Option<u8>,
    /// Locked memory: this process locks its present and future memory; for a program the limit is lifted (RLIMIT_MEMLOCK), because
    /// execve(2) removes all locks.
    pub memlock: bool,
    /// The longest wake-up time of any CPU of the host, us; with 0 no CPU sleeps.
    pub latency_us: Option<u32>,
}

/// Conditions that end when this is dropped. The others last as long as the process.
#[derive(Debug)]
#[must_use = "the CPUs may sleep again when this is dropped"]
pub struct Held {
    _latency: Option<OwnedFd>,
}

impl Conditions {
    /// Applies the conditions to the calling thread, and to the threads and processes that it starts from now on.
    pub fn enter(&self) -> Result<Held, Problem> {
        let held = self.bind(Path::new(LATENCY_DEVICE))?;
        if self.memlock {
            mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|error| {
                Problem::failed("cannot lock this process's memory", error).next("run as root, or raise ulimit -l")
            })?;
        }
        self.prefer()?;
        Ok(held)
    }

    /// Replaces this process by the program. Returns only if that fails.
    ///
    /// The program inherits the open file `/dev/cpu_dma_latency` if a latency was asked for: it lasts until the program, and
    /// all that it has started, have ended or closed it.
    pub fn exec(&self, command: &mut Command) -> NotRun {
        let ready = self.bind(Path::new(LATENCY_DEVICE)).and_then(|held| {
            held.survive_exec()?;
            // Last: from here on this process preempts others.
            self.prefer().map(|()| held)
        });
        let program = command.get_program().display().to_string();
        match ready {
            Err(problem) => NotRun::Conditions(problem),
            Ok(_held) => NotRun::of(&program, &command.exec()),
        }
    }

    /// Applies all conditions but the priority.
    fn bind(&self, latency_device: &Path) -> Result<Held, Problem> {
        if !self.cpus.is_empty() {
            // A missing CPU is an error here; the kernel would silently use the others.
            self.cpus.iter().try_for_each(|one| cpu::check(*one))?;
            cpu::restrict(&self.cpus)?;
        }
        self.node.map_or(Ok(()), numa::bind)?;
        if self.memlock {
            unlimit_locked_memory()?;
        }
        let latency = self.latency_us.map(|latency_us| hold_latency(latency_device, latency_us)).transpose()?;
        Ok(Held { _latency: latency })
    }

    fn prefer(&self) -> Result<(), Problem> {
        self.fifo.map_or(Ok(()), cpu::run_fifo)
    }
}

/// The reason why a program does not run.
#[derive(Debug)]
pub enum NotRun {
    /// A condition could not be set.
    Conditions(Problem),
    /// There is no such program.
    Missing(Problem),
    /// The program cannot be started: its permissions, its format, its interpreter.
    NotExecutable(Problem),
}

impl NotRun {
    /// Classifies an error of execve(2). ENOENT for a file that exists means the interpreter of a script or its dynamic loader.
    fn of(program: &str, error: &io::Error) -> Self {
        let problem = |why: String| Problem::failed(format!("cannot run {program}"), why);
        let is_path = program.contains('/');
        match error.kind() {
            io::ErrorKind::NotFound if is_path && Path::new(program).exists() => Self::NotExecutable(
                problem(format!("{error}: its interpreter or its loader is missing"))
                    .next("check the first line of the script"),
            ),
            io::ErrorKind::NotFound => Self::Missing(problem(error.to_string()).next("check its name and PATH")),
            _ => Self::NotExecutable(
                problem(error.to_string()).next("name a program or a script that you may execute: chmod +x"),
            ),
        }
    }
}

impl Held {
    fn survive_exec(&self) -> Result<(), Problem> {
        let Some(latency) = &self._latency else { return Ok(()) };
        fcntl_setfd(latency.as_fd(), FdFlags::empty())
            .map_err(|error| Problem::failed(format!("cannot pass {LATENCY_DEVICE} on"), error))
    }
}

fn unlimit_locked_memory() -> Result<(), Problem> {
    let unlimited = Rlimit { current: None, maximum: None };
    if getrlimit(Resource::Memlock) == unlimited {
        return Ok(());
    }
    let lifted = setrlimit(Resource::Memlock, unlimited);
    if lifted.is_err() && has_capability(IPC_LOCK) {
        return Ok(()); // No limit holds for such a process, and a program of root's has it, too.
    }
    lifted.map_err(|error| {
        Problem::failed("cannot lift the limit on locked memory (RLIMIT_MEMLOCK)", error)
            .next("run as root, or set LimitMEMLOCK=infinity in its systemd unit")
    })
}

/// CAP_IPC_LOCK of capabilities(7).
const IPC_LOCK: u32 = 14;

/// Limits the wake-up time of every CPU of the host to `latency_us`, until dropped.
pub fn awake(latency_us: u32) -> Result<Held, Problem> {
    Conditions { latency_us: Some(latency_us), ..Conditions::default() }.enter()
}

/// Opens the device and writes the request: a signed 32-bit number, which is in force as long as the file is open.
fn hold_latency(device: &Path, latency_us: u32) -> Result<OwnedFd, Problem> {
    let what = || format!("cannot limit the wake-up time of the CPUs to {latency_us} us");
    let request = i32::try_from(latency_us).map_err(|_| {
        Problem::usage(what(), "the longest is 2147483647 us").next("leave --latency-qos out for no limit")
    })?;
    let failed = |error| {
        Problem::failed(what(), format!("{}: {error}", device.display()))
            .next("run as root; without this file the kernel has no CPU latency limit")
    };
    let mut file: File = OpenOptions::new().write(true).open(device).map_err(failed)?;
    file.write_all(&request.to_ne_bytes()).map_err(failed)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_request_is_four_bytes_and_errors_name_the_device() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("latency");
        assert!(hold_latency(&device, 3).unwrap_err().to_string().contains("latency"), "it is missing");
        std::fs::write(&device, b"").unwrap();
        drop(hold_latency(&device, 3).unwrap());
        assert_eq!(std::fs::read(&device).unwrap(), 3_i32.to_ne_bytes());
        assert!(hold_latency(&device, u32::MAX).unwrap_err().to_string().contains("2147483647"));
    }

    #[test]
    fn a_thread_runs_where_it_is_told() {
        let last = *cpu::allowed().last().unwrap();
        let conditions = Conditions { cpus: vec![last], ..Conditions::default() };
        thread::spawn(move || {
            let _held = conditions.enter().unwrap();
            assert_eq!(cpu::allowed(), [last]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_or_node_that_is_missing_is_named() {
        let enter = |conditions: Conditions| thread::spawn(move || conditions.enter().map(drop)).join().unwrap();
        let mut cpus = cpu::allowed();
        cpus.push(1021);
        let problem = enter(Conditions { cpus, ..Conditions::default() }).unwrap_err().to_string();
        assert!(problem.contains("CPU 1021"), "{problem}");
        let problem = enter(Conditions { node: Some(999), ..Conditions::default() }).unwrap_err().to_string();
        assert!(problem.contains("node 999"), "{problem}");
        let problem = enter(Conditions { fifo: Some(100), ..Conditions::default() }).unwrap_err().to_string();
        assert!(problem.contains("1 to 99"), "{problem}");
    }
}
