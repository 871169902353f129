//! The checks that need no answer yet: phase, dictionary, SendingTime, CompIDs, number.

use super::counters::End;
use super::inbound::{Kind, Verdict};
use super::{Phase, Session};
use crate::decode::{FieldError, Message};
use crate::store::Store;
use crate::tag;
use crate::validate::Reason;
use crate::value::UtcTimestamp;
use std::cmp::Ordering;

impl<S: Store> Session<S> {
    /// Before the Logons are exchanged nothing else may come, and after that no second Logon, unless it resets the numbers.
    pub(super) fn check_phase(&self, message: &Message<'_, '_>, kind: Kind) -> Result<(), Verdict> {
        let allowed = match (self.phase, kind) {
            (Phase::LogonExpected, _) => kind == Kind::Logon,
            (Phase::LogonSent, _) => matches!(kind, Kind::Logon | Kind::Logout | Kind::Reject),
            (_, Kind::Logon) => {
                let is_again = message.get(tag::POSS_DUP_FLAG) == Some(b"Y");
                is_again || self.reset_sent || message.get(tag::RESET_SEQ_NUM_FLAG) == Some(b"Y")
            }
            _ => true,
        };
        if allowed { Ok(()) } else { Err(Verdict::End(End::LogonExpected)) }
    }

    /// The checks of the dictionary.
    pub(super) fn validate(&mut self, message: &Message<'_, '_>) -> Result<(), Verdict> {
        let Some(rules) = &self.rules else { return Ok(()) };
        match rules.validate(message, &mut self.validator) {
            Err(rejection) if self.settings.reject_invalid_message => {
                Err(Verdict::Reject(rejection.reason, rejection.tag))
            }
            Err(_) => {
                self.counters.invalid_taken += 1;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// SendingTime (52) near our clock, and the CompIDs of this session.
    pub(super) fn check_header(&self, message: &Message<'_, '_>) -> Result<(), Verdict> {
        let sending_time = message.timestamp(tag::SENDING_TIME).map_err(missing_or_bad)?;
        // An early message was on time when it came.
        if self.settings.check_latency && !self.from_early && !self.is_near(sending_time) {
            let tag = self.detail(tag::SENDING_TIME);
            return Err(Verdict::RejectAndLogout(Reason::SendingTimeAccuracyProblem, tag));
        }
        if !self.settings.check_comp_id {
            return Ok(());
        }
        let id = &self.settings.id;
        let sender = message.required(tag::SENDER_COMP_ID).map_err(missing_or_bad)?;
        let target = message.required(tag::TARGET_COMP_ID).map_err(missing_or_bad)?;
        if sender != id.target_comp_id.as_bytes() || target != id.sender_comp_id.as_bytes() {
            return Err(Verdict::RejectAndLogout(Reason::CompIdProblem, None));
        }
        Ok(())
    }

    fn is_near(&self, moment: UtcTimestamp) -> bool {
        u128::from(self.now.utc_ns.abs_diff(moment.ns)) <= self.settings.max_latency.as_nanos()
    }

    /// Too low or too high. FIX session layer, "message recovery" and "possible duplicates".
    pub(super) fn check_order(
        &self,
        message: &Message<'_, '_>,
        kind: Kind,
        seq: u64,
        order: Ordering,
    ) -> Result<(), Verdict> {
        match order {
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(Verdict::Early(seq)),
            Ordering::Less => Err(self.late(message, kind, seq)),
        }
    }

    /// The number was used before: only a message that says so may have it.
    pub(super) fn late(&self, message: &Message<'_, '_>, kind: Kind, seq: u64) -> Verdict {
        if message.get(tag::POSS_DUP_FLAG) != Some(b"Y") {
            return Verdict::TooLow { expected: self.store.next_inbound(), received: seq };
        }
        if kind == Kind::SequenceReset {
            return Verdict::Duplicate;
        }
        match message.timestamp(tag::ORIG_SENDING_TIME) {
            Err(FieldError::Missing(_)) if !self.settings.requires_orig_sending_time => Verdict::Duplicate,
            Err(error) => missing_or_bad(error),
            Ok(original) if message.timestamp(tag::SENDING_TIME).is_ok_and(|sending| original > sending) => {
                Verdict::RejectAndLogout(Reason::SendingTimeAccuracyProblem, None)
            }
            Ok(_) => Verdict::Duplicate,
        }
    }
}

/// A field that has to be there and readable.
pub(super) fn missing_or_bad(error: FieldError) -> Verdict {
    match error {
        FieldError::Missing(tag) => Verdict::Reject(Reason::RequiredTagMissing, Some(tag.into())),
        FieldError::Empty(tag) => Verdict::Reject(Reason::TagWithoutValue, Some(tag.into())),
        FieldError::Format(tag) => Verdict::Reject(Reason::IncorrectDataFormat, Some(tag.into())),
    }
}
