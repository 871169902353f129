//! The host's side of a test: one machine for all tests of a suite, and the outcome of each.

use super::transcript::{Ending, Transcript};
use super::{Suite, cable, chosen, image, libraries, machine};
use sidestep_sys::Problem;
use sidestep_sys::process::is_root;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The variable that makes the lack of QEMU or of a kernel a failure.
const REQUIRED: &str = "SIDESTEP_VM";

/// The output of a machine, or the reason why there was none.
type Run = Arc<OnceLock<Result<Heard, Absence>>>;

#[derive(Debug)]
struct Heard {
    transcript: Transcript,
    log: String,
    is_late: bool,
}

#[derive(Debug)]
enum Absence {
    /// This user lacks the privilege; nothing is wrong with the host.
    NeedsRoot,
    /// This host lacks something.
    Unavailable(Problem),
    /// Nothing is lacking, and it failed anyway.
    Broken(Problem),
}

/// Suites that have had their machine, by address.
static RUNS: Mutex<Vec<(usize, Run)>> = Mutex::new(Vec::new());

/// Reports the outcome of a test; boots the machine of its suite for the first of them.
pub(super) fn of(suite: &'static Suite, test: &str) {
    let name = suite.full_name(test);
    let run = run_of(suite);
    match run.get_or_init(|| boot(suite, &name)) {
        Ok(heard) => judge(heard, &name, suite.kernel.series()),
        Err(Absence::Broken(problem)) => panic!("{problem}"),
        Err(Absence::NeedsRoot) => eprintln!("skipped: needs root"),
        Err(Absence::Unavailable(problem)) if std::env::var_os(REQUIRED).is_some_and(|value| value == "required") => {
            panic!("{problem}")
        }
        Err(Absence::Unavailable(problem)) => eprintln!("skipped: {problem}"),
    }
}

fn run_of(suite: &'static Suite) -> Run {
    let address = std::ptr::from_ref(suite).addr();
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, run)) = runs.iter().find(|(known, _)| *known == address) {
        return run.clone();
    }
    let run = Run::default();
    runs.push((address, run.clone()));
    run
}

fn boot(suite: &'static Suite, first: &str) -> Result<Heard, Absence> {
    machine::unavailable().map_or(Ok(()), |problem| Err(Absence::Unavailable(problem)))?;
    let kernel = suite.kernel.files().map_err(Absence::Unavailable)?;
    for program in suite.plan.programs {
        libraries::find(program).map_err(Absence::Unavailable)?;
    }
    for module in suite.plan.own_modules {
        kernel.own_module(module).map_err(Absence::Unavailable)?;
    }
    let names = suite.tests.iter().map(|test| suite.full_name(test)).collect();
    let mut tests = chosen::of(names, std::env::args().skip(1));
    if !tests.iter().any(|test| test == first) {
        tests.push(first.to_owned());
    }
    let cable = match suite.plan.cable {
        Some(_) if !is_root() => return Err(Absence::NeedsRoot),
        Some(cable) => {
            cable::unavailable().map_or(Ok(()), |problem| Err(Absence::Unavailable(problem)))?;
            Some(cable.lay().map_err(Absence::Broken)?)
        }
        None => None,
    };
    let folder = Folder::new(suite.kernel.series()).map_err(Absence::Broken)?;
    let image = image::write(&folder.0, &kernel, suite.plan, &tests).map_err(Absence::Broken)?;
    let machine = machine::Machine {
        folder: &folder.0,
        kernel: &kernel,
        plan: suite.plan,
        cable: cable.as_ref(),
        image: &image,
        first_test: first,
    };
    let ended = machine.run().map_err(Absence::Broken)?;
    Ok(Heard { transcript: Transcript::read(&ended.output), log: ended.log, is_late: ended.is_late })
}

fn judge(heard: &Heard, name: &str, series: &str) {
    let faults = heard.transcript.faults.join("\n");
    match heard.transcript.tests.get(name) {
        Some(Ending { failure: None, output }) if faults.is_empty() => eprint!("{output}"),
        Some(Ending { failure: Some(failure), output }) if heard.transcript.is_whole => {
            panic!("{name} on Linux {series}: {failure}\n{faults}{output}")
        }
        ending => {
            let said = ending.map_or("it has not begun", |ending| ending.output.as_str());
            let end = if heard.is_late { "it was stopped, as it did not end" } else { "it ended" };
            panic!("{name} on Linux {series}: {said}\n{faults}\nthe machine: {end}; its log:\n{}", heard.log)
        }
    }
}

/// A folder that is removed with its value.
struct Folder(PathBuf);

impl Folder {
    fn new(series: &str) -> Result<Self, Problem> {
        let path = std::env::temp_dir().join(format!("sidestep-vm-{series}-{}", std::process::id()));
        let failed = |error| Problem::failed(format!("cannot make {}", path.display()), error);
        std::fs::create_dir_all(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
