//! All fields of a message by name, in their order: for whoever prints messages of any schema.

use super::{Entry, Group, Malformed, NestedEntry, NestedGroup, Stage};

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// The null value, or a field that the writer's version does not have.
    Null,
    /// An integer.
    Number(i128),
    /// A float.
    Float(f64),
    /// Characters, bytes, or var-data, as they came.
    Text(&'a [u8]),
    /// A value of an enumeration: its name, if the schema has one, and its code.
    Enum(Option<&'static str>, i128),
    /// Bits of a set, and the function that names a bit.
    Set(u128, fn(u32) -> Option<&'static str>),
}

/// What has parts of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A composite: fields follow.
    Composite,
    /// An array of numbers: values of the same name follow.
    Array,
    /// A group: entries follow.
    Group,
    /// An entry of a group: fields, groups and var-data follow.
    Entry,
}

/// Takes the fields of a message.
pub trait Walker {
    /// A field.
    fn value(&mut self, name: &'static str, value: Value<'_>);

    /// A part begins; what follows belongs to it, until its [`Self::end`].
    fn begin(&mut self, name: &'static str, part: Part);

    /// The part ends that began last.
    fn end(&mut self);
}

/// Messages and entries: generated views.
pub trait Fields {
    /// Tells all fields in their order, then groups and var-data.
    ///
    /// # Errors
    /// Fails at the first group or var-data that does not fit. What was told before is right; parts that began are left open.
    fn walk(&self, walker: &mut dyn Walker) -> Result<(), Malformed>;
}

/// What a getter of a view returns.
pub trait Show {
    /// Tells it under the name of the field.
    fn show(&self, name: &'static str, walker: &mut dyn Walker);
}

macro_rules! numbers {
    ($($kind:ty)*) => {$(
        impl Show for $kind {
            fn show(&self, name: &'static str, walker: &mut dyn Walker) {
                walker.value(name, Value::Number(i128::from(*self)));
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Show for f32 {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        walker.value(name, Value::Float(f64::from(*self)));
    }
}

impl Show for f64 {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        walker.value(name, Value::Float(*self));
    }
}

impl Show for &str {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        walker.value(name, Value::Text(self.as_bytes()));
    }
}

impl Show for &[u8] {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        walker.value(name, Value::Text(self));
    }
}

impl<const N: usize> Show for &[u8; N] {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        walker.value(name, Value::Text(*self));
    }
}

impl<T: Show, const N: usize> Show for [T; N] {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        walker.begin(name, Part::Array);
        self.iter().for_each(|one| one.show(name, walker));
        walker.end();
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        match self {
            Some(value) => value.show(name, walker),
            None => walker.value(name, Value::Null),
        }
    }
}

/// A character, which a getter returns as a byte.
#[derive(Clone, Copy, Debug)]
pub struct Char<T>(pub T);

impl Show for Char<u8> {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        walker.value(name, Value::Text(&[self.0]));
    }
}

impl Show for Char<Option<u8>> {
    fn show(&self, name: &'static str, walker: &mut dyn Walker) {
        self.0.map(Char).show(name, walker);
    }
}

/// Tells a group, and returns what follows it.
///
/// # Errors
/// As [`Fields::walk`].
pub fn walk_group<'a, E: Entry<'a> + Fields, Next: Stage<'a>>(
    group: &Group<'a, E, Next>,
    name: &'static str,
    walker: &mut dyn Walker,
) -> Result<Next, Malformed> {
    walker.begin(name, Part::Group);
    for entry in group {
        walker.begin(name, Part::Entry);
        entry.walk(walker)?;
        walker.end();
    }
    walker.end();
    Ok(group.after())
}

/// Tells a group whose entries have parts of their own, and returns what follows it.
///
/// # Errors
/// As [`Fields::walk`].
pub fn walk_nested<'a, E: NestedEntry<'a> + Fields, Next: Stage<'a>>(
    mut group: NestedGroup<'a, E, Next>,
    name: &'static str,
    walker: &mut dyn Walker,
) -> Result<Next, Malformed> {
    walker.begin(name, Part::Group);
    for entry in &mut group {
        walker.begin(name, Part::Entry);
        entry?.walk(walker)?;
        walker.end();
    }
    walker.end();
    group.after()
}
