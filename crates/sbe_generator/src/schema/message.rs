//! Messages, groups and var-data.

use super::layout::finish;
use super::types::Types;
use super::{Block, Field, MEND};
use crate::problem::Fault;
use crate::xml::Element;
use std::collections::BTreeSet;

/// Groups within groups: as many as the runtime's writer has places for (`sidestep_market::sbe::NESTING_MAX`).
const GROUPS_DEEP_MAX: usize = 6;

/// Messages of a schema; those of venues have up to 80.
const MESSAGES_MAX: usize = 2_000;

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) id: u16,
    pub(crate) block: Block,
    pub(crate) parts: Vec<Part>,
}

/// What follows a block.
#[derive(Debug)]
pub(crate) enum Part {
    Group(Group),
    Data(Data),
}

/// A repeating group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) since: u16,
    /// An index in [`super::Schema::dimensions`].
    pub(crate) dimension: usize,
    pub(crate) block: Block,
    pub(crate) parts: Vec<Part>,
}

/// Var-data.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) since: u16,
    /// An index in [`super::Schema::lengths`].
    pub(crate) length: usize,
}

/// Reads the messages of a schema.
pub(super) fn messages(root: &Element, types: &mut Types<'_>) -> Result<Vec<Message>, Fault> {
    let (mut messages, mut names, mut ids) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let wrapped = root.children.iter().filter(|child| child.tag == "messages").flat_map(|messages| &messages.children);
    for element in root.children.iter().chain(wrapped).filter(|child| child.tag == "message") {
        if messages.len() == MESSAGES_MAX {
            return Err(element.fault(format!("there are more than {MESSAGES_MAX} messages"), MEND));
        }
        let id = element.number("id")?.ok_or_else(|| element.fault("it has no id", MEND))?;
        let name = element.name()?.to_owned();
        if !names.insert(name.clone()) || !ids.insert(id) {
            return Err(element.fault("there is another message of this name or id", MEND));
        }
        let since = element.since(types.version())?;
        let (block, parts) = body(element, types, since, 0)?;
        messages.push(Message { name, description: element.description(), id, block, parts });
    }
    if messages.is_empty() {
        return Err(root.fault("it has no <message>", "give an SBE 1.0 schema, not only its types"));
    }
    Ok(messages)
}

/// Fields, then groups, then var-data: section 3.1 asks for that order.
fn body(of: &Element, types: &mut Types<'_>, since: u16, depth: usize) -> Result<(Block, Vec<Part>), Fault> {
    let (mut block, mut parts, mut names, mut rank) = (Block::default(), Vec::new(), BTreeSet::new(), 0);
    for child in &of.children {
        let own = match child.tag.as_str() {
            "field" => 0,
            "group" => 1,
            "data" => 2,
            tag => return Err(child.fault(format!("<{tag}> is no part of a message"), "use field, group or data")),
        };
        if own < rank {
            return Err(child.fault("fields come first, then groups, then data", MEND));
        }
        rank = own;
        if !names.insert(child.name()?) {
            return Err(child.fault("there is another one of this name", MEND));
        }
        match own {
            0 => field(&mut block, child, types, since)?,
            1 => parts.push(Part::Group(group(child, types, since, depth)?)),
            _ => parts.push(Part::Data(data(child, types, since)?)),
        }
    }
    finish(&mut block, of)?;
    Ok((block, parts))
}

fn field(block: &mut Block, element: &Element, types: &mut Types<'_>, owner_since: u16) -> Result<(), Fault> {
    let name = element.get("type").ok_or_else(|| element.fault("it has no type", MEND))?;
    let defined = types.resolve(name, element)?;
    let kind = types.kind(&defined, element.get("presence"), element)?;
    let since = Some(element.since(types.version())?).filter(|since| *since > owner_since);
    let field = Field { name: element.name()?.to_owned(), description: element.description(), since, at: 0, kind };
    types.add(block, field, element)
}

fn data(element: &Element, types: &mut Types<'_>, owner_since: u16) -> Result<Data, Fault> {
    Ok(Data {
        name: element.name()?.to_owned(),
        description: element.description(),
        since: later(element.since(types.version())?, owner_since),
        length: types.length(element)?,
    })
}

/// The version if it is later than the owner's; 0 if the part came with its owner.
fn later(since: u16, owner_since: u16) -> u16 {
    if since > owner_since { since } else { 0 }
}

fn group(element: &Element, types: &mut Types<'_>, owner_since: u16, depth: usize) -> Result<Group, Fault> {
    if depth >= GROUPS_DEEP_MAX {
        return Err(element.fault(format!("groups are nested more than {GROUPS_DEEP_MAX} deep"), MEND));
    }
    let since = element.since(types.version())?.max(owner_since);
    let (block, parts) = body(element, types, since, depth + 1)?;
    if block.length == 0 && parts.is_empty() {
        return Err(element.fault("its entries have no bytes", MEND));
    }
    Ok(Group {
        name: element.name()?.to_owned(),
        description: element.description(),
        since: later(since, owner_since),
        dimension: types.dimension(element)?,
        block,
        parts,
    })
}
