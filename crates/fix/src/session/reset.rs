//! SequenceReset (35=4), and both numbers back to 1.

use super::application::Application;
use super::inbound::Verdict;
use super::{Session, checks};
use crate::decode::Message;
use crate::store::Store;
use crate::tag;
use crate::validate::Reason;
use std::cmp::Ordering;

/// Numbers beyond it do not occur: a message each microsecond takes thirty years to get there, and other engines count in fewer
/// bits. Who was brought to the end of the numbers could never go on.
const NEW_SEQ_NO_MAX: u64 = 1_000_000_000_000_000;

impl<S: Store> Session<S> {
    /// Reset mode takes any NewSeqNo that is not lower than expected, whatever MsgSeqNum is; gap fill mode has passed the check
    /// of its number before it comes here.
    pub(super) fn on_sequence_reset<A: Application + ?Sized>(
        &mut self,
        message: &Message<'_, '_>,
        app: &mut A,
    ) -> Result<(), Verdict> {
        let new = message.unsigned(tag::NEW_SEQ_NO).map_err(checks::missing_or_bad)?;
        match new.cmp(&self.store.next_inbound()) {
            _ if new > NEW_SEQ_NO_MAX => Err(Verdict::Reject(Reason::ValueIncorrect, self.detail(tag::NEW_SEQ_NO))),
            Ordering::Greater => {
                self.expect(new, app);
                Ok(())
            }
            Ordering::Equal => Ok(()),
            Ordering::Less => Err(Verdict::Reject(Reason::ValueIncorrect, self.detail(tag::NEW_SEQ_NO))),
        }
    }

    /// RefTagID (371) where QuickFIX/J gives one and QuickFIX does not.
    pub(super) fn detail(&self, tag: u32) -> Option<i64> {
        self.settings.reject_details.then_some(i64::from(tag))
    }

    /// Both numbers become 1.
    pub(super) fn reset_store<A: Application + ?Sized>(&mut self, app: &mut A) {
        self.forget_gap();
        self.replays.forget();
        match self.store.reset(self.now.utc_ns) {
            Ok(()) => {
                self.counters.resets += 1;
                app.on_reset(&self.settings.id);
            }
            Err(problem) => self.fail(&problem, app),
        }
    }
}
