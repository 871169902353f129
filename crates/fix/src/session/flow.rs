//! Limits of the output that waits to be written: above them the application is refused and reading stops.
//!
//! ```text
//! bytes that wait    0 .... SlowConsumerBytes .... twice that ............ ANSWERS_HELD_MAX
//! the application    taken | refused (Full), notified when there is room again (on_room)
//! answers            in the output              | wait in the store       | refused (Full)
//! input              taken                      | reading stops
//! ```
//!
//! Answers are what the application sends while it is given a message. They have room of their own, so that who sends on its own
//! up to the limit goes on reading, and a message that is given to the application can be answered.
//!
//! Two sides that both stop reading would wait for each other. Therefore who is full gives way: when its output has not moved
//! for a while it takes [`GIVE_WAY_BYTES`] of input all the same, and again, and keeps its answers in the store. An initiator is
//! first ([`INITIATOR_GIVES_WAY_AFTER`]): so the output of an acceptor of ours always moves, it reads, and the initiator's moves,
//! too. An acceptor does so later, for programs of another make that read only when they have written everything. What is kept
//! meanwhile is bounded; beyond that, and with a counterparty that reads nothing, SlowConsumerTimeout ends the connection. What was
//! accepted has its number and is kept: it is asked for after the next Logon.

use super::application::Application;
use super::settings::Role;
use super::{Phase, Session};
use crate::store::Store;
use std::time::Duration;

/// The application's own messages that wait behind a resend, bytes.
const OWN_HELD_MAX: usize = 256 << 10;
/// Bytes that wait in the store when reading stops.
const INPUT_HELD_MAX: usize = 512 << 10;
/// Bytes of answers that wait in the store at most: those to what is read when giving way, and what one message of a
/// counterparty can cause.
const ANSWERS_HELD_MAX: usize = 16 << 20;
/// Beyond all limits of the application, for the session's own messages.
const ADMIN_BYTES: usize = 64 << 10;

/// The time without progress after which an initiator with a full output reads again: reading too early loses nothing.
const INITIATOR_GIVES_WAY_AFTER: Duration = Duration::from_millis(10);
/// An acceptor's: long enough that an initiator of ours was first.
const ACCEPTOR_GIVES_WAY_AFTER: Duration = Duration::from_millis(50);
/// Input that it then takes: what one read brings.
const GIVE_WAY_BYTES: usize = 64 << 10;

/// The state of a full output.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The application is being given a message.
    pub(super) answers: bool,
    /// Set if the application was refused and will be notified of room.
    refused: bool,
    /// Since when reading has stopped and nothing was written.
    still_since_ns: Option<u64>,
    /// Input that is taken although the output is full, bytes.
    credit: usize,
}

impl<S: Store> Session<S> {
    /// Returns whether messages may be handed over: not while more waits to be written than the limits allow. The transport is not read
    /// meanwhile, so that the counterparty sees it.
    pub fn takes_input(&self) -> bool {
        self.phase != Phase::LoggedOn || self.flow.credit > 0 || !self.is_full()
    }

    /// Returns whether a resend or the application waits for room in the output: call [`on_timer`](Self::on_timer) when
    /// some was written.
    pub fn waits_for_room(&self) -> bool {
        self.replays.is_active() || self.flow.refused
    }

    /// Returns whether messages go to the store first because as many wait in the output as may.
    pub(super) fn overflows(&self) -> bool {
        self.encoder.output().len() >= self.settings.output_bytes_max * 2
    }

    fn held_max(&self) -> usize {
        ANSWERS_HELD_MAX.min(self.store.keeps_bytes())
    }

    /// Returns whether as much waits as may: no more is read unless this side gives way.
    pub(super) fn is_full(&self) -> bool {
        self.overflows() || self.replays.held_bytes >= INPUT_HELD_MAX.min(self.held_max() / 2)
    }

    /// Returns whether the application may send now.
    pub(super) fn has_room_for_application(&self) -> bool {
        let held = self.replays.held_bytes;
        if self.flow.answers {
            return held < self.held_max();
        }
        self.encoder.output().len() < self.settings.output_bytes_max && held < OWN_HELD_MAX.min(self.held_max() / 4)
    }

    /// Returns whether the session itself may.
    pub(super) fn has_room_for_admin(&self) -> bool {
        self.replays.held_bytes < self.held_max() + ADMIN_BYTES
    }

    /// Records that a send of the application was refused.
    pub(super) fn note_refusal(&mut self) {
        self.counters.full += 1;
        self.flow.refused = true;
        self.timers.refused(self.now.mono_ns);
    }

    /// After so many bytes of input.
    pub(super) fn follow_flow(&mut self, input_bytes: usize) {
        if !self.is_full() {
            (self.flow.still_since_ns, self.flow.credit) = (None, 0);
            return;
        }
        if self.phase == Phase::LoggedOn {
            self.timers.refused(self.now.mono_ns);
        }
        self.flow.credit = self.flow.credit.saturating_sub(input_bytes);
        self.flow.still_since_ns.get_or_insert(self.now.mono_ns);
    }

    /// Bytes of the output were written.
    pub(super) fn output_moved(&mut self) {
        let now_ns = self.now.mono_ns;
        self.timers.output_moved(now_ns);
        self.flow.still_since_ns = self.flow.still_since_ns.map(|_| now_ns);
    }

    /// Takes input although the output is full, once nothing was written for long enough.
    pub(super) fn give_way(&mut self) {
        self.follow_flow(0);
        if self.give_way_ns().is_some_and(|due_ns| self.now.mono_ns >= due_ns) {
            self.counters.gave_way += 1;
            self.flow.credit = GIVE_WAY_BYTES;
            self.flow.still_since_ns = Some(self.now.mono_ns);
        }
    }

    /// The time at which that is due. It runs from the first check of the full output.
    pub(super) fn give_way_ns(&self) -> Option<u64> {
        let may = self.flow.credit == 0 && self.is_full() && self.replays.held_bytes < self.held_max() / 2;
        let after = match self.settings.role {
            Role::Initiator => INITIATOR_GIVES_WAY_AFTER,
            Role::Acceptor => ACCEPTOR_GIVES_WAY_AFTER,
        };
        let due_ns = |since_ns: u64| since_ns.saturating_add(super::timers::nanos(after));
        may.then(|| self.flow.still_since_ns.map_or(self.now.mono_ns, due_ns))
    }

    /// Notifies an application that was refused of room, once half of its limit has left.
    pub(super) fn tell_of_room<A: Application + ?Sized>(&mut self, app: &mut A) {
        let has_room =
            self.encoder.output().len() <= self.settings.output_bytes_max / 2 && self.replays.held_bytes == 0;
        if self.flow.refused && has_room && self.is_logged_on() {
            self.flow.refused = false;
            app.on_room(self);
        }
    }
}
