//! Charts, drawn by our own code: the same document gives the same bytes.
//!
//! A chart has one colour per family of paths (a class, which the style sheet gives a colour for light and for dark); what is compared stands
//! in one chart, and names stand at the marks. Every drawing says in words what it shows.

pub(crate) mod axis;
pub(crate) mod canvas;
pub(crate) mod causes;
pub(crate) mod curves;
pub(crate) mod points;
pub(crate) mod rows;
pub(crate) mod scale;
pub(crate) mod slices;
pub(crate) mod steps;

use crate::findings::family::Family;

/// The class of a family.
pub(crate) fn class(family: Family) -> &'static str {
    match family {
        Family::KernelSleeps => "f-kernel",
        Family::KernelSpins => "f-spin",
        Family::Past => "f-past",
        Family::Memory => "f-memory",
    }
}

/// A name that fits its place.
pub(crate) fn cut(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.into();
    }
    name.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}
