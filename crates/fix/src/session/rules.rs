//! The dictionary that checks a message.

use super::inbound::Kind;
use crate::decode::{DataFields, Message};
use crate::dictionary::{Dictionary, Version};
use crate::validate::{Rejection, ValidationOptions, Validator};
use std::sync::Arc;

/// Checks messages beyond the session layer: [`Rules`] by dictionaries, or a program's own.
pub trait Validate: Send + Sync {
    /// Checks whether the message may be processed. `validator` is the session's, and keeps its memory.
    ///
    /// # Errors
    /// The first thing that is wrong.
    fn validate(&self, message: &Message<'_, '_>, validator: &mut Validator) -> Result<(), Rejection>;

    /// Data fields that messages are decoded with, where there are others than the standard's: their values may hold
    /// delimiters.
    fn data_fields(&self) -> Option<&DataFields> {
        None
    }
}

/// Dictionaries, and the checks that are made with them.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The dictionary of application messages; for FIXT.1.1 one [with its transport's](Dictionary::with_transport).
    pub dictionary: Arc<Dictionary>,
    /// The dictionary of session messages, if they have another version (FIXT.1.1).
    pub transport: Option<Arc<Dictionary>>,
    /// The checks to make.
    pub options: ValidationOptions,
}

impl Rules {
    /// The standard's dictionaries for a BeginString (8) and, with FIXT.1.1, an ApplVerID (`7`, `8`, `9`). `None` for unknown
    /// versions.
    pub fn standard(begin_string: &str, appl_ver_id: &str) -> Option<Self> {
        let fixt = begin_string == Version::Fixt11.begin_string();
        let matches = |version: &Version| {
            version.begin_string() == begin_string && (!fixt || version.appl_ver_id() == Some(appl_ver_id))
        };
        let version = Version::ALL.into_iter().find(matches)?;
        Some(Self {
            dictionary: Arc::new(Dictionary::fixed(version)),
            transport: fixt.then(|| Arc::new(Dictionary::fixed(Version::Fixt11))),
            options: ValidationOptions::default(),
        })
    }
}

impl Validate for Rules {
    fn validate(&self, message: &Message<'_, '_>, validator: &mut Validator) -> Result<(), Rejection> {
        let dictionary = match &self.transport {
            Some(transport) if Kind::of(message.msg_type()).is_admin() => transport,
            _ => &self.dictionary,
        };
        validator.validate(message, dictionary, &self.options)
    }

    fn data_fields(&self) -> Option<&DataFields> {
        if self.options.use_data_dictionary { self.dictionary.decodes_as() } else { None }
    }
}
