//! What is watched, how often, and where it is told.

use sidestep_bench::probe::{Circumstances, Probe};
use sidestep_sys::{Problem, cpu};
use sidestep_tune::host::Live;
use sidestep_tune::profile::Profile;
use sidestep_tune::scope::{Request, Scope};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The shortest interval: below it the probes are the load.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The longest: a watch that looks less often sees nothing.
pub const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// The shortest slice: as short as any that is measured.
const SLICE_MIN: Duration = Duration::from_millis(1);
/// The most probes: each has a histogram of its own.
const PROBES_MAX: usize = 32;

/// The flags of a watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time from one round of probes to the next.
    pub every: Duration,
    /// The probes of a round.
    pub probes: Vec<Probe>,
    /// How they are taken.
    pub around: Circumstances,
    /// The CPUs whose timers are watched.
    pub hiccups: HiccupCpus,
    /// The audit of the host; none if it is not wanted.
    pub tuning: Option<Tuning>,
    /// The socket of the control plane, whether one runs or not.
    pub control: PathBuf,
    /// Where HTTP is served.
    pub listen: Option<SocketAddr>,
    /// The file that is replaced after each round.
    pub file: Option<PathBuf>,
}

/// The audit of the host.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Time from one audit to the next.
    pub every: Duration,
    /// The wanted values.
    pub profile: Profile,
    /// The subject.
    pub request: Request,
}

/// The CPUs whose timers are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HiccupCpus {
    /// Those that this process may use. The kernel leaves isolated ones out (isolcpus).
    Allowed,
    /// These.
    These(Vec<u32>),
}

impl Options {
    /// Checks what can be known before anything is measured.
    ///
    /// # Errors
    /// A request that cannot be.
    pub fn check(&self) -> Result<(), Problem> {
        check_interval("--every", self.every)?;
        if let Some(tuning) = &self.tuning {
            check_interval("--tune-every", tuning.every)?;
            Scope::of(&Live::new(), &tuning.request)?;
        }
        if self.file.as_deref() == Some(Path::new("-")) {
            return Err(Problem::usage("cannot replace standard output", "--file names a file")
                .next("give --once, which prints the metrics"));
        }
        if self.probes.len() > PROBES_MAX {
            return Err(Problem::usage(
                format!("cannot take {} probes", self.probes.len()),
                format!("a watch has at most {PROBES_MAX}"),
            )
            .next("give fewer --paths, or watch the others by another process"));
        }
        self.check_slice()?;
        self.around.check(&self.probes)?;
        self.hiccup_cpus().iter().try_for_each(|cpu| cpu::check(*cpu))
    }

    /// A round has to end before the next one begins.
    fn check_slice(&self) -> Result<(), Problem> {
        let (slice, round) = (self.around.slice, self.around.slice.saturating_mul(self.probes.len().max(1) as u32));
        if slice >= SLICE_MIN && round <= self.every {
            return Ok(());
        }
        let most = self.every / self.probes.len().max(1) as u32;
        let why = format!(
            "a slice is at least {SLICE_MIN:?}, and the slices of a round together at most --every ({:?})",
            self.every
        );
        Err(Problem::usage(format!("cannot take slices of {slice:?}"), why)
            .next(format!("give --slice from {SLICE_MIN:?} to {most:?}, or a longer --every")))
    }

    /// The CPUs whose timers are watched, by number.
    pub(crate) fn hiccup_cpus(&self) -> Vec<u32> {
        match &self.hiccups {
            HiccupCpus::Allowed => cpu::allowed(),
            HiccupCpus::These(cpus) => cpus.clone(),
        }
    }
}

fn check_interval(flag: &str, interval: Duration) -> Result<(), Problem> {
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        return Ok(());
    }
    Err(Problem::usage(format!("cannot watch every {interval:?}"), "an interval is 100 ms to 1 h")
        .next(format!("give {flag} within it, for example 10s")))
}
