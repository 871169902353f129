//! A field as a decoder tells it.

/// Numbers and names are compared as they are. A letter has a meaning in other decoders: the same one whenever we read the same
/// letter, and another one for another letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    Number(u64),
    Name(Vec<u8>),
    /// Our own reading of a field of letters.
    Letters(Vec<u8>),
    /// The value that another decoder has made of them.
    Meaning(String),
}

/// A number of any width.
pub fn number(value: impl Into<u64>) -> Value {
    Value::Number(value.into())
}

pub fn name(bytes: &[u8]) -> Value {
    Value::Name(bytes.to_vec())
}

pub fn letters(bytes: &[u8]) -> Value {
    Value::Letters(bytes.to_vec())
}

pub fn meaning(value: impl std::fmt::Debug) -> Value {
    Value::Meaning(format!("{value:?}"))
}
