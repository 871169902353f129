//! Steering entries of an engine: asked for, answered, withdrawn.

use crate::control_agent::Answer;
use crate::engine::Engine;
use crate::engine::entries::{Answered, CHECKS_PER_HOUSEKEEPING, give_back};
use crate::reason::Reason;
use sidestep_control_api::message::Entry;

impl Engine {
    /// Asks for a steering entry, unless another socket of this engine has it or has asked for it. The answer is taken later.
    pub(crate) fn steer(&mut self, place: usize, entry: Entry) -> Result<(), Reason> {
        let Self { sockets, bypass, agent, .. } = self;
        let (Some(bypass), Some(agent), Some(socket)) = (bypass.as_mut(), agent.as_ref(), sockets.at(place)) else {
            return Err(Reason::Revoked);
        };
        if let Some(count) = bypass.entries.users.get_mut(&entry) {
            *count += 1;
            return Ok(());
        }
        let twin = socket.twin.duplicate().map_err(|_| Reason::Refused)?;
        bypass.entries.expect(entry, agent.begin_to_steer(entry, twin));
        bypass.entries.users.insert(entry, 1);
        Ok(())
    }

    /// Waits for control's answers about a socket, for a short time.
    pub(crate) fn await_control(&mut self, place: usize) {
        let Self { sockets, bypass: Some(bypass), .. } = self else { return };
        let Some(socket) = sockets.at(place) else { return };
        let entries: Vec<Entry> = socket.entries().collect();
        let answered = bypass.entries.wait_for(&entries);
        self.apply_answers(answered);
    }

    /// Waits a little for control's answers about entries that were asked for.
    pub(crate) fn await_entries(&mut self, entries: &[Entry]) {
        let Self { bypass: Some(bypass), .. } = self else { return };
        let answered = bypass.entries.wait_for(entries);
        self.apply_answers(answered);
    }

    /// Removes an entry, unless another socket of this engine uses it; waits for the removal for a short time.
    pub(crate) fn unsteer(&mut self, entry: Entry) {
        let Self { bypass: Some(bypass), agent: Some(agent), .. } = self else { return };
        if bypass.entries.release(entry) {
            bypass.entries.wait_for_end(&[agent.begin_to_unsteer(entry)]);
        }
    }

    /// Removes the entry of a listener of TCP; waits for the removal for a short time. Returns what is still to come of it.
    pub(crate) fn unsteer_listener(&mut self, entry: Entry) -> Option<Answer> {
        let Self { bypass: Some(bypass), agent: Some(agent), .. } = self else { return None };
        let removal = agent.begin_to_unsteer(entry);
        let is_removed = removal.wait(bypass.entries.setup_wait()).is_some();
        bypass.entries.note_wait(is_removed);
        (!is_removed).then_some(removal)
    }

    /// Gives the traffic of a socket's address back to the kernel; waits for that for a short time.
    pub(crate) fn withdraw(&mut self, place: usize) {
        let Self { sockets, bypass: Some(bypass), agent, .. } = self else { return };
        let Some(socket) = sockets.at(place) else { return };
        let answers = give_back(&mut bypass.entries, agent.as_ref(), socket);
        bypass.entries.wait_for_end(&answers);
    }

    /// Takes control's answers about steering entries.
    pub(crate) fn poll_entries(&mut self) {
        if let Some(bypass) = self.bypass.as_mut().filter(|bypass| !bypass.entries.asked.is_empty()) {
            let answered = bypass.entries.answered(CHECKS_PER_HOUSEKEEPING);
            self.apply_answers(answered);
        }
    }

    /// Applies all answers that came before an event, so that refusals whose reason it removes are retried.
    pub(crate) fn apply_all_answers(&mut self) {
        let Some(bypass) = &mut self.bypass else { return };
        bypass.entries.checked = None;
        let answered = bypass.entries.answered(usize::MAX);
        self.apply_answers(answered);
    }

    /// Applies control's answers.
    fn apply_answers(&mut self, answered: Vec<Answered>) {
        if answered.is_empty() {
            return;
        }
        for (entry, answer) in answered {
            if let Err(reason) = answer {
                self.fall_back(entry, reason);
            }
        }
        let unwatched =
            self.sockets.iter_mut().filter(|(_, socket)| socket.detour.is_none() && !socket.is_twin_watched);
        let places: Vec<usize> = unwatched.map(|(place, _)| place).collect();
        places.into_iter().for_each(|place| self.watch(place));
        self.count_sockets();
    }

    /// Leaves the traffic of an entry that was refused or withdrawn to the kernel.
    pub(crate) fn fall_back(&mut self, entry: Entry, reason: Reason) {
        let Self { sockets, bypass: Some(bypass), agent, .. } = self else { return };
        bypass.entries.forget(entry);
        let (mut whole, mut in_part) = (Vec::new(), Vec::new());
        for (place, socket) in sockets.iter_mut() {
            if socket.entries.contains(&entry) {
                // All of its entries or none.
                give_back(&mut bypass.entries, agent.as_ref(), socket);
                socket.detour = Some(reason);
                whole.push(place);
            }
            let port = socket.local.port();
            for joined in socket.groups.iter_mut().filter(|joined| joined.steered == Ok(entry)) {
                let reason = if reason == Reason::Taken { Reason::GroupTaken } else { reason };
                joined.steered = Err(reason);
                in_part.push(place);
                agent.iter().for_each(|agent| agent.report(format!("udp {}:{port}", joined.group), reason.code()));
            }
        }
        self.tcp().fall_back(entry, reason);
        for place in in_part {
            self.watch(place);
        }
        for place in whole {
            self.watch(place);
            self.report(place);
        }
        self.count_sockets();
    }
}
