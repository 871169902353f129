//! Primitive types and their values.

use super::MEND;
use crate::problem::Fault;
use crate::xml::Element;

/// A primitive type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    Char,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float,
    Double,
}

impl Primitive {
    /// The type by its name in schemas.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "char" => Self::Char,
            "int8" => Self::Int8,
            "int16" => Self::Int16,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint8" => Self::Uint8,
            "uint16" => Self::Uint16,
            "uint32" => Self::Uint32,
            "uint64" => Self::Uint64,
            "float" => Self::Float,
            "double" => Self::Double,
            _ => return None,
        })
    }

    /// Its length, bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Char | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double => 8,
        }
    }

    /// Its type in Rust.
    pub(crate) fn rust(self) -> &'static str {
        match self {
            Self::Char | Self::Uint8 => "u8",
            Self::Int8 => "i8",
            Self::Int16 => "i16",
            Self::Int32 => "i32",
            Self::Int64 => "i64",
            Self::Uint16 => "u16",
            Self::Uint32 => "u32",
            Self::Uint64 => "u64",
            Self::Float => "f32",
            Self::Double => "f64",
        }
    }

    /// The type is an integer without a sign.
    pub(crate) fn is_unsigned(self) -> bool {
        matches!(self, Self::Uint8 | Self::Uint16 | Self::Uint32 | Self::Uint64)
    }

    fn bounds(self) -> (i128, i128) {
        let bits = 8 * self.bytes() as u32;
        match self {
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            _ => (0, (1 << bits) - 1),
        }
    }

    /// The greatest value of an integer.
    pub(crate) fn max(self) -> i128 {
        self.bounds().1
    }

    /// The null value if the schema has none (section 2.4.1).
    pub(crate) fn null(self) -> Value {
        match self {
            Self::Char => Value::Integer(0),
            Self::Float | Self::Double => Value::Float(f64::NAN),
            _ if self.is_unsigned() => Value::Integer(self.max()),
            _ => Value::Integer(self.bounds().0),
        }
    }

    /// A value as schemas write it. For `char` a character; with `is_null`, a number if it is one.
    pub(crate) fn value(self, text: &str, is_null: bool, of: &Element) -> Result<Value, Fault> {
        let text = text.trim();
        let wrong = || of.fault(format!("{text:?} is no value of its type"), MEND);
        match self {
            Self::Float | Self::Double => text.parse().map(Value::Float).map_err(|_| wrong()),
            Self::Char if text.len() == 1 && !(is_null && text.as_bytes()[0].is_ascii_digit()) => {
                Ok(Value::Integer(i128::from(text.as_bytes()[0])))
            }
            _ => {
                let (least, most) = self.bounds();
                let value = text.parse::<i128>().ok().filter(|value| (least..=most).contains(value));
                value.map(Value::Integer).ok_or_else(wrong)
            }
        }
    }
}

/// A value of a primitive type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Integer(i128),
    Float(f64),
}

impl Value {
    /// The integer; 0 for a float.
    pub(crate) fn integer(self) -> i128 {
        match self {
            Self::Integer(value) => value,
            Self::Float(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_nulls_are_those_of_the_standard() {
        let null = |name| Primitive::of(name).unwrap().null();
        assert_eq!(null("char"), Value::Integer(0));
        assert_eq!(null("int8"), Value::Integer(-128));
        assert_eq!(null("int64"), Value::Integer(i128::from(i64::MIN)));
        assert_eq!(null("uint16"), Value::Integer(65_535));
        assert_eq!(null("uint64"), Value::Integer(i128::from(u64::MAX)));
        assert!(matches!(null("double"), Value::Float(value) if value.is_nan()));
    }

    #[test]
    fn a_digit_is_a_character_as_a_value_and_a_number_as_null() {
        let element = Element::default();
        let value = |text, is_null| Primitive::Char.value(text, is_null, &element).ok();
        assert_eq!(value("0", false), Some(Value::Integer(48)));
        assert_eq!(value("0", true), Some(Value::Integer(0)));
        assert_eq!(value("E", true), Some(Value::Integer(69)));
        assert_eq!(value("300", true), None);
        assert_eq!(Primitive::Int8.value("-129", false, &element).ok(), None);
        assert_eq!(Primitive::Float.value("NaN?", false, &element).ok(), None);
    }
}
