//! Interpretation of the kernel's answers: only what is reliable is used.

use super::{Fields, Spread, Table, WhyUnknown};
use sidestep_sys::ethtool::{self, FlowKind, HashFunction, Rss, field};
use sidestep_sys::offload;
use sidestep_wire::toeplitz::{Toeplitz, Transform};
use std::io;

/// RXH_XFRM_SYM_XOR and RXH_XFRM_SYM_OR_XOR of linux/ethtool.h.
const SYMMETRIC_XOR: u8 = 1;
const SYMMETRIC_OR_XOR: u8 = 2;

/// Drivers whose device may hash differently from the kernel's report, with the first Linux in which the report is
/// right. ena programs its device with initial values of its own. virtio_net switches hashing off with each change of
/// the number of queues, as an XDP program causes it, and keeps reporting key and table; fixed in 6.12.
const UNTOLD: [(&str, (u32, u32)); 2] = [("ena", (u32::MAX, 0)), ("virtio_net", (6, 12))];
/// A driver whose Toeplitz hash is symmetric by default, with the first Linux that reports it.
const SYMMETRIC_UNTOLD: (&str, (u32, u32)) = ("mlx5_core", (6, 16));

pub(super) fn read(interface: &str) -> Spread {
    let queues = ethtool::receive_queues(interface).map_err(|error| WhyUnknown::Queues(errno(&error)));
    let rss = ethtool::rss(interface).map_err(|error| WhyUnknown::Rss(errno(&error)));
    let rules = ethtool::flow_rules(interface).map_err(|error| WhyUnknown::NoRules(errno(&error)));
    let fields = FlowKind::ALL.map(|kind| ethtool::fields(interface, kind).map_err(|error| errno(&error)));
    let driver = offload::driver(interface).unwrap_or_default();
    Spread { rules, ..understand(queues, rss, fields, &driver, release()) }
}

/// A device without special facts and without rules.
pub(super) fn plain(queues: u32, rss: Rss) -> Spread {
    understand(Ok(queues), Ok(rss), [Ok(field::ALL); 4], "", release())
}

/// The facts of a device except its rules; a pure function.
pub(super) fn understand(
    queues: Result<u32, WhyUnknown>,
    rss: Result<Rss, WhyUnknown>,
    told: [Result<u64, i32>; 4],
    driver: &str,
    release: (u32, u32),
) -> Spread {
    let table = rss.as_ref().map_err(|why| *why).and_then(|rss| table(rss, queues.unwrap_or(0)));
    let hash = rss.and_then(|rss| hash(&rss, driver, release));
    Spread { queues, rules: Ok(Vec::new()), table, hash, fields: told.map(fields) }
}

fn table(rss: &Rss, queues: u32) -> Result<Table, WhyUnknown> {
    if !rss.table.len().is_power_of_two() {
        return Err(WhyUnknown::Table(rss.table.len()));
    }
    match rss.table.iter().find(|queue| **queue >= queues) {
        Some(queue) => Err(WhyUnknown::TableEntry(*queue)),
        None => Ok(Table(rss.table.clone())),
    }
}

fn hash(rss: &Rss, driver: &str, release: (u32, u32)) -> Result<(Toeplitz, Transform), WhyUnknown> {
    if let Some((untold, _)) = UNTOLD.iter().find(|(name, mended)| *name == driver && release < *mended) {
        return Err(WhyUnknown::Driver(untold));
    }
    if rss.function != HashFunction::Toeplitz {
        return Err(WhyUnknown::Function(rss.function));
    }
    let transform = match rss.transform {
        0 if driver == SYMMETRIC_UNTOLD.0 && release < SYMMETRIC_UNTOLD.1 => Transform::SymmetricOrXor,
        0 => Transform::None,
        SYMMETRIC_XOR => Transform::SymmetricXor,
        SYMMETRIC_OR_XOR => Transform::SymmetricOrXor,
        other => return Err(WhyUnknown::Transform(other)),
    };
    Toeplitz::new(&rss.key).map(|toeplitz| (toeplitz, transform)).ok_or(WhyUnknown::Key(rss.key.len()))
}

fn fields(told: Result<u64, i32>) -> Result<Fields, WhyUnknown> {
    match told.map_err(WhyUnknown::NoFields)? {
        field::ALL => Ok(Fields::AddressesAndPorts),
        field::ADDRESSES => Ok(Fields::Addresses),
        other => Err(WhyUnknown::Fields(other)),
    }
}

/// The first two numbers of the release; the oldest supported one if they cannot be read.
fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    numbers(&text).unwrap_or_default()
}

fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn errno(error: &io::Error) -> i32 {
    let too_much = rustix::io::Errno::OVERFLOW.raw_os_error();
    error.raw_os_error().unwrap_or(too_much)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read() {
        assert_eq!(numbers("6.12.9+deb13-amd64\n"), Some((6, 12)));
        assert_eq!(numbers("6.1"), Some((6, 1)));
        assert_eq!(numbers(""), None);
        assert!(release() > (5, 10));
    }
}
