//! A dictionary while it is read: components by name or number, not yet put into the messages.

use super::section::{Member, Section};
use super::{Dictionary, FieldDefinition, MessageDefinition};
use sidestep_sys::Problem;
use std::collections::{HashMap, HashSet};

/// Components within components; the standard's own go 8 deep.
const DEPTH_MAX: usize = 24;

/// Members of all sections together, after components were put in. FIX Latest has 250,000; a hostile file of nested
/// components would otherwise grow by powers.
const MEMBERS_MAX: usize = 2_000_000;

/// Repeating groups of one dictionary.
const GROUPS_MAX: usize = 10_000;

/// An item of a message, component or group.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A field by its tag.
    Field { tag: u32, required: bool },
    /// A component by its key.
    Component { key: String, required: bool },
    /// A repeating group by its number in [`Draft::groups`].
    Group { number: usize, required: bool },
}

/// A repeating group: the field that counts its entries, and what an entry holds.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupDraft {
    pub(super) count_tag: u32,
    pub(super) items: Vec<Item>,
}

/// A message before its components are put in.
#[derive(Clone, Debug)]
pub(super) struct MessageDraft {
    pub(super) msg_type: String,
    pub(super) name: String,
    pub(super) is_admin: bool,
    pub(super) items: Vec<Item>,
}

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) begin_string: String,
    pub(super) fields: Vec<FieldDefinition>,
    pub(super) data: Vec<(u32, u32)>,
    pub(super) components: HashMap<String, Vec<Item>>,
    pub(super) groups: Vec<GroupDraft>,
    pub(super) messages: Vec<MessageDraft>,
    pub(super) header: Vec<Item>,
    pub(super) trailer: Vec<Item>,
}

impl Draft {
    /// Adds the fields that an older version has, and allows them again in the messages that had them. Nothing of it is
    /// required, and the fields of its groups are those of this version.
    pub(super) fn add_older(&mut self, older: &Self) {
        let known: HashSet<u32> = self.fields.iter().map(|field| field.tag).collect();
        self.fields.extend(older.fields.iter().filter(|field| !known.contains(&field.tag)).cloned());
        for message in &mut self.messages {
            let before = older.messages.iter().find(|one| one.msg_type == message.msg_type);
            message.items.extend(before.into_iter().flat_map(|one| &one.items).filter_map(|item| match item {
                Item::Field { tag, .. } => Some(Item::Field { tag: *tag, required: false }),
                _ => None,
            }));
        }
    }

    /// Puts the components into the messages.
    pub(super) fn finish(self) -> Result<Dictionary, Problem> {
        if self.groups.len() > GROUPS_MAX {
            return Err(refused(format!(
                "it has {} repeating groups, at most {GROUPS_MAX} are taken",
                self.groups.len()
            )));
        }
        let mut expansion = Expansion { draft: &self, done: HashMap::new(), members: 0 };
        let header = expansion.section(&self.header)?;
        let trailer = expansion.section(&self.trailer)?;
        let mut messages = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            let definition = MessageDefinition {
                msg_type: message.msg_type.clone().into(),
                name: message.name.clone().into(),
                is_admin: message.is_admin,
                body: expansion.section(&message.items)?,
            };
            messages.push(definition);
        }
        let groups: Result<Vec<Section>, Problem> =
            self.groups.iter().map(|group| expansion.section(&group.items)).collect();
        Ok(Dictionary::build(self.begin_string, self.fields, self.data, messages, groups?, header, trailer))
    }
}

pub(super) fn refused(why: impl std::fmt::Display) -> Problem {
    Problem::failed("cannot use the FIX dictionary", why)
}

struct Expansion<'d> {
    draft: &'d Draft,
    /// Components that were put in once: their members as if the component were required.
    done: HashMap<&'d str, Vec<Member>>,
    members: usize,
}

impl<'d> Expansion<'d> {
    fn section(&mut self, items: &'d [Item]) -> Result<Section, Problem> {
        let mut members = Vec::new();
        self.put(items, true, 0, &mut members)?;
        Ok(Section::new(members))
    }

    /// Adds items; those required in an optional component are optional.
    fn put(&mut self, items: &'d [Item], all: bool, depth: usize, into: &mut Vec<Member>) -> Result<(), Problem> {
        if depth > DEPTH_MAX {
            return Err(refused(format!("components are nested more than {DEPTH_MAX} deep, or hold themselves")));
        }
        for item in items {
            match item {
                Item::Field { tag, required } => {
                    into.push(Member { tag: *tag, required: all && *required, group: None });
                }
                Item::Group { number, required } => {
                    let group = u16::try_from(*number).ok();
                    let tag = self.draft.groups.get(*number).map_or(0, |group| group.count_tag);
                    into.push(Member { tag, required: all && *required, group });
                }
                Item::Component { key, required } => {
                    let inner = self.component(key, depth)?;
                    let optional =
                        |member: &Member| Member { required: all && *required && member.required, ..*member };
                    into.extend(inner.iter().map(optional));
                }
            }
            self.members += 1;
        }
        if self.members + into.len() > MEMBERS_MAX {
            return Err(refused(format!("its messages have more than {MEMBERS_MAX} fields together")));
        }
        Ok(())
    }

    fn component(&mut self, key: &'d str, depth: usize) -> Result<Vec<Member>, Problem> {
        if let Some(members) = self.done.get(key) {
            self.members += members.len();
            return Ok(members.clone());
        }
        let draft = self.draft;
        let items = draft.components.get(key).ok_or_else(|| refused(format!("there is no component {key}")))?;
        let mut members = Vec::new();
        self.put(items, true, depth + 1, &mut members)?;
        self.done.insert(key, members.clone());
        Ok(members)
    }
}
