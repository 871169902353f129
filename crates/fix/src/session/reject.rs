//! Reject (35=3) and BusinessMessageReject (35=j).

use super::application::{Application, Refusal};
use super::counters::End;
use super::identity::Dialect;
use super::inbound::Kind;
use super::text::{BusinessReason, Phrase};
use super::{Phase, Session};
use crate::decode::Message;
use crate::encode::Builder;
use crate::store::Store;
use crate::tag;
use crate::validate::Reason;

/// Routing fields (FIX session layer, "third party routing"): what came in the first leaves in the second.
const REVERSED: [(u32, u32); 6] = [
    (tag::DELIVER_TO_COMP_ID, tag::ON_BEHALF_OF_COMP_ID),
    (tag::DELIVER_TO_SUB_ID, tag::ON_BEHALF_OF_SUB_ID),
    (tag::ON_BEHALF_OF_COMP_ID, tag::DELIVER_TO_COMP_ID),
    (tag::ON_BEHALF_OF_SUB_ID, tag::DELIVER_TO_SUB_ID),
    (tag::DELIVER_TO_LOCATION_ID, tag::ON_BEHALF_OF_LOCATION_ID),
    (tag::ON_BEHALF_OF_LOCATION_ID, tag::DELIVER_TO_LOCATION_ID),
];

/// The number of them in FIX 4.0.
const REVERSED_40: usize = 4;

impl<S: Store> Session<S> {
    /// Sends a Reject and counts the message as processed. Before the Logons are exchanged it is not sent.
    pub(super) fn reject<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        kind: Kind,
        reason: Reason,
        tag: Option<i64>,
        app: &mut A,
    ) {
        self.reject_as(message, kind, (reason, reason.text()), tag, app);
    }

    /// The same with another text than the reason's.
    pub(super) fn reject_as<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        kind: Kind,
        (reason, text): (Reason, &str),
        tag: Option<i64>,
        app: &mut A,
    ) {
        if matches!(self.phase, Phase::LogonExpected | Phase::LogonSent) {
            self.counters.logons_refused += 1;
            return self.end(End::LogonRefused);
        }
        self.counters.rejects += 1;
        self.write_reject(message, reason, text, tag, app);
        if kind != Kind::SequenceReset {
            self.count_if_expected(message, app);
        }
    }

    /// The application's own answer.
    pub(super) fn refuse<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        kind: Kind,
        refusal: Refusal,
        app: &mut A,
    ) {
        match refusal {
            Refusal::Session { reason, tag } => self.reject(message, kind, reason, tag.map(i64::from), app),
            Refusal::Logout(text) => self.logout_and_end(Phrase::new().text(text), End::LogonRefused, app),
            Refusal::Missing(tag) => {
                let text = Phrase::with_tag(BusinessReason::FieldMissing.text(), tag.into());
                self.refuse_business(message, BusinessReason::FieldMissing, text.as_text(), app);
            }
            Refusal::Business { reason, text } => {
                self.refuse_business(message, reason, text.unwrap_or(reason.text()), app);
            }
        }
    }

    fn refuse_business<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        reason: BusinessReason,
        text: &str,
        app: &mut A,
    ) {
        if self.dialect.business_reject {
            self.counters.business_rejects += 1;
            self.write_business_reject(message, reason, text, app);
        } else {
            self.counters.rejects += 1;
            self.write_reject(message, Reason::Other, text, None, app);
        }
        self.count_if_expected(message, app);
    }

    fn write_reject<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        reason: Reason,
        text: &str,
        tag: Option<i64>,
        app: &mut A,
    ) {
        let dialect = self.dialect;
        let phrase = match tag {
            Some(tag) if !dialect.reject_reason => Phrase::with_tag(text, tag),
            _ => Phrase::new().text(text),
        };
        self.send_admin(app, b"3", |reject| {
            reverse_route(message, dialect, reject);
            reject.unsigned(tag::REF_SEQ_NUM, message.seq_num().unwrap_or(0)).bytes(tag::TEXT, phrase.as_bytes());
            if !dialect.reject_reason {
                return;
            }
            if let Some(tag) = tag {
                reject.int(tag::REF_TAG_ID, tag);
            }
            echo(reject, tag::REF_MSG_TYPE, message.msg_type());
            if reason.code() <= dialect.reject_reason_max {
                reject.unsigned(tag::SESSION_REJECT_REASON, u64::from(reason.code()));
            }
        });
    }

    fn write_business_reject<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        reason: BusinessReason,
        text: &str,
        app: &mut A,
    ) {
        let dialect = self.dialect;
        self.send_admin(app, b"j", |reject| {
            reverse_route(message, dialect, reject);
            reject.unsigned(tag::REF_SEQ_NUM, message.seq_num().unwrap_or(0)).str(tag::TEXT, text);
            echo(reject, tag::REF_MSG_TYPE, message.msg_type());
            reject.unsigned(tag::BUSINESS_REJECT_REASON, reason.code());
        });
    }
}

/// Reverses the third-party fields of the counterparty.
fn reverse_route(message: &Message<'_, '_>, dialect: Dialect, reject: &mut Builder<'_>) {
    let known = if dialect.routed_location { &REVERSED[..] } else { &REVERSED[..REVERSED_40] };
    for &(came, leaves) in known {
        if let Some(value) = message.get(came) {
            echo(reject, leaves, value);
        }
    }
}

/// A value of the counterparty, if it can be written at all.
fn echo(reject: &mut Builder<'_>, tag: u32, value: &[u8]) {
    if !value.is_empty() && value.iter().all(|byte| *byte >= b' ' && *byte != 0x7f) {
        reject.bytes(tag, value);
    }
}
