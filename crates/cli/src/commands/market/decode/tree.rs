//! The fields of a message of SBE as a tree, in their order, and its text and JSON.

use serde_json::{Map, Value as Json, json};
use sidestep_market::sbe::{Part, Value, Walker};
use std::fmt::Write as _;

/// Bits of the longest set.
const BITS_MAX: u32 = 64;
/// The greatest power of ten by which a mantissa is divided to be printed.
const DECIMALS_MAX: i128 = 18;

/// A field, or what has fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Number(i128),
    Float(f64),
    Text(String),
    Fields(Vec<(&'static str, Self)>),
    List(Vec<Self>),
}

/// Fields by name, in their order.
pub(super) type Named = Vec<(&'static str, Node)>;

/// Takes the fields of one message.
#[derive(Default)]
pub(super) struct Tree {
    fields: Named,
    /// Parts that have begun, with what was around them.
    open: Vec<(&'static str, Part, Named)>,
}

impl Tree {
    /// What came; parts that were left open end here.
    pub(super) fn finish(mut self) -> Named {
        while !self.open.is_empty() {
            self.end();
        }
        self.fields
    }
}

impl Walker for Tree {
    fn value(&mut self, name: &'static str, value: Value<'_>) {
        self.fields.push((name, Node::of(value)));
    }

    fn begin(&mut self, name: &'static str, part: Part) {
        self.open.push((name, part, std::mem::take(&mut self.fields)));
    }

    fn end(&mut self) {
        let Some((name, part, around)) = self.open.pop() else { return };
        let fields = std::mem::replace(&mut self.fields, around);
        let node = match part {
            Part::Composite => decimal(&fields).unwrap_or(Node::Fields(fields)),
            Part::Entry => Node::Fields(fields),
            Part::Array | Part::Group => Node::List(fields.into_iter().map(|(_, node)| node).collect()),
        };
        self.fields.push((name, node));
    }
}

/// A composite of mantissa and exponent as a decimal number.
fn decimal(fields: &[(&'static str, Node)]) -> Option<Node> {
    let [("mantissa", mantissa), ("exponent", Node::Number(exponent))] = fields else { return None };
    match mantissa {
        Node::Null => Some(Node::Null),
        Node::Number(mantissa) if (-DECIMALS_MAX..0).contains(exponent) => {
            let decimals = (-exponent) as usize;
            let (one, sign) = (10_u128.pow(decimals as u32), if *mantissa < 0 { "-" } else { "" });
            let (whole, rest) = (mantissa.unsigned_abs() / one, mantissa.unsigned_abs() % one);
            Some(Node::Text(format!("{sign}{whole}.{rest:0decimals$}")))
        }
        _ => None,
    }
}

impl Node {
    fn of(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Number(number) | Value::Enum(None, number) => Self::Number(number),
            Value::Float(number) => Self::Float(number),
            Value::Text(bytes) => Self::Text(text(bytes)),
            Value::Enum(Some(name), _) => Self::Text(name.to_owned()),
            Value::Set(bits, choice) => Self::Text(choices(bits, choice)),
        }
    }

    pub(super) fn json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Number(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => json!(number),
                (_, Ok(number)) => json!(number),
                _ => json!(number.to_string()),
            },
            Self::Float(number) => json!(number),
            Self::Text(text) => json!(text),
            Self::Fields(fields) => object(fields),
            Self::List(nodes) => nodes.iter().map(Self::json).collect(),
        }
    }

    /// The value of a field in one line.
    fn line(&self, out: &mut String) {
        let _ = match self {
            Self::Null => write!(out, "null"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Float(number) => write!(out, "{number}"),
            Self::Text(text) => write!(out, "{text}"),
            Self::Fields(fields) => {
                out.push('{');
                line(out, fields, "");
                write!(out, "}}")
            }
            Self::List(nodes) => {
                for (at, node) in nodes.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    node.line(out);
                }
                write!(out, "{}", if nodes.is_empty() { "[]" } else { "]" })
            }
        };
    }

    /// The entries, if it is a group.
    fn entries(&self) -> Option<impl Iterator<Item = &[(&'static str, Self)]>> {
        let Self::List(nodes) = self else { return None };
        let is_group = nodes.iter().all(|node| matches!(node, Self::Fields(_)));
        let entries = nodes.iter().filter_map(|node| match node {
            Self::Fields(fields) => Some(&fields[..]),
            _ => None,
        });
        is_group.then_some(entries)
    }
}

pub(super) fn object(fields: &[(&'static str, Node)]) -> Json {
    Json::Object(fields.iter().map(|(name, node)| ((*name).to_owned(), node.json())).collect::<Map<_, _>>())
}

/// Writes fields behind each other, and the entries of groups on lines of their own, farther to the right.
pub(super) fn lines(out: &mut String, fields: &[(&'static str, Node)], depth: usize) {
    line(out, fields, " ");
    out.push('\n');
    for (name, node) in fields {
        for entry in node.entries().into_iter().flatten() {
            let _ = write!(out, "{:width$}{name}", "", width = 4 * (depth + 1));
            lines(out, entry, depth + 1);
        }
    }
}

/// The fields that are no groups. `before` stands before the first one.
fn line(out: &mut String, fields: &[(&'static str, Node)], before: &str) {
    let mut separator = before;
    for (name, node) in fields.iter().filter(|(_, node)| node.entries().is_none()) {
        let _ = write!(out, "{separator}{name}=");
        node.line(out);
        separator = " ";
    }
}

/// Characters up to the NULs or spaces behind them.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' ')).map_or(0, |last| last + 1);
    bytes[..end].escape_ascii().to_string()
}

/// The names of the bits that are set; a bit without a name is a number.
fn choices(bits: u128, choice: fn(u32) -> Option<&'static str>) -> String {
    let set = (0..BITS_MAX).filter(|bit| bits >> bit & 1 == 1);
    let names: Vec<String> = set.map(|bit| choice(bit).map_or_else(|| bit.to_string(), str::to_owned)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("|") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stand_on_lines_of_their_own_and_composites_in_theirs() {
        let mut tree = Tree::default();
        tree.value("Time", Value::Number(7));
        tree.value("Flags", Value::Set(0b101, |bit| (bit == 0).then_some("First")));
        tree.begin("Levels", Part::Group);
        tree.begin("Levels", Part::Entry);
        tree.begin("Price", Part::Composite);
        tree.value("mantissa", Value::Number(-5_000_000_001));
        tree.value("exponent", Value::Number(-9));
        tree.end();
        tree.begin("Year", Part::Composite);
        tree.value("year", Value::Number(2026));
        tree.value("month", Value::Null);
        tree.end();
        tree.begin("Three", Part::Array);
        (1..=2).for_each(|number| tree.value("Three", Value::Number(number)));
        tree.end();
        tree.value("Side", Value::Enum(Some("Bid"), 48));
        tree.begin("Fills", Part::Group);
        tree.begin("Fills", Part::Entry);
        tree.value("Name", Value::Text(b"a\x1b\0\0"));
        // What is left open by an error ends with the message.
        let fields = tree.finish();
        let mut out = String::from("M");
        lines(&mut out, &fields, 0);
        assert_eq!(
            out,
            "M Time=7 Flags=First|2\n    Levels Price=-5.000000001 Year={year=2026 month=null} Three=[1,2] Side=Bid\n\
             \x20       Fills Name=a\\x1b\n"
        );
        let json = object(&fields);
        assert_eq!(json["Levels"][0]["Fills"], json!([{ "Name": "a\\x1b" }]));
        assert_eq!((&json["Levels"][0]["Year"]["month"], &json["Time"]), (&Json::Null, &json!(7)));
    }

    #[test]
    fn a_group_of_no_entries_has_no_line_and_is_an_empty_array() {
        let mut tree = Tree::default();
        tree.begin("Levels", Part::Group);
        tree.end();
        let fields = tree.finish();
        let mut out = String::new();
        lines(&mut out, &fields, 0);
        assert_eq!((out.as_str(), object(&fields)), ("\n", json!({ "Levels": [] })));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_text() {
        assert_eq!(Node::Number(i128::from(u64::MAX)).json(), json!(u64::MAX));
        assert_eq!(Node::Number(i128::MAX).json(), json!(i128::MAX.to_string()));
        assert_eq!(Node::Float(f64::NAN).json(), Json::Null);
    }
}
