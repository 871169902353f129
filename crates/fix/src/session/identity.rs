//! The identity of a session: the eight fields that name its two parties.

use std::fmt;

/// Names a session. Both sides keep one; ours has our CompID as the sender.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    /// BeginString (8): `FIX.4.0` to `FIX.4.4`, `FIXT.1.1`.
    pub begin_string: String,
    /// Our SenderCompID (49).
    pub sender_comp_id: String,
    /// Our SenderSubID (50), empty for none.
    pub sender_sub_id: String,
    /// Our SenderLocationID (142), empty for none.
    pub sender_location_id: String,
    /// The counterparty's CompID: TargetCompID (56) of what we send.
    pub target_comp_id: String,
    /// The counterparty's SubID: TargetSubID (57), empty for none.
    pub target_sub_id: String,
    /// The counterparty's LocationID: TargetLocationID (143), empty for none.
    pub target_location_id: String,
    /// Distinguishes sessions that are otherwise equal; never on the wire.
    pub qualifier: String,
}

impl SessionId {
    /// A session without sub and location identifiers.
    pub fn new(begin_string: &str, sender_comp_id: &str, target_comp_id: &str) -> Self {
        Self {
            begin_string: begin_string.to_owned(),
            sender_comp_id: sender_comp_id.to_owned(),
            target_comp_id: target_comp_id.to_owned(),
            ..Self::default()
        }
    }

    /// The same session as the counterparty names it.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            begin_string: self.begin_string.clone(),
            sender_comp_id: self.target_comp_id.clone(),
            sender_sub_id: self.target_sub_id.clone(),
            sender_location_id: self.target_location_id.clone(),
            target_comp_id: self.sender_comp_id.clone(),
            target_sub_id: self.sender_sub_id.clone(),
            target_location_id: self.sender_location_id.clone(),
            qualifier: self.qualifier.clone(),
        }
    }

    /// Transport and application have versions of their own (FIXT.1.1).
    pub fn is_fixt(&self) -> bool {
        self.begin_string.starts_with("FIXT.")
    }

    /// The dialect of its BeginString.
    pub(crate) fn dialect(&self) -> Dialect {
        let fixt = self.is_fixt();
        let at_least = |version: &str| fixt || self.begin_string.as_str() >= version;
        Dialect {
            open_end: at_least("FIX.4.2"),
            reject_reason: at_least("FIX.4.2"),
            reject_reason_max: if self.begin_string == "FIX.4.2" { 11 } else { 99 },
            business_reject: at_least("FIX.4.2"),
            routed_location: at_least("FIX.4.1"),
            milliseconds: at_least("FIX.4.2"),
            reset_flag: at_least("FIX.4.1"),
            appl_ver_id: fixt,
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.begin_string, self.sender_comp_id)?;
        let side = |f: &mut fmt::Formatter<'_>, sub: &str, location: &str| {
            let parts = if sub.is_empty() && location.is_empty() { "" } else { "/" };
            let last = if location.is_empty() { "" } else { "/" };
            write!(f, "{parts}{sub}{last}{location}")
        };
        side(f, &self.sender_sub_id, &self.sender_location_id)?;
        write!(f, "->{}", self.target_comp_id)?;
        side(f, &self.target_sub_id, &self.target_location_id)?;
        let colon = if self.qualifier.is_empty() { "" } else { ":" };
        write!(f, "{colon}{}", self.qualifier)
    }
}

/// The differences between the versions of the session layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// EndSeqNo (16) = 0 means "to the last", before that 999999.
    pub(crate) open_end: bool,
    /// A Reject has RefTagID (371), RefMsgType (372) and SessionRejectReason (373).
    pub(crate) reject_reason: bool,
    /// The largest SessionRejectReason (373) that is defined; what is beyond is left out.
    pub(crate) reject_reason_max: u8,
    /// OnBehalfOfLocationID (144) and DeliverToLocationID (145) exist.
    pub(crate) routed_location: bool,
    /// There is a BusinessMessageReject (35=j).
    pub(crate) business_reject: bool,
    /// Timestamps may have a fraction.
    pub(crate) milliseconds: bool,
    /// There is a ResetSeqNumFlag (141).
    pub(crate) reset_flag: bool,
    /// A Logon has DefaultApplVerID (1137).
    pub(crate) appl_ver_id: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_written_as_quickfix_writes_it() {
        let mut id = SessionId::new("FIX.4.2", "SENDER", "TARGET");
        assert_eq!(id.to_string(), "FIX.4.2:SENDER->TARGET");
        id.sender_sub_id = "SUB".to_owned();
        id.target_location_id = "LOC".to_owned();
        id.qualifier = "Q".to_owned();
        assert_eq!(id.to_string(), "FIX.4.2:SENDER/SUB->TARGET//LOC:Q");
        assert_eq!(id.reversed().reversed(), id);
    }

    #[test]
    fn versions_differ_where_the_specification_says() {
        let of = |begin: &str| SessionId::new(begin, "A", "B").dialect();
        assert!(!of("FIX.4.0").reset_flag && of("FIX.4.1").reset_flag);
        assert!(!of("FIX.4.1").open_end && of("FIX.4.2").open_end);
        assert!(of("FIXT.1.1").appl_ver_id && of("FIXT.1.1").business_reject && !of("FIX.4.4").appl_ver_id);
    }
}
