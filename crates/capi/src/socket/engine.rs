//! Engines: opened, polled, queried, freed.

use super::lent::Lent;
use super::options::{CEngineOptions, engine_options};
use super::path::{ACCELERATED, MODE_COPY, MODE_GENERIC, MODE_ZERO_COPY, reason_number};
use crate::arguments::{give, handle, look, out, take_back};
use crate::failure::{Failure, call};
use crate::views::fill;
use sidestep_socket::{Datagram, Error, Reserved};
use sidestep_sys::Problem;
use sidestep_sys::fork::ForkGuard;
use sidestep_sys::xdp::Mode;
use std::ffi::{CString, c_char, c_int};

/// `sidestep_engine`.
pub struct Engine {
    pub(super) inner: sidestep_socket::Engine,
    /// Datagrams and reservations on loan to C.
    pub(super) datagrams: Lent<Datagram>,
    pub(super) reservations: Lent<(Reserved, usize)>,
    /// Of the call that receives several; empty between calls, kept for its memory.
    pub(super) received: Vec<Datagram>,
    /// Detects a forked child, which must not return anything to the engine; the engine itself checks only where
    /// sockets are named.
    guard: ForkGuard,
    /// The text that `sidestep_engine_refusal` has returned.
    refusal: CString,
}

/// `sidestep_engine_facts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CEngineFacts {
    /// [`sidestep_socket::Engine::calls`].
    pub calls: u64,
    /// [`ACCELERATED`], or the reason why all traffic goes by the kernel.
    pub reason: u32,
    /// Index of the interface, or 0.
    pub interface: u32,
    /// Its queue; of several, the first.
    pub queue: u32,
    /// One of `MODE_*`.
    pub mode: u32,
    /// The number of frames.
    pub frames: u32,
    /// The size of each, bytes.
    pub frame_bytes: u32,
    /// Bit i: queue i is the engine's.
    pub queues: u64,
}

/// Returns the engine of a handle, in the process that opened it.
///
/// # Safety
/// As for [`handle`].
#[inline]
pub(super) unsafe fn engine<'a>(pointer: *mut Engine) -> Result<&'a mut Engine, Failure> {
    // SAFETY: the caller's promise.
    let engine = unsafe { handle(pointer, "engine") }?;
    if engine.guard.is_same_process() { Ok(engine) } else { Err(Error::Forked.into()) }
}

/// [`sidestep_socket::Engine::open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_engine_open(
    options: *const CEngineOptions,
    options_bytes: usize,
    engine: *mut *mut Engine,
) -> c_int {
    call("sidestep_engine_open", || {
        // SAFETY: as the crate's text says.
        let (options, engine) = unsafe { (engine_options(options, options_bytes)?, out(engine, "engine")?) };
        let guard = ForkGuard::new().map_err(|error| Problem::failed("cannot open an engine", error))?;
        let inner = sidestep_socket::Engine::open(&options)?;
        let (datagrams, reservations, refusal) = (Lent::new(), Lent::new(), CString::default());
        give(&engine, Engine { inner, datagrams, reservations, received: Vec::new(), guard, refusal });
        Ok(())
    })
}

/// [`sidestep_socket::Engine::poll`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_engine_poll(engine: *mut Engine, unread: *mut usize) -> c_int {
    call("sidestep_engine_poll", || {
        // SAFETY: as the crate's text says.
        let (engine, unread) = unsafe { (self::engine(engine)?, out(unread, "unread")?) };
        unread.set(engine.inner.poll()?);
        Ok(())
    })
}

/// [`sidestep_socket::Engine::flush`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_engine_flush(engine: *mut Engine) -> c_int {
    call("sidestep_engine_flush", || {
        // SAFETY: as the crate's text says.
        Ok(unsafe { self::engine(engine)? }.inner.flush()?)
    })
}

/// The facts of the engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_engine_info(
    engine: *const Engine,
    facts: *mut CEngineFacts,
    facts_bytes: usize,
) -> c_int {
    call("sidestep_engine_info", || {
        // SAFETY: as the crate's text says.
        let engine = &unsafe { look(engine, "engine")? }.inner;
        // SAFETY: as the crate's text says.
        unsafe { fill(&self::facts(engine), facts, facts_bytes, "facts") }
    })
}

/// [`sidestep_socket::Engine::refusal`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_engine_refusal(
    engine: *mut Engine,
    reason: *mut u32,
    text: *mut *const c_char,
) -> c_int {
    call("sidestep_engine_refusal", || {
        // SAFETY: as the crate's text says.
        let (engine, reason, text) = unsafe { (self::engine(engine)?, out(reason, "reason")?, out(text, "text")?) };
        let (why, words) = engine.inner.refusal().map_or((ACCELERATED, ""), |(why, words)| (reason_number(why), words));
        engine.refusal = CString::new(words.replace('\0', " ")).unwrap_or_default();
        reason.set(why);
        text.set(engine.refusal.as_ptr());
        Ok(())
    })
}

/// Closes everything; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_engine_free(engine: *mut Engine) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(engine) };
}

fn facts(engine: &sidestep_socket::Engine) -> CEngineFacts {
    let reason = engine.refusal().map_or(ACCELERATED, |(reason, _)| reason_number(reason));
    let facts = CEngineFacts { calls: engine.calls(), reason, interface: engine.interface(), ..Default::default() };
    let Some(link) = engine.link() else { return facts };
    let facts = CEngineFacts { frames: link.frames, frame_bytes: link.frame_bytes, ..facts };
    let Some(xsk) = link.xsks.first() else { return facts };
    let mode = match link.xsks.iter().map(|xsk| xsk.mode).max().unwrap_or(xsk.mode) {
        Mode::ZeroCopy => MODE_ZERO_COPY,
        Mode::Copy => MODE_COPY,
        Mode::Generic => MODE_GENERIC,
    };
    let queues = link.xsks.iter().fold(0, |mask, xsk| mask | 1_u64.checked_shl(xsk.queue).unwrap_or(0));
    CEngineFacts { queue: xsk.queue, mode, queues, ..facts }
}
