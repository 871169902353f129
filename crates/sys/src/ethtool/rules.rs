//! The flow rules that a device has.

use super::request::Buffer;
use super::rule::{FlowRule, SPEC_BYTES};
use std::io;

/// ETHTOOL_GRXCLSRLCNT, ETHTOOL_GRXCLSRULE and ETHTOOL_GRXCLSRLALL.
const COUNT: u32 = 0x2e;
const GET: u32 = 0x2f;
const LIST: u32 = 0x30;
/// `struct ethtool_rxnfc`, and where things stand in it: the rule, its location, the number of rules, their locations.
const RXNFC_BYTES: usize = 192;
const SPEC: usize = 16;
const LOCATION: usize = SPEC + 160;
const RULES: usize = 184;
const LOCATIONS: usize = 188;

/// More rules than this are not looked through: each is a system call under the lock of all network devices.
const RULES_MAX: u32 = 256;

/// The rules of a device, the one that counts first in front. None where the device has no such thing.
pub fn list(interface: &str) -> io::Result<Vec<FlowRule>> {
    let mut rules: Vec<_> = locations(interface)?.into_iter().map(|at| get(interface, at)).collect::<Result<_, _>>()?;
    rules.sort_by_key(FlowRule::location);
    Ok(rules)
}

/// Where the rules of a device stand.
fn locations(interface: &str) -> io::Result<Vec<u32>> {
    let count = match count(interface) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(Vec::new()),
        count => count?,
    };
    if count == 0 {
        return Ok(Vec::new());
    }
    if count > RULES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{count} flow rules, which are too many to look at"),
        ));
    }
    let mut buffer = Buffer::new(LIST, RXNFC_BYTES + count as usize * 4);
    buffer.put_u32(RULES, count);
    // SAFETY: ETHTOOL_GRXCLSRLALL reads and writes one ethtool_rxnfc of 192 bytes, and as many locations of four bytes as it
    // is told there is room for; the buffer has that room, and begins to fill it within the structure.
    unsafe { buffer.call(interface) }?;
    let told = buffer.u32(RULES).min(count);
    Ok((0..told as usize).map(|index| buffer.u32(LOCATIONS + index * 4)).collect())
}

fn count(interface: &str) -> io::Result<u32> {
    let mut buffer = Buffer::new(COUNT, RXNFC_BYTES);
    // SAFETY: ETHTOOL_GRXCLSRLCNT reads and writes one ethtool_rxnfc of 192 bytes.
    unsafe { buffer.call(interface) }?;
    Ok(buffer.u32(RULES))
}

fn get(interface: &str, location: u32) -> io::Result<FlowRule> {
    let mut buffer = Buffer::new(GET, RXNFC_BYTES);
    buffer.put_u32(LOCATION, location);
    // SAFETY: ETHTOOL_GRXCLSRULE reads and writes one ethtool_rxnfc of 192 bytes.
    unsafe { buffer.call(interface) }?;
    let bytes = buffer.slice(SPEC, SPEC_BYTES).try_into();
    bytes.map(FlowRule).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_rules() {
        assert!(list("lo").unwrap().is_empty());
        assert_eq!(list("none0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
