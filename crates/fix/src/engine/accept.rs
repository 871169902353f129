//! Acceptors: listeners, and the sessions that are reached through each.

use super::channel::Channel;
use super::crowd::Crowd;
use super::pending::Pending;
use super::plan::SessionPlan;
use super::refusals::Refusals;
use super::source::Source;
use super::tls::Tls;
use crate::session::SessionId;
use sidestep_socket::stream::{Accepted, Credentials, Io, Listener, is_out_of_descriptors};
use sidestep_sys::Problem;
use std::collections::HashMap;
use std::net::IpAddr;

/// The most connections accepted at a time by each acceptor, before their bytes are read: fewer than the entries of one host in the
/// backlog, so that no connection is evicted before it was read.
const ACCEPTS_PER_ROUND_MAX: usize = 16;
/// A listener with the sessions that are reached through it.
pub(super) struct Acceptor {
    pub(super) listener: Listener,
    pub(super) tls: Option<Tls>,
    pub(super) sessions: HashMap<SessionId, usize>,
    pub(super) templates: Vec<SessionPlan>,
    /// Plans of the sessions, for their hosts.
    pub(super) plans: Vec<SessionPlan>,
}

impl Acceptor {
    fn allows(&self, peer: Option<IpAddr>) -> bool {
        let mut plans = self.plans.iter().chain(&self.templates).peekable();
        plans.peek().is_none() || plans.any(|plan| plan.allows(peer))
    }

    /// Returns the session that a template of this acceptor has made, if it is the one that `plan` would make.
    pub(super) fn made_as(&self, plan: &SessionPlan) -> Option<usize> {
        let slot = *self.sessions.get(&plan.settings.id)?;
        let made = self.plans.iter().find(|made| made.settings.id == plan.settings.id)?;
        let by_template = self.template_for(&plan.settings.id, None).is_some();
        (by_template && made.store == plan.store).then_some(slot)
    }

    /// Returns the first template that the session fits and the host may use, with the session's name in it. `*` stands for any name.
    pub(super) fn template_for(&self, id: &SessionId, peer: Option<IpAddr>) -> Option<SessionPlan> {
        let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        let found = self.templates.iter().find(|plan| {
            let pattern = &plan.settings.id;
            plan.allows(peer)
                && fits(&pattern.begin_string, &id.begin_string)
                && fits(&pattern.sender_comp_id, &id.sender_comp_id)
                && fits(&pattern.target_comp_id, &id.target_comp_id)
                && fits(&pattern.sender_sub_id, &id.sender_sub_id)
                && fits(&pattern.target_sub_id, &id.target_sub_id)
        });
        found.map(|plan| plan.for_session(id.clone()))
    }
}

/// The names that a session may be kept under, the most exact one first.
pub(super) fn candidates(id: &SessionId) -> [SessionId; 2] {
    [id.clone(), SessionId::new(&id.begin_string, &id.sender_comp_id, &id.target_comp_id)]
}

/// Accepts connections at every acceptor.
pub(super) fn accept(
    io: &mut Io,
    acceptors: &mut [Acceptor],
    crowd: &mut Crowd,
    refusals: &mut Refusals,
    mono_ns: u64,
) -> Result<usize, Problem> {
    let mut count = 0;
    for (number, acceptor) in acceptors.iter_mut().enumerate() {
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            let Accepted { mut stream, peer, credentials } = match acceptor.listener.accept(io) {
                Ok(Some(accepted)) => accepted,
                Ok(None) => break,
                // A lack of descriptors must not end sessions that are logged on: a stranger is closed, and the next poll accepts
                // the newcomer in.
                Err(error) => {
                    if !is_out_of_descriptors(&error) {
                        break;
                    }
                    crowd.report_no_descriptors(mono_ns);
                    if crowd.make_room(io, refusals) {
                        continue;
                    }
                    break;
                }
            };
            count += 1;
            let peer = peer.map(|peer| peer.ip());
            if !acceptor.allows(peer) {
                refusals.address += 1;
                // Not an error of ours if the peer was first.
                let _ = stream.close(io);
                continue;
            }
            let channel = match acceptor.tls.as_ref().map(|tls| tls.connection(None)) {
                None => Channel::plain(stream),
                Some(Ok(connection)) => Channel::encrypted(stream, connection),
                Some(Err(problem)) => {
                    let _ = stream.close(io);
                    return Err(problem);
                }
            };
            let bytes = acceptor.plans.iter().chain(&acceptor.templates).map(|plan| plan.message_bytes_max).max();
            let message_bytes_max = bytes.unwrap_or(crate::frame::MESSAGE_BYTES_MAX);
            let source = peer.map_or_else(|| local_source(credentials), Source::host);
            let pending = Pending::new(number, channel, (peer, source), mono_ns, message_bytes_max);
            crowd.insert(io, pending, refusals);
        }
    }
    Ok(count)
}

fn local_source(who: Option<Credentials>) -> Source {
    let uid = who.map_or(u32::MAX, |who| who.uid);
    Source::Local { uid, pid: who.and_then(|who| who.pid).unwrap_or(0) }
}
