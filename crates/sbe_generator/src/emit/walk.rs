//! The fields of views by name: implementations of the runtime's `Fields` and `Show`.

use super::text::{Names, Out, snake};
use super::view::part_name;
use super::{Context, field};
use crate::schema::{Block, Constant, Field, Kind, Part, Primitive};

/// `Fields` of a message or an entry.
pub(super) fn fields(out: &mut Out, name: &str, block: &Block, parts: &[Part]) {
    let (names, mut methods) = field::names(block);
    out.gap();
    out.line(0, format!("impl sbe::Fields for {name}<'_> {{"));
    let is_empty = block.fields.is_empty() && parts.is_empty();
    let walker = if is_empty { "_: &mut dyn sbe::Walker" } else { "walker: &mut dyn sbe::Walker" };
    out.function(1, "fn walk", &["&self", walker], "Result<(), sbe::Malformed>");
    all(out, &names, block);
    let mut from = "self";
    for (at, part) in parts.iter().enumerate() {
        let method = methods.add(snake(part_name(part)));
        let has_next = at + 1 < parts.len();
        one_part(out, part, &format!("{from}.{method}()?"), has_next);
        (from, methods) = ("stage", Names::default());
    }
    out.line(2, "Ok(())");
    out.line(1, "}");
    out.line(0, "}");
}

fn one_part(out: &mut Out, part: &Part, value: &str, has_next: bool) {
    let name = format!("{:?}", part_name(part));
    match part {
        Part::Group(group) => {
            let (function, borrow) = if group.parts.is_empty() { ("walk_group", "&") } else { ("walk_nested", "") };
            let head = if has_next { "let stage = " } else { "" };
            out.call(2, &format!("{head}sbe::{function}"), &[&format!("{borrow}{value}"), &name, "walker"], "?;");
        }
        Part::Data(_) => {
            out.line(2, format!("let (data, {}) = {value};", if has_next { "stage" } else { "_" }));
            out.call(2, "sbe::Show::show", &["&data", &name, "walker"], ";");
        }
    }
}

/// `Show` of a composite.
pub(super) fn composite(out: &mut Out, name: &str, block: &Block) {
    let (names, _) = field::names(block);
    out.line(0, format!("impl sbe::Show for {name}<'_> {{"));
    show(out, "name");
    out.line(2, "walker.begin(name, sbe::Part::Composite);");
    all(out, &names, block);
    out.line(2, "walker.end();");
    out.line(1, "}");
    out.line(0, "}");
}

/// `Show` of an enumeration.
pub(super) fn enumeration(out: &mut Out, name: &str) {
    out.line(0, format!("impl sbe::Show for {name} {{"));
    show(out, "name");
    out.line(2, "walker.value(name, sbe::Value::Enum(self.name(), i128::from(self.0)));");
    out.line(1, "}");
    out.line(0, "}");
}

/// `Show` of a set, of which each choice has a bit and a name.
pub(super) fn set(out: &mut Out, name: &str, choices: &[(u32, &str)]) {
    out.line(0, format!("impl sbe::Show for {name} {{"));
    show(out, "name");
    let bit = if choices.is_empty() { "_" } else { "bit" };
    out.line(2, format!("fn choice({bit}: u32) -> Option<&'static str> {{"));
    if choices.is_empty() {
        out.line(3, "None");
    } else {
        out.line(3, "Some(match bit {");
        for (bit, choice) in choices {
            out.line(4, format!("{bit} => {choice:?},"));
        }
        out.line(4, "_ => return None,");
        out.line(3, "})");
    }
    out.line(2, "}");
    out.line(2, "walker.value(name, sbe::Value::Set(u128::from(self.0), choice));");
    out.line(1, "}");
    out.line(0, "}");
}

/// The fields of a message of any type, and its name.
pub(super) fn message(out: &mut Out, context: &Context<'_>) {
    let (schema, names) = (context.schema, context.names);
    out.gap();
    out.line(0, "impl Message<'_> {");
    out.doc(1, "The name of the message in the schema; nothing if it has none.");
    out.function(1, "pub fn name", &["&self"], "Option<&'static str>");
    out.line(2, "Some(match self {");
    for (name, message) in names.messages.iter().zip(&schema.messages) {
        out.line(3, format!("Self::{name}(_) => {:?},", message.name));
    }
    out.line(3, "Self::Unknown(..) => return None,");
    out.line(2, "})");
    out.line(1, "}");
    out.line(0, "}");
    out.gap();
    out.line(0, "impl sbe::Fields for Message<'_> {");
    let walker = if schema.messages.is_empty() { "_: &mut dyn sbe::Walker" } else { "walker: &mut dyn sbe::Walker" };
    out.function(1, "fn walk", &["&self", walker], "Result<(), sbe::Malformed>");
    out.line(2, "match self {");
    for name in &names.messages {
        out.line(3, format!("Self::{name}(message) => sbe::Fields::walk(message, walker),"));
    }
    out.line(3, "Self::Unknown(..) => Ok(()),");
    out.line(2, "}");
    out.line(1, "}");
    out.line(0, "}");
}

fn show(out: &mut Out, name: &str) {
    let name = format!("{name}: &'static str");
    out.function(1, "fn show", &["&self", &name, "walker: &mut dyn sbe::Walker"], "");
}

fn all(out: &mut Out, names: &[String], block: &Block) {
    for (getter, field) in names.iter().zip(&block.fields) {
        let name = format!("{:?}", field.name);
        let value =
            if is_character(field) { format!("&sbe::Char(self.{getter}())") } else { format!("&self.{getter}()") };
        out.call(2, "sbe::Show::show", &[&value, &name, "walker"], ";");
    }
}

fn is_character(field: &Field) -> bool {
    matches!(field.kind, Kind::Number(Primitive::Char, _) | Kind::Constant(Constant::Number(Primitive::Char, _)))
}
