//! NAPI instances of an interface, by the netdev family (linux/netdev.h; read since Linux 6.7, set since 6.14).

use super::attribute::{Attributes, find};
use super::ethtool::Settings;
use super::generic::Family;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

const NAPI_GET: u8 = 11;
const NAPI_SET: u8 = 14;
const IFINDEX: u16 = 1;
const ID: u16 = 2;

/// Readable settings by name; those from the fifth on can be set.
const NAMES: &[(&str, u16)] = &[
    ("irq", 3),
    ("pid", 4),
    ("defer-hard-irqs", 5),
    ("gro-flush-timeout", 6),
    ("irq-suspend-timeout", 7),
    ("threaded", 8),
];
const FIRST_SETTABLE: u16 = 5;

/// Reads the NAPI instances of an interface: id to settings.
pub(super) fn read(ifindex: u32) -> io::Result<BTreeMap<String, Settings>> {
    let answers = Family::open("netdev")?.dump(NAPI_GET, Attributes::default().u32(IFINDEX, ifindex))?;
    Ok(answers.iter().filter_map(|answer| decode(answer)).collect())
}

fn decode(answer: &[u8]) -> Option<(String, Settings)> {
    let id = find(answer, ID)?.number()?;
    let value = |(name, kind): &(&str, u16)| Some(((*name).to_owned(), find(answer, *kind)?.number()?.to_string()));
    Some((id.to_string(), NAMES.iter().filter_map(value).collect()))
}

/// Changes one setting of one instance.
pub(super) fn write(id: &str, name: &str, value: &str) -> io::Result<()> {
    let invalid = |_| io::Error::from(ErrorKind::InvalidInput);
    let known = NAMES.iter().find(|(known, kind)| *known == name && *kind >= FIRST_SETTABLE);
    let (_, kind) = known.ok_or(ErrorKind::Unsupported)?;
    let (id, value): (u32, u64) = (id.parse().map_err(invalid)?, value.parse().map_err(invalid)?);
    let request = Attributes::default().u32(ID, id);
    // gro-flush-timeout and irq-suspend-timeout are uints: the kernel takes either width if the value fits.
    let request = match u32::try_from(value) {
        Ok(value) => request.u32(*kind, value),
        Err(_) => request.bytes(*kind, &value.to_ne_bytes()),
    };
    Family::open("netdev")?.tell(NAPI_SET, request)
}

/// Decodes arbitrary bytes as an answer. For fuzzing.
pub(super) fn decode_any(bytes: &[u8]) -> usize {
    decode(bytes).map_or(0, |(_, settings)| settings.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_read() {
        let answer =
            Attributes::default().u32(1, 2).u32(2, 8193).u32(3, 41).u32(5, 10).bytes(6, &20_000_u64.to_ne_bytes());
        let (id, settings) = decode(&answer.into_bytes()).unwrap();
        assert_eq!(id, "8193");
        assert_eq!((settings["irq"].as_str(), settings["gro-flush-timeout"].as_str()), ("41", "20000"));
        assert!(decode(&[]).is_none());
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        assert_eq!(write("1", "irq", "5").unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(write("x", "threaded", "1").unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
