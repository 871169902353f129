//! Texts (58) that go to the counterparty: QuickFIX's words, since people and scripts search for them.

/// BusinessRejectReason (380): why an application message cannot be served. FIX, BusinessMessageReject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusinessReason {
    /// 0
    Other,
    /// 1
    UnknownId,
    /// 2
    UnknownSecurity,
    /// 3
    UnsupportedMessageType,
    /// 4
    ApplicationNotAvailable,
    /// 5
    FieldMissing,
    /// 6
    NotAuthorized,
    /// 7
    DeliverToFirm,
    /// 18
    InvalidPriceIncrement,
}

impl BusinessReason {
    /// The number of BusinessRejectReason (380).
    pub fn code(self) -> u64 {
        match self {
            Self::Other => 0,
            Self::UnknownId => 1,
            Self::UnknownSecurity => 2,
            Self::UnsupportedMessageType => 3,
            Self::ApplicationNotAvailable => 4,
            Self::FieldMissing => 5,
            Self::NotAuthorized => 6,
            Self::DeliverToFirm => 7,
            Self::InvalidPriceIncrement => 18,
        }
    }

    /// The Text (58) that goes with it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Other => "Other",
            Self::UnknownId => "Unknown ID",
            Self::UnknownSecurity => "Unknown Security",
            Self::UnsupportedMessageType => "Unsupported Message Type",
            Self::ApplicationNotAvailable => "Application not available",
            Self::FieldMissing => "Conditionally Required Field Missing",
            Self::NotAuthorized => "Not Authorized",
            Self::DeliverToFirm => "DeliverTo firm not available",
            Self::InvalidPriceIncrement => "Invalid price increment",
        }
    }
}

/// Text of the Logout that answers another BeginString (8).
pub(crate) const INCORRECT_BEGIN_STRING: &str = "Incorrect BeginString";
/// Text of the Logout that answers a message without MsgSeqNum (34).
pub(crate) const WITHOUT_MSG_SEQ_NUM: &str = "Received message without MsgSeqNum";
/// Text of the Logout that answers a Logon with a negative HeartBtInt (108).
pub(crate) const HEART_BT_INT_NEGATIVE: &str = "HeartBtInt must not be negative";
/// Text of the Logout that answers a Logon with an unknown DefaultApplVerID (1137).
pub(crate) const APPL_VER_ID_UNKNOWN: &str = "DefaultApplVerID is unknown";
/// Text of the Logout that answers a Logon with a HeartBtInt (108) beyond the limit.
pub(crate) const HEART_BT_INT_TOO_LONG: &str = "HeartBtInt is too long";
/// Text of the Reject of a message of more fields than MaxMessageFields.
pub(crate) const TOO_MANY_FIELDS: &str = "Too many fields";
/// Text of the Logout before a disconnect for silence.
pub(crate) const HEARTBEAT_TIMEOUT: &str = "Timed out waiting for heartbeat";
/// Text of the Logout when the session of the schedule is over.
pub(crate) const SESSION_OVER: &str = "Session time is over";
/// Text of the Logout when requested messages never came.
pub(crate) const NOT_RESENT: &str = "Requested messages were not resent";
/// Text of the reject of what is beyond the throttle.
pub(crate) const THROTTLED: &str = "Throttle limit exceeded";
/// TestReqID (112) of our TestRequests.
pub(crate) const TEST_REQ_ID: &str = "TEST";

/// A text with numbers in it, made without allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phrase {
    bytes: [u8; 128],
    len: usize,
}

impl Phrase {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; 128], len: 0 }
    }

    /// The two numbers of a sequence that fell back.
    pub(crate) fn too_low(expected: u64, received: u64) -> Self {
        Self::new().text("MsgSeqNum too low, expecting ").number(expected).text(" but received ").number(received)
    }

    /// NextExpectedMsgSeqNum (789) asks for what was never sent.
    pub(crate) fn next_expected_too_high(expected: u64, received: u64) -> Self {
        let tag = "Tag 789 (NextExpectedMsgSeqNum) is higher than expected. Expected ";
        Self::new().text(tag).number(expected).text(", Received ").number(received)
    }

    /// A reason with the tag after it, for versions whose Reject has no RefTagID (371).
    pub(crate) fn with_tag(text: &str, tag: i64) -> Self {
        Self::new().text(text).text(" (").text(if tag < 0 { "-" } else { "" }).number(tag.unsigned_abs()).text(")")
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        let count = bytes.len().min(self.bytes.len() - self.len);
        for (to, from) in self.bytes[self.len..].iter_mut().zip(bytes) {
            // A text with a control byte cannot be sent, and without a Logout the counterparty sends no answer.
            *to = if from.is_ascii_control() { b' ' } else { *from };
        }
        self.len += count;
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.bytes(&digits[at..]);
            }
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The same; what is cut within a character is left out.
    pub(crate) fn as_text(&self) -> &str {
        let bytes = self.as_bytes();
        std::str::from_utf8(bytes)
            .unwrap_or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_quickfixs_and_are_cut_where_they_do_not_fit() {
        assert_eq!(Phrase::too_low(5, 2).as_bytes(), b"MsgSeqNum too low, expecting 5 but received 2");
        let longest = Phrase::next_expected_too_high(u64::MAX, u64::MAX);
        assert!(longest.as_bytes().ends_with(b"18446744073709551615"));
        assert_eq!(Phrase::with_tag(&"x".repeat(200), -1).as_bytes().len(), 128);
        assert_eq!(Phrase::new().text("bye\r\nnow\x01\x7f").as_bytes(), b"bye  now  ");
    }
}
