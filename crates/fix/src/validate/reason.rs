//! SessionRejectReason (373) with the texts that QuickFIX writes into Text (58).

/// The reason why a message is rejected. The numbers are FIX's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reason {
    InvalidTagNumber = 0,
    RequiredTagMissing = 1,
    TagNotDefinedForMessageType = 2,
    UndefinedTag = 3,
    TagWithoutValue = 4,
    ValueIncorrect = 5,
    IncorrectDataFormat = 6,
    DecryptionProblem = 7,
    SignatureProblem = 8,
    CompIdProblem = 9,
    SendingTimeAccuracyProblem = 10,
    InvalidMsgType = 11,
    TagAppearsMoreThanOnce = 13,
    TagOutOfOrder = 14,
    GroupFieldsOutOfOrder = 15,
    IncorrectNumInGroup = 16,
    NonDataValueIncludesDelimiter = 17,
    Other = 99,
}

impl Reason {
    /// The code that goes into SessionRejectReason (373).
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The text that QuickFIX writes for it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::InvalidTagNumber => "Invalid tag number",
            Self::RequiredTagMissing => "Required tag missing",
            Self::TagNotDefinedForMessageType => "Tag not defined for this message type",
            Self::UndefinedTag => "Undefined Tag",
            Self::TagWithoutValue => "Tag specified without a value",
            Self::ValueIncorrect => "Value is incorrect (out of range) for this tag",
            Self::IncorrectDataFormat => "Incorrect data format for value",
            Self::DecryptionProblem => "Decryption problem",
            Self::SignatureProblem => "Signature problem",
            Self::CompIdProblem => "CompID problem",
            Self::SendingTimeAccuracyProblem => "SendingTime accuracy problem",
            Self::InvalidMsgType => "Invalid MsgType",
            Self::TagAppearsMoreThanOnce => "Tag appears more than once",
            Self::TagOutOfOrder => "Tag specified out of required order",
            Self::GroupFieldsOutOfOrder => "Repeating group fields out of order",
            Self::IncorrectNumInGroup => "Incorrect NumInGroup count for repeating group",
            Self::NonDataValueIncludesDelimiter => "Non-data value includes field delimiter",
            Self::Other => "Other",
        }
    }
}

/// The content of a Reject (35=3) about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// SessionRejectReason (373).
    pub reason: Reason,
    /// RefTagID (371); negative or 0 when the counterparty wrote that.
    pub tag: Option<i64>,
}

impl Rejection {
    /// A rejection because of this field.
    pub fn of(reason: Reason, tag: u32) -> Self {
        Self { reason, tag: Some(i64::from(tag)) }
    }

    /// Text (58).
    pub fn text(self) -> &'static str {
        self.reason.text()
    }
}

impl From<crate::FieldError> for Rejection {
    fn from(error: crate::FieldError) -> Self {
        use crate::FieldError;
        match error {
            FieldError::Missing(tag) => Self::of(Reason::RequiredTagMissing, tag),
            FieldError::Empty(tag) => Self::of(Reason::TagWithoutValue, tag),
            FieldError::Format(tag) => Self::of(Reason::IncorrectDataFormat, tag),
        }
    }
}
