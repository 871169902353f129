//! The types of a schema: each is read when a field first needs it, once.

use super::layout::{Known, finish, place};
use super::{Block, Composite, Constant, Enum, Field, Frame, Kind, MEND, Named, Primitive, Set, Value};
use crate::problem::Fault;
use crate::xml::Element;
use std::collections::{BTreeMap, BTreeSet};

/// Composites within each other.
const COMPOSITES_DEEP_MAX: usize = 8;

/// Elements of an array; its bytes are bounded by the block.
const ARRAY_MAX: usize = 65_535;

/// A type that was read.
#[derive(Clone, Debug)]
pub(super) enum Defined {
    Simple(Simple),
    Enum(usize),
    Set(usize),
    Composite(usize),
}

/// A number, characters, or a constant.
#[derive(Clone, Debug)]
pub(super) struct Simple {
    primitive: Primitive,
    length: usize,
    null: Value,
    is_optional: bool,
    constant: Option<Constant>,
}

impl Simple {
    fn required(primitive: Primitive) -> Self {
        Self { primitive, length: 1, null: primitive.null(), is_optional: false, constant: None }
    }
}

/// All types, and those of them that were read.
pub(super) struct Types<'x> {
    elements: BTreeMap<&'x str, &'x Element>,
    version: u16,
    done: BTreeMap<String, Defined>,
    open: Vec<String>,
    pub(super) enums: Vec<Enum>,
    pub(super) sets: Vec<Set>,
    pub(super) composites: Vec<Composite>,
    pub(super) dimensions: Vec<Frame>,
    pub(super) lengths: Vec<Frame>,
}

impl<'x> Types<'x> {
    /// Finds the types of a schema.
    pub(super) fn new(root: &'x Element, version: u16) -> Result<Self, Fault> {
        let mut elements = BTreeMap::new();
        for element in root.children.iter().filter(|child| child.tag == "types").flat_map(|types| &types.children) {
            if elements.insert(element.name()?, element).is_some() {
                return Err(element.fault("there is another type of this name", MEND));
            }
        }
        Ok(Self {
            elements,
            version,
            done: BTreeMap::new(),
            open: Vec::new(),
            enums: Vec::new(),
            sets: Vec::new(),
            composites: Vec::new(),
            dimensions: Vec::new(),
            lengths: Vec::new(),
        })
    }

    pub(super) fn version(&self) -> u16 {
        self.version
    }

    fn element(&self, name: &str, of: &Element) -> Result<&'x Element, Fault> {
        let unknown = || of.fault(format!("there is no type {name:?}"), "define it in <types>");
        self.elements.get(name).copied().ok_or_else(unknown)
    }

    /// The composite of the header.
    pub(super) fn header(&self, name: &str, of: &Element) -> Result<Frame, Fault> {
        let u16s = ["templateId", "schemaId", "version"].map(|name| (name, Primitive::Uint16));
        let [template, schema, version] = u16s;
        self.frame(name, of, &[("blockLength", Primitive::Uint32), template, schema, version])
    }

    /// The dimension of a group: an index in [`Types::dimensions`].
    pub(super) fn dimension(&mut self, of: &Element) -> Result<usize, Fault> {
        let needs = [("blockLength", Primitive::Uint32), ("numInGroup", Primitive::Uint32)];
        let frame = self.frame(of.get("dimensionType").unwrap_or("groupSizeEncoding"), of, &needs)?;
        Ok(index_of(&mut self.dimensions, frame))
    }

    /// The length of var-data: an index in [`Types::lengths`].
    pub(super) fn length(&mut self, of: &Element) -> Result<usize, Fault> {
        let name = of.get("type").ok_or_else(|| of.fault("it has no type", MEND))?;
        let frame = self.frame(name, of, &[("length", Primitive::Uint32)])?;
        Ok(index_of(&mut self.lengths, frame))
    }

    fn frame(&self, name: &str, of: &Element, needs: &[(&str, Primitive)]) -> Result<Frame, Fault> {
        let element = self.element(name, of)?;
        if element.tag != "composite" {
            return Err(of.fault(format!("its type {name:?} is no composite"), MEND));
        }
        Frame::read(element, needs, |child| self.frame_part(child))
    }

    fn frame_part(&self, child: &Element) -> Result<(Primitive, usize), Fault> {
        let element = match child.get("type") {
            Some(name) if child.tag == "ref" && Primitive::of(name).is_none() => self.element(name, child)?,
            _ => child,
        };
        let name = element.get("primitiveType").or(child.get("type")).unwrap_or_default();
        let primitive = Primitive::of(name).ok_or_else(|| child.fault("it is no primitive type", MEND))?;
        Ok((primitive, element.number("length")?.unwrap_or(1)))
    }

    /// The type of this name.
    pub(super) fn resolve(&mut self, name: &str, of: &Element) -> Result<Defined, Fault> {
        if let Some(defined) = self.done.get(name) {
            return Ok(defined.clone());
        }
        if let (Some(primitive), false) = (Primitive::of(name), self.elements.contains_key(name)) {
            return Ok(Defined::Simple(Simple::required(primitive)));
        }
        let element = self.element(name, of)?;
        if self.open.iter().any(|open| open == name) {
            return Err(of.fault(format!("{name:?} contains itself"), MEND));
        }
        if self.open.len() >= COMPOSITES_DEEP_MAX {
            return Err(of.fault(format!("composites are nested more than {COMPOSITES_DEEP_MAX} deep"), MEND));
        }
        self.open.push(name.to_owned());
        let defined = self.define(element, name.to_owned())?;
        self.open.pop();
        self.done.insert(name.to_owned(), defined.clone());
        Ok(defined)
    }

    /// Reads a definition.
    fn define(&mut self, element: &Element, name: String) -> Result<Defined, Fault> {
        match element.tag.as_str() {
            "type" => self.simple(element).map(Defined::Simple),
            "enum" => {
                let definition = self.enumeration(element, name)?;
                self.enums.push(definition);
                Ok(Defined::Enum(self.enums.len() - 1))
            }
            "set" => {
                let definition = self.set(element, name)?;
                self.sets.push(definition);
                Ok(Defined::Set(self.sets.len() - 1))
            }
            "composite" => {
                let definition = self.composite(element, name)?;
                self.composites.push(definition);
                Ok(Defined::Composite(self.composites.len() - 1))
            }
            tag => Err(element.fault(format!("<{tag}> is no type"), "use type, enum, set or composite")),
        }
    }

    fn simple(&mut self, element: &Element) -> Result<Simple, Fault> {
        let primitive = element.get("primitiveType").and_then(Primitive::of);
        let primitive = primitive.ok_or_else(|| element.fault("its primitiveType is none of SBE's", MEND))?;
        let length = element.number("length")?.unwrap_or(1);
        let is_constant = element.get("presence") == Some("constant");
        if length > ARRAY_MAX || (length == 0 && !is_constant) {
            return Err(element.fault(format!("length {length} is 0 or more than {ARRAY_MAX}"), MEND));
        }
        let null = element.get("nullValue").map(|text| primitive.value(text, true, element)).transpose()?;
        let mut simple = Simple {
            primitive,
            length,
            null: null.unwrap_or(primitive.null()),
            is_optional: element.get("presence") == Some("optional"),
            constant: None,
        };
        if is_constant {
            simple.constant = Some(self.constant(element, &simple)?);
        }
        Ok(simple)
    }

    fn constant(&mut self, element: &Element, of: &Simple) -> Result<Constant, Fault> {
        if let Some(reference) = element.get("valueRef") {
            return self.referred(reference, element);
        }
        let text = element.text.trim();
        if of.primitive == Primitive::Char && (text.len() != 1 || of.length > 1) {
            let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            let why = "the constant is not of printable ASCII characters";
            return is_printable.then(|| Constant::Text(text.to_owned())).ok_or_else(|| element.fault(why, MEND));
        }
        Ok(Constant::Number(of.primitive, of.primitive.value(text, false, element)?))
    }

    /// The value that `valueRef` names: `Enumeration.value`.
    fn referred(&mut self, reference: &str, of: &Element) -> Result<Constant, Fault> {
        let unknown = || of.fault(format!("valueRef {reference:?} is no value of an enumeration"), MEND);
        let (name, value) = reference.split_once('.').ok_or_else(unknown)?;
        let Defined::Enum(index) = self.resolve(name, of)? else { return Err(unknown()) };
        let place = self.enums[index].values.iter().position(|known| known.name == value);
        Ok(Constant::Enum(index, place.ok_or_else(unknown)?))
    }

    /// The primitive type that carries an enumeration or a set.
    fn encoding(&mut self, element: &Element) -> Result<Simple, Fault> {
        let name = element.get("encodingType").ok_or_else(|| element.fault("it has no encodingType", MEND))?;
        match self.resolve(name, element)? {
            Defined::Simple(simple) if simple.length == 1 && simple.constant.is_none() => Ok(simple),
            _ => Err(element.fault(format!("its encodingType {name:?} is no single number or character"), MEND)),
        }
    }

    fn named(&self, child: &Element, value: Value, seen: &mut BTreeSet<String>) -> Result<Named, Fault> {
        let name = child.name()?.to_owned();
        if !seen.insert(name.clone()) {
            return Err(child.fault("there is another one of this name", MEND));
        }
        Ok(Named { name, description: child.description(), since: child.since(self.version)?, value })
    }

    fn enumeration(&mut self, element: &Element, name: String) -> Result<Enum, Fault> {
        let encoding = self.encoding(element)?;
        if matches!(encoding.primitive, Primitive::Float | Primitive::Double) {
            return Err(element.fault("its encodingType is a float", MEND));
        }
        let (mut values, mut names, mut taken) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for child in element.children.iter().filter(|child| child.tag == "validValue") {
            let value = encoding.primitive.value(&child.text, false, child)?;
            if !taken.insert(value.integer()) {
                return Err(child.fault("another one has the same value", MEND));
            }
            values.push(self.named(child, value, &mut names)?);
        }
        Ok(Enum {
            name,
            description: element.description(),
            primitive: encoding.primitive,
            null: encoding.null,
            is_optional: encoding.is_optional,
            values,
        })
    }

    fn set(&mut self, element: &Element, name: String) -> Result<Set, Fault> {
        let primitive = self.encoding(element)?.primitive;
        if !primitive.is_unsigned() {
            return Err(element.fault("its encodingType is no unsigned integer", MEND));
        }
        let (mut choices, mut names, mut taken) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for child in element.children.iter().filter(|child| child.tag == "choice") {
            let bit = child.text.trim().parse::<usize>().ok().filter(|bit| *bit < 8 * primitive.bytes());
            let bit = bit.ok_or_else(|| child.fault("it is no bit of its encodingType", MEND))?;
            if !taken.insert(bit) {
                return Err(child.fault("another one has the same bit", MEND));
            }
            choices.push(self.named(child, Value::Integer(bit as i128), &mut names)?);
        }
        Ok(Set { name, description: element.description(), primitive, choices })
    }

    fn composite(&mut self, element: &Element, name: String) -> Result<Composite, Fault> {
        let (mut block, mut names) = (Block::default(), BTreeSet::new());
        for child in &element.children {
            let (field, is_reference) = (child.name()?.to_owned(), child.tag == "ref");
            if !names.insert(field.clone()) {
                return Err(child.fault("there is another one of this name", MEND));
            }
            let defined = if is_reference {
                let reference = child.get("type").ok_or_else(|| child.fault("it has no type", MEND))?;
                self.resolve(reference, child)?
            } else {
                self.inline(child, format!("{name}_{field}"))?
            };
            let since = Some(child.since(self.version)?).filter(|since| *since > 0);
            let kind = self.kind(&defined, if is_reference { child.get("presence") } else { None }, child)?;
            self.add(&mut block, Field { name: field, description: child.description(), since, at: 0, kind }, child)?;
        }
        finish(&mut block, element)?;
        Ok(Composite { name, description: element.description(), block })
    }

    fn inline(&mut self, child: &Element, name: String) -> Result<Defined, Fault> {
        if self.open.len() >= COMPOSITES_DEEP_MAX {
            return Err(child.fault(format!("composites are nested more than {COMPOSITES_DEEP_MAX} deep"), MEND));
        }
        self.open.push(name.clone());
        let defined = self.define(child, name);
        self.open.pop();
        defined
    }

    /// Places a field in a block.
    pub(super) fn add(&self, block: &mut Block, field: Field, of: &Element) -> Result<(), Fault> {
        let known = Known { enums: &self.enums, sets: &self.sets, composites: &self.composites };
        place(block, field, of, &known)
    }

    /// What a field of a type is, with the field's own presence.
    pub(super) fn kind(&mut self, of: &Defined, presence: Option<&str>, at: &Element) -> Result<Kind, Fault> {
        if presence == Some("constant")
            && let Some(reference) = at.get("valueRef")
        {
            return Ok(Kind::Constant(self.referred(reference, at)?));
        }
        let is_optional = |own: bool| presence.map_or(own, |presence| presence == "optional");
        Ok(match of {
            Defined::Simple(Simple { constant: Some(constant), .. }) => Kind::Constant(constant.clone()),
            _ if presence == Some("constant") => return Err(at.fault("it is constant and has no value", MEND)),
            Defined::Simple(simple) => {
                let null = is_optional(simple.is_optional).then_some(simple.null);
                match simple.length {
                    1 => Kind::Number(simple.primitive, null),
                    length => Kind::Array(simple.primitive, length, null),
                }
            }
            Defined::Enum(index) => {
                let definition = &self.enums[*index];
                Kind::Enum(*index, is_optional(definition.is_optional).then_some(definition.null))
            }
            Defined::Set(index) => Kind::Set(*index),
            Defined::Composite(index) => Kind::Composite(*index),
        })
    }
}

/// The place of a frame; it is added if it is not there.
fn index_of(frames: &mut Vec<Frame>, frame: Frame) -> usize {
    frames.iter().position(|known| *known == frame).unwrap_or_else(|| {
        frames.push(frame);
        frames.len() - 1
    })
}
