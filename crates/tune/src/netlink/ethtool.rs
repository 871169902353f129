//! ethtool settings over netlink (linux/ethtool_netlink.h; Linux 5.6 and later).

use super::attribute::{Attribute, Attributes, find, parse};
use super::generic::Family;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

/// ETHTOOL_A_HEADER_DEV_NAME; every request and answer begins with a header, attribute 1.
const HEADER: u16 = 1;
const DEVICE_NAME: u16 = 2;

/// The format of an attribute as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// u32
    Number,
    /// u8: 0 or 1, shown as off and on
    Switch,
    /// A bitset without mask: each name is on
    Names,
    /// A bitset with mask: each name is on or off
    Flags,
    /// An array of u32: the number of distinct values
    Different,
}

/// One kind of request: its commands, and its attributes by name.
struct Group {
    name: &'static str,
    read: u8,
    write: Option<u8>,
    attributes: &'static [(&'static str, u16, Form)],
}

const GROUPS: &[Group] = &[
    Group {
        name: "coalesce",
        read: 19,
        write: Some(20),
        attributes: &[
            ("rx-usecs", 2, Form::Number),
            ("rx-frames", 3, Form::Number),
            ("rx-usecs-irq", 4, Form::Number),
            ("rx-frames-irq", 5, Form::Number),
            ("tx-usecs", 6, Form::Number),
            ("tx-frames", 7, Form::Number),
            ("tx-usecs-irq", 8, Form::Number),
            ("tx-frames-irq", 9, Form::Number),
            ("adaptive-rx", 11, Form::Switch),
            ("adaptive-tx", 12, Form::Switch),
            ("rx-usecs-high", 19, Form::Number),
            ("cqe-mode-tx", 24, Form::Switch),
            ("cqe-mode-rx", 25, Form::Switch),
        ],
    },
    Group { name: "features", read: 11, write: Some(12), attributes: &[("", 4, Form::Names)] },
    Group { name: "private", read: 13, write: Some(14), attributes: &[("", 2, Form::Flags)] },
    Group {
        name: "rings",
        read: 15,
        write: Some(16),
        attributes: &[
            ("rx-max", 2, Form::Number),
            ("tx-max", 5, Form::Number),
            ("rx", 6, Form::Number),
            ("tx", 9, Form::Number),
            ("tx-push", 13, Form::Switch),
            ("tx-push-buf-len", 15, Form::Number),
        ],
    },
    Group {
        name: "channels",
        read: 17,
        write: Some(18),
        attributes: &[
            ("combined-max", 5, Form::Number),
            ("rx", 6, Form::Number),
            ("tx", 7, Form::Number),
            ("combined", 9, Form::Number),
        ],
    },
    Group {
        name: "pause",
        read: 21,
        write: Some(22),
        attributes: &[("autoneg", 2, Form::Switch), ("rx", 3, Form::Switch), ("tx", 4, Form::Switch)],
    },
    Group {
        name: "eee",
        read: 23,
        write: Some(24),
        attributes: &[("active", 4, Form::Switch), ("enabled", 5, Form::Switch)],
    },
    Group {
        name: "timestamps",
        read: 25,
        write: None,
        attributes: &[("", 2, Form::Names), ("phc-index", 5, Form::Number)],
    },
    Group { name: "rss", read: 38, write: None, attributes: &[("queues", 4, Form::Different)] },
];

/// The settings of a group, by name.
pub(super) type Settings = BTreeMap<String, String>;

fn group(name: &str) -> io::Result<&'static Group> {
    GROUPS.iter().find(|group| group.name == name).ok_or_else(|| ErrorKind::NotFound.into())
}

fn header(interface: &str) -> Attributes {
    Attributes::default().nest(HEADER, Attributes::default().text(DEVICE_NAME, interface))
}

/// Reads all settings of a group of an interface.
pub(super) fn read(interface: &str, name: &str) -> io::Result<Settings> {
    let group = group(name)?;
    let answers = Family::open("ethtool")?.ask(group.read, header(interface))?;
    let answer = answers.first().ok_or(ErrorKind::NotFound)?;
    Ok(decode(group, answer))
}

/// Changes one setting. The driver may take it, round it or ignore it: read it again.
pub(super) fn write(interface: &str, name: &str, setting: &str, value: &str) -> io::Result<()> {
    let group = group(name)?;
    let command = group.write.ok_or(ErrorKind::Unsupported)?;
    let request = encode(group, header(interface), setting, value).ok_or(ErrorKind::InvalidInput)?;
    Family::open("ethtool")?.tell(command, request)
}

fn decode(group: &Group, answer: &[u8]) -> Settings {
    let mut settings = Settings::new();
    for (name, kind, form) in group.attributes {
        let Some(attribute) = find(answer, *kind) else { continue };
        match form {
            Form::Number => settings.extend(attribute.number().map(|number| ((*name).into(), number.to_string()))),
            Form::Switch => settings.extend(attribute.number().map(|number| ((*name).into(), switch(number != 0)))),
            Form::Names | Form::Flags => settings.extend(bits(&attribute)),
            Form::Different => _ = settings.insert((*name).into(), different(attribute.value).to_string()),
        }
    }
    if group.name == "features" {
        let can_change = find(answer, 2).map(|hardware| bits(&hardware)).unwrap_or_default();
        let fixed = find(answer, 5).map(|fixed| bits(&fixed)).unwrap_or_default();
        // A bitset of names lists what is on. A switchable name that is not listed is off.
        let off = can_change.into_keys().filter(|name| !fixed.contains_key(name));
        off.for_each(|name| _ = settings.entry(name).or_insert_with(|| switch(false)));
    }
    settings
}

fn switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.into()
}

/// Decodes a bitset that is not compact: name, and on or off. Without a mask only the bits that are on are listed.
fn bits(bitset: &Attribute<'_>) -> Settings {
    let has_mask = !bitset.inner().any(|attribute| attribute.kind == 1);
    let bit = |bit: Attribute<'_>| {
        let name = bit.inner().find(|attribute| attribute.kind == 2)?.text();
        let value = bit.inner().any(|attribute| attribute.kind == 3);
        Some((name, switch(value || !has_mask)))
    };
    let list = bitset.inner().filter(|attribute| attribute.kind == 3);
    list.flat_map(|list| list.inner().filter_map(bit).collect::<Vec<_>>()).collect()
}

fn different(array: &[u8]) -> usize {
    array.chunks_exact(4).collect::<std::collections::BTreeSet<_>>().len()
}

fn encode(group: &Group, request: Attributes, setting: &str, value: &str) -> Option<Attributes> {
    let is_on = || match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    if let Some((_, kind, form)) = group.attributes.iter().find(|(name, ..)| *name == setting && !name.is_empty()) {
        return match form {
            Form::Number => Some(request.u32(*kind, value.parse().ok()?)),
            Form::Switch => Some(request.u8(*kind, is_on()?.into())),
            _ => None,
        };
    }
    // A bit: ETHTOOL_A_FEATURES_WANTED or ETHTOOL_A_PRIVFLAGS_FLAGS, a bitset whose mask is this one name.
    let mut bit = Attributes::default().text(2, setting);
    if is_on()? {
        bit = bit.bytes(3, &[]);
    }
    let bitset = Attributes::default().nest(3, Attributes::default().nest(1, bit));
    match group.name {
        "features" => Some(request.nest(3, bitset)),
        "private" => Some(request.nest(2, bitset)),
        _ => None,
    }
}

/// Decodes arbitrary bytes as an answer. For fuzzing.
pub(super) fn decode_any(bytes: &[u8]) -> usize {
    GROUPS.iter().map(|group| decode(group, bytes).len()).sum::<usize>() + parse(bytes).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, is_on: bool) -> Attributes {
        let bit = Attributes::default().u32(1, 5).text(2, name);
        if is_on { bit.bytes(3, &[]) } else { bit }
    }

    fn bitset(bits: Vec<Attributes>, has_mask: bool) -> Attributes {
        let list = bits.into_iter().fold(Attributes::default(), |list, bit| list.nest(1, bit));
        let set = if has_mask { Attributes::default() } else { Attributes::default().bytes(1, &[]) };
        set.u32(2, 64).nest(3, list)
    }

    #[test]
    fn coalescing_is_read() {
        let answer = header("eth0").u32(2, 50).u8(11, 1).into_bytes();
        let settings = decode(group("coalesce").unwrap(), &answer);
        let expected = [("adaptive-rx", "on"), ("rx-usecs", "50")];
        assert_eq!(settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_feature_that_can_change_and_is_not_on_is_off() {
        let hardware = bitset(vec![named("rx-lro", false), named("rx-gro", false), named("loopback", false)], false);
        let (active, fixed) =
            (bitset(vec![named("rx-gro", false)], false), bitset(vec![named("loopback", false)], false));
        let answer = header("eth0").nest(2, hardware).nest(4, active).nest(5, fixed).into_bytes();
        let settings = decode(group("features").unwrap(), &answer);
        assert_eq!((settings["rx-gro"].as_str(), settings["rx-lro"].as_str()), ("on", "off"));
        assert!(!settings.contains_key("loopback"), "what is fixed and off is no setting");
    }

    #[test]
    fn private_flags_have_a_mask() {
        let flags = bitset(vec![named("rx_cqe_compress", true), named("rx_striding_rq", false)], true);
        let settings = decode(group("private").unwrap(), &header("eth0").nest(2, flags).into_bytes());
        assert_eq!((settings["rx_cqe_compress"].as_str(), settings["rx_striding_rq"].as_str()), ("on", "off"));
    }

    #[test]
    fn what_is_written_is_what_would_be_read() {
        let group = group("coalesce").unwrap();
        let request = encode(group, header("eth0"), "adaptive-rx", "off").unwrap().into_bytes();
        assert_eq!(decode(group, &request)["adaptive-rx"], "off");
        assert!(encode(group, header("eth0"), "rx-usecs", "many").is_none());
        assert!(encode(group, header("eth0"), "no-such", "on").is_none());
    }

    #[test]
    fn loopback_has_features() {
        let features = read("lo", "features").unwrap();
        assert!(features.contains_key("rx-gro"), "{features:?}");
        assert_eq!(read("no-such-0", "features").unwrap_err().raw_os_error(), Some(19));
        assert!(read("lo", "no-such-group").is_err());
    }
}
