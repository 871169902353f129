//! Model-specific registers of x86, through /dev/cpu/CPU/msr (msr(4)): root, with the module `msr`.

use super::Absence;
use crate::location::Location;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The registers that are read, no others: MSR_SMI_COUNT and MSR_POWER_CTL (Intel SDM volume 4, table 2-20).
const REGISTERS: [(&str, u64); 2] = [("smi-count", 0x34), ("power-control", 0x1fc)];

/// Reads CPU/NAME as a decimal number.
pub(super) fn read(location: &Location) -> Result<String, Absence> {
    let (cpu, name) = location.path().split_once('/').ok_or(Absence::Missing)?;
    let cpu: u32 = cpu.parse().map_err(|_| Absence::Missing)?;
    let (_, address) = REGISTERS.iter().find(|(known, _)| *known == name).ok_or(Absence::Missing)?;
    let mut bytes = [0; 8];
    match File::open(format!("/dev/cpu/{cpu}/msr"))?.read_exact_at(&mut bytes, *address) {
        Ok(()) => Ok(u64::from_le_bytes(bytes).to_string()),
        // EIO: this CPU has no such register.
        Err(error) if error.raw_os_error() == Some(5) => Err(Absence::Missing),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_registers_of_cpus_are_read() {
        for path in ["msr:0/0x10", "msr:x/smi-count", "msr:0", "msr:4294967295/smi-count"] {
            assert_eq!(read(&Location::of(path)), Err(Absence::Missing), "{path}");
        }
    }
}
