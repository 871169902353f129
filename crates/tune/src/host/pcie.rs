//! The PCI Express capability of a network device (PCI Express Base Specification 5.0, 7.5.3), from the device's `config` in
//! sysfs. Without root only the first 64 bytes are readable, which hold no capability.

use super::Absence;
use crate::location::Location;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of the configuration space that hold the capabilities.
const CONFIG_BYTES: u64 = 256;
/// What is readable without root.
const HEADER_BYTES: usize = 64;
/// Capabilities are four bytes or more, so that there are at most so many; a longer chain is a circle.
const CAPABILITIES_MAX: usize = 48;
/// The offset of the first capability's offset, and the id of PCI Express's.
const CAPABILITIES: usize = 0x34;
const PCI_EXPRESS: u8 = 0x10;

/// Reads INTERFACE/NAME.
pub(super) fn read(location: &Location) -> Result<String, Absence> {
    let (interface, name) = location.path().split_once('/').ok_or(Absence::Missing)?;
    read_device(Path::new(&format!("/sys/class/net/{interface}/device")), name)
}

/// Reads a field of a device's folder. In a virtual function these fields are reserved and read 0: the values of its physical
/// function hold for it (SR-IOV 1.1, 3.5.3 and 3.5.4).
fn read_device(device: &Path, name: &str) -> Result<String, Absence> {
    let physical = device.join("physfn");
    let device = if physical.exists() { &physical } else { device };
    let mut config = Vec::new();
    File::open(device.join("config"))?.take(CONFIG_BYTES).read_to_end(&mut config)?;
    if config.len() <= HEADER_BYTES {
        return Err(Absence::Denied);
    }
    field(&config, name).ok_or(Absence::Missing)
}

/// Returns a field by name.
fn field(config: &[u8], name: &str) -> Option<String> {
    let at = capability(config)?;
    let word = |offset: usize| Some(u16::from_le_bytes(*config.get(at + offset..)?.first_chunk()?));
    // Device Capabilities at 4, Device Control at 8. Sizes are 128 bytes times a power of two.
    let size = |exponent: u16| (128_u32 << (exponent & 7)).to_string();
    Some(match name {
        "max-payload-supported" => size(word(4)?),
        "max-payload" => size(word(8)? >> 5),
        "max-read-request" => size(word(8)? >> 12),
        "relaxed-ordering" => if word(8)? & (1 << 4) != 0 { "on" } else { "off" }.into(),
        _ => return None,
    })
}

/// Returns the offset of the PCI Express capability.
fn capability(config: &[u8]) -> Option<usize> {
    let mut at = usize::from(*config.get(CAPABILITIES)? & !3);
    for _ in 0..CAPABILITIES_MAX {
        match config.get(at..)? {
            _ if at < HEADER_BYTES => return None,
            [PCI_EXPRESS, ..] => return Some(at),
            [_, next, ..] => at = usize::from(*next & !3),
            _ => return None,
        }
    }
    None
}

/// Decodes arbitrary bytes as a configuration space. For fuzzing.
pub(crate) fn decode_any(bytes: &[u8]) -> usize {
    ["max-payload-supported", "max-payload", "max-read-request", "relaxed-ordering"]
        .iter()
        .filter(|name| field(bytes, name).is_some())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A power management capability at 0x40, then PCI Express at 0x60: payload 256 of 512, reads of 4096, relaxed ordering.
    fn config() -> Vec<u8> {
        let mut config = vec![0; 256];
        config[CAPABILITIES] = 0x40;
        config[0x40..0x42].copy_from_slice(&[1, 0x60]);
        config[0x60..0x62].copy_from_slice(&[PCI_EXPRESS, 0]);
        config[0x64..0x66].copy_from_slice(&0x8002_u16.to_le_bytes());
        config[0x68..0x6a].copy_from_slice(&((5 << 12) | (1 << 5) | (1 << 4) | 0xf_u16).to_le_bytes());
        config
    }

    #[test]
    fn fields_are_found_behind_other_capabilities() {
        let config = config();
        let found = ["max-payload-supported", "max-payload", "max-read-request", "relaxed-ordering"]
            .map(|name| field(&config, name).unwrap());
        assert_eq!(found, ["512", "256", "4096", "on"]);
        assert_eq!(field(&config, "no-such"), None);
    }

    #[test]
    fn a_virtual_function_has_the_values_of_its_physical_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut own = config();
        own[0x68..0x6a].fill(0);
        std::fs::write(folder.path().join("config"), own).unwrap();
        assert_eq!(read_device(folder.path(), "max-payload").as_deref(), Ok("128"));
        std::fs::create_dir(folder.path().join("physfn")).unwrap();
        std::fs::write(folder.path().join("physfn/config"), config()).unwrap();
        assert_eq!(read_device(folder.path(), "max-payload").as_deref(), Ok("256"));
    }

    #[test]
    fn a_chain_that_is_a_circle_or_leaves_the_space_ends() {
        let mut circle = config();
        circle[0x41] = 0x40;
        assert_eq!(capability(&circle), None);
        let mut beyond = config();
        beyond[0x60] = 5;
        beyond[0x61] = 0xfc;
        assert_eq!(capability(&beyond), None);
        assert_eq!((decode_any(&[]), decode_any(&[0xff; 256]), decode_any(&config()[..0x61])), (0, 0, 0));
    }
}
