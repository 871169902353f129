//! A ring in memory of this process alone.

use crate::facts::{cells_for, ring_bytes};
use crate::memory::Memory;
use crate::options::Options;
use crate::ring::Ring;
use crate::shared_file::RING;
use crate::waking::Waking;
use sidestep_sys::Problem;
use sidestep_sys::futex::{self, Scope};
use sidestep_sys::memory::Mapping;

/// Makes a ring in memory of this process.
pub(crate) fn private(options: &Options) -> Result<Ring, Problem> {
    let &Options { kind, cell, bytes, waking } = options;
    let cells = cells_for(cell, bytes)?;
    let mapping = Mapping::private(ring_bytes(cell, cells)).map_err(|error| cannot_make("in memory", error))?;
    // Missing pages are then faulted in at the first touch.
    let _ = mapping.prefault();
    Ok(Ring::new(Memory::new(mapping), kind, cell, cells, available(waking, Scope::Private), false))
}

/// Returns the waking that this kernel offers: a fence where membarrier(2) is refused.
pub(crate) fn available(waking: Waking, scope: Scope) -> Waking {
    match waking {
        Waking::Barrier if futex::register_barrier(scope).is_err() => Waking::Fence,
        other => other,
    }
}

pub(crate) fn cannot_make(name: &str, why: impl std::fmt::Display) -> Problem {
    RING.cannot_make(name, why)
}
