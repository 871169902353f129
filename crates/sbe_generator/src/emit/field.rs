//! Getters and setters of fields.

use super::Context;
use super::text::{Names, Out, described, snake};
use crate::schema::{Block, Constant, Field, Kind, Primitive, Value};

/// Names that views and encoders have of themselves.
const RESERVED: &[&str] = &["as_bytes", "decode", "new", "of", "take", "tail", "blank"];

/// The names of a block's fields in Rust, in their order; more names can be added.
pub(super) fn names(block: &Block) -> (Vec<String>, Names) {
    let mut names = Names::with(RESERVED);
    let fields = block.fields.iter().map(|field| names.add(snake(&field.name))).collect();
    (fields, names)
}

/// A value as Rust writes it.
pub(super) fn literal(primitive: Primitive, value: Value) -> String {
    let rust = primitive.rust();
    match value {
        Value::Float(value) if value.is_nan() => format!("{rust}::NAN"),
        Value::Float(value) if value.is_infinite() && value > 0.0 => format!("{rust}::INFINITY"),
        Value::Float(value) if value.is_infinite() => format!("{rust}::NEG_INFINITY"),
        Value::Float(value) if primitive == Primitive::Float => format!("{:?}", value as f32),
        Value::Float(value) => format!("{value:?}"),
        Value::Integer(value) => integer(primitive, value),
    }
}

fn integer(primitive: Primitive, value: i128) -> String {
    let rust = primitive.rust();
    let character = u8::try_from(value).ok().filter(u8::is_ascii_alphanumeric);
    match character {
        Some(character) if primitive == Primitive::Char => format!("b'{}'", char::from(character)),
        _ if primitive != Primitive::Char && value == primitive.max() => format!("{rust}::MAX"),
        _ if value < 0 && value == -primitive.max() - 1 => format!("{rust}::MIN"),
        _ => value.to_string(),
    }
}

/// The documentation of a field.
fn document(out: &mut Out, field: &Field, absent: &str) {
    let mut text = described(&field.description, &format!("The field `{}`", field.name));
    if let Some(since) = field.since {
        text.push_str(&format!(" Since version {since}."));
    }
    text.push_str(absent);
    out.doc(1, &text);
}

/// A field's bytes: from the block, or `self.received.x(...)?` if only some versions have them.
struct Source<'f> {
    field: &'f Field,
}

impl Source<'_> {
    fn bytes(&self, way: &str) -> String {
        let at = self.field.at;
        match self.field.since {
            Some(since) => format!("self.received.{way}({since}, {at})?"),
            None => format!("sbe::{way}(self.block, {at})"),
        }
    }

    /// The value in the type that the getter returns: `Some` if there are versions without it.
    fn wrap(&self, value: String) -> String {
        if self.field.since.is_some() { format!("Some({value})") } else { value }
    }

    fn returns(&self, rust: &str, is_optional: bool) -> String {
        if self.field.since.is_some() || is_optional { format!("Option<{rust}>") } else { rust.to_owned() }
    }
}

/// A getter.
pub(super) fn getter(out: &mut Out, context: &Context<'_>, name: &str, field: &Field) {
    let source = Source { field };
    let (order, at) = (context.order(), field.at);
    let number = |primitive: Primitive| format!("{}::from_{order}_bytes({})", primitive.rust(), source.bytes("field"));
    let (returns, lines) = match &field.kind {
        Kind::Number(primitive, null) => {
            let rust = primitive.rust();
            let value = match null {
                Some(Value::Float(null)) if null.is_nan() => {
                    format!("Some({}).filter(|value| !value.is_nan())", number(*primitive))
                }
                Some(null) => format!("sbe::present({}, {})", number(*primitive), literal(*primitive, *null)),
                None => source.wrap(number(*primitive)),
            };
            (source.returns(rust, null.is_some()), vec![value])
        }
        Kind::Array(primitive @ (Primitive::Char | Primitive::Uint8), length, null) => {
            let bytes = source.bytes("chunk");
            let value = match null {
                Some(null) => format!("sbe::present({bytes}, &[{}; {length}])", literal(*primitive, *null)),
                // An option already, if only some versions have it.
                None => bytes.trim_end_matches('?').to_owned(),
            };
            (source.returns(&format!("&'a [u8; {length}]"), null.is_some()), vec![value])
        }
        Kind::Array(primitive, length, _) => {
            let (rust, size) = (primitive.rust(), primitive.bytes());
            let bytes = format!("let bytes: &[u8; {}] = {};", size * length, source.bytes("chunk"));
            let one = format!("{rust}::from_{order}_bytes(sbe::field(bytes, {size} * index))");
            let value = source.wrap(format!("std::array::from_fn(|index| {one})"));
            (source.returns(&format!("[{rust}; {length}]"), false), vec![bytes, value])
        }
        Kind::Enum(index, null) => {
            let (path, primitive) = (context.enumeration(*index), context.schema.enums[*index].primitive);
            let value = match null {
                Some(null) => {
                    let null = literal(primitive, *null);
                    format!("sbe::present({}, {null}).map({path})", number(primitive))
                }
                None => source.wrap(format!("{path}({})", number(primitive))),
            };
            (source.returns(&path, null.is_some()), vec![value])
        }
        Kind::Set(index) => {
            let (path, primitive) = (context.set(*index), context.schema.sets[*index].primitive);
            (source.returns(&path, false), vec![source.wrap(format!("{path}({})", number(primitive)))])
        }
        Kind::Composite(index) => {
            let path = context.composite(*index);
            let is_versioned = context.schema.composites[*index].block.is_versioned;
            let received = if is_versioned { format!(", self.received.from({at})") } else { String::new() };
            let value = source.wrap(format!("{path}::new({}{received})", source.bytes("chunk")));
            (source.returns(&format!("{path}<'a>"), false), vec![value])
        }
        Kind::Constant(constant) => return constant_getter(out, context, name, field, constant),
    };
    let is_null = matches!(&field.kind, Kind::Number(_, Some(_)) | Kind::Array(_, _, Some(_)) | Kind::Enum(_, Some(_)));
    document(out, field, if is_null { " Nothing if it is the null value." } else { "" });
    out.line(1, "#[inline(always)]");
    out.function(1, &format!("pub fn {name}"), &["&self"], &returns);
    for line in lines {
        out.line(2, line);
    }
    out.line(1, "}");
}

fn constant_getter(out: &mut Out, context: &Context<'_>, name: &str, field: &Field, constant: &Constant) {
    let (returns, value) = match constant {
        Constant::Number(primitive, value) => (primitive.rust().to_owned(), literal(*primitive, *value)),
        Constant::Text(text) => ("&'static str".to_owned(), format!("{text:?}")),
        Constant::Enum(index, value) => {
            let path = context.enumeration(*index);
            let value = &context.names.values[*index][*value];
            (path.clone(), format!("{path}::{value}"))
        }
    };
    document(out, field, " A constant, which has no bytes.");
    out.line(1, "#[inline(always)]");
    out.function(1, &format!("pub const fn {name}"), &["&self"], &returns);
    out.line(2, value);
    out.line(1, "}");
}

/// A setter; constants have none.
pub(super) fn setter(out: &mut Out, context: &Context<'_>, name: &str, field: &Field) {
    let (order, at) = (context.order(), field.at);
    let put = |value: &str| format!("sbe::put(self.0, {at}, {value}.to_{order}_bytes());");
    let optional = |rust: &str| format!("Option<{rust}>");
    let (takes, line) = match &field.kind {
        Kind::Number(primitive, None) => (primitive.rust().to_owned(), put("value")),
        Kind::Number(primitive, Some(null)) => {
            (optional(primitive.rust()), put(&format!("value.unwrap_or({})", literal(*primitive, *null))))
        }
        Kind::Array(Primitive::Char | Primitive::Uint8, length, None) => {
            (format!("&[u8; {length}]"), format!("sbe::put(self.0, {at}, *value);"))
        }
        Kind::Array(primitive @ (Primitive::Char | Primitive::Uint8), length, Some(null)) => {
            let value = format!("*value.unwrap_or(&[{}; {length}])", literal(*primitive, *null));
            (optional(&format!("&[u8; {length}]")), format!("sbe::put(self.0, {at}, {value});"))
        }
        Kind::Array(primitive, length, _) => (format!("[{}; {length}]", primitive.rust()), String::new()),
        Kind::Enum(index, null) => {
            let (path, primitive) = (context.enumeration(*index), context.schema.enums[*index].primitive);
            match null {
                Some(null) => {
                    let value = format!("value.map_or({}, |value| value.0)", literal(primitive, *null));
                    (optional(&path), put(&value))
                }
                None => (path, put("value.0")),
            }
        }
        Kind::Set(index) => (context.set(*index), put("value.0")),
        Kind::Composite(index) => return composite_setter(out, context, name, field, *index),
        Kind::Constant(_) => return,
    };
    document(out, field, "");
    out.line(1, "#[inline(always)]");
    out.function(1, &format!("pub fn {name}"), &["&mut self", &format!("value: {takes}")], "&mut Self");
    if let Kind::Array(primitive, length, _) = &field.kind
        && line.is_empty()
    {
        let size = primitive.bytes();
        out.line(2, format!("let bytes: &mut [u8; {}] = sbe::chunk_mut(self.0, {at});", size * length));
        out.line(2, "for (index, value) in value.iter().enumerate() {");
        out.line(3, format!("sbe::put(bytes, {size} * index, value.to_{order}_bytes());"));
        out.line(2, "}");
    } else {
        out.line(2, line);
    }
    out.line(2, "self");
    out.line(1, "}");
}

fn composite_setter(out: &mut Out, context: &Context<'_>, name: &str, field: &Field, index: usize) {
    let path = context.composite(index);
    document(out, field, "");
    out.line(1, "#[inline(always)]");
    out.function(1, &format!("pub fn {name}"), &["&mut self"], &format!("{path}Fields<'_>"));
    out.line(2, format!("{path}Fields::new(sbe::chunk_mut(self.0, {}))", field.at));
    out.line(1, "}");
}

/// The lines that put the null values of a block into zeros.
pub(super) fn blanks(context: &Context<'_>, block: &Block) -> Vec<String> {
    let mut lines = Vec::new();
    for field in &block.fields {
        let (order, at) = (context.order(), field.at);
        match &field.kind {
            Kind::Number(primitive, Some(null)) => blank(&mut lines, at, *primitive, *null, order),
            Kind::Enum(index, Some(null)) => {
                blank(&mut lines, at, context.schema.enums[*index].primitive, *null, order);
            }
            Kind::Array(primitive @ (Primitive::Char | Primitive::Uint8), length, Some(null))
                if null.integer() != 0 =>
            {
                lines.push(format!("sbe::put(block, {at}, [{}; {length}]);", literal(*primitive, *null)));
            }
            Kind::Composite(index) if !blanks(context, &context.schema.composites[*index].block).is_empty() => {
                lines.push(format!("{}Fields::blank(sbe::chunk_mut(block, {at}));", context.composite(*index)));
            }
            _ => {}
        }
    }
    lines
}

fn blank(lines: &mut Vec<String>, at: usize, primitive: Primitive, null: Value, order: &str) {
    if null == Value::Integer(0) {
        return;
    }
    let rust = primitive.rust();
    let value = match literal(primitive, null) {
        name if name.starts_with(rust) => name,
        byte if byte.starts_with("b'") => byte,
        negative if negative.starts_with('-') => format!("({negative}_{rust})"),
        number => format!("{number}_{rust}"),
    };
    lines.push(format!("sbe::put(block, {at}, {value}.to_{order}_bytes());"));
}
