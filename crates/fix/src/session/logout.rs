//! Logout, of both sides. FIX session layer, "Logout process".

use super::application::Application;
use super::counters::End;
use super::inbound::Verdict;
use super::text::Phrase;
use super::{Phase, Session};
use crate::store::Store;
use crate::tag;
use std::cmp::Ordering;

impl<S: Store> Session<S> {
    /// Sends a Logout and waits for the answer.
    pub(super) fn begin_logout<A: Application + ?Sized>(&mut self, text: &[u8], app: &mut A) {
        match self.phase {
            Phase::LoggedOn => {
                self.write_logout(text, app);
                self.phase = Phase::LogoutSent;
                self.timers.logout_sent(self.now.mono_ns, self.settings.logout_timeout);
            }
            Phase::LogonExpected | Phase::LogonSent => self.end(End::LogonRefused),
            Phase::Disconnected | Phase::LogoutSent => {}
        }
    }

    /// Sends a Logout and ends the connection: what follows would not be understood.
    pub(super) fn logout_and_end<A: Application + ?Sized>(&mut self, text: Phrase, why: End, app: &mut A) {
        self.counters.logons_refused += u64::from(self.phase == Phase::LogonExpected);
        if self.phase != Phase::LogoutSent {
            self.write_logout(text.as_bytes(), app);
        }
        self.end(why);
    }

    /// The counterparty's Logout: answered, if it is no answer, and the end. Whatever its number is: what is missing is asked
    /// for after the next Logon.
    pub(super) fn on_logout<A: Application + ?Sized>(&mut self, order: Ordering, app: &mut A) -> Result<(), Verdict> {
        if self.phase == Phase::LoggedOn {
            self.write_logout(b"", app);
        }
        self.count_processed(order, app);
        self.end(if self.phase == Phase::LogonSent { End::LogonRefused } else { End::LoggedOut });
        Ok(())
    }

    /// Writes a Logout. One that ends the connection must not wait for a resend that will not be read.
    fn write_logout<A: Application + ?Sized>(&mut self, text: &[u8], app: &mut A) {
        self.replays.forget();
        self.send_admin(app, b"5", |logout| {
            if !text.is_empty() {
                logout.bytes(tag::TEXT, text);
            }
        });
    }
}
