//! A schema as a tree of elements, each with its line.
//!
//! Nothing outside of the file is read, and no entities but XML's own five are known. Size, depth and number of elements are bounded.

use crate::XML_BYTES_MAX;
use crate::problem::Fault;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::collections::BTreeMap;

/// Elements within each other; schemas of venues have 6.
const DEPTH_MAX: usize = 24;

/// Elements of a schema; those of venues have up to 8,000.
const ELEMENTS_MAX: usize = 100_000;

/// An element.
#[derive(Debug, Default)]
pub(crate) struct Element {
    /// Its name without the namespace's prefix: schemas use two namespaces.
    pub(crate) tag: String,
    /// The line in which it begins.
    pub(crate) line: usize,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) children: Vec<Self>,
    /// Its characters, without those of children.
    pub(crate) text: String,
}

impl Element {
    fn of(start: &BytesStart<'_>, line: usize) -> Result<Self, Fault> {
        let tag = start.local_name().as_ref().to_owned();
        let malformed = |error: &dyn std::fmt::Display| Fault::new(line, format!("<{tag}>"), error.to_string(), MEND);
        let mut attributes = BTreeMap::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| malformed(&error))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| malformed(&error))?;
            attributes.insert(attribute.key.local_name().as_ref().to_owned(), value.into_owned());
        }
        if tag == "include" {
            let why = "files that a schema includes are not read: a schema could name any file";
            return Err(Fault::new(
                line,
                "<include>",
                why,
                "put the included elements into the schema (xmllint --xinclude)",
            ));
        }
        Ok(Self { tag, line, attributes, ..Self::default() })
    }

    /// An attribute; nothing if it is not there.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// A fault of this element.
    pub(crate) fn fault(&self, why: impl Into<String>, next: &'static str) -> Fault {
        let name = self.get("name").map(|name| format!(" name={name:?}")).unwrap_or_default();
        Fault::new(self.line, format!("<{}{name}>", self.tag), why, next)
    }
}

/// The next step if the file is no XML.
const MEND: &str = "give the schema as the venue publishes it, an XML file in UTF-8";

/// The lines up to a place, counted as the reading goes on.
struct Lines<'x> {
    bytes: &'x [u8],
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(&mut self, at: u64) -> usize {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes.len()).max(self.at);
        self.line += self.bytes[self.at..at].iter().filter(|byte| **byte == b'\n').count();
        self.at = at;
        self.line
    }
}

/// The first element of a document.
pub(crate) fn read(xml: &[u8]) -> Result<Element, Fault> {
    if xml.len() > XML_BYTES_MAX {
        let why = format!("it has {} bytes, at most {XML_BYTES_MAX} are read", xml.len());
        return Err(Fault::new(1, "", why, MEND));
    }
    let text =
        std::str::from_utf8(xml).map_err(|error| Fault::new(1, "", format!("it is not UTF-8: {error}"), MEND))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(text);
    let mut lines = Lines { bytes: text.as_bytes(), at: 0, line: 1 };
    let mut open = vec![Element::default()];
    let mut count = 0;
    loop {
        let at = reader.buffer_position();
        let event = reader.read_event();
        let line = lines.of(at);
        let event = event.map_err(|error| Fault::new(line, "", error.to_string(), MEND))?;
        count += usize::from(matches!(event, Event::Start(_) | Event::Empty(_)));
        if count > ELEMENTS_MAX {
            return Err(Fault::new(line, "", format!("it has more than {ELEMENTS_MAX} elements"), MEND));
        }
        let closed = match event {
            Event::Start(start) if open.len() > DEPTH_MAX => {
                let tag = format!("<{}>", start.local_name().as_ref());
                return Err(Fault::new(line, tag, format!("elements are nested more than {DEPTH_MAX} deep"), MEND));
            }
            Event::Start(start) => {
                open.push(Element::of(&start, line)?);
                continue;
            }
            Event::Empty(start) => Element::of(&start, line)?,
            Event::End(_) if open.len() > 1 => open.pop().unwrap_or_default(),
            Event::Eof => break,
            Event::Text(text) => {
                push_text(&mut open, &text);
                continue;
            }
            Event::CData(text) => {
                push_text(&mut open, &text);
                continue;
            }
            Event::GeneralRef(_) => {
                return Err(Fault::new(line, "", "it has an entity between elements", "write the character itself"));
            }
            _ => continue,
        };
        if let Some(parent) = open.last_mut() {
            parent.children.push(closed);
        }
    }
    if open.len() > 1 {
        let last = &open[open.len() - 1];
        return Err(last.fault("it is not closed", MEND));
    }
    let root = open.pop().and_then(|mut document| document.children.pop());
    root.ok_or_else(|| Fault::new(1, "", "it has no element", MEND))
}

fn push_text(open: &mut [Element], text: &str) {
    if let Some(parent) = open.last_mut() {
        parent.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(xml: &[u8]) -> String {
        read(xml).unwrap_err().problem("s.xml").line()
    }

    #[test]
    fn elements_have_their_lines_and_local_names() {
        let root =
            read(b"<?xml version='1.0'?>\n<sbe:a xmlns:sbe='u'\n x='1'>\n <b y='&lt;2'>t</b>\n</sbe:a>").unwrap();
        assert_eq!((root.tag.as_str(), root.line, root.get("x")), ("a", 2, Some("1")));
        let child = &root.children[0];
        assert_eq!((child.line, child.get("y"), child.text.as_str()), (4, Some("<2"), "t"));
    }

    #[test]
    fn what_is_no_document_is_refused_with_its_line() {
        assert!(why(b"").contains("line 1: it has no element"));
        assert!(why(b"<a>\n<b>").contains("line 2, <b>: it is not closed"));
        assert!(why(b"<a>\n</b>").contains("line 2"));
        assert!(why(b"\xff").contains("not UTF-8"));
        assert!(why(b"<a>&x;</a>").contains("entity"));
        assert!(why(b"<a b='&x;'/>").contains("<a>"));
    }

    #[test]
    fn includes_are_refused() {
        let refused = why(b"<a xmlns:xi='u'>\n<xi:include href='/etc/passwd'/></a>");
        assert!(refused.contains("line 2, <include>") && refused.contains("xmllint"), "{refused}");
    }

    #[test]
    fn size_depth_and_number_of_elements_are_bounded() {
        assert!(why(&vec![b' '; XML_BYTES_MAX + 1]).contains("at most 16777216 are read"));
        assert!(why("<a>".repeat(100_000).as_bytes()).contains("more than 24 deep"));
        assert!(why(format!("<a>{}</a>", "<b/>".repeat(100_000)).as_bytes()).contains("more than 100000 elements"));
    }
}
