//! Steering rules of an engine: asked for, answered, withdrawn.

use crate::engine::Engine;
use crate::engine::rules::{Answered, LOOKS_PER_TURN, give_back};
use crate::reason::Reason;
use sidestep_control_api::message::Entry;

impl Engine {
    /// Asks for a rule, unless another socket of ours has it, or has asked for it. The answer is taken later.
    pub(crate) fn steer(&mut self, place: usize, entry: Entry) -> Result<(), Reason> {
        let Self { sockets, bypass, agent, .. } = self;
        let (Some(bypass), Some(agent), Some(socket)) = (bypass.as_mut(), agent.as_ref(), sockets.at(place)) else {
            return Err(Reason::Revoked);
        };
        if let Some(count) = bypass.rules.users.get_mut(&entry) {
            *count += 1;
            return Ok(());
        }
        let twin = socket.twin.duplicate().map_err(|_| Reason::Refused)?;
        bypass.rules.expect(entry, agent.begin_to_steer(entry, twin));
        bypass.rules.users.insert(entry, 1);
        Ok(())
    }

    /// Waits a little for what was asked for a socket.
    pub(crate) fn await_control(&mut self, place: usize) {
        let Self { sockets, bypass: Some(bypass), .. } = self else { return };
        let Some(socket) = sockets.at(place) else { return };
        let entries: Vec<Entry> = socket.rules().collect();
        let answered = bypass.rules.wait_for(&entries);
        self.apply_answers(answered);
    }

    /// Gives one rule back, unless another socket of ours needs it; waits a little for its end.
    pub(crate) fn unsteer(&mut self, entry: Entry) {
        let Self { bypass: Some(bypass), agent: Some(agent), .. } = self else { return };
        if bypass.rules.release(entry) {
            bypass.rules.wait_for_end(&[agent.begin_to_unsteer(entry)]);
        }
    }

    /// Gives what is sent to a socket's address back to the kernel; waits a little for its end.
    pub(crate) fn withdraw(&mut self, place: usize) {
        let Self { sockets, bypass: Some(bypass), agent, .. } = self else { return };
        let Some(socket) = sockets.at(place) else { return };
        let answers = give_back(&mut bypass.rules, agent.as_ref(), socket);
        bypass.rules.wait_for_end(&answers);
    }

    /// Takes control's answers about rules.
    pub(crate) fn poll_rules(&mut self) {
        if let Some(bypass) = self.bypass.as_mut().filter(|bypass| !bypass.rules.asked.is_empty()) {
            let answered = bypass.rules.answered(LOOKS_PER_TURN);
            self.apply_answers(answered);
        }
    }

    /// Applies all answers that came before an event, so that refusals whose reason it removes are retried.
    pub(crate) fn apply_all_answers(&mut self) {
        let Some(bypass) = &mut self.bypass else { return };
        bypass.rules.looked_at = None;
        let answered = bypass.rules.answered(usize::MAX);
        self.apply_answers(answered);
    }

    /// Takes note of what control has answered.
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

    /// Leaves to the kernel the traffic of a rule that was refused or withdrawn.
    pub(crate) fn fall_back(&mut self, entry: Entry, reason: Reason) {
        let Self { sockets, bypass: Some(bypass), agent, .. } = self else { return };
        bypass.rules.forget(entry);
        let (mut whole, mut in_part) = (Vec::new(), Vec::new());
        for (place, socket) in sockets.iter_mut() {
            if socket.entries.contains(&entry) {
                // All of its rules or none.
                give_back(&mut bypass.rules, agent.as_ref(), socket);
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
