//! Dictionaries in QuickFIX's XML format, as people have them.
//!
//! Nothing outside of the file is read, and no entities but XML's own five are known. Size, depth and what components grow to
//! are bounded.

use super::draft::{Draft, GroupDraft, Item, MessageDraft, refused};
use super::{Dictionary, FIELDS_MAX, FieldDefinition, Kind};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use sidestep_sys::Problem;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a file; the largest that QuickFIX ships has 1.5 MB.
const XML_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Elements within each other; groups within groups go 8 deep.
const DEPTH_MAX: usize = 32;

/// Elements of a file; the largest that QuickFIX ships has 40,000.
const ELEMENTS_MAX: usize = 500_000;

/// An element with the attributes that matter.
#[derive(Debug, Default)]
struct Element {
    tag: String,
    attributes: HashMap<String, String>,
    children: Vec<Self>,
}

impl Element {
    fn read(start: &BytesStart<'_>) -> Result<Self, Problem> {
        let tag = start.local_name().as_ref().to_owned();
        let mut attributes = HashMap::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| refused(format!("<{tag}>: {error}")))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| refused(format!("<{tag}>: {error}")))?;
            attributes.insert(attribute.key.as_ref().to_owned(), value.into_owned());
        }
        Ok(Self { tag, attributes, children: Vec::new() })
    }

    fn text(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    fn required(&self) -> bool {
        self.text("required") == "Y"
    }

    fn children(&self, tag: &'static str) -> impl Iterator<Item = &Self> {
        self.children.iter().filter(move |child| child.tag == tag)
    }

    fn grandchildren(&self, outer: &'static str, inner: &'static str) -> impl Iterator<Item = &Self> {
        self.children(outer).flat_map(move |child| child.children(inner))
    }
}

/// The document as a tree. `depth` is bounded, so that dropping the tree is, too.
fn tree(xml: &[u8]) -> Result<Element, Problem> {
    let text = std::str::from_utf8(xml).map_err(|error| refused(format!("it is not UTF-8: {error}")))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut open = vec![Element::default()];
    let mut count = 0;
    loop {
        let at = reader.buffer_position();
        let event = reader.read_event().map_err(|error| refused(format!("at byte {at}: {error}")))?;
        count += usize::from(matches!(event, Event::Start(_) | Event::Empty(_)));
        if count > ELEMENTS_MAX {
            return Err(refused(format!("it has more than {ELEMENTS_MAX} elements")));
        }
        let closed = match event {
            Event::Start(start) => {
                if open.len() > DEPTH_MAX {
                    return Err(refused(format!("at byte {at}: elements are nested more than {DEPTH_MAX} deep")));
                }
                open.push(Element::read(&start)?);
                continue;
            }
            Event::Empty(start) => Element::read(&start)?,
            Event::End(_) if open.len() > 1 => open.pop().unwrap_or_default(),
            Event::Eof => break,
            _ => continue,
        };
        if let Some(parent) = open.last_mut() {
            parent.children.push(closed);
        }
    }
    if open.len() > 1 {
        return Err(refused(format!("<{}> is not closed", open[open.len() - 1].tag)));
    }
    let root = open.pop().and_then(|mut document| document.children.pop());
    root.filter(|root| root.tag == "fix")
        .ok_or_else(|| refused("its first element is not <fix>").next("give a QuickFIX dictionary"))
}

impl Dictionary {
    /// Reads a data dictionary in QuickFIX's format (`<fix major='4' minor='4'>`).
    pub fn from_quickfix_xml(xml: &[u8]) -> Result<Self, Problem> {
        if xml.len() > XML_BYTES_MAX {
            return Err(refused(format!("it has {} bytes, at most {XML_BYTES_MAX} are read", xml.len())));
        }
        let root = tree(xml)?;
        let major = root.text("major").parse::<u8>().map_err(|_| refused("<fix> has no major version"))?;
        let minor = root.text("minor").parse::<u8>().map_err(|_| refused("<fix> has no minor version"))?;
        let mut reading = Reading::default();
        reading.draft.begin_string = match root.text("type") {
            "FIXT" => format!("FIXT.{major}.{minor}"),
            _ => format!("FIX.{major}.{minor}"),
        };
        reading.fields(&root, major == 4 && minor < 2)?;
        for component in root.grandchildren("components", "component") {
            let items = reading.items(component)?;
            reading.draft.components.insert(component.text("name").to_owned(), items);
        }
        for message in root.grandchildren("messages", "message") {
            reading.message(message)?;
        }
        for part in root.children("header") {
            reading.draft.header = reading.items(part)?;
        }
        for part in root.children("trailer") {
            reading.draft.trailer = reading.items(part)?;
        }
        let notes = reading.notes();
        let mut dictionary = reading.draft.finish()?;
        dictionary.notes = notes;
        Ok(dictionary)
    }
}

#[derive(Default)]
struct Reading {
    draft: Draft,
    tags: HashMap<String, u32>,
    kinds: HashMap<u32, Kind>,
    /// Unknown types, and the fields that have them.
    unknown: BTreeMap<String, Vec<String>>,
}

impl Reading {
    fn fields(&mut self, root: &Element, is_before_4_2: bool) -> Result<(), Problem> {
        for element in root.grandchildren("fields", "field") {
            let (name, number) = (element.text("name"), element.text("number"));
            let tag = number.parse().ok().filter(|tag| *tag > 0);
            let tag = tag.ok_or_else(|| refused(format!("field {name}: {number:?} is no tag")))?;
            let kind = self.kind(name, element.text("type"), is_before_4_2);
            let mut field = FieldDefinition::new(tag, name, kind);
            // QuickFIX's files say with this that further values are agreed on by the two sides.
            if element.text("allowOtherValues") != "Y" {
                let values = element.children("value").chain(element.grandchildren("values", "value"));
                values.for_each(|value| field.values.insert(value.text("enum").as_bytes()));
            }
            for value in element.children("value").chain(element.grandchildren("values", "value")) {
                field.name_value(value.text("enum"), value.text("description"));
            }
            if self.kinds.insert(tag, kind).is_some() {
                return Err(refused(format!("tag {tag} is there twice, the second time as {name}")));
            }
            self.tags.insert(name.to_owned(), tag);
            self.draft.fields.push(field);
            if self.draft.fields.len() > FIELDS_MAX {
                return Err(refused(format!("it has more than {FIELDS_MAX} fields")));
            }
        }
        Ok(())
    }

    /// An unknown type is a String, as in QuickFIX: a counterparty's file may be newer than its reader.
    fn kind(&mut self, field: &str, name: &str, is_before_4_2: bool) -> Kind {
        Kind::by_name(name, is_before_4_2).unwrap_or_else(|| {
            let fields = self.unknown.entry(name.to_owned()).or_default();
            fields.push(field.to_owned());
            Kind::Text
        })
    }

    /// One line for each unknown type.
    fn notes(&self) -> Vec<String> {
        let note = |(name, fields): (&String, &Vec<String>)| {
            let others = fields.len().saturating_sub(1);
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            let first = fields.first().map_or("", String::as_str);
            format!("the type {name:?} of {first}{more} is not known; it is taken as String")
        };
        self.unknown.iter().map(note).collect()
    }

    fn message(&mut self, element: &Element) -> Result<(), Problem> {
        let items = self.items(element)?;
        let name = element.text("name").to_owned();
        let msg_type = element.text("msgtype").to_owned();
        if msg_type.is_empty() {
            return Err(refused(format!("message {name} has no msgtype")));
        }
        self.draft.messages.push(MessageDraft { msg_type, name, is_admin: element.text("msgcat") == "admin", items });
        Ok(())
    }

    /// The members of a message, component or group. A data field is announced by the field before it.
    fn items(&mut self, parent: &Element) -> Result<Vec<Item>, Problem> {
        let mut items = Vec::with_capacity(parent.children.len());
        let mut before = None;
        for child in &parent.children {
            let (name, required) = (child.text("name"), child.required());
            let item = match child.tag.as_str() {
                "component" => Item::Component { key: name.to_owned(), required },
                "group" => {
                    let inner = self.items(child)?;
                    self.draft.groups.push(GroupDraft { count_tag: self.tag(name)?, items: inner });
                    Item::Group { number: self.draft.groups.len() - 1, required }
                }
                "field" => Item::Field { tag: self.tag(name)?, required },
                other => return Err(refused(format!("{}: unknown element <{other}>", parent.text("name")))),
            };
            before = self.pair(before, &item);
            items.push(item);
        }
        Ok(items)
    }

    /// Remembers a data field with the length field before it; returns the field if it is one.
    fn pair(&mut self, before: Option<u32>, item: &Item) -> Option<u32> {
        let Item::Field { tag, .. } = item else { return None };
        if let (Some(length), Some(Kind::Data)) = (before, self.kinds.get(tag)) {
            let pair = (length, *tag);
            if matches!(self.kinds.get(&length), Some(Kind::Unsigned | Kind::Int)) && !self.draft.data.contains(&pair) {
                self.draft.data.push(pair);
            }
        }
        Some(*tag)
    }

    fn tag(&self, name: &str) -> Result<u32, Problem> {
        self.tags.get(name).copied().ok_or_else(|| refused(format!("there is no field {name}")))
    }
}
