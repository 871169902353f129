//! Places of fields in a block.

use super::{Block, Composite, Enum, Field, Kind, MEND, Set};
use crate::problem::Fault;
use crate::xml::Element;

/// Bytes of a block. Its length is a u16 in nearly every header and dimension.
pub(super) const BLOCK_BYTES_MAX: usize = 65_535;

/// What fields can refer to.
pub(super) struct Known<'t> {
    pub(super) enums: &'t [Enum],
    pub(super) sets: &'t [Set],
    pub(super) composites: &'t [Composite],
}

impl Known<'_> {
    /// Bytes of a field that are always there, and all of them.
    fn bytes(&self, kind: &Kind) -> (usize, usize) {
        let bytes = match kind {
            Kind::Number(primitive, _) => primitive.bytes(),
            Kind::Array(primitive, length, _) => primitive.bytes() * length,
            Kind::Enum(index, _) => self.enums[*index].primitive.bytes(),
            Kind::Set(index) => self.sets[*index].primitive.bytes(),
            Kind::Composite(index) => {
                let block = &self.composites[*index].block;
                return (block.base, block.length);
            }
            Kind::Constant(_) => 0,
        };
        (bytes, bytes)
    }

    fn is_versioned(&self, field: &Field) -> bool {
        let in_composite = matches!(field.kind, Kind::Composite(index) if self.composites[index].block.is_versioned);
        (field.since.is_some() && !matches!(field.kind, Kind::Constant(_))) || in_composite
    }
}

/// Adds a field at the offset of its element, or behind the last one.
pub(super) fn place(block: &mut Block, mut field: Field, of: &Element, known: &Known<'_>) -> Result<(), Fault> {
    let offset = of.number::<usize>("offset")?.filter(|_| !matches!(field.kind, Kind::Constant(_)));
    field.at = offset.unwrap_or(block.length);
    if field.at < block.length {
        let why = format!("offset {} is inside the field before, which ends at {}", field.at, block.length);
        return Err(of.fault(why, MEND));
    }
    let (base, bytes) = known.bytes(&field.kind);
    let end = field.at.saturating_add(bytes);
    if end > BLOCK_BYTES_MAX {
        return Err(of.fault(format!("it ends at byte {end}, a block has at most {BLOCK_BYTES_MAX}"), MEND));
    }
    block.length = end;
    if field.since.is_none() && bytes > 0 {
        block.base = field.at + base;
    }
    block.is_versioned |= known.is_versioned(&field);
    block.fields.push(field);
    Ok(())
}

/// Ends a block: it may be longer than its fields.
pub(super) fn finish(block: &mut Block, of: &Element) -> Result<(), Fault> {
    let Some(length) = of.number::<usize>("blockLength")? else { return Ok(()) };
    if length < block.length {
        return Err(
            of.fault(format!("blockLength {length} is less than the {} bytes of its fields", block.length), MEND)
        );
    }
    if length > BLOCK_BYTES_MAX {
        return Err(of.fault(format!("blockLength {length} is more than {BLOCK_BYTES_MAX}"), MEND));
    }
    block.length = length;
    Ok(())
}
