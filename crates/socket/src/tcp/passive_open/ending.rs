//! Sockets that have to listen on after their listener was closed: they prove the right to steer its connections.

use crate::engine::Engine;
use crate::fallback::tcp::Twin;
use sidestep_control_api::message::Entry;
use std::sync::Arc;

/// The kernel twin of a closed listener, until control has answered for each of its connections.
#[derive(Debug)]
pub(crate) struct Ending {
    twin: Arc<Twin>,
    flows: Vec<Entry>,
}

impl Engine {
    /// Has a twin listen until control has answered the requests for these entries. Meanwhile it drops SYNs, as if they were lost on the
    /// network.
    pub(crate) fn end_later(&mut self, twin: Arc<Twin>, flows: &[Entry]) {
        let Some(bypass) = &self.bypass else { return twin.unlisten(false) };
        let flows: Vec<Entry> = flows.iter().copied().filter(|flow| bypass.entries.is_asked(*flow)).collect();
        if flows.is_empty() {
            return unlisten(&twin);
        }
        twin.drop_syns();
        self.streams.ending.push(Ending { twin, flows });
    }

    /// Ends those for which all answers have come.
    pub(crate) fn end_twins(&mut self) {
        let Self { streams, bypass, .. } = self;
        let is_asked = |flow: &Entry| bypass.as_ref().is_some_and(|bypass| bypass.entries.is_asked(*flow));
        for ended in streams.ending.extract_if(.., |ending| !ending.flows.iter().any(is_asked)) {
            unlisten(&ended.twin);
        }
    }
}

/// Ends listening. Each connection has its part of the twin.
fn unlisten(twin: &Arc<Twin>) {
    twin.unlisten(Arc::strong_count(twin) > 1);
}
