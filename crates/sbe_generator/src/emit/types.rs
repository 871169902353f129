//! The folder `types`: enumerations, sets, composites, and the composites that SBE itself uses.

use super::text::{Names, Out, described, snake};
use super::{Context, bit, block, field, walk};
use crate::File;
use crate::schema::{Composite, Enum, Frame, Named, Primitive, Set};

/// The files of the folder.
pub(super) fn files(context: &Context<'_>) -> Vec<File> {
    let schema = context.schema;
    let parts: [(&str, &str, Out); 4] = [
        ("composites", "Composites.", all(&schema.composites, |out, index, one| composite(out, context, index, one))),
        ("enums", "Enumerations. Values that the schema does not have survive.", {
            all(&schema.enums, |out, index, one| enumeration(out, context, index, one))
        }),
        ("frames", "The header of messages, the dimensions of groups, the lengths of var-data.", frames(context)),
        ("sets", "Sets of bits.", all(&schema.sets, |out, index, one| set(out, context, index, one))),
    ];
    let used: Vec<_> = parts.into_iter().filter(|part| part.2.len() > 0).collect();
    let mut index = Out::default();
    for (name, _, _) in &used {
        index.line(0, format!("mod {name};"));
    }
    index.gap();
    for (name, _, _) in &used {
        index.line(0, format!("pub use {name}::*;"));
    }
    let mut files: Vec<File> =
        used.iter().map(|(name, about, body)| context.file(format!("types/{name}.rs"), about, body, &[])).collect();
    files.push(context.file("types/mod.rs".to_owned(), "The types of fields.", &index, &[]));
    files
}

fn all<T>(list: &[T], emit: impl Fn(&mut Out, usize, &T)) -> Out {
    let mut out = Out::default();
    for (index, one) in list.iter().enumerate() {
        if index > 0 {
            out.gap();
        }
        emit(&mut out, index, one);
    }
    out
}

fn since(named: &Named) -> String {
    let text = described(&named.description, &format!("The value `{}`", named.name));
    if named.since > 0 { format!("{text} Since version {}.", named.since) } else { text }
}

fn enumeration(out: &mut Out, context: &Context<'_>, index: usize, of: &Enum) {
    let (name, rust) = (&context.names.enums[index], of.primitive.rust());
    let values = &context.names.values[index];
    out.doc(0, &described(&of.description, &format!("The type `{}`", of.name)));
    out.line(0, "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]");
    out.line(0, format!("pub struct {name}(pub {rust});"));
    out.gap();
    out.line(0, format!("impl {name} {{"));
    for (constant, value) in values.iter().zip(&of.values) {
        out.doc(1, &since(value));
        out.line(1, format!("pub const {constant}: Self = Self({});", field::literal(of.primitive, value.value)));
    }
    out.gap();
    out.doc(1, "The name of the value in the schema; nothing if it has none.");
    out.function(1, "pub const fn name", &["self"], "Option<&'static str>");
    out.line(2, "Some(match self {");
    for (constant, value) in values.iter().zip(&of.values) {
        out.line(3, format!("Self::{constant} => {:?},", value.name));
    }
    out.line(3, "_ => return None,");
    out.line(2, "})");
    out.line(1, "}");
    out.line(0, "}");
    out.gap();
    walk::enumeration(out, name);
}

fn set(out: &mut Out, context: &Context<'_>, index: usize, of: &Set) {
    let (name, rust) = (&context.names.sets[index], of.primitive.rust());
    out.doc(0, &described(&of.description, &format!("The type `{}`", of.name)));
    out.line(0, "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]");
    out.line(0, format!("pub struct {name}(pub {rust});"));
    out.gap();
    let choices: Vec<_> = of.choices.iter().enumerate().map(|(at, one)| (bit(of, at), one.name.as_str())).collect();
    walk::set(out, name, &choices);
    if of.choices.is_empty() {
        return;
    }
    out.gap();
    out.line(0, format!("impl {name} {{"));
    let mut names = Names::default();
    for (at, choice) in of.choices.iter().enumerate() {
        if at > 0 {
            out.gap();
        }
        let getter = names.add(snake(&choice.name));
        let setter = names.add(format!("with_{}", getter.trim_end_matches('_')));
        let mask = format!("{:#x}", 1_u64 << bit(of, at));
        out.doc(1, &since(choice));
        out.line(1, "#[inline(always)]");
        out.function(1, &format!("pub const fn {getter}"), &["self"], "bool");
        out.line(2, format!("self.0 & {mask} != 0"));
        out.line(1, "}");
        out.gap();
        out.doc(1, &format!("The set with or without `{}`.", choice.name));
        out.line(1, "#[must_use]");
        out.function(1, &format!("pub const fn {setter}"), &["self", "on: bool"], "Self");
        out.line(2, format!("Self(if on {{ self.0 | {mask} }} else {{ self.0 & !{mask} }})"));
        out.line(1, "}");
    }
    out.line(0, "}");
}

fn composite(out: &mut Out, context: &Context<'_>, index: usize, of: &Composite) {
    let name = &context.names.composites[index];
    out.doc(0, &described(&of.description, &format!("The type `{}`", of.name)));
    block::structure(out, name, &of.block, false);
    out.gap();
    out.line(0, format!("impl<'a> {name}<'a> {{"));
    out.doc(1, "The composite in its bytes.");
    out.line(1, "#[inline(always)]");
    let mut parameters = vec![format!("block: &'a [u8; {}]", of.block.base)];
    parameters.extend(of.block.is_versioned.then(|| "received: sbe::Received<'a>".to_owned()));
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    out.function(1, "pub fn new", &parameters, "Self");
    out.line(2, block::value(&of.block, false).0);
    out.line(1, "}");
    out.gap();
    let (names, _) = field::names(&of.block);
    block::getters(out, context, &names, &of.block);
    out.line(0, "}");
    out.gap();
    walk::composite(out, name, &of.block);
    out.gap();
    block::fields(out, context, &format!("{name}Fields"), &format!("[`{name}`]"), &of.block, true);
}

fn frames(context: &Context<'_>) -> Out {
    let (schema, names) = (context.schema, context.names);
    let mut out = Out::default();
    header(&mut out, context);
    for (name, frame) in names.dimensions.iter().zip(&schema.dimensions) {
        out.gap();
        dimension(&mut out, context, name, frame);
    }
    for (name, frame) in names.lengths.iter().zip(&schema.lengths) {
        out.gap();
        length(&mut out, context, name, frame);
    }
    out
}

/// An unsigned integer of a frame, read and made a `rust`.
fn read(context: &Context<'_>, frame: &Frame, part: &str, rust: &str) -> String {
    let (primitive, at) = frame.part(part);
    let value = format!("{}::from_{}_bytes(sbe::field(bytes, {at}))", primitive.rust(), context.order());
    match (primitive.rust(), rust) {
        (own, wanted) if own == wanted => value,
        ("u32", "usize") => format!("{value} as usize"),
        _ => format!("{rust}::from({value})"),
    }
}

fn write(context: &Context<'_>, frame: &Frame, part: &str, value: &str, rust: &str) -> String {
    let (primitive, at) = frame.part(part);
    let cast = if primitive.rust() == rust { value.to_owned() } else { format!("({value} as {})", primitive.rust()) };
    format!("sbe::put(bytes, {at}, {cast}.to_{}_bytes());", context.order())
}

fn frame_type(out: &mut Out, name: &str, about: &str, frame: &Frame, of: &str) {
    out.doc(0, about);
    out.line(0, "#[derive(Clone, Copy, Debug)]");
    out.line(0, format!("pub enum {name} {{}}"));
    out.gap();
    out.line(0, format!("impl sbe::{of} for {name} {{"));
    out.line(1, format!("const BYTES: usize = {};", frame.bytes));
}

fn reader(out: &mut Out, returns: &str, frame: &Frame, value: &str) {
    out.gap();
    out.line(1, "#[inline(always)]");
    out.function(1, "fn read", &["bytes: &[u8]"], returns);
    out.line(2, format!("let bytes = bytes.first_chunk::<{}>()?;", frame.bytes));
    out.line(2, value);
    out.line(1, "}");
}

fn writer(out: &mut Out, parameters: &[&str], frame: &Frame, lines: &[String]) {
    out.gap();
    out.line(1, "#[inline(always)]");
    out.function(1, "fn write", parameters, "Option<()>");
    out.line(2, format!("let bytes = bytes.first_chunk_mut::<{}>()?;", frame.bytes));
    for line in lines {
        out.line(2, line);
    }
    out.line(2, "Some(())");
    out.line(1, "}");
    out.line(0, "}");
}

fn header(out: &mut Out, context: &Context<'_>) {
    let frame = &context.schema.header;
    let parts = [("block_length", "blockLength", "usize"), ("template", "templateId", "u16")];
    let parts = parts.into_iter().chain([("schema", "schemaId", "u16"), ("version", "version", "u16")]);
    let parts: Vec<_> = parts.collect();
    frame_type(out, &context.names.header, "The header of messages.", frame, "MessageHeader");
    let mut value = String::from("Some(sbe::Header {\n");
    for (name, part, rust) in &parts {
        value.push_str(&format!("            {name}: {},\n", read(context, frame, part, rust)));
    }
    value.push_str("        })");
    reader(out, "Option<sbe::Header>", frame, &value);
    let lines: Vec<String> =
        parts.iter().map(|(name, part, rust)| write(context, frame, part, &format!("header.{name}"), rust)).collect();
    writer(out, &["bytes: &mut [u8]", "header: sbe::Header"], frame, &lines);
}

fn dimension(out: &mut Out, context: &Context<'_>, name: &str, frame: &Frame) {
    let (primitive, _) = frame.part("numInGroup");
    frame_type(out, name, &format!("The dimension `{}` of groups.", frame.name), frame, "Dimension");
    out.line(1, format!("const COUNT_MAX: u32 = {};", greatest(primitive)));
    let block_length = read(context, frame, "blockLength", "usize");
    let value = format!("let block_length = {block_length};\n        Some((block_length, {}))", {
        read(context, frame, "numInGroup", "u32")
    });
    reader(out, "Option<(usize, u32)>", frame, &value);
    let lines = [
        write(context, frame, "blockLength", "block_length", "usize"),
        write(context, frame, "numInGroup", "count", "u32"),
    ];
    writer(out, &["bytes: &mut [u8]", "block_length: usize", "count: u32"], frame, &lines);
}

fn length(out: &mut Out, context: &Context<'_>, name: &str, frame: &Frame) {
    let (primitive, _) = frame.part("length");
    frame_type(out, name, &format!("The length of var-data of type `{}`.", frame.name), frame, "Length");
    out.line(1, format!("const MAX: u32 = {};", greatest(primitive)));
    reader(out, "Option<u32>", frame, &format!("Some({})", read(context, frame, "length", "u32")));
    let lines = [write(context, frame, "length", "length", "u32")];
    writer(out, &["bytes: &mut [u8]", "length: u32"], frame, &lines);
}

/// The greatest number that is not the null value.
fn greatest(primitive: Primitive) -> i128 {
    primitive.max().min(i128::from(u32::MAX)) - 1
}
