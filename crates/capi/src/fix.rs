//! The C ABI of the FIX engine: `include/sidestep/fix.h`. Events are queued while the engine is polled, and fetched one
//! by one: no callback into C runs.

mod events;

use crate::arguments::{deadline, give, handle, look, message, out, path, take_back, text};
use crate::failure::{Failure, call};
use crate::views::fill;
use events::Queue;
use sidestep_fix::SOH;
use sidestep_fix::config::Config;
use sidestep_fix::encode::Builder;
use sidestep_fix::engine::Handle;
use sidestep_fix::exchange::is_session_field;
use sidestep_fix::session::{Phase, SendError, SessionId};
use sidestep_fix::store::Store;
use sidestep_fix::transcript::fields;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::{Problem, problem};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::time::{Duration, Instant};

/// An application message came.
pub const FIX_MESSAGE: u32 = 1;
/// A session is logged on.
pub const FIX_LOGON: u32 = 2;
/// A session is logged out; the bytes have the reason.
pub const FIX_LOGOUT: u32 = 3;
/// Both numbers of a session became 1.
pub const FIX_RESET: u32 = 4;
/// A session cannot continue; the bytes have the reason.
pub const FIX_PROBLEM: u32 = 5;
/// A session's open orders are to be cancelled (`CancelOnDisconnect`).
pub const FIX_CANCEL: u32 = 6;

/// Messages can be sent again after SIDESTEP_EFULL.
pub const FIX_ROOM: u32 = 7;

/// `sidestep_fix_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CFixEvent {
    /// The message, or a text; valid until the next poll.
    pub bytes: *const c_void,
    /// The length, bytes.
    pub length: usize,
    /// MsgSeqNum (34) of a message.
    pub sequence: u64,
    /// One of `FIX_*`.
    pub kind: u32,
    /// The session's number.
    pub session: u32,
}

/// `sidestep_fix_state`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CFixState {
    /// The next MsgSeqNum (34) that is sent.
    pub next_outbound: u64,
    /// The next one expected.
    pub next_inbound: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// 1 while messages can be sent.
    pub logged_on: u32,
    /// 1 while there is a connection.
    pub connected: u32,
}

/// `sidestep_fix_engine`.
pub struct FixEngine {
    inner: sidestep_fix::engine::Engine<Queue>,
    /// The numbers of sessions by name.
    numbers: HashMap<SessionId, Handle>,
}

impl FixEngine {
    fn session(&self, number: u32) -> Result<Handle, Failure> {
        let place = (number as usize).checked_sub(1);
        let found = place.and_then(|place| self.inner.handle(place));
        found.ok_or(Failure::Usage("there is no session of this number"))
    }

    /// The number of a session, from 1.
    fn number(&mut self, id: &SessionId) -> u32 {
        if self.numbers.get(id).is_none_or(|handle| !self.inner.has(*handle)) {
            // Templates make sessions while the engine is polled, and release others.
            let inner = &self.inner;
            self.numbers.clear();
            self.numbers.extend(inner.handles().map(|handle| (inner.session(handle).id().clone(), handle)));
        }
        self.numbers.get(id).map_or(0, |handle| handle.number() as u32 + 1)
    }
}

/// Opens an engine with the sessions of a settings file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_open(settings: *const c_char, spin: c_int, engine: *mut *mut FixEngine) -> c_int {
    call("sidestep_fix_open", || {
        // SAFETY: as the crate's text says.
        let (settings, engine) = unsafe { (path(settings)?, out(engine, "engine")?) };
        let config = Config::read(settings)?;
        // A key without effect, or misspelt, is reported.
        config.notes.iter().for_each(problem::say);
        let mut inner = sidestep_fix::engine::Engine::new(Queue::default());
        inner.configure(&config, if spin == 0 { IdleStrategy::PARK } else { IdleStrategy::SPIN })?;
        give(&engine, FixEngine { inner, numbers: HashMap::new() });
        Ok(())
    })
}

/// Ends the engine and its connections, without a Logout; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_free(engine: *mut FixEngine) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(engine) };
}

/// [`sidestep_fix::engine::Engine::poll`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_poll(engine: *mut FixEngine, work: *mut usize) -> c_int {
    call("sidestep_fix_poll", || {
        // SAFETY: as the crate's text says.
        let (engine, work) = unsafe { (handle(engine, "engine")?, out(work, "work")?) };
        if !engine.inner.app_mut().begin_poll() {
            return Err(Failure::Usage("fetch the events that wait with sidestep_fix_next before polling again"));
        }
        work.set(engine.inner.poll());
        Ok(())
    })
}

/// [`sidestep_fix::engine::Engine::sleep`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_sleep(engine: *mut FixEngine, timeout_ns: i64) -> c_int {
    call("sidestep_fix_sleep", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { handle(engine, "engine")? };
        let longest = Duration::from_secs(1);
        let timeout = u64::try_from(timeout_ns).map_or(longest, |ns| Duration::from_nanos(ns).min(longest));
        Ok(engine.inner.sleep(timeout)?)
    })
}

/// The next event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_next(engine: *mut FixEngine, event: *mut CFixEvent, event_bytes: usize) -> c_int {
    call("sidestep_fix_next", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { handle(engine, "engine")? };
        let Some(next) = engine.inner.app_mut().fetch() else { return Err(Failure::NothingCame) };
        let id = next.session.clone();
        let mut found = CFixEvent {
            bytes: next.bytes.as_ptr().cast(),
            length: next.bytes.len(),
            sequence: next.sequence,
            kind: next.kind,
            session: 0,
        };
        found.session = engine.number(&id);
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, event, event_bytes, "event") }
    })
}

/// The number of the session of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_find(engine: *mut FixEngine, name: *const c_char, session: *mut u32) -> c_int {
    call("sidestep_fix_find", || {
        // SAFETY: as the crate's text says.
        let (engine, name, session) =
            unsafe { (handle(engine, "engine")?, text(name, "name")?, out(session, "session")?) };
        let inner = &engine.inner;
        let found = inner.handles().find(|handle| inner.session(*handle).id().to_string() == name);
        let found = found.ok_or_else(|| Problem::usage(format!("session {name}"), "there is none of this name"))?;
        session.set(found.number() as u32 + 1);
        Ok(())
    })
}

/// The state of a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_look(
    engine: *const FixEngine,
    session: u32,
    state: *mut CFixState,
    state_bytes: usize,
) -> c_int {
    call("sidestep_fix_look", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { look(engine, "engine")? };
        let found = engine.inner.session(engine.session(session)?);
        let counters = found.counters();
        let view = CFixState {
            next_outbound: found.store().next_outbound(),
            next_inbound: found.store().next_inbound(),
            sent: counters.sent,
            received: counters.received,
            logged_on: u32::from(found.is_logged_on()),
            connected: u32::from(found.phase() != Phase::Disconnected),
        };
        // SAFETY: as the crate's text says.
        unsafe { fill(&view, state, state_bytes, "state") }
    })
}

/// Sends a message; the body is fields of `tag=value`, each ended by SOH.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_send(
    engine: *mut FixEngine,
    session: u32,
    msg_type: *const c_char,
    body: *const c_void,
    length: usize,
    sequence: *mut u64,
) -> c_int {
    call("sidestep_fix_send", || {
        // SAFETY: as the crate's text says.
        let (engine, msg_type, body, sequence) = unsafe {
            (handle(engine, "engine")?, text(msg_type, "msg_type")?, message(body, length)?, out(sequence, "sequence")?)
        };
        if !is_body(body) {
            return Err(Failure::Usage("the body is not all fields of tag=value, each ended by SOH"));
        }
        if fields(body).any(|(tag, _)| is_session_field(tag)) {
            return Err(Failure::Usage("the body has a field that the session writes itself"));
        }
        let handle = engine.session(session)?;
        let write = |builder: &mut Builder<'_>| {
            for (tag, value) in fields(body) {
                builder.bytes(tag, value);
            }
        };
        let sent = engine.inner.send(handle, msg_type.as_bytes(), write);
        sequence.set(sent.map_err(send_failure)?);
        Ok(())
    })
}

/// Returns whether every byte belongs to a field: an order with a field silently left out would be another order.
fn is_body(body: &[u8]) -> bool {
    let Some(inside) = body.strip_suffix(&[SOH]) else { return body.is_empty() };
    fields(body).count() == inside.split(|byte| *byte == SOH).count()
}

fn send_failure(error: SendError) -> Failure {
    match error {
        SendError::NotLoggedOn => {
            Problem::failed("cannot send", "the session is not logged on").next("wait for FIX_LOGON").into()
        }
        SendError::Full => Failure::Claim(sidestep_ring::ClaimError::Full),
        SendError::Rejected(why) => Problem::usage("cannot send", why).next("check the body").into(),
        SendError::Store(problem) => problem.into(),
    }
}

/// [`sidestep_fix::engine::Engine::log_out`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_logout(engine: *mut FixEngine, session: u32, words: *const c_char) -> c_int {
    call("sidestep_fix_logout", || {
        // SAFETY: as the crate's text says.
        let (engine, words) = unsafe { (handle(engine, "engine")?, text(words, "words")?) };
        let handle = engine.session(session)?;
        engine.inner.log_out(handle, words);
        Ok(())
    })
}

/// Resets both sequence numbers of a session to 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_reset(engine: *mut FixEngine, session: u32) -> c_int {
    call("sidestep_fix_reset", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { handle(engine, "engine")? };
        let handle = engine.session(session)?;
        Ok(engine.inner.act(handle, |session, now, app| session.reset(now, app))?)
    })
}

/// Logs all sessions out and waits for the answers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_fix_shut_down(engine: *mut FixEngine, timeout_ns: i64) -> c_int {
    call("sidestep_fix_shut_down", || {
        // SAFETY: as the crate's text says.
        let engine = unsafe { handle(engine, "engine")? };
        let longest = Duration::from_secs(60);
        let timeout =
            deadline(timeout_ns).map_or(longest, |end| end.saturating_duration_since(Instant::now()).min(longest));
        engine.inner.shut_down("", timeout);
        Ok(())
    })
}
