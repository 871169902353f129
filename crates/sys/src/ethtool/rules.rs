//! The flow rules that a device has.

use super::abi::{COUNT_RULES, GET_RULE, LIST_RULES, rule, rxnfc};
use super::request::Buffer;
use super::rule::FlowRule;
use std::io;

/// A device with more rules is refused: each takes a system call under the kernel's lock of all network devices (RTNL).
const RULES_MAX: u32 = 256;

/// The rules of a device, in the order in which they apply. Empty if the device does not support rules.
pub fn list(interface: &str) -> io::Result<Vec<FlowRule>> {
    let mut rules: Vec<_> = locations(interface)?.into_iter().map(|at| get(interface, at)).collect::<Result<_, _>>()?;
    rules.sort_by_key(FlowRule::location);
    Ok(rules)
}

/// The locations of a device's rules.
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
            format!("it has {count} flow rules, at most {RULES_MAX} are read"),
        ));
    }
    let mut buffer = Buffer::new(LIST_RULES, rxnfc::BYTES + count as usize * 4);
    buffer.put_u32(rxnfc::RULES, count);
    // SAFETY: ETHTOOL_GRXCLSRLALL reads and writes one ethtool_rxnfc of 192 bytes, and as many locations of four bytes as it
    // is told there is room for; the buffer has that room, and begins to fill it within the structure.
    unsafe { buffer.call(interface) }?;
    let told = buffer.u32(rxnfc::RULES).min(count);
    Ok((0..told as usize).map(|index| buffer.u32(rxnfc::LOCATIONS + index * 4)).collect())
}

fn count(interface: &str) -> io::Result<u32> {
    let mut buffer = Buffer::new(COUNT_RULES, rxnfc::BYTES);
    // SAFETY: ETHTOOL_GRXCLSRLCNT reads and writes one ethtool_rxnfc of 192 bytes.
    unsafe { buffer.call(interface) }?;
    Ok(buffer.u32(rxnfc::RULES))
}

fn get(interface: &str, location: u32) -> io::Result<FlowRule> {
    let mut buffer = Buffer::new(GET_RULE, rxnfc::BYTES);
    buffer.put_u32(rxnfc::RULE + rule::LOCATION, location);
    // SAFETY: ETHTOOL_GRXCLSRULE reads and writes one ethtool_rxnfc of 192 bytes.
    unsafe { buffer.call(interface) }?;
    let bytes = buffer.slice(rxnfc::RULE, rule::BYTES).try_into();
    bytes.map(FlowRule::of_bytes).map_err(|_| io::ErrorKind::InvalidData.into())
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
