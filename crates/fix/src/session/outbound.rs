//! What leaves: numbered, kept, and only then in the output.

use super::application::{Application, Outbox, SendError};
use super::text::Phrase;
use super::{Phase, Session, SessionId};
use crate::encode::{Builder, Rejected};
use crate::store::Store;
use crate::tag;
use std::sync::Arc;

/// Bytes of messages that may wait behind a resend. A store must remember at least so many.
pub(super) const HELD_BYTES_MAX: usize = 1 << 20;

impl<S: Store> Session<S> {
    /// A message of the application.
    pub(super) fn send_app(
        &mut self,
        msg_type: &[u8],
        fill: &mut dyn FnMut(&mut Builder<'_>),
    ) -> Result<u64, SendError> {
        let logged_on = self.is_logged_on();
        let late = self.settings.send_when_logged_off && self.phase == Phase::Disconnected;
        if !logged_on && !late {
            return Err(SendError::NotLoggedOn);
        }
        let waiting = self.encoder.output().len();
        if waiting >= self.settings.output_bytes_max || self.replays.held_bytes >= HELD_BYTES_MAX {
            self.counters.full += 1;
            self.timers.refused(self.now.mono_ns);
            return Err(SendError::Full);
        }
        let sent = self.emit(msg_type, fill);
        if matches!(sent, Err(SendError::Full)) {
            self.counters.full += 1;
            self.timers.refused(self.now.mono_ns);
        }
        if let Err(SendError::Store(problem)) = &sent {
            // The application learns it from the error, and again when the session ends.
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
        // What waits behind a resend leaves from the store.
        let kept = if self.settings.persist_messages || self.replays.is_active() { message } else { &[] };
        if let Err(problem) = self.store.record_outbound(seq, kept) {
            self.encoder.retract(bytes);
            return Err(SendError::Store(problem));
        }
        if self.replays.is_active() {
            self.encoder.retract(bytes);
            self.replays.hold(seq, bytes);
            self.counters.held += 1;
        } else {
            self.counters.sent += 1;
            self.timers.sent(self.now.mono_ns);
        }
        Ok(seq)
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
