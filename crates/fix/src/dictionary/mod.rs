//! The messages, fields and groups of a version of FIX, and their allowed values.
//!
//! [`Dictionary::fixed`] holds the standard, from tables made of FIX Orchestra (`tables/`, made by
//! `examples/generate_tables.rs`). [`Dictionary::from_quickfix_xml`] reads a file in QuickFIX's format.

mod draft;
mod kind;
mod quickfix;
mod section;
mod tables;

pub use kind::Kind;
pub use section::{Member, Section};
pub use tables::Version;

use crate::decode::DataFields;
use section::hash;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A field: what it is called, how it is written, and which values it may have.
#[derive(Clone, Debug)]
pub struct FieldDefinition {
    /// The tag.
    pub tag: u32,
    /// The name, as the specification writes it.
    pub name: Box<str>,
    /// The data type of its values.
    pub kind: Kind,
    /// The only values allowed; empty when there is no such list.
    values: Values,
    /// The names of values, if a file has them.
    names: BTreeMap<Box<[u8]>, Box<str>>,
}

/// The values that a field may have, kept so that looking one up takes no time worth counting.
#[derive(Clone, Debug, Default)]
struct Values {
    /// Bit n: the value is the single byte n.
    single: u128,
    longer: HashSet<Box<[u8]>>,
}

impl Values {
    fn insert(&mut self, value: &[u8]) {
        match value {
            [byte] if byte.is_ascii() => self.single |= 1 << byte,
            _ => _ = self.longer.insert(value.into()),
        }
    }

    fn is_empty(&self) -> bool {
        self.single == 0 && self.longer.is_empty()
    }

    fn holds(&self, value: &[u8]) -> bool {
        match value {
            [byte] if byte.is_ascii() => self.single >> byte & 1 == 1,
            _ => self.longer.contains(value),
        }
    }
}

impl FieldDefinition {
    fn new(tag: u32, name: &str, kind: Kind) -> Self {
        Self { tag, name: name.into(), kind, values: Values::default(), names: BTreeMap::new() }
    }

    /// Notes what a value is called.
    fn name_value(&mut self, value: &str, name: &str) {
        if !name.is_empty() {
            self.names.insert(value.as_bytes().into(), name.into());
        }
    }

    /// The file's name of this value.
    pub fn value_name(&self, value: &[u8]) -> Option<&str> {
        self.names.get(value).map(|name| &**name)
    }

    /// Returns whether the specification lists the values of this field.
    pub fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// Returns whether this value is listed, or no list exists. Each part of a multiple value is checked by itself.
    pub fn allows(&self, value: &[u8]) -> bool {
        if self.values.is_empty() {
            return true;
        }
        match self.kind {
            Kind::Multiple => value.split(|byte| *byte == b' ').all(|part| self.values.holds(part)),
            _ => self.values.holds(value),
        }
    }
}

/// A message.
#[derive(Clone, Debug)]
pub struct MessageDefinition {
    /// MsgType (35).
    pub msg_type: Box<str>,
    /// The name, as the specification writes it.
    pub name: Box<str>,
    /// Belongs to the session layer.
    pub is_admin: bool,
    /// The fields between header and trailer.
    pub body: Section,
}

/// All of one version, or of one counterparty.
#[derive(Clone, Debug)]
pub struct Dictionary {
    begin_string: String,
    fields: Vec<FieldDefinition>,
    /// Places in `fields` by the hash of their tags, one more than the place; 0 is free.
    slots: Box<[u16]>,
    data: Vec<(u32, u32)>,
    /// The same for the decoder, where the standard does not have them all.
    decodes_as: Option<Arc<DataFields>>,
    /// Sorted by MsgType.
    messages: Vec<MessageDefinition>,
    groups: Vec<Section>,
    header: Section,
    trailer: Section,
    notes: Vec<String>,
}

/// Fields of one dictionary; FIX Latest has 6,000.
const FIELDS_MAX: usize = 30_000;

impl Dictionary {
    fn build(
        begin_string: String,
        mut fields: Vec<FieldDefinition>,
        data: Vec<(u32, u32)>,
        mut messages: Vec<MessageDefinition>,
        groups: Vec<Section>,
        header: Section,
        trailer: Section,
    ) -> Self {
        fields.truncate(FIELDS_MAX);
        messages.sort_by(|one, other| one.msg_type.cmp(&other.msg_type));
        let mut slots = vec![0u16; (2 * fields.len()).next_power_of_two().max(2)].into_boxed_slice();
        for (place, field) in fields.iter().enumerate() {
            let mut at = hash(field.tag, slots.len());
            while slots[at] != 0 {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = place as u16 + 1;
        }
        let decodes_as = (!DataFields::are_standard(&data)).then(|| Arc::new(DataFields::with(&data)));
        Self { begin_string, fields, slots, data, decodes_as, messages, groups, header, trailer, notes: Vec::new() }
    }

    /// Items that were not understood, with their treatment, one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// BeginString (8) of its messages; empty for a dictionary of application messages alone.
    pub fn begin_string(&self) -> &str {
        &self.begin_string
    }

    /// The field with this tag.
    pub fn field(&self, tag: u32) -> Option<&FieldDefinition> {
        let mut at = hash(tag, self.slots.len());
        loop {
            let field = &self.fields[usize::from(self.slots[at]).checked_sub(1)?];
            if field.tag == tag {
                return Some(field);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The field of this name.
    pub fn field_by_name(&self, name: &str) -> Option<&FieldDefinition> {
        self.fields.iter().find(|field| *field.name == *name)
    }

    /// All fields.
    pub fn fields(&self) -> &[FieldDefinition] {
        &self.fields
    }

    /// The message of this MsgType.
    pub fn message(&self, msg_type: &[u8]) -> Option<&MessageDefinition> {
        let found = self.messages.binary_search_by(|message| message.msg_type.as_bytes().cmp(msg_type));
        found.ok().map(|place| &self.messages[place])
    }

    /// All messages, sorted by MsgType.
    pub fn messages(&self) -> &[MessageDefinition] {
        &self.messages
    }

    /// The entry of a repeating group, by the number in [`Member::group`].
    pub fn group(&self, number: u16) -> Option<&Section> {
        self.groups.get(usize::from(number))
    }

    /// The standard header.
    pub fn header(&self) -> &Section {
        &self.header
    }

    /// The standard trailer.
    pub fn trailer(&self) -> &Section {
        &self.trailer
    }

    /// Length fields and the data fields that they announce, for [`Index::with_data`](crate::Index::with_data).
    pub fn data_fields(&self) -> &[(u32, u32)] {
        &self.data
    }

    /// The pairs that a decoder has to know, for [`Index::decode_as`](crate::Index::decode_as); `None` if they are the
    /// standard's.
    pub fn decodes_as(&self) -> Option<&DataFields> {
        self.decodes_as.as_deref()
    }

    /// Drops the fields that no message of it has.
    fn keep_used_fields(&mut self) {
        let sections = self.messages.iter().map(|message| &message.body).chain([&self.header, &self.trailer]);
        let mut used: HashSet<u32> = HashSet::new();
        let mut waiting: Vec<Member> = sections.flat_map(|section| section.members()).copied().collect();
        while let Some(member) = waiting.pop() {
            let is_new = used.insert(member.tag);
            if let Some(group) = member.group.and_then(|group| self.group(group)).filter(|_| is_new) {
                waiting.extend(group.members());
            }
        }
        let fields = std::mem::take(&mut self.fields);
        let kept = fields.into_iter().filter(|field| used.contains(&field.tag)).collect();
        let groups = std::mem::take(&mut self.groups);
        let (header, trailer) = (std::mem::take(&mut self.header), std::mem::take(&mut self.trailer));
        let (begin_string, data) = (std::mem::take(&mut self.begin_string), std::mem::take(&mut self.data));
        let data = data.into_iter().filter(|(_, tag)| used.contains(tag)).collect();
        let messages = std::mem::take(&mut self.messages);
        *self = Self::build(begin_string, kept, data, messages, groups, header, trailer);
    }

    /// One dictionary of a transport's (FIXT.1.1) and an application's: header, trailer and BeginString of the transport, the
    /// messages and fields of both. Where both have a field, the application's is taken.
    #[must_use]
    pub fn with_transport(mut self, transport: &Self) -> Self {
        let mut fields = std::mem::take(&mut self.fields);
        let known: HashSet<u32> = fields.iter().map(|field| field.tag).collect();
        fields.extend(transport.fields.iter().filter(|field| !known.contains(&field.tag)).cloned());
        // Groups beyond what a number holds are no longer known as groups; no dictionary comes near.
        let offset = self.groups.len();
        let number = |group: u16| u16::try_from(usize::from(group) + offset).ok();
        let moved = |section: &Section| {
            let member = |one: &Member| Member { group: one.group.and_then(number), ..*one };
            Section::new(section.members().iter().map(member))
        };
        let mut groups = std::mem::take(&mut self.groups);
        groups.extend(transport.groups.iter().map(moved));
        let mut messages = std::mem::take(&mut self.messages);
        let have: HashSet<Box<str>> = messages.iter().map(|message| message.msg_type.clone()).collect();
        let others = transport.messages.iter().filter(|message| !have.contains(&message.msg_type));
        messages.extend(others.map(|one| MessageDefinition { body: moved(&one.body), ..one.clone() }));
        let mut data = std::mem::take(&mut self.data);
        data.extend(transport.data.iter().filter(|pair| !known.contains(&pair.1)));
        let (header, trailer) = (moved(&transport.header), moved(&transport.trailer));
        Self::build(transport.begin_string.clone(), fields, data, messages, groups, header, trailer)
    }
}

#[cfg(test)]
mod tests;
