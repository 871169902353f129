//! Makes `tables/*.txt` of FIX Orchestra's files (Maven: io.fixprotocol.orchestrations:fix-standard 1.5.4, Apache-2.0).
//!
//! ```text
//! unzip fix-standard-1.5.4.jar
//! cargo run -p sidestep-fix --example generate_tables -- FixRepository42.xml c > crates/fix/tables/fix42.txt
//! cargo run -p sidestep-fix --example generate_tables -- FixRepository44.xml e > crates/fix/tables/fix44.txt
//! cargo run -p sidestep-fix --example generate_tables -- OrchestraFIXLatest.xml i > crates/fix/tables/latest.txt
//! ```
//!
//! The letter is the file's own version: what came later than that is written as that.
//!
//! `generate_tables values OrchestraFIXLatest.xml FixRepository44.xml FixRepository42.xml > crates/fix/tables/values.txt` makes the
//! names of values: of each the first file's that has it.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write;

#[derive(Default)]
struct Element {
    tag: String,
    attributes: HashMap<String, String>,
    children: Vec<Self>,
}

impl Element {
    fn read(start: &BytesStart<'_>) -> Result<Self, Box<dyn Error>> {
        let mut element = Self { tag: start.local_name().as_ref().to_owned(), ..Self::default() };
        for attribute in start.attributes() {
            let attribute = attribute?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0)?.into_owned();
            element.attributes.insert(attribute.key.as_ref().to_owned(), value);
        }
        Ok(element)
    }

    fn text(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    fn all<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.tag == part).flat_map(|child| &child.children)
    }
}

fn tree(text: &str) -> Result<Element, Box<dyn Error>> {
    let mut reader = Reader::from_str(text);
    let mut open = vec![Element::default()];
    loop {
        let closed = match reader.read_event()? {
            Event::Start(start) => {
                open.push(Element::read(&start)?);
                continue;
            }
            Event::Empty(start) => Element::read(&start)?,
            Event::End(_) => open.pop().ok_or("an element too many is closed")?,
            Event::Eof => break,
            _ => continue,
        };
        open.last_mut().ok_or("no document")?.children.push(closed);
    }
    open.pop().and_then(|mut document| document.children.pop()).ok_or_else(|| "an empty document".into())
}

/// In which version an item came. An extension pack is part of the version that follows the one it extends.
fn letter(element: &Element, own: char) -> char {
    let added = match element.text("added") {
        "FIX.4.1" => 'b',
        "FIX.4.2" => 'c',
        "FIX.4.3" => 'd',
        "FIX.4.4" => 'e',
        "FIX.5.0" => 'f',
        "FIX.5.0SP1" => 'g',
        "FIX.5.0SP2" => 'h',
        "FIX.Latest" => 'i',
        _ => 'a',
    };
    let is_extension = !element.text("addedEP").is_empty() && added >= 'e';
    let letter = if is_extension { (added as u8 + 1) as char } else { added };
    letter.min(own)
}

struct Writer {
    /// Items as old as this have no mark.
    oldest: char,
    own: char,
    text: String,
}

impl Writer {
    /// The mark of an element within another; nothing when it is as old as that.
    fn mark_within(&self, element: &Element, outer: char) -> String {
        let letter = letter(element, self.own);
        // What is in a new component is new, too, but for FIX 4.3 and before: there the components of 4.2 and 4.4 are taken
        // apart again.
        let known = if self.own > 'e' { self.oldest.max(outer) } else { self.oldest };
        if letter <= known { String::new() } else { format!("@{letter}") }
    }

    fn mark(&self, element: &Element) -> String {
        self.mark_within(element, self.oldest)
    }

    fn members(&self, outer: &Element, structure: &Element) -> String {
        let outer = letter(outer, self.own);
        let mut line = String::new();
        for element in &structure.children {
            let kind = match element.tag.as_str() {
                "fieldRef" => "",
                "componentRef" => "c",
                "groupRef" => "g",
                _ => continue,
            };
            let required = if element.text("presence") == "required" { "!" } else { "" };
            write!(line, " {kind}{}{required}{}", element.text("id"), self.mark_within(element, outer))
                .expect("a text can be written to");
        }
        line
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn fields(&mut self, root: &Element) {
        let sets: HashMap<&str, &Element> = root.all("codeSets").map(|set| (set.text("name"), set)).collect();
        let mut fields: Vec<&Element> = root.all("fields").collect();
        fields.sort_by_key(|field| field.text("id").parse::<u32>().unwrap_or_default());
        for field in &fields {
            let set = sets.get(field.text("type"));
            let type_name = set.map_or(field.text("type"), |set| set.text("type"));
            let head = format!("F {}{} {}", field.text("id"), self.mark(field), field.text("name"));
            // A union lets other values in beside those listed: then the list says nothing, and the type only if the others are
            // numbers, too. MsgType is held against the messages instead.
            let union = field.text("unionDataType");
            let is_open = !union.is_empty() || field.text("id") == "35";
            let type_name = if union.is_empty() || union.starts_with("Reserved") { type_name } else { "String" };
            let codes = set.filter(|_| !is_open).map_or(String::new(), |set| {
                let codes = set.children.iter().filter(|code| code.tag == "code");
                codes
                    .map(|code| format!(" {}{}", code.text("value"), self.mark_within(code, letter(field, self.own))))
                    .collect()
            });
            self.line(format!("{head} {type_name}{codes}"));
        }
        for field in fields.iter().filter(|field| !field.text("lengthId").is_empty()) {
            self.line(format!("D {} {}", field.text("lengthId"), field.text("id")));
        }
    }

    fn structures(&mut self, root: &Element) {
        for component in root.all("components") {
            let members = self.members(component, component);
            match component.text("name") {
                "StandardHeader" => self.line(format!("H{members}")),
                "StandardTrailer" => self.line(format!("T{members}")),
                _ => self.line(format!("C {}{members}", component.text("id"))),
            }
        }
        for group in root.all("groups") {
            let count = group.children.iter().find(|child| child.tag == "numInGroup");
            let count = count.map_or("0", |count| count.text("id"));
            let members = self.members(group, group);
            self.line(format!("G {} {count}{members}", group.text("id")));
        }
    }

    fn messages(&mut self, root: &Element) {
        let frame: Vec<&str> = root
            .all("components")
            .filter(|component| component.text("name").starts_with("Standard"))
            .map(|component| component.text("id"))
            .collect();
        for message in root.all("messages") {
            let category = if message.text("category") == "Session" { 's' } else { 'a' };
            let head =
                format!("M {}{} {} {category}", message.text("msgType"), self.mark(message), message.text("name"));
            let structure = message.children.iter().find(|child| child.tag == "structure");
            let members = structure.map_or(String::new(), |structure| self.members(message, structure));
            let bare = |word: &str| word.split(['!', '@']).next().unwrap_or_default().to_owned();
            let is_frame = |word: &&str| frame.iter().any(|id| bare(word) == format!("c{id}"));
            let kept: Vec<&str> = members.split(' ').filter(|word| !is_frame(word)).collect();
            self.line(format!("{head}{}", kept.join(" ")));
        }
    }
}

/// Returns a line for fields with the same values: their tags, then pairs of value and name.
fn values(files: impl Iterator<Item = String>) -> Result<String, Box<dyn Error>> {
    let mut names: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
    for file in files {
        let root = tree(&std::fs::read_to_string(file)?)?;
        let sets: HashMap<&str, &Element> = root.all("codeSets").map(|set| (set.text("name"), set)).collect();
        for field in root.all("fields").filter(|field| field.text("id") != "35") {
            let Some(set) = sets.get(field.text("type")) else { continue };
            let known = names.entry(field.text("id").parse()?).or_default();
            for code in set.children.iter().filter(|code| code.tag == "code") {
                known.entry(code.text("value").to_owned()).or_insert_with(|| code.text("name").to_owned());
            }
        }
    }
    let mut text = String::from("# Names of values in FIX Orchestra, Copyright FIX Protocol Ltd., Apache-2.0.\n");
    text.push_str("# Made by examples/generate_tables.rs: tags, then values and their names in turn.\n");
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (tag, values) in names {
        let is_word = |word: &str| !word.is_empty() && !word.contains(char::is_whitespace);
        let words = values.iter().filter(|(value, name)| is_word(value) && is_word(name));
        let words: String = words.map(|(value, name)| format!(" {value} {name}")).collect();
        lines.entry(words).or_default().push(tag.to_string());
    }
    for (words, tags) in lines.iter().filter(|(words, _)| !words.is_empty()) {
        writeln!(text, "{}{words}", tags.join(","))?;
    }
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|word| word == "values").is_some() {
        print!("{}", values(arguments)?);
        return Ok(());
    }
    let (file, own) = (arguments.next().ok_or("which file?")?, arguments.next().ok_or("which version?")?);
    let own = own.chars().next().ok_or("which version?")?;
    let root = tree(&std::fs::read_to_string(file)?)?;
    let oldest = match own {
        'c' => 'a',
        'e' => 'd',
        _ => 'f',
    };
    let mut writer = Writer { oldest, own, text: String::new() };
    writer.line(format!("# {} of FIX Orchestra, Copyright FIX Protocol Ltd., Apache-2.0.", root.text("version")));
    writer.line("# Made by examples/generate_tables.rs; the format stands in src/dictionary/tables.rs.");
    writer.fields(&root);
    writer.structures(&root);
    writer.messages(&root);
    print!("{}", writer.text);
    Ok(())
}
