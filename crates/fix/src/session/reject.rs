//! Reject (35=3) and BusinessMessageReject (35=j).

use super::application::{Application, Refusal};
use super::counters::End;
use super::inbound::Kind;
use super::text::{BusinessReason, Phrase, RejectReason};
use super::{Phase, Session};
use crate::decode::Message;
use crate::encode::Builder;
use crate::store::Store;
use crate::tag;

/// Routing fields (FIX session layer, "third party routing"): what came in the first leaves in the second.
const REVERSED: [(u32, u32); 6] = [
    (tag::DELIVER_TO_COMP_ID, tag::ON_BEHALF_OF_COMP_ID),
    (tag::DELIVER_TO_SUB_ID, tag::ON_BEHALF_OF_SUB_ID),
    (tag::ON_BEHALF_OF_COMP_ID, tag::DELIVER_TO_COMP_ID),
    (tag::ON_BEHALF_OF_SUB_ID, tag::DELIVER_TO_SUB_ID),
    (tag::DELIVER_TO_LOCATION_ID, tag::ON_BEHALF_OF_LOCATION_ID),
    (tag::ON_BEHALF_OF_LOCATION_ID, tag::DELIVER_TO_LOCATION_ID),
];

impl<S: Store> Session<S> {
    /// Sends a Reject and counts the message as processed. Before the Logons are exchanged there is nobody to tell.
    pub(super) fn reject<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        kind: Kind,
        reason: RejectReason,
        tag: Option<u32>,
        app: &mut A,
    ) {
        if matches!(self.phase, Phase::LogonExpected | Phase::LogonSent) {
            self.counters.logons_refused += 1;
            return self.end(End::LogonRefused);
        }
        self.counters.rejects += 1;
        self.write_reject(message, reason, reason.text(), tag, app);
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
            Refusal::Session { reason, tag } => self.reject(message, kind, reason, tag, app),
            Refusal::Logout(text) => self.logout_and_end(Phrase::new().text(text), End::LogonRefused, app),
            Refusal::Business { reason, text } => {
                let text = text.unwrap_or(reason.text());
                if self.dialect.business_reject {
                    self.counters.business_rejects += 1;
                    self.write_business_reject(message, reason, text, app);
                } else {
                    self.counters.rejects += 1;
                    self.write_reject(message, RejectReason::Other, text, None, app);
                }
                self.count_if_expected(message, app);
            }
        }
    }

    fn write_reject<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        reason: RejectReason,
        text: &str,
        tag: Option<u32>,
        app: &mut A,
    ) {
        let dialect = self.dialect;
        let ref_tag = tag.map(|tag| TagText::of(message, tag));
        let phrase = match &ref_tag {
            Some(tag) if !dialect.reject_reason => Phrase::with_tag(text, tag.as_bytes()),
            _ => Phrase::new().text(text),
        };
        self.send_admin(app, b"3", |reject| {
            reverse_route(message, reject);
            reject.unsigned(tag::REF_SEQ_NUM, message.seq_num().unwrap_or(0)).bytes(tag::TEXT, phrase.as_bytes());
            if !dialect.reject_reason {
                return;
            }
            if let Some(tag) = &ref_tag {
                reject.bytes(tag::REF_TAG_ID, tag.as_bytes());
            }
            echo(reject, tag::REF_MSG_TYPE, message.msg_type());
            reject.unsigned(tag::SESSION_REJECT_REASON, reason.code());
        });
    }

    fn write_business_reject<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        reason: BusinessReason,
        text: &str,
        app: &mut A,
    ) {
        self.send_admin(app, b"j", |reject| {
            reverse_route(message, reject);
            reject.unsigned(tag::REF_SEQ_NUM, message.seq_num().unwrap_or(0)).str(tag::TEXT, text);
            echo(reject, tag::REF_MSG_TYPE, message.msg_type());
            reject.unsigned(tag::BUSINESS_REJECT_REASON, reason.code());
        });
    }
}

/// What the counterparty named as a third party is named the other way round.
fn reverse_route(message: &Message<'_, '_>, reject: &mut Builder<'_>) {
    for (came, leaves) in REVERSED {
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

/// A tag as it stood in the message: `-1` and `0` are no tags, yet a Reject has to name them.
struct TagText {
    bytes: [u8; 12],
    len: usize,
}

impl TagText {
    fn of(message: &Message<'_, '_>, tag: u32) -> Self {
        let written = (tag == 0).then(|| message.position(0)).flatten().and_then(|at| written_tag(message, at));
        let mut text = Self { bytes: [0; 12], len: 0 };
        let number = Phrase::new().number(u64::from(tag));
        let source = written.unwrap_or(number.as_bytes());
        text.len = source.len().min(text.bytes.len());
        text.bytes[..text.len].copy_from_slice(&source[..text.len]);
        text
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The bytes before the `=` of the field at this place.
fn written_tag<'a>(message: &Message<'a, '_>, place: usize) -> Option<&'a [u8]> {
    let (_, before) = message.field(place.checked_sub(1)?)?;
    let (_, value) = message.field(place)?;
    let raw = message.raw();
    let start = before.as_ptr() as usize - raw.as_ptr() as usize + before.len() + 1;
    let end = (value.as_ptr() as usize - raw.as_ptr() as usize).checked_sub(1)?;
    raw.get(start..end)
}
