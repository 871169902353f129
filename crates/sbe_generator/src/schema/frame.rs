//! The composites that SBE itself uses: the header of messages, the dimension of groups, the length of var-data.

use super::{MEND, Primitive};
use crate::problem::Fault;
use crate::xml::Element;

/// A composite of unsigned integers with fixed names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    /// Name, type and offset of each integer.
    pub(crate) parts: Vec<(String, Primitive, usize)>,
}

impl Frame {
    /// The type and the offset of an integer.
    pub(crate) fn part(&self, name: &str) -> (Primitive, usize) {
        let part = self.parts.iter().find(|part| part.0 == name);
        part.map_or((Primitive::Uint16, 0), |part| (part.1, part.2))
    }

    /// Reads a composite. `needs` are the names that must be there, with the widest type each. The part that has no bytes of its own
    /// (`varData`) ends it.
    pub(super) fn read(
        composite: &Element,
        needs: &[(&str, Primitive)],
        primitive: impl Fn(&Element) -> Result<(Primitive, usize), Fault>,
    ) -> Result<Self, Fault> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for child in &composite.children {
            if child.get("presence") == Some("constant") {
                continue;
            }
            let (kind, length) = primitive(child)?;
            let at = child.number("offset")?.unwrap_or(bytes);
            if at < bytes || at > 64 {
                return Err(child.fault(format!("offset {at} overlaps the part before, or is more than 64"), MEND));
            }
            bytes = at + kind.bytes() * length.min(64);
            if length == 1 {
                parts.push((child.name()?.to_owned(), kind, at));
            }
        }
        for (name, widest) in needs {
            let part = parts.iter().find(|part| part.0 == *name);
            let (_, kind, _) = part.ok_or_else(|| composite.fault(format!("it has no {name}"), MEND))?;
            if !kind.is_unsigned() || kind.bytes() > widest.bytes() {
                let why = format!("{name} is no unsigned integer of at most {} bytes", widest.bytes());
                return Err(composite.fault(why, MEND));
            }
        }
        Ok(Self { name: composite.name()?.to_owned(), bytes, parts })
    }
}
