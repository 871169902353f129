//! Sessions that templates make at a Logon, and that are let go when there are more than the limit.

use super::core::{Engine, Handle};
use super::pending::Pending;
use super::plan::{DYNAMIC_MAX, SessionPlan, StorePlan, session_folder};
use super::slot::Slot;
use crate::session::{Application, SessionId};
use sidestep_sys::problem::say;
use std::collections::HashSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;

impl<A: Application> Engine<A> {
    /// Returns the plan of the session that a template would make of a name that there is nothing of yet, here or on the disk.
    pub(super) fn plan_for_new(&self, acceptor: usize, id: &SessionId, peer: Option<IpAddr>) -> Option<SessionPlan> {
        let plan = self.acceptors[acceptor].template_for(id, peer).filter(|_| self.has_room())?;
        let is_known = self.slots.iter().any(|slot| slot.session.id() == &plan.settings.id);
        (!is_known && !plan.is_kept()).then_some(plan)
    }

    /// Takes the Logon of a session that does not exist yet. Only a Logon that is accepted makes a session: until then nothing is written to the disk, and a
    /// refusal leaves nothing behind, however many names are tried.
    pub(super) fn admit(&mut self, pending: Pending, plan: SessionPlan, first: &[u8], mono_ns: u64) {
        if !self.may_keep_one_more(&plan, mono_ns) {
            return self.turn_away(pending, &plan, first, mono_ns);
        }
        let (acceptor, source) = (pending.acceptor(), pending.source());
        let Ok(session) = plan.try_out() else {
            // The name cannot stand in a message, or there is no such version.
            self.refusals.unknown += 1;
            return pending.close(&mut self.io);
        };
        let mut slot = Slot::new(session);
        self.app.on_create(slot.session.id());
        let (io, index, app) = (&mut self.io, &mut self.index, &mut self.app);
        match slot.admit(io, index, pending.into_parts(), first, app, |session| plan.keep(session)) {
            Ok(true) => {
                self.crowd.remember(source);
                self.note_kept(&plan);
                self.install(acceptor, plan, slot);
                return;
            }
            Ok(false) => self.refusals.refused += 1,
            Err(problem) => {
                self.refusals.unknown += 1;
                if self.unmade.is_due(mono_ns) {
                    say(problem);
                }
            }
        }
        self.app.on_discard(&plan.settings.id);
    }

    /// Answers a new session that would be admitted, were the limit of sessions on the disk not reached.
    fn turn_away(&mut self, pending: Pending, plan: &SessionPlan, first: &[u8], mono_ns: u64) {
        let Ok(session) = plan.refused() else {
            self.refusals.unknown += 1;
            return pending.close(&mut self.io);
        };
        let mut slot = Slot::new(session);
        self.app.on_create(slot.session.id());
        let parts = pending.into_parts();
        let peer = parts.2.clone();
        if slot.turn_away(&mut self.io, &mut self.index, parts, first, &mut self.app) {
            self.refusals.sessions += 1;
            if self.unmade.is_due(mono_ns) {
                say(plan.too_many(&peer));
            }
        } else {
            self.refusals.refused += 1;
        }
        self.app.on_discard(&plan.settings.id);
    }

    /// The session that fits a template of this acceptor. One that another acceptor's template has made is the same session, if it is
    /// kept in the same place: the identity of a counterparty does not depend on the acceptor that it connects to.
    pub(super) fn make_from_template(
        &mut self,
        acceptor: usize,
        id: &SessionId,
        peer: Option<IpAddr>,
        mono_ns: u64,
    ) -> Option<usize> {
        let plan = self.acceptors[acceptor].template_for(id, peer)?;
        let elsewhere = self.acceptors.iter().find_map(|other| other.made_as(&plan));
        if let Some(slot) = elsewhere {
            self.acceptors[acceptor].sessions.insert(plan.settings.id.clone(), slot);
            self.acceptors[acceptor].plans.push(plan);
            return Some(slot);
        }
        if !self.has_room() {
            return None;
        }
        match plan.open() {
            Ok(session) => {
                self.app.on_create(session.id());
                Some(self.install(acceptor, plan, Slot::new(session)))
            }
            Err(problem) => {
                if self.unmade.is_due(mono_ns) {
                    say(problem);
                }
                None
            }
        }
    }

    /// Returns whether a template may keep one more session, one that there is nothing of yet.
    fn may_keep_one_more(&mut self, plan: &SessionPlan, mono_ns: u64) -> bool {
        let StorePlan::Journal { folder, .. } = &plan.store else { return true };
        if self.quota.needs_count(folder, plan.kept_max, mono_ns) {
            let sessions = self.kept_in(folder, plan.kept_max);
            self.quota.set(folder, plan.kept_max, sessions, mono_ns);
        }
        self.quota.has_room(folder, plan.kept_max)
    }

    /// Counts the session that a template has kept.
    fn note_kept(&mut self, plan: &SessionPlan) {
        let StorePlan::Journal { folder, .. } = &plan.store else { return };
        self.quota.note_kept(folder);
    }

    /// Counts the sessions kept in a folder, by this process or an earlier one, without those that were not made by templates. It
    /// stops at `most`: the thread that trades counts, when a stranger connects.
    fn kept_in(&self, folder: &Path, most: usize) -> usize {
        let named = self.slots.iter().enumerate().filter(|(place, _)| !self.dynamic.contains(place));
        let named: HashSet<OsString> = named
            .filter_map(|(_, slot)| session_folder(folder, slot.session.id()).file_name().map(OsString::from))
            .collect();
        // What cannot be read cannot be written either: that is said when the session is to be kept.
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && !named.contains(&entry.file_name()))
            .take(most)
            .count()
    }

    /// Returns whether a template may make one more session, be it in the place of another.
    fn has_room(&self) -> bool {
        self.dynamic.len() < DYNAMIC_MAX || self.longest_gone(0).is_some()
    }

    /// The session that has been disconnected for longest, of those that templates have made and whose store holds so many
    /// descriptors at least. One that has failed stays stopped, for the operator to see.
    fn longest_gone(&self, descriptors: usize) -> Option<usize> {
        let is_gone = |place: &usize| {
            let slot = &self.slots[*place];
            !slot.is_connected() && slot.failure().is_none() && slot.session.store().descriptors() >= descriptors
        };
        self.dynamic.iter().copied().filter(is_gone).min_by_key(|place| self.slots[*place].left_ns())
    }

    /// Returns the session to evict for one whose store holds so many descriptors.
    fn to_let_go(&self, descriptors: usize) -> Option<usize> {
        let held: usize = self.dynamic.iter().map(|place| self.slots[*place].session.store().descriptors()).sum();
        if descriptors > 0 && held + descriptors > self.store_descriptors_max {
            // While all are connected, each keeps what it has: the descriptors that are left are theirs, too.
            return self.longest_gone(1);
        }
        (self.dynamic.len() >= DYNAMIC_MAX).then(|| self.longest_gone(0)).flatten()
    }

    /// Gives a session that a template has made a slot: its own, or that of one that is let go.
    fn install(&mut self, acceptor: usize, plan: SessionPlan, slot: Slot) -> usize {
        let place = match self.to_let_go(slot.session.store().descriptors()) {
            Some(place) => {
                self.replace(place, slot, &plan);
                place
            }
            None => {
                self.push(slot, &plan);
                self.dynamic.push(self.slots.len() - 1);
                self.slots.len() - 1
            }
        };
        let acceptor = &mut self.acceptors[acceptor];
        acceptor.sessions.insert(plan.settings.id.clone(), place);
        acceptor.plans.push(plan);
        place
    }

    /// Lets the session in `place` go: its store is closed, its name is taken off the acceptors. At its next Logon it is made again.
    fn replace(&mut self, place: usize, slot: Slot, plan: &SessionPlan) {
        self.index.reserve(slot.session.settings().message_fields_max);
        let Handle(number) = self.number();
        (self.numbers[place], self.message_bytes[place]) = (number, plan.message_bytes_max);
        let gone = std::mem::replace(&mut self.slots[place], slot);
        let id = gone.session.id();
        for acceptor in self.acceptors.iter_mut().filter(|acceptor| acceptor.sessions.get(id) == Some(&place)) {
            acceptor.sessions.remove(id);
            acceptor.plans.retain(|plan| plan.settings.id != *id);
        }
        self.app.on_discard(id);
    }
}

#[cfg(test)]
mod tests;
