//! The runner of a lab's impaired wire: a thread of its owner, or a separate process if the lab outlives its maker.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sidestep_sys::netns::Namespace;
use sidestep_sys::problem::{Problem, say};
use sidestep_sys::process::{self, Process};

use super::directory::{Directory, read_bounded};
use super::name::{LabName, Place, WIRE_TO_A, WIRE_TO_B, namespace_path};
use super::state::{ProcessRecord, State};
use crate::wire::{Directions, Ends, Impairment, Relay, WireCounters};

/// The time to start. A process needs some milliseconds; a busy machine may need more, a hanging one is given up.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The nice value of the thread that is the wire.
const PRIORITY: i32 = -20;

const START_POLL: Duration = Duration::from_millis(2);

/// The interval at which the counters of a persistent lab are written.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The file that the process of a wire writes beside the record: its readiness and the counters.
#[derive(Serialize, Deserialize)]
struct Report {
    process: ProcessRecord,
    counters: Directions<WireCounters>,
}

/// The wire of an ephemeral lab.
#[derive(Debug)]
pub(super) struct RelayThread {
    stop: Arc<AtomicBool>,
    counters: Arc<Mutex<Directions<WireCounters>>>,
    thread: Option<JoinHandle<Result<(), Problem>>>,
}

impl RelayThread {
    /// Starts the thread; returns when the wire carries frames.
    pub(super) fn start(name: &LabName, impairment: Directions<Impairment>) -> Result<Self, Problem> {
        let stop = Arc::new(AtomicBool::new(false));
        let counters = Arc::new(Mutex::new(Directions::default()));
        let (ready, is_ready) = mpsc::channel();
        let work = {
            let (name, stop, counters) = (name.clone(), Arc::clone(&stop), Arc::clone(&counters));
            move || {
                let (ends, opened) = match enter(&name) {
                    Ok(ends) => (Some(ends), Ok(())),
                    Err(problem) => (None, Err(problem)),
                };
                // The other end is gone only if the starting thread has panicked.
                let _ = ready.send(opened);
                let Some(ends) = ends else { return Ok(()) };
                Relay::new(impairment)?.run(&ends, &stop, |now| {
                    *counters.lock().unwrap_or_else(PoisonError::into_inner) = now;
                    Ok(true)
                })
            }
        };
        let thread = thread::Builder::new().name("lab-wire".to_owned()).spawn(work).map_err(|error| {
            Problem::failed("cannot start the thread of the wire", error).next("raise the limit of threads: ulimit -u")
        })?;
        let relay = Self { stop, counters, thread: Some(thread) };
        match is_ready.recv() {
            Ok(opened) => opened.map(|()| relay),
            Err(_) => Err(Problem::failed("cannot start the wire", "its thread has panicked")
                .next("report this as a bug of sidestep")),
        }
    }

    pub(super) fn counters(&self) -> Directions<WireCounters> {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RelayThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(problem))) => say(problem),
            Some(Err(_)) => say("the thread of the wire has panicked"),
            Some(Ok(Ok(()))) | None => {}
        }
    }
}

/// Moves the calling thread into the wire's namespace and opens both ends.
fn enter(name: &LabName) -> Result<Ends, Problem> {
    // A wire does not wait for a CPU: hosts that spin are not to have it first. Without the right to this it does.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    Namespace::open(namespace_path(&name.namespace(Place::Wire)))?.enter()?;
    Ends::open(WIRE_TO_A, WIRE_TO_B)
}

/// Runs the impaired wire of a persistent lab in this process until `stop` is set or the lab is gone. The calling
/// thread moves into the namespace of the wire. For `sidestep lab wire NAME`.
pub fn run_wire(lab_name: &str, stop: &AtomicBool) -> Result<(), Problem> {
    let name = LabName::new(lab_name)?;
    let directory = Directory::from_environment();
    let impairment = match directory.load(&name)? {
        Some(Ok(State { impairment: Some(impairment), .. })) => impairment,
        _ => {
            return Err(Problem::failed(format!("cannot run the wire of lab {name}"), "no lab of this name has one")
                .next(format!("create one with: sidestep lab up {name} --impair loss=1%")));
        }
    };
    let ends = enter(&name)?;
    let process = super::this_process()?.into();
    let report = |counters| write_report(&directory, &name, &Report { process, counters });
    let mut reported = Instant::now();
    report(Directions::default())?;
    Relay::new(impairment)?.run(&ends, stop, |counters| {
        if reported.elapsed() < REPORT_INTERVAL {
            return Ok(true);
        }
        reported = Instant::now();
        // A wire whose lab has no intact record any more must stop by itself.
        if !matches!(directory.load(&name), Ok(Some(Ok(_)))) {
            return Ok(false);
        }
        report(counters).map(|()| true)
    })
}

fn write_report(directory: &Directory, name: &LabName, report: &Report) -> Result<(), Problem> {
    let text = serde_json::to_vec(report).map_err(|error| {
        Problem::failed(format!("cannot write the counters of lab {name}"), error)
            .next("report this as a bug of sidestep")
    })?;
    directory.write(&directory.counters(name), &text)
}

/// The counters that the process of a wire has written last.
pub(super) fn reported_counters(directory: &Directory, name: &LabName) -> Result<Directions<WireCounters>, Problem> {
    let path = directory.counters(name);
    let damaged = |reason: String| {
        Problem::failed(format!("cannot read the counters of lab {name} in {}", path.display()), reason)
            .next(format!("take the lab down and up again: sidestep lab down {name}"))
    };
    let text = read_bounded(&path).map_err(|error| damaged(error.to_string()))?;
    let report: Report = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    Ok(report.counters)
}

/// Starts the process of a wire. `started` gets its identity before the process is waited for, so that it can be
/// recorded.
pub(super) fn start_process(
    directory: &Directory,
    name: &LabName,
    program: &Path,
    started: impl FnOnce(Process) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut child = spawn(directory, name, program)?;
    let process = Process::of(child.id()).ok().flatten();
    if let Some(process) = process
        && let Err(problem) = started(process)
    {
        end(child);
        return Err(problem);
    }
    let deadline = Instant::now() + START_TIMEOUT;
    while !is_ready(directory, name, process) {
        let has_ended = !matches!(child.try_wait(), Ok(None));
        if has_ended || Instant::now() > deadline {
            end(child);
            return Err(not_started(directory, name, program, has_ended));
        }
        thread::sleep(START_POLL);
    }
    // A process that ends before its maker stays a zombie until the maker reads its status.
    thread::spawn(move || child.wait());
    Ok(())
}

fn spawn(directory: &Directory, name: &LabName, program: &Path) -> Result<Child, Problem> {
    let log = directory.relay_log(name);
    let log_file = File::create(&log).map_err(|error| {
        Problem::failed(format!("cannot write {}", log.display()), error).next("make room there, or run as root")
    })?;
    let mut command = Command::new(program);
    command.args(["lab", "wire", name.as_str()]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
    process::detach(&mut command);
    command.spawn().map_err(|error| {
        Problem::failed(format!("cannot start the wire by {}", program.display()), error)
            .next("check that this program exists and can be executed")
    })
}

fn is_ready(directory: &Directory, name: &LabName, process: Option<Process>) -> bool {
    let report = read_bounded(&directory.counters(name)).ok();
    let report = report.and_then(|text| serde_json::from_slice::<Report>(&text).ok());
    report.is_some_and(|report| process == Some(report.process.into()))
}

fn end(mut child: Child) {
    // Both fail only for a child that has ended already, as wanted.
    let _ = child.kill();
    let _ = child.wait();
}

fn not_started(directory: &Directory, name: &LabName, program: &Path, has_ended: bool) -> Problem {
    let log = read_bounded(&directory.relay_log(name)).unwrap_or_default();
    let said = String::from_utf8_lossy(&log).trim().to_owned();
    let reason = match (has_ended, said.is_empty()) {
        (true, true) => "it ended at once without a message".to_owned(),
        (true, false) => format!("it ended with the message: {said}"),
        (false, _) => format!("it was not ready within {} s", START_TIMEOUT.as_secs()),
    };
    let program = program.display();
    Problem::failed(format!("cannot start the wire of lab {name} by {program} lab wire {name}"), reason)
        .next("check that this is the program sidestep, and that nothing forbids it packet sockets")
}
