//! Settings by name: what a profile's file, an environment variable and a help text have in common.

use super::options::Congestion;

/// A setting's value as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Boolean(bool),
    /// A number, in the unit that ends the setting's name.
    Integer(u32),
    /// A name.
    Text(String),
}

/// One row of the table of settings.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The field of [`super::Config`], and the key in a profile.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The least value of a number.
    pub least: u32,
    /// The greatest value of a number.
    pub greatest: u32,
}

/// The reason for which a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// There is no setting of this name.
    Unknown,
    /// The value is of another kind.
    Kind,
    /// The number is not between the least and the greatest, or the name is not known.
    Range,
}

/// The type of a setting.
pub(crate) trait Field: Sized {
    fn read(value: &Value, least: u32, greatest: u32) -> Result<Self, SettingError>;
    fn show(&self) -> Value;
}

impl Field for bool {
    fn read(value: &Value, _: u32, _: u32) -> Result<Self, SettingError> {
        match value {
            Value::Boolean(value) => Ok(*value),
            _ => Err(SettingError::Kind),
        }
    }

    fn show(&self) -> Value {
        Value::Boolean(*self)
    }
}

impl Field for u32 {
    fn read(value: &Value, least: u32, greatest: u32) -> Result<Self, SettingError> {
        match value {
            Value::Integer(value) if (least..=greatest).contains(value) => Ok(*value),
            Value::Integer(_) => Err(SettingError::Range),
            _ => Err(SettingError::Kind),
        }
    }

    fn show(&self) -> Value {
        Value::Integer(*self)
    }
}

impl Field for Congestion {
    fn read(value: &Value, _: u32, _: u32) -> Result<Self, SettingError> {
        match value {
            Value::Text(name) => Self::named(name).ok_or(SettingError::Range),
            _ => Err(SettingError::Kind),
        }
    }

    fn show(&self) -> Value {
        Value::Text(self.name().to_owned())
    }
}
