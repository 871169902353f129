//! The encoder of a message: a type for each place, so that parts are written in order.

use super::text::{Names, Out, camel, described, snake};
use super::view::part_name;
use super::{Context, block};
use crate::File;
use crate::schema::{Block, Data, Group, Kind, Message, Part};

/// The file of a message's encoder.
pub(super) fn file(context: &Context<'_>, index: usize, message: &Message) -> File {
    let (name, module) = (&context.names.messages[index], &context.names.modules[index]);
    let mut encoders = Encoders { context, out: Out::default(), names: Names::default() };
    encoders.message(name, message);
    let about = format!("The encoder of message {} (template {}).", message.name, message.id);
    let imports = ["use super::{SCHEMA, VERSION};".to_owned()];
    context.file(format!("{module}_encoder.rs"), &about, &encoders.out, &imports)
}

/// What a part is followed by.
#[derive(Clone)]
enum Next {
    /// An encoder of this name.
    Encoder(String),
    /// Nothing: the bytes that were written.
    Bytes,
}

impl Next {
    fn returns(&self) -> String {
        match self {
            Self::Encoder(name) => format!("{name}<'a>"),
            Self::Bytes => "usize".to_owned(),
        }
    }

    fn value(&self) -> String {
        match self {
            Self::Encoder(name) => format!("{name}(self.0)"),
            Self::Bytes => "self.0.written()".to_owned(),
        }
    }

    fn document(&self) -> &'static str {
        match self {
            Self::Encoder(_) => "",
            Self::Bytes => " Returns the length of the message, bytes.",
        }
    }
}

struct Encoders<'s> {
    context: &'s Context<'s>,
    out: Out,
    names: Names,
}

impl Encoders<'_> {
    fn message(&mut self, name: &str, message: &Message) {
        let of = &message.block;
        let encoder = self.names.add(format!("{name}Encoder"));
        let fields = self.names.add(format!("{name}Fields"));
        self.out.doc(0, &format!("Writes a message `{}` with its header.", message.name));
        self.out.line(0, "#[derive(Debug)]");
        self.out.line(0, format!("pub struct {encoder}<'a>(sbe::Writer<'a>);"));
        self.out.gap();
        self.out.line(0, format!("impl<'a> {encoder}<'a> {{"));
        self.out.doc(1, "Begins a message: its header, and a root block of null values and zeros.");
        self.out.errors(1, "Fails if the buffer is full.");
        self.out.line(1, "pub fn new(buffer: &'a mut [u8]) -> Result<Self, sbe::Unwritable> {");
        self.out.line(2, "let mut writer = sbe::Writer::new(buffer);");
        let header = format!("block_length: {}, template: {}, schema: SCHEMA, version: VERSION", of.length, message.id);
        self.out.line(2, format!("let header = sbe::Header {{ {header} }};"));
        self.out.line(2, format!("writer.header::<{}{}>(header)?;", self.context.types, self.context.names.header));
        let blank = block::blank_of(self.context, &fields, of);
        self.out.line(2, format!("writer.block::<{}>({blank})?;", of.length));
        self.out.line(2, "Ok(Self(writer))");
        self.out.line(1, "}");
        self.body(of, &message.parts, &encoder, &fields, (name, 0), &Next::Bytes);
    }

    /// The rest of an encoder that begins with a block, the types of its parts, and the fields.
    fn body(&mut self, of: &Block, parts: &[Part], own: &str, fields: &str, place: (&str, usize), end: &Next) {
        let has_fields = of.fields.iter().any(|field| !matches!(field.kind, Kind::Constant(_)));
        if has_fields {
            if place.1 == 0 {
                self.out.gap();
            }
            self.out.doc(1, "The fields of the block, to be set.");
            self.out.line(1, "#[inline]");
            self.out.line(1, format!("pub fn fields(&mut self) -> {fields}<'_> {{"));
            self.out.line(2, format!("{fields}(self.0.fields())"));
            self.out.line(1, "}");
        }
        if parts.is_empty() {
            self.out.gap();
            self.out.doc(1, "Ends the message. Returns its length, bytes.");
            self.out.line(1, "pub fn finish(self) -> usize {");
            self.out.line(2, "self.0.written()");
            self.out.line(1, "}");
            self.out.line(0, "}");
        }
        let (path, depth) = place;
        let mut groups = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let next = match parts.get(at + 1) {
                Some(_) => Next::Encoder(self.names.add(format!("{own}After{}", camel(part_name(part))))),
                None => end.clone(),
            };
            if at > 0 || has_fields || depth == 0 {
                self.gap_in_body(at);
            }
            match part {
                Part::Group(group) => groups.push(self.group(group, next.clone(), path, depth)),
                Part::Data(data) => self.data(data, &next),
            }
            self.out.line(0, "}");
            if let (Next::Encoder(stage), true) = (&next, at + 1 < parts.len()) {
                self.stage(stage, part_name(part));
            }
        }
        if has_fields {
            self.out.gap();
            let about = if depth == 0 { "the root block" } else { "an entry" };
            block::fields(&mut self.out, self.context, fields, about, of, false);
        }
        for (group, encoder, next) in groups {
            self.entries(group, &encoder, &next, path, depth);
        }
    }

    fn gap_in_body(&mut self, at: usize) {
        if at == 0 {
            self.out.gap();
        }
    }

    fn stage(&mut self, name: &str, after: &str) {
        self.out.gap();
        self.out.doc(0, &format!("The place behind `{after}`."));
        self.out.line(0, "#[derive(Debug)]");
        self.out.line(0, format!("pub struct {name}<'a>(sbe::Writer<'a>);"));
        self.out.gap();
        self.out.line(0, format!("impl<'a> {name}<'a> {{"));
    }

    fn group<'g>(&mut self, group: &'g Group, next: Next, path: &str, depth: usize) -> (&'g Group, String, Next) {
        let encoder = self.names.add(format!("{path}{}Encoder", camel(&group.name)));
        let method = Names::with(&["fields", "new", "finish"]).add(snake(&group.name));
        let (out, context) = (&mut self.out, self.context);
        out.doc(1, &format!("Begins the group `{}`, which has no entries yet.", group.name));
        out.errors(1, "Fails if the buffer is full.");
        let returns = format!("Result<{encoder}<'a>, sbe::Unwritable>");
        out.function(1, &format!("pub fn {method}"), &["mut self"], &returns);
        let dimension = context.dimension(group.dimension);
        out.line(2, format!("self.0.group::<{dimension}>({depth}, {})?;", group.block.length));
        out.line(2, format!("Ok({encoder}(self.0))"));
        out.line(1, "}");
        (group, encoder, next)
    }

    fn data(&mut self, data: &Data, next: &Next) {
        let method = Names::with(&["fields", "new", "finish"]).add(snake(&data.name));
        let (out, context) = (&mut self.out, self.context);
        let about = described(&data.description, &format!("The data `{}`", data.name));
        out.doc(1, &format!("{about}{}", next.document()));
        out.errors(1, "Fails if the buffer is full, or the data is longer than its length field can tell.");
        let returns = format!("Result<{}, sbe::Unwritable>", next.returns());
        out.function(1, &format!("pub fn {method}"), &["mut self", "data: &[u8]"], &returns);
        out.line(2, format!("self.0.data::<{}>(data)?;", context.length(data.length)));
        out.line(2, format!("Ok({})", next.value()));
        out.line(1, "}");
    }

    /// The encoder of a group's entries.
    fn entries(&mut self, group: &Group, encoder: &str, next: &Next, path: &str, depth: usize) {
        let path = format!("{path}{}", camel(&group.name));
        let fields = self.names.add(format!("{path}EntryFields"));
        let entry = if group.parts.is_empty() { String::new() } else { self.names.add(format!("{path}EntryEncoder")) };
        let (length, blank) = (group.block.length, block::blank_of(self.context, &fields, &group.block));
        let dimension = self.context.dimension(group.dimension);
        let out = &mut self.out;
        out.gap();
        out.doc(0, &format!("Writes the entries of `{}`.", group.name));
        out.line(0, "#[derive(Debug)]");
        out.line(0, format!("pub struct {encoder}<'a>(sbe::Writer<'a>);"));
        out.gap();
        out.line(0, format!("impl<'a> {encoder}<'a> {{"));
        out.doc(1, "Adds an entry of null values and zeros.");
        out.errors(1, "Fails if the buffer is full, or the group has as many entries as it can count.");
        out.line(1, "#[inline]");
        if group.parts.is_empty() {
            let returns = format!("Result<{fields}<'_>, sbe::Unwritable>");
            out.function(1, "pub fn entry", &["&mut self"], &returns);
            out.line(2, format!("let block = self.0.entry::<{dimension}, {length}>({depth}, {blank})?;"));
            out.line(2, format!("Ok({fields}(block))"));
        } else {
            let returns = format!("Result<{entry}<'a>, sbe::Unwritable>");
            out.function(1, "pub fn entry", &["mut self"], &returns);
            out.line(2, format!("self.0.entry::<{dimension}, {length}>({depth}, {blank})?;"));
            out.line(2, format!("Ok({entry}(self.0))"));
        }
        out.line(1, "}");
        out.gap();
        out.doc(1, &format!("Ends the group.{}", next.document()));
        out.line(1, format!("pub fn end(self) -> {} {{", next.returns()));
        out.line(2, next.value());
        out.line(1, "}");
        out.line(0, "}");
        out.gap();
        if group.parts.is_empty() {
            return block::fields(out, self.context, &fields, "an entry", &group.block, false);
        }
        out.doc(0, &format!("Writes an entry of `{}`.", group.name));
        out.line(0, "#[derive(Debug)]");
        out.line(0, format!("pub struct {entry}<'a>(sbe::Writer<'a>);"));
        out.gap();
        out.line(0, format!("impl<'a> {entry}<'a> {{"));
        let end = Next::Encoder(encoder.to_owned());
        self.body(&group.block, &group.parts, &entry, &fields, (&path, depth + 1), &end);
    }
}
