//! Peers that this build lacks: each stands in the report with the reason.

use sidestep_bench::ring::{Contestant, Job, Load, Near};
use sidestep_sys::Problem;

struct Absent {
    name: &'static str,
    reason: String,
}

/// Those that could not be built; the script says why in the environment.
pub(crate) fn all() -> Vec<Box<dyn Contestant>> {
    let known = [
        ("boost-spsc", cfg!(feature = "boost")),
        ("iceoryx2", cfg!(feature = "iceoryx2")),
        ("aeron-ipc", cfg!(feature = "aeron")),
    ];
    let absent = |name: &'static str| -> Box<dyn Contestant> {
        let variable = format!("WHY_NOT_{}", name.to_uppercase().replace('-', "_"));
        let reason = std::env::var(variable).unwrap_or_else(|_| "it was not built into this program".into());
        Box::new(Absent { name, reason })
    };
    known.into_iter().filter(|(_, is_built)| !is_built).map(|(name, _)| absent(name)).collect()
}

impl Contestant for Absent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn description(&self) -> String {
        String::new()
    }

    fn sleeps(&self) -> bool {
        false
    }

    fn refusal(&self, _: u32, _: Load) -> Option<String> {
        Some(self.reason.clone())
    }

    fn run(&self, _: &Job, _: &mut Near) -> Result<(), Problem> {
        Err(Problem::failed(format!("cannot measure {}", self.name), &self.reason))
    }
}
