//! A schema, read and checked: what is left has a layout that can be emitted without further questions.
//!
//! `types` reads what stands in `<types>`, `message` messages, groups and fields, `layout` places fields in blocks, `value` reads numbers
//! and null values. `frame` finds the composites that SBE itself uses: header, dimensions, lengths.

mod attributes;
mod frame;
mod layout;
mod message;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub(crate) use frame::Frame;
pub(crate) use message::{Data, Group, Message, Part};
pub(crate) use value::{Primitive, Value};

use crate::problem::Fault;
use crate::xml::Element;
use types::Types;

/// The next step if a rule of SBE is broken.
const MEND: &str = "mend the schema; the rules are in Simple Binary Encoding 1.0, sections 2 to 5";

/// A schema.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) package: String,
    pub(crate) description: String,
    pub(crate) id: u16,
    pub(crate) version: u16,
    pub(crate) is_big_endian: bool,
    pub(crate) header: Frame,
    pub(crate) enums: Vec<Enum>,
    pub(crate) sets: Vec<Set>,
    /// Those that fields have; composites within composites come before these.
    pub(crate) composites: Vec<Composite>,
    /// The dimensions of groups, each once.
    pub(crate) dimensions: Vec<Frame>,
    /// The lengths of var-data, each once.
    pub(crate) lengths: Vec<Frame>,
    pub(crate) messages: Vec<Message>,
}

/// An enumeration.
#[derive(Clone, Debug)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) primitive: Primitive,
    pub(crate) null: Value,
    /// The encoding type says `presence="optional"`.
    pub(crate) is_optional: bool,
    pub(crate) values: Vec<Named>,
}

/// A value of an enumeration or a bit of a set.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) since: u16,
    pub(crate) value: Value,
}

/// A set of bits.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) primitive: Primitive,
    pub(crate) choices: Vec<Named>,
}

/// A fixed tuple of fields.
#[derive(Clone, Debug)]
pub(crate) struct Composite {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) block: Block,
}

/// The fixed part of a message, an entry or a composite.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) fields: Vec<Field>,
    /// Bytes, as this version of the schema writes them.
    pub(crate) length: usize,
    /// Bytes up to the last field that every version has.
    pub(crate) base: usize,
    /// A field, also one in a composite, is looked up in the block as it was received.
    pub(crate) is_versioned: bool,
}

/// A field with its place.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Later than the message or group that it is in; nothing if it came with that.
    pub(crate) since: Option<u16>,
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

/// A type of field.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A number or a character; the null value, if it is optional.
    Number(Primitive, Option<Value>),
    /// So many of them.
    Array(Primitive, usize, Option<Value>),
    /// An index in [`Schema::enums`].
    Enum(usize, Option<Value>),
    /// An index in [`Schema::sets`].
    Set(usize),
    /// An index in [`Schema::composites`].
    Composite(usize),
    /// Has no bytes.
    Constant(Constant),
}

/// The value of a constant field.
#[derive(Clone, Debug)]
pub(crate) enum Constant {
    Number(Primitive, Value),
    Text(String),
    /// An index in [`Schema::enums`], and one in its values.
    Enum(usize, usize),
}

impl Schema {
    /// Reads `<messageSchema>`.
    pub(crate) fn read(root: &Element) -> Result<Self, Fault> {
        if root.tag != "messageSchema" {
            return Err(root.fault("the first element is not <messageSchema>", "give an SBE 1.0 schema"));
        }
        let version = root.number("version")?.unwrap_or(0);
        let is_big_endian = match root.get("byteOrder").unwrap_or("littleEndian") {
            "littleEndian" => false,
            "bigEndian" => true,
            other => return Err(root.fault(format!("byteOrder is {other:?}"), "use littleEndian or bigEndian")),
        };
        let mut types = Types::new(root, version)?;
        let header = types.header(root.get("headerType").unwrap_or("messageHeader"), root)?;
        let messages = message::messages(root, &mut types)?;
        Ok(Self {
            package: root.get("package").unwrap_or_default().to_owned(),
            description: root.description(),
            id: root.number("id")?.ok_or_else(|| root.fault("it has no id", MEND))?,
            version,
            is_big_endian,
            header,
            enums: types.enums,
            sets: types.sets,
            composites: types.composites,
            dimensions: types.dimensions,
            lengths: types.lengths,
            messages,
        })
    }
}
