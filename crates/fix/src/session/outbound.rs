//! Messages that are sent: numbered, kept, and only then in the output.

use super::application::{Application, Outbox, SendError};
use super::inbound::Kind;
use super::text::Phrase;
use super::{Phase, Session, SessionId};
use crate::encode::{Builder, Rejected};
use crate::store::Store;
use crate::tag;
use std::sync::Arc;

/// The destination of a message once it has its number and is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// The output, behind what waits to be written.
    Output,
    /// The store, from which it is sent in order.
    Held,
    /// The store, until it is asked for after the next Logon: nothing may follow our Logout unasked.
    Kept,
}

impl<S: Store> Session<S> {
    /// A message of the application.
    pub(super) fn send_app(
        &mut self,
        msg_type: &[u8],
        fill: &mut dyn FnMut(&mut Builder<'_>),
    ) -> Result<u64, SendError> {
        // What is answered to messages that were on their way when we logged out is not lost.
        let answers_last = self.flow.answers && self.phase == Phase::LogoutSent && self.ending.is_none();
        let logged_on = self.is_logged_on() || answers_last;
        let late = self.settings.send_when_logged_off && self.phase == Phase::Disconnected;
        if !logged_on && !late {
            return Err(SendError::NotLoggedOn);
        }
        if !self.has_room_for_application() {
            self.note_refusal();
            return Err(SendError::Full);
        }
        let sent = self.emit(msg_type, fill);
        if matches!(sent, Err(SendError::Full)) {
            self.note_refusal();
        }
        if let Err(SendError::Store(problem)) = &sent {
            // The application gets the error, and the reason again when the session ends.
            self.encoder.clear();
            self.end(super::End::StoreFailed);
            return Err(SendError::Store(problem.clone()));
        }
        if late {
            self.encoder.clear();
        }
        sent
    }

    /// A message of the session itself. What cannot be sent ends the connection.
    pub(super) fn send_admin<A: Application + ?Sized>(
        &mut self,
        app: &mut A,
        msg_type: &[u8],
        mut fill: impl FnMut(&mut Builder<'_>),
    ) {
        if self.ending.is_some() {
            return;
        }
        if !self.has_room_for_admin() {
            return self.end(super::End::SlowConsumer);
        }
        let settings = Arc::clone(&self.settings);
        let result = self.emit(msg_type, &mut |builder| {
            fill(builder);
            app.to_admin(&settings.id, msg_type, builder);
        });
        match result {
            Ok(_) => {}
            Err(SendError::Store(problem)) => self.fail(&problem, app),
            Err(SendError::Full) => self.end(super::End::SlowConsumer),
            // A text too long or with control bytes, echoed from the counterparty or added by the application.
            Err(_) => self.counters.ignored += 1,
        }
    }

    /// Numbers, keeps and queues one message.
    fn emit(&mut self, msg_type: &[u8], fill: &mut dyn FnMut(&mut Builder<'_>)) -> Result<u64, SendError> {
        let seq = self.store.next_outbound();
        let destination = self.destination(msg_type);
        let processed = self.settings.last_msg_seq_num_processed.then(|| self.last_processed());
        let mut builder = self.encoder.message(msg_type);
        if let Some(processed) = processed {
            builder.unsigned(tag::LAST_MSG_SEQ_NUM_PROCESSED, processed);
        }
        fill(&mut builder);
        let message = builder.finish(seq, self.now).map_err(|rejected| match rejected {
            Rejected::Full => SendError::Full,
            other => SendError::Rejected(other),
        })?;
        let bytes = message.len();
        let kept = if self.settings.persist_messages || destination != Destination::Output { message } else { &[] };
        if let Err(problem) = self.store.record_outbound(seq, kept) {
            self.encoder.retract(bytes);
            return Err(SendError::Store(problem));
        }
        if destination != Destination::Output {
            self.encoder.retract(bytes);
        }
        match destination {
            Destination::Output => {
                self.counters.sent += 1;
                self.timers.sent(self.now.mono_ns);
            }
            Destination::Held => {
                self.replays.hold(seq, bytes);
                self.counters.held += 1;
            }
            Destination::Kept => self.counters.kept += 1,
        }
        Ok(seq)
    }

    fn destination(&self, msg_type: &[u8]) -> Destination {
        let kind = Kind::of(msg_type);
        if self.phase == Phase::LogoutSent && !kind.is_admin() {
            Destination::Kept
        } else if kind != Kind::Logout && (self.replays.is_active() || self.overflows()) {
            Destination::Held
        } else {
            Destination::Output
        }
    }

    /// LastMsgSeqNumProcessed (369).
    fn last_processed(&self) -> u64 {
        self.in_hand.unwrap_or_else(|| self.store.next_inbound().saturating_sub(1))
    }
}

impl<S: Store> Outbox for Session<S> {
    fn id(&self) -> &SessionId {
        &self.settings.id
    }

    fn send(&mut self, msg_type: &[u8], fill: &mut dyn FnMut(&mut Builder<'_>)) -> Result<u64, SendError> {
        self.send_app(msg_type, fill)
    }

    fn logout(&mut self, text: &str) {
        self.logout_asked = Some(Phrase::new().text(text));
    }
}
