//! Blocks: what views and encoders of messages, entries and composites have in common.

use super::text::Out;
use super::{Context, field};
use crate::schema::Block;

/// A view's structure.
pub(super) fn structure(out: &mut Out, name: &str, block: &Block, has_tail: bool) {
    out.line(0, "#[derive(Clone, Copy, Debug, PartialEq, Eq)]");
    out.line(0, format!("pub struct {name}<'a> {{"));
    out.line(1, format!("block: &'a [u8; {}],", block.base));
    if block.is_versioned {
        out.line(1, "received: sbe::Received<'a>,");
    }
    if has_tail {
        out.line(1, "tail: sbe::Tail<'a>,");
    }
    out.line(0, "}");
}

/// The structure's value, and the names to which its parts are bound before.
pub(super) fn value(block: &Block, has_tail: bool) -> (String, [&'static str; 2]) {
    let mut parts = vec!["block"];
    parts.extend(block.is_versioned.then_some("received"));
    parts.extend(has_tail.then_some("tail"));
    let bound = [if block.is_versioned { "received" } else { "_" }, if has_tail { "tail" } else { "_" }];
    (format!("Self {{ {} }}", parts.join(", ")), bound)
}

/// All getters, and the bytes.
pub(super) fn getters(out: &mut Out, context: &Context<'_>, names: &[String], block: &Block) {
    out.doc(1, "The bytes up to the last field that every version has.");
    out.line(1, "#[inline(always)]");
    out.line(1, format!("pub fn as_bytes(&self) -> &'a [u8; {}] {{", block.base));
    out.line(2, "self.block");
    out.line(1, "}");
    for (name, one) in names.iter().zip(&block.fields) {
        out.gap();
        field::getter(out, context, name, one);
    }
}

/// The encoder of a block's fields. `is_public` are those of composites, which other modules make.
pub(super) fn fields(out: &mut Out, context: &Context<'_>, name: &str, of: &str, block: &Block, is_public: bool) {
    let length = block.length;
    out.doc(0, &format!("Writes the fields of {of}."));
    out.line(0, "#[derive(Debug)]");
    out.line(0, format!("pub struct {name}<'b>(&'b mut [u8; {length}]);"));
    let blanks = field::blanks(context, block);
    let (names, _) = field::names(block);
    let setters: Vec<_> = names.iter().zip(&block.fields).collect();
    let lifetime = if is_public { "<'b> " } else { " " };
    let of_self = if is_public { "<'b>" } else { "<'_>" };
    if setters.is_empty() && blanks.is_empty() && !is_public {
        return;
    }
    out.gap();
    out.line(0, format!("impl{lifetime}{name}{of_self} {{"));
    let begin = out.len();
    if is_public {
        out.doc(1, "The fields in a block.");
        out.line(1, "#[inline(always)]");
        out.line(1, format!("pub fn new(block: &'b mut [u8; {length}]) -> Self {{"));
        out.line(2, "Self(block)");
        out.line(1, "}");
    }
    if !blanks.is_empty() {
        gap_after(out, begin);
        out.doc(1, "Puts null values into a block of zeros.");
        out.line(1, "#[inline]");
        let visibility = if is_public { "pub " } else { "" };
        out.line(1, format!("{visibility}fn blank(block: &mut [u8; {length}]) {{"));
        for line in &blanks {
            out.line(2, line);
        }
        out.line(1, "}");
    }
    for (name, one) in setters {
        let mut text = Out::default();
        field::setter(&mut text, context, name, one);
        if text.len() > 0 {
            gap_after(out, begin);
            out.append(&text);
        }
    }
    out.line(0, "}");
}

fn gap_after(out: &mut Out, begin: usize) {
    if out.len() > begin {
        out.gap();
    }
}

/// The function that puts null values, as an argument.
pub(super) fn blank_of(context: &Context<'_>, name: &str, block: &Block) -> String {
    if field::blanks(context, block).is_empty() { "|_| ()".to_owned() } else { format!("{name}::blank") }
}
