//! Rings that the kernel writes: by a BPF program, or by the module. Their memory is a map or a device, their words have no
//! pids, and their readers map them read-only.

use crate::facts::{Facts, ring_bytes};
use crate::layout::{CELLS_MAX, CELLS_MIN, HEADER_BYTES};
use crate::memory::Memory;
use crate::private::cannot_make;
use crate::ring::{Cell, Kind};
use crate::waking::Waking;
use sidestep_sys::Problem;
use sidestep_sys::memory::Mapping;

/// The pid namespace in the header of such a ring: its words have no pids.
pub(crate) const NO_PIDS: u64 = 0;

/// The size of a ring of this many cells of 64 bytes, bytes.
pub fn kernel_ring_bytes(cells: u64) -> usize {
    ring_bytes(Cell::Line, cells)
}

/// The header of an empty ring of this many cells for a producer in the kernel, as `sidestep_ring_format` of
/// `ring_producer.h` writes it; the cells behind it are zeroes.
pub fn kernel_header(cells: u64) -> Result<Vec<u8>, Problem> {
    if !cells.is_power_of_two() || !(CELLS_MIN..=CELLS_MAX).contains(&cells) {
        let why = format!("{cells} cells are not a power of two from {CELLS_MIN} to {CELLS_MAX}");
        return Err(Problem::usage("cannot make a ring for the kernel", why));
    }
    let mapping = Mapping::private(HEADER_BYTES).map_err(|error| cannot_make("in memory", error))?;
    let memory = Memory::new(mapping);
    let (kind, cell, waking) = (Kind::Broadcast, Cell::Line, Waking::Never);
    Facts { kind, cell, cells, waking, pid_namespace: NO_PIDS }.write(&memory);
    let mut header = vec![0; HEADER_BYTES];
    memory.copy_out(0, &mut header);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CELLS_AT, MAGIC};

    #[test]
    fn the_header_has_the_facts_and_nothing_else() {
        let header = kernel_header(64).unwrap();
        assert_eq!(header[..8], MAGIC.to_ne_bytes());
        assert_eq!(header[CELLS_AT..CELLS_AT + 8], 64_u64.to_ne_bytes());
        assert!(header[CELLS_AT + 8..].iter().all(|byte| *byte == 0));
        assert!(kernel_header(63).is_err() && kernel_header(2).is_err());
    }
}
