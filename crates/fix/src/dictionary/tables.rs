//! The standard's own dictionaries, from tables made of FIX Orchestra.
//!
//! ```text
//! F 54 Side char 1 2 3@b       field: tag, name, type, values
//! D 95 96                      length field, and the data field it announces
//! C 1003 55! 65 g2071@e        component: number, members
//! G 2071 454 455 456           repeating group: number, field that counts, members
//! H 8! 9! 35! ...              header;  T: trailer
//! M D NewOrderSingle a 11! c1003!   message: type, name, s(ession) or a(pplication), members
//! ```
//!
//! `!` is required; `@b` says in which version an item came, left out when it is as old as the table's oldest.
//!
//! Orchestra has FIX 4.2, FIX 4.4 and FIX Latest. The other versions are derived by leaving out what came later: 4.0 and 4.1
//! from 4.2, 4.3 from 4.4, and 5.0 and its service packs from Latest. Components and groups that 4.3 had not yet named
//! are kept with what is old in them, and it has besides what its messages had in 4.2. What only the older version had is
//! missing; `COMPLIANCE.md` counts how far these are from QuickFIX's files.

use super::draft::{Draft, GroupDraft, Item, MessageDraft, refused};
use super::{Dictionary, FieldDefinition, Kind};
use sidestep_sys::Problem;
use std::collections::HashMap;

/// A version of FIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// FIX.4.0
    Fix40,
    /// FIX.4.1
    Fix41,
    /// FIX.4.2
    Fix42,
    /// FIX.4.3
    Fix43,
    /// FIX.4.4
    Fix44,
    /// FIX 5.0 over FIXT.1.1.
    Fix50,
    /// FIX 5.0 SP1 over FIXT.1.1.
    Fix50Sp1,
    /// FIX 5.0 SP2 over FIXT.1.1, without extension packs.
    Fix50Sp2,
    /// FIX 5.0 SP2 with all extension packs up to EP269.
    Latest,
    /// FIXT.1.1 alone: header, trailer and session messages.
    Fixt11,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Self; 10] = [
        Self::Fix40,
        Self::Fix41,
        Self::Fix42,
        Self::Fix43,
        Self::Fix44,
        Self::Fix50,
        Self::Fix50Sp1,
        Self::Fix50Sp2,
        Self::Latest,
        Self::Fixt11,
    ];

    /// BeginString (8).
    pub const fn begin_string(self) -> &'static str {
        match self {
            Self::Fix40 => "FIX.4.0",
            Self::Fix41 => "FIX.4.1",
            Self::Fix42 => "FIX.4.2",
            Self::Fix43 => "FIX.4.3",
            Self::Fix44 => "FIX.4.4",
            _ => "FIXT.1.1",
        }
    }

    /// ApplVerID (1128) and DefaultApplVerID (1137).
    pub const fn appl_ver_id(self) -> Option<&'static str> {
        Some(match self {
            Self::Fix40 => "2",
            Self::Fix41 => "3",
            Self::Fix42 => "4",
            Self::Fix43 => "5",
            Self::Fix44 => "6",
            Self::Fix50 => "7",
            Self::Fix50Sp1 => "8",
            Self::Fix50Sp2 => "9",
            Self::Latest => "10",
            Self::Fixt11 => return None,
        })
    }

    /// The version by BeginString or by QuickFIX's names: `FIX.4.4`, `FIXT.1.1`, `FIX.5.0SP2`.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "FIX.5.0" => Self::Fix50,
            "FIX.5.0SP1" => Self::Fix50Sp1,
            "FIX.5.0SP2" => Self::Fix50Sp2,
            "FIX.Latest" => Self::Latest,
            "FIXT.1.1" => Self::Fixt11,
            _ => return Self::ALL[..5].iter().copied().find(|version| version.begin_string() == name),
        })
    }

    /// The name by which [`Version::by_name`] finds it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fix50 => "FIX.5.0",
            Self::Fix50Sp1 => "FIX.5.0SP1",
            Self::Fix50Sp2 => "FIX.5.0SP2",
            Self::Latest => "FIX.Latest",
            _ => self.begin_string(),
        }
    }

    /// The version whose dictionary QuickFIX ships as a file of this name (`FIX42.xml`).
    pub(crate) fn by_file_name(name: &str) -> Option<Self> {
        let stem = name.to_ascii_uppercase();
        Some(match stem.strip_suffix(".XML")? {
            "FIX40" => Self::Fix40,
            "FIX41" => Self::Fix41,
            "FIX42" => Self::Fix42,
            "FIX43" => Self::Fix43,
            "FIX44" => Self::Fix44,
            "FIX50" => Self::Fix50,
            "FIX50SP1" => Self::Fix50Sp1,
            "FIX50SP2" => Self::Fix50Sp2,
            "FIXLATEST" => Self::Latest,
            "FIXT11" => Self::Fixt11,
            _ => return None,
        })
    }

    const fn table(self) -> &'static str {
        match self {
            Self::Fix40 | Self::Fix41 | Self::Fix42 => include_str!("../../tables/fix42.txt"),
            Self::Fix43 | Self::Fix44 => include_str!("../../tables/fix44.txt"),
            _ => include_str!("../../tables/latest.txt"),
        }
    }

    /// The last letter of what belongs to the version.
    const fn letter(self) -> u8 {
        match self {
            Self::Fixt11 => Self::Latest as u8 + b'a',
            _ => self as u8 + b'a',
        }
    }
}

impl Dictionary {
    /// The standard's dictionary of a version. Takes some milliseconds: keep it.
    pub fn fixed(version: Version) -> Self {
        // The tables are part of the program, and a test reads each of them for each version.
        read(version).unwrap_or_else(|problem| unreachable!("{problem}"))
    }
}

fn read_draft(version: Version) -> Result<Draft, Problem> {
    let mut reading = Reading { version, draft: Draft::default(), groups: HashMap::new(), counts: Vec::new() };
    reading.draft.begin_string = version.begin_string().to_owned();
    let lines = || version.table().lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    // Groups hold groups that come later: their places are given out first.
    for line in lines().filter(|line| line.starts_with("G ")) {
        let mut words = line.split(' ').skip(1);
        reading.groups.insert(words.next().unwrap_or_default(), reading.groups.len());
        reading.counts.push(words.next().and_then(|tag| tag.parse().ok()).unwrap_or_default());
    }
    reading.draft.groups = vec![GroupDraft::default(); reading.groups.len()];
    for line in lines() {
        reading.line(line).ok_or_else(|| refused(format!("its table has the line {line:?}")))?;
    }
    Ok(reading.draft)
}

/// Fields that a message had only in this version; later ones have them in a group.
const ONLY_THEN: &[(Version, &str, &[u32])] = &[
    // TradingSessionID, TradingSessionSubID of SecurityDefinition: part of MarketSegmentGrp since SP1.
    (Version::Fix50, "d", &[336, 625]),
];

fn read(version: Version) -> Result<Dictionary, Problem> {
    let mut draft = read_draft(version)?;
    for (_, msg_type, tags) in ONLY_THEN.iter().filter(|(then, ..)| *then == version) {
        let message = draft.messages.iter_mut().find(|message| message.msg_type == *msg_type);
        let items = tags.iter().map(|tag| Item::Field { tag: *tag, required: false });
        message.into_iter().for_each(|message| message.items.extend(items.clone()));
    }
    if version == Version::Fix43 {
        draft.add_older(&read_draft(Version::Fix42)?);
    }
    if version == Version::Fixt11 {
        draft.messages.retain(|message| message.is_admin);
    }
    let mut dictionary = draft.finish()?;
    if version == Version::Fixt11 {
        dictionary.keep_used_fields();
    }
    Ok(dictionary)
}

/// The component Instrument.
const INSTRUMENT: &str = "1003";

/// FIX 4.3 and 4.4, volume 1, Instrument: Symbol (55) has to be there, `[N/A]` for what has none. Orchestra leaves it open, as FIX
/// 5.0 does, and an order for nothing would pass.
fn require_symbol(item: &mut Item) {
    if let Item::Field { tag: 55, required } = item {
        *required = true;
    }
}

struct Reading {
    version: Version,
    draft: Draft,
    /// Places of the groups by their numbers, and the fields that count them by their places.
    groups: HashMap<&'static str, usize>,
    counts: Vec<u32>,
}

impl Reading {
    /// The part before `@`, if it belongs to this version.
    fn part<'a>(&self, word: &'a str) -> Option<&'a str> {
        match word.rsplit_once('@') {
            Some((part, since)) if since.len() == 1 => (since.as_bytes()[0] <= self.version.letter()).then_some(part),
            _ => Some(word),
        }
    }

    fn line(&mut self, line: &'static str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let mut words = rest.split(' ');
        match kind {
            "F" => {
                let tag = words.next()?;
                let (name, type_name) = (words.next()?, words.next()?);
                let Some(tag) = self.part(tag) else { return Some(()) };
                let kind = Kind::by_name(type_name, self.version < Version::Fix42)?;
                let mut field = FieldDefinition::new(tag.parse().ok()?, name, kind);
                words.filter_map(|word| self.part(word)).for_each(|value| field.values.insert(value.as_bytes()));
                self.draft.fields.push(field);
            }
            "D" => self.draft.data.push((words.next()?.parse().ok()?, words.next()?.parse().ok()?)),
            "C" => {
                let key = words.next()?.to_owned();
                let mut items = self.items(words)?;
                if key == INSTRUMENT && matches!(self.version, Version::Fix43 | Version::Fix44) {
                    items.iter_mut().for_each(require_symbol);
                }
                self.draft.components.insert(key, items);
            }
            "G" => {
                let place = *self.groups.get(words.next()?)?;
                let count_tag = words.next()?.parse().ok()?;
                self.draft.groups[place] = GroupDraft { count_tag, items: self.items(words)? };
            }
            "H" => self.draft.header = self.items(words)?,
            "T" => self.draft.trailer = self.items(words)?,
            "M" => {
                let (msg_type, name, is_admin) = (words.next()?, words.next()?, words.next()? == "s");
                let Some(msg_type) = self.part(msg_type) else { return Some(()) };
                let (msg_type, name) = (msg_type.to_owned(), name.to_owned());
                let items = self.items(words)?;
                self.draft.messages.push(MessageDraft { msg_type, name, is_admin, items });
            }
            _ => return None,
        }
        Some(())
    }

    fn items<'a>(&self, words: impl Iterator<Item = &'a str>) -> Option<Vec<Item>> {
        let is_derived = self.version == Version::Fix43;
        let parts = words.filter_map(|word| match self.part(word) {
            None if is_derived && word.starts_with(['c', 'g']) => self.part_of_older(word),
            part => part,
        });
        parts.filter(|part| !part.is_empty()).map(|part| self.item(part)).collect()
    }

    /// A component, or a group whose counting field the version has: it may have stood there without a name. Not required.
    fn part_of_older<'a>(&self, word: &'a str) -> Option<&'a str> {
        let name = word.split(['!', '@']).next()?;
        let Some(group) = name.strip_prefix('g').and_then(|number| self.groups.get(number)) else { return Some(name) };
        let count_tag = self.counts.get(*group)?;
        self.draft.fields.iter().any(|field| field.tag == *count_tag).then_some(name)
    }

    fn item(&self, part: &str) -> Option<Item> {
        let (name, required) = part.strip_suffix('!').map_or((part, false), |name| (name, true));
        if let Some(number) = name.strip_prefix('g') {
            return Some(Item::Group { number: *self.groups.get(number)?, required });
        }
        match name.strip_prefix('c') {
            Some(key) => Some(Item::Component { key: key.to_owned(), required }),
            None => Some(Item::Field { tag: name.parse().ok()?, required }),
        }
    }
}
