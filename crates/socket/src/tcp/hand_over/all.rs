//! All connections of an engine are handed over: control ends, or the administrator wants the program by the kernel.

use super::begin::Subject;
use super::pending::Release;
use crate::control_agent::ControlAgent;
use crate::engine::Engine;
use crate::fallback::tcp::unconnected;
use crate::reason::Reason;
use crate::tcp::active_open::opening::now_ns;
use crate::tcp::error::TcpError;
use crate::tcp::rss_change::anew;
use crate::tcp::streams::{Stream, StreamState};
use crate::tcp::table::{Key, TcpStream};
use sidestep_stack::tcp::State;
use std::time::{Duration, Instant};

/// Connections that are out of service at a time: each costs three descriptors meanwhile, of which a process may have 1,024, and its
/// peer waits.
const AT_ONCE: usize = 64;

/// How long a peer has to complete its handshake: it takes the connection for established already, if our SYN-ACK has come. Less than
/// control waits for another hand-over.
const HANDSHAKE_WAIT: Duration = Duration::from_millis(1500);

/// Attempts at each connection: what was refused for want of descriptors may succeed once others are closed.
const PASSES: u32 = 2;

impl Engine {
    /// Hands every connection to the kernel, closed ones whose data is not all acknowledged among them, and closes the stack then, for good.
    /// Polls complete it: then there is a refusal ([`Engine::refusal`]), and a little later [`Engine::is_released`].
    pub fn release_all(&mut self) {
        self.begin_release(true);
    }

    /// Closes the stack, for good, with all connections past the kernel that there are. Also one that was lost as control was silent.
    pub fn close_stack(&mut self) {
        self.end_release(true);
    }

    /// Returns whether the stack is closed, by control, too, which gives its ports back then.
    pub fn is_released(&self) -> bool {
        let closing = self.streams.hand_overs.closing.as_ref();
        self.refusal.is_some() && closing.is_none_or(|answer| answer.view().wait(Duration::ZERO).is_some())
    }

    /// Hands everything over, and closes the stack then. `for_good`: no other stack is opened.
    pub(crate) fn begin_release(&mut self, for_good: bool) {
        let Some(bypass) = &mut self.bypass else { return };
        if bypass.lost.is_some() {
            return;
        }
        // They come again, and find the kernel.
        bypass.stack.tcp_mut().drop_syns();
        let handshakes_until = Instant::now() + HANDSHAKE_WAIT;
        match &mut self.streams.hand_overs.release {
            Some(release) => release.for_good |= for_good,
            none => *none = Some(Release { for_good, handshakes_until, passes: 0, to_do: Vec::new() }),
        }
    }

    /// Goes on with that; called when hand-overs may have been completed.
    pub(super) fn advance_release(&mut self) {
        let Some(mut release) = self.streams.hand_overs.release.take() else { return };
        while self.streams.hand_overs.pending.len() < AT_ONCE {
            match release.to_do.pop() {
                // One that has ended is as wanted.
                Some(Subject { stream: Some(stream), .. }) => _ = self.begin_own(stream),
                Some(orphan) => _ = self.begin_orphan(orphan),
                // Connections that were refused are back.
                None if !self.streams.hand_overs.pending.is_empty() => break,
                None if release.passes > 0 && self.awaits_handshakes(&release) => break,
                None if release.passes == PASSES => return self.end_release(release.for_good),
                None => {
                    release.passes += 1;
                    release.to_do = self.subjects();
                }
            }
        }
        self.streams.hand_overs.release = Some(release);
    }

    fn awaits_handshakes(&self, release: &Release) -> bool {
        let half_open = self.bypass.as_ref().map_or(0, |bypass| bypass.stack.tcp().half_open());
        half_open > 0 && Instant::now() < release.handshakes_until
    }

    /// Connections that could not be handed over end with the stack, but those that nobody has answered yet: the kernel begins them anew.
    fn end_release(&mut self, for_good: bool) {
        self.leave_unanswered();
        self.streams.hand_overs.closing = self.agent.as_ref().map(ControlAgent::begin_to_close);
        self.options.accelerate &= !for_good;
        self.lose_stack(Reason::Released, Reason::Released.description().into());
    }

    /// Has the kernel connect in place of the stack, where the peer has not answered the SYN.
    fn leave_unanswered(&mut self) {
        let Self { streams, bypass: Some(bypass), counters, .. } = self else { return };
        let now_ns = now_ns();
        for (key, stream) in streams.streams.iter_mut() {
            let StreamState::Accelerated { id, .. } = stream.state else { continue };
            let is_asking = bypass.stack.tcp().facts(id).is_ok_and(|facts| facts.state == State::SynSent);
            let Some(options) = bypass.stack.tcp().options(id).ok().filter(|_| is_asking) else { continue };
            bypass.handles.remove_stream(id);
            // Nothing leaves: the peer knows nothing of it.
            let _ = bypass.with_tcp(counters, |tcp, now, output| tcp.abort(now, id, output));
            let before = std::mem::replace(&mut stream.state, StreamState::Lost(Reason::Released));
            let steered = if let StreamState::Accelerated { steered, .. } = before { steered } else { None };
            stream.state = StreamState::Opening(Box::new(anew(stream, options, steered, now_ns)));
            streams.opening.push_back(TcpStream(key));
        }
    }

    /// Everything that is to be handed over now.
    fn subjects(&mut self) -> Vec<Subject> {
        self.accept_waiting();
        let of_stream = |(key, stream): (Key, &mut Stream)| match &stream.state {
            StreamState::Accelerated { id, .. } => {
                Some(Subject { id: *id, stream: Some(TcpStream(key)), steered: None })
            }
            _ => None,
        };
        let mut subjects: Vec<Subject> = self.streams.streams.iter_mut().filter_map(of_stream).collect();
        let orphans = self.bypass.iter().flat_map(|bypass| bypass.stack.tcp().orphan_ids());
        subjects.extend(orphans.map(|id| Subject { id, stream: None, steered: None }));
        subjects
    }

    fn begin_own(&mut self, stream: TcpStream) -> Result<(), TcpError> {
        let socket = self.tcp().own_socket(stream)?;
        self.tcp().begin_hand_over(stream, socket).map(drop)
    }

    /// Connections that wait to be accepted are handed over, too; the program accepts them afterwards.
    fn accept_waiting(&mut self) {
        let listening: Vec<_> =
            self.streams.listeners.iter_mut().map(|(key, _)| crate::tcp::table::TcpListener(key)).collect();
        for listener in listening {
            while let Ok(Some(stream)) = self.tcp().accept_accelerated(listener) {
                match self.streams.listeners.at(listener.0) {
                    Ok(listener) => listener.accepted.push_back(stream),
                    Err(_) => break,
                }
            }
        }
    }

    /// A closed connection whose data is not all acknowledged: the kernel lingers with it.
    fn begin_orphan(&mut self, Subject { id, .. }: Subject) -> Result<(), TcpError> {
        let Some(bypass) = self.bypass() else { return Ok(()) };
        let remote = bypass.stack.tcp().facts(id)?.flow.remote();
        let closed = self.streams.closed.iter().find(|closed| closed.id == id);
        let steered = closed.map(|closed| closed.steered.clone());
        let socket = unconnected(remote)?.into();
        self.begin_hand_over_of(Subject { id, stream: None, steered }, socket, None).map(drop)
    }
}
