//! The view of a message.

use super::text::{Names, Out, camel, described, snake};
use super::{Context, block, field, walk};
use crate::File;
use crate::schema::{Block, Data, Group, Message, Part};

/// The file of a message's view.
pub(super) fn file(context: &Context<'_>, index: usize, message: &Message) -> File {
    let (name, module) = (&context.names.messages[index], &context.names.modules[index]);
    let mut views = Views { context, out: Out::default(), names: Names::with(&[name.as_str()]) };
    views.message(name, message);
    let about = format!("Message {} (template {}).", message.name, message.id);
    context.file(format!("{module}.rs"), &about, &views.out, &[])
}

struct Views<'s> {
    context: &'s Context<'s>,
    out: Out,
    /// The names of the file.
    names: Names,
}

/// The names of a group's types.
struct GroupTypes<'g> {
    group: &'g Group,
    entry: String,
    after: String,
    path: String,
}

impl Views<'_> {
    fn message(&mut self, name: &str, message: &Message) {
        let (of, has_tail) = (&message.block, !message.parts.is_empty());
        self.out.doc(0, &described(&message.description, &format!("The message `{}`", message.name)));
        block::structure(&mut self.out, name, of, has_tail);
        self.out.gap();
        self.out.line(0, format!("impl<'a> {name}<'a> {{"));
        self.out.doc(1, "The template id.");
        self.out.line(1, format!("pub const TEMPLATE: u16 = {};", message.id));
        self.out.doc(1, "The length of the root block in this version, bytes.");
        self.out.line(1, format!("pub const BLOCK_LENGTH: usize = {};", of.length));
        self.out.gap();
        self.out.doc(1, "Reads the root block of a message, whose body follows its header.");
        self.out
            .errors(1, "Fails if the block length does not cover the fields of every version, or the body is shorter.");
        self.out.line(1, "#[inline]");
        let parameters = ["header: &sbe::Header", "body: &'a [u8]"];
        self.out.function(1, "pub fn decode", &parameters, "Result<Self, sbe::Malformed>");
        self.out.line(2, "let tail = sbe::Tail::new(body, header.version);");
        let (value, [received, tail]) = block::value(of, has_tail);
        self.out.line(
            2,
            format!("let (block, {received}, {tail}) = tail.block({:?}, header.block_length)?;", message.name),
        );
        self.out.line(2, format!("Ok({value})"));
        self.out.line(1, "}");
        self.out.gap();
        self.body(name, of, &message.parts, "");
    }

    /// The rest of a view's implementation, and the types of its parts.
    fn body(&mut self, name: &str, of: &Block, parts: &[Part], path: &str) {
        let (names, mut methods) = field::names(of);
        block::getters(&mut self.out, self.context, &names, of);
        let nexts: Vec<String> = parts.iter().enumerate().map(|(at, part)| self.next(parts, at, part, path)).collect();
        let mut groups = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if at == 0 {
                self.out.gap();
            } else {
                self.stage(&nexts[at - 1], part_name(&parts[at - 1]));
                methods = Names::default();
            }
            match part {
                Part::Group(group) => groups.extend(self.group(group, &mut methods, &nexts[at], path)),
                Part::Data(data) => self.data(data, &mut methods, &nexts[at]),
            }
            self.out.line(0, "}");
        }
        if parts.is_empty() {
            self.out.line(0, "}");
        }
        walk::fields(&mut self.out, name, of, parts);
        for group in groups {
            self.entry(&group);
        }
    }

    /// The type of the place behind a part.
    fn next(&mut self, parts: &[Part], at: usize, part: &Part, path: &str) -> String {
        if at + 1 == parts.len() {
            return "sbe::End".to_owned();
        }
        self.names.add(format!("{path}After{}", camel(part_name(part))))
    }

    fn stage(&mut self, name: &str, after: &str) {
        self.out.gap();
        self.out.doc(0, &format!("The place behind `{after}`."));
        self.out.line(0, "#[derive(Clone, Copy, Debug, PartialEq, Eq)]");
        self.out.line(0, format!("pub struct {name}<'a> {{"));
        self.out.line(1, "tail: sbe::Tail<'a>,");
        self.out.line(0, "}");
        self.out.gap();
        self.out.line(0, format!("impl<'a> sbe::Stage<'a> for {name}<'a> {{"));
        self.out.line(1, "#[inline(always)]");
        self.out.line(1, "fn at(tail: sbe::Tail<'a>) -> Self {");
        self.out.line(2, "Self { tail }");
        self.out.line(1, "}");
        self.out.line(0, "}");
        self.out.gap();
        self.out.line(0, format!("impl<'a> {name}<'a> {{"));
    }

    fn group<'g>(&mut self, group: &'g Group, methods: &mut Names, next: &str, path: &str) -> Option<GroupTypes<'g>> {
        let path = format!("{path}{}", camel(&group.name));
        let alias = self.names.add(path.clone());
        let entry = self.names.add(format!("{path}Entry"));
        let method = methods.add(snake(&group.name));
        let mut about = described(&group.description, &format!("The group `{}`", group.name));
        if group.since > 0 {
            about.push_str(&format!(" Of no entries before version {}.", group.since));
        }
        let (out, context) = (&mut self.out, self.context);
        out.doc(1, &about);
        out.errors(
            1,
            if group.parts.is_empty() {
                "Fails if the message ends inside the group, or entries are shorter than their fields."
            } else {
                "Fails if the message ends inside the group's dimension. Its entries are checked as they come."
            },
        );
        out.line(1, "#[inline]");
        out.function(1, &format!("pub fn {method}"), &["&self"], &format!("Result<{alias}<'a>, sbe::Malformed>"));
        let kind = if group.parts.is_empty() { "Group" } else { "NestedGroup" };
        let dimension = context.dimension(group.dimension);
        out.line(2, format!("sbe::{kind}::open::<{dimension}>(self.tail, {})", group.since));
        out.line(1, "}");
        let after = format!("pub type {alias}<'a> = sbe::{kind}<'a, {entry}<'a>, {next}<'a>>");
        Some(GroupTypes { group, entry, after, path })
    }

    fn data(&mut self, data: &Data, methods: &mut Names, next: &str) {
        let (out, context) = (&mut self.out, self.context);
        let method = methods.add(snake(&data.name));
        let is_versioned = data.since > 0;
        let mut about = described(&data.description, &format!("The data `{}`", data.name));
        if is_versioned {
            about.push_str(&format!(" Nothing before version {}.", data.since));
        }
        out.doc(1, &format!("{about} Behind it the place that follows."));
        out.errors(1, "Fails if the message ends inside the data.");
        out.line(1, "#[inline]");
        let bytes = if is_versioned { "Option<&'a [u8]>" } else { "&'a [u8]" };
        let returns = format!("Result<({bytes}, {next}<'a>), sbe::Malformed>");
        out.function(1, &format!("pub fn {method}"), &["&self"], &returns);
        let length = context.length(data.length);
        out.line(2, format!("let (data, tail) = self.tail.data::<{length}>({:?}, {})?;", data.name, data.since));
        let data = if is_versioned { "data" } else { "data.unwrap_or_default()" };
        out.line(2, format!("Ok(({data}, sbe::Stage::at(tail)))"));
        out.line(1, "}");
    }

    fn entry(&mut self, types: &GroupTypes<'_>) {
        let GroupTypes { group, entry, after, path } = types;
        let (of, has_tail) = (&group.block, !group.parts.is_empty());
        self.out.gap();
        self.out.doc(0, &described(&group.description, &format!("The group `{}`", group.name)));
        let (head, tail) = after.split_once(" = ").unwrap_or((after, ""));
        self.out.assign(0, head, tail);
        self.out.gap();
        self.out.doc(0, &format!("An entry of `{}`.", group.name));
        block::structure(&mut self.out, entry, of, has_tail);
        self.out.gap();
        if has_tail {
            self.nested(group, entry);
        } else {
            self.flat(group, entry);
        }
        self.out.gap();
        self.out.line(0, format!("impl<'a> {entry}<'a> {{"));
        self.body(entry, of, &group.parts, path);
    }

    fn flat(&mut self, group: &Group, entry: &str) {
        let received = if group.block.is_versioned { "received" } else { "_" };
        let value = if group.block.is_versioned { ", received" } else { "" };
        let out = &mut self.out;
        out.line(0, format!("impl<'a> sbe::Entry<'a> for {entry}<'a> {{"));
        out.line(1, format!("const PART: &'static str = {:?};", group.name));
        out.line(1, format!("const BYTES: usize = {};", group.block.base));
        out.gap();
        out.line(1, "#[inline(always)]");
        let received = format!("{received}: sbe::Received<'a>");
        out.function(1, "fn of", &["block: &'a [u8]", &received], "Option<Self>");
        out.line(2, format!("Some(Self {{ block: block.first_chunk()?{value} }})"));
        out.line(1, "}");
        out.line(0, "}");
    }

    fn nested(&mut self, group: &Group, entry: &str) {
        let (value, [received, tail]) = block::value(&group.block, true);
        let (_, mut methods) = field::names(&group.block);
        let out = &mut self.out;
        out.line(0, format!("impl<'a> sbe::NestedEntry<'a> for {entry}<'a> {{"));
        out.line(1, format!("const PART: &'static str = {:?};", group.name));
        out.gap();
        out.line(1, "#[inline]");
        let parameters = ["tail: sbe::Tail<'a>", "block_length: usize"];
        out.function(1, "fn take", &parameters, "Result<(Self, sbe::Tail<'a>), sbe::Malformed>");
        out.line(2, format!("let (block, {received}, {tail}) = tail.block(Self::PART, block_length)?;"));
        out.line(2, format!("let entry = {value};"));
        let mut from = "entry";
        for part in &group.parts {
            let method = methods.add(snake(part_name(part)));
            match part {
                Part::Group(inner) if inner.parts.is_empty() => {
                    out.line(2, format!("let stage = {from}.{method}()?.after();"));
                }
                Part::Group(_) => out.line(2, format!("let stage = {from}.{method}()?.after()?;")),
                Part::Data(_) => out.line(2, format!("let (_, stage) = {from}.{method}()?;")),
            }
            (from, methods) = ("stage", Names::default());
        }
        out.line(2, "Ok((entry, stage.tail()))");
        out.line(1, "}");
        out.line(0, "}");
    }
}

/// The name of a part.
pub(super) fn part_name(part: &Part) -> &str {
    match part {
        Part::Group(group) => &group.name,
        Part::Data(data) => &data.name,
    }
}
