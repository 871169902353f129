//! Holding a message against a dictionary.
//!
//! The switches have the names and the defaults of QuickFIX's settings, the answers its texts and FIX's reject reasons. Of
//! several faults the one is reported that QuickFIX reports: order, then what is missing, then the fields one by one.

mod reason;
mod walk;

pub use reason::{Reason, Rejection};

use crate::decode::Message;
use crate::dictionary::Dictionary;
use walk::Walk;

/// The checks to make. The names are those of QuickFIX's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidationOptions {
    /// `UseDataDictionary`: off leaves what needs no dictionary.
    pub use_data_dictionary: bool,
    /// `ValidateFieldsOutOfOrder`: header, body and trailer are not mixed.
    pub validate_fields_out_of_order: bool,
    /// `ValidateFieldsHaveValues`: no field is empty.
    pub validate_fields_have_values: bool,
    /// `ValidateUserDefinedFields`: fields from 5000 up have to be in the dictionary, too.
    pub validate_user_defined_fields: bool,
    /// `ValidateUnorderedGroupFields`: the fields of a group's entry are in the dictionary's order. Off, only the field that
    /// begins an entry has its place.
    pub validate_unordered_group_fields: bool,
    /// `AllowUnknownMsgFields`: fields below 5000 that the message does not have are passed over.
    pub allow_unknown_msg_fields: bool,
    /// `AllowUnknownEnumValues` (QuickFIX/J: `ValidateFieldValues` off): values beyond those listed are passed over.
    pub allow_unknown_enum_values: bool,
    /// `CheckRequiredTags`: fields that a message has to have are there.
    pub check_required_tags: bool,
}

impl Default for ValidationOptions {
    fn default() -> Self {
        Self {
            use_data_dictionary: true,
            validate_fields_out_of_order: true,
            validate_fields_have_values: true,
            validate_user_defined_fields: true,
            validate_unordered_group_fields: true,
            allow_unknown_msg_fields: false,
            allow_unknown_enum_values: false,
            check_required_tags: true,
        }
    }
}

/// Fields from here up are agreed on by two sides (FIX: "user defined fields").
pub const USER_DEFINED_MIN: u32 = 5000;

/// Holds messages against one dictionary. Keeps what it needs, so that a message costs no allocation.
#[derive(Debug, Default)]
pub struct Validator {
    /// One bit per member of each section that is open: the field was there.
    seen: Vec<u64>,
}

impl Validator {
    /// A validator; the dictionary comes with each message, so that sessions can share one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks a message against the dictionary; returns the first fault. For FIXT.1.1, the dictionary is one
    /// [`with_transport`](Dictionary::with_transport).
    pub fn validate(
        &mut self,
        message: &Message<'_, '_>,
        dictionary: &Dictionary,
        options: &ValidationOptions,
    ) -> Result<(), Rejection> {
        self.seen.clear();
        Walk::new(message, dictionary, options, &mut self.seen).run()
    }
}

/// Holds one message against a dictionary; a [`Validator`] does the same without allocating each time.
pub fn validate(
    message: &Message<'_, '_>,
    dictionary: &Dictionary,
    options: &ValidationOptions,
) -> Result<(), Rejection> {
    Validator::new().validate(message, dictionary, options)
}

#[cfg(test)]
mod tests;
