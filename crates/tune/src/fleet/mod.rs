//! Many hosts: a host written to a file (`sidestep tune snapshot`), checks of many such files side by side, and drift from a
//! known-good one.
//!
//! The file holds every answer that the checks of this version asked the host for, and nothing else (`recorder`). Read again it is a
//! [`Host`](crate::host::Host) like the running one (`saved`), so the same checks evaluate it, elsewhere and later.

pub mod drift;
mod recorder;
mod saved;
mod side_by_side;

pub use recorder::record;
pub use saved::{Saved, parse_any};
pub use side_by_side::{Fleet, Member};

use crate::audit::Audit;
use crate::profile::Profile;
use crate::scope::{Request, Scope};
use sidestep_sys::Problem;

/// The most hosts of one command.
pub const HOSTS_MAX: usize = 1000;

/// Audits a saved host.
pub fn audit(saved: &Saved, request: &Request, profile: &Profile) -> Result<Audit, Problem> {
    Ok(Audit::of(&Scope::of(saved, request)?, profile))
}
