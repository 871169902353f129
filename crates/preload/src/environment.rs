//! What the environment says, as it was when the program began: programs clear theirs, and nginx does in each worker.

use crate::report;
use sidestep_control_api::place;
use sidestep_sys::Problem;
use sidestep_unmodified::options::Settings;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};

/// What was read.
struct Environment {
    settings: Settings,
    problems: Vec<Problem>,
    /// Control's socket, where a variable names it.
    control: Option<PathBuf>,
}

fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let (settings, problems) = Settings::from_environment(|name| std::env::var_os(name));
        Environment { settings, problems, control: place::named_socket() }
    })
}

/// Reads it. Called before the program runs.
#[cfg_attr(test, allow(dead_code))] // The constructor calls it, which tests do not have.
pub(crate) fn read() {
    environment();
}

/// The options of this process. The first call reports those that cannot be read.
pub(crate) fn settings() -> &'static Settings {
    static REPORT: Once = Once::new();
    let Environment { settings, problems, .. } = environment();
    REPORT.call_once(|| problems.iter().for_each(|problem| report::say(&settings.log, &problem.brief())));
    settings
}

/// The path of control's socket, if a variable names it. Else it is that of the network namespace in which it is asked for.
pub(crate) fn control() -> Option<PathBuf> {
    environment().control.clone()
}
