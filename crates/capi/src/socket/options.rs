//! Options of engines and sockets.

use super::path::{MODE_COPY, MODE_GENERIC, MODE_ZERO_COPY, mode_number};
use crate::arguments::{path, text};
use crate::failure::{Failure, call};
use crate::views::fill;
use sidestep_control_api::message::BusyPoll;
use sidestep_socket::{Checksums, EngineOptions, Kick, Mode, MulticastOut, Queues, UdpOptions};
use sidestep_sys::idle::IdleStrategy;
use std::ffi::{c_char, c_int};
use std::ptr;

/// [`Queues::Any`].
pub const QUEUE_ANY: i32 = -1;
/// [`Queues::Every`].
pub const QUEUE_EVERY: i32 = -2;

/// [`Kick::Caller`].
pub const KICK_CALLER: u32 = 0;
/// [`Kick::Thread`] with [`IdleStrategy::SPIN`].
pub const KICK_THREAD_SPIN: u32 = 1;
/// [`Kick::Thread`] with [`IdleStrategy::SPIN_THEN_PARK`].
pub const KICK_THREAD_PARK: u32 = 2;
/// [`Kick::Sqpoll`].
pub const KICK_SQPOLL: u32 = 3;

/// [`Checksums::Auto`].
pub const CHECKSUMS_AUTO: u32 = 0;
/// [`Checksums::Verify`].
pub const CHECKSUMS_VERIFY: u32 = 1;
/// [`Checksums::Trust`].
pub const CHECKSUMS_TRUST: u32 = 2;

/// [`MulticastOut::Engine`].
pub const OUT_ENGINE: u32 = 0;
/// [`MulticastOut::Routes`].
pub const OUT_ROUTES: u32 = 1;

/// The time before the kernel thread sleeps: longer than the usual pause between two messages of a market.
const SQPOLL_IDLE_MS: u32 = 1000;

/// The longest structure of options that a newer header could have.
pub(crate) const OPTIONS_BYTES_MAX: usize = 4096;

/// `sidestep_engine_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CEngineOptions {
    /// [`EngineOptions::interface`].
    pub interface_name: *const c_char,
    /// [`EngineOptions::control`], or null.
    pub control: *const c_char,
    /// [`EngineOptions::name`], or null for the program's.
    pub name: *const c_char,
    /// A queue, [`QUEUE_ANY`] or [`QUEUE_EVERY`].
    pub queue: i32,
    /// [`EngineOptions::frames`].
    pub frames: u32,
    /// [`EngineOptions::ring_entries`].
    pub ring_entries: u32,
    /// [`EngineOptions::fill`], or 0.
    pub receive_frames: u32,
    /// [`EngineOptions::tx_budget`], or 0.
    pub transmit_budget: u32,
    /// One of `MODE_*`.
    pub mode: u32,
    /// One of `KICK_*`.
    pub kick: u32,
    /// The CPU of the sending thread, or -1.
    pub kick_cpu: i32,
    /// Milliseconds of [`Kick::Sqpoll`].
    pub sqpoll_idle_ms: u32,
    /// [`EngineOptions::control_agent_cpu`], or -1.
    pub control_agent_cpu: i32,
    /// [`BusyPoll::microseconds`], or 0.
    pub busy_poll_us: u32,
    /// [`BusyPoll::budget`].
    pub busy_poll_budget: u32,
    /// One of `CHECKSUMS_*`.
    pub checksums: u32,
    /// 0 or 1.
    pub timestamps: u32,
    /// 0 or 1.
    pub accelerate: u32,
    /// Zero.
    pub reserved: u32,
    /// Bit i: queue i is wanted; 0: see `queue`.
    pub queues: u64,
}

/// `sidestep_udp_options`: the fields of [`UdpOptions`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // Each is the field of that name.
pub struct CUdpOptions {
    pub reuse_address: u32,
    pub reuse_port: u32,
    pub only_v6: u32,
    pub hop_limit: u32,
    pub multicast_hop_limit: u32,
    pub type_of_service: u32,
    pub multicast_out: u32,
    pub multicast_loop: u32,
    pub may_fragment: u32,
    pub receive_buffer: u32,
    pub keep_errors: u32,
}

/// The defaults of an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_engine_options_default(options: *mut CEngineOptions, options_bytes: usize) -> c_int {
    call("sidestep_engine_options_default", || {
        // SAFETY: as the crate's text says.
        unsafe { fill(&engine_default(), options, options_bytes, "options") }
    })
}

/// The defaults of a socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_udp_options_default(options: *mut CUdpOptions, options_bytes: usize) -> c_int {
    call("sidestep_udp_options_default", || {
        // SAFETY: as the crate's text says.
        unsafe { fill(&udp_default(), options, options_bytes, "options") }
    })
}

/// The options of an engine.
///
/// # Safety
/// `options` is null or points to `bytes` bytes with C strings or nulls where it has pointers, and no thread changes
/// them during the call.
pub(super) unsafe fn engine_options(options: *const CEngineOptions, bytes: usize) -> Result<EngineOptions, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { read(options, bytes, engine_default()) }?;
    if given.interface_name.is_null() {
        return Err(Failure::Usage("`interface_name` is null: name the interface"));
    }
    // SAFETY: the caller's promise; each is null or a C string.
    let interface = unsafe { text(given.interface_name, "interface_name") }?;
    let mut options = EngineOptions::on(interface);
    if !given.control.is_null() {
        // SAFETY: as above.
        options.control = Some(unsafe { path(given.control) }?.to_owned());
    }
    if !given.name.is_null() {
        // SAFETY: as above.
        options.name = unsafe { text(given.name, "name") }?.to_owned();
    }
    options.queues = queues(given.queue, given.queues)?;
    (options.frames, options.ring_entries) = (given.frames, given.ring_entries);
    options.fill = Some(given.receive_frames).filter(|frames| *frames != 0);
    options.tx_budget = Some(given.transmit_budget).filter(|budget| *budget != 0);
    options.mode = mode(given.mode)?;
    options.kick = kick(&given)?;
    options.control_agent_cpu = number_or_none(given.control_agent_cpu)?;
    let busy_poll = BusyPoll { microseconds: given.busy_poll_us, budget: given.busy_poll_budget };
    options.busy_poll = Some(busy_poll).filter(|busy_poll| busy_poll.microseconds != 0);
    options.checksums = checksums(given.checksums)?;
    options.timestamps = flag(given.timestamps)?;
    options.accelerate = flag(given.accelerate)?;
    Ok(options)
}

/// The options of a socket; null for the defaults.
///
/// # Safety
/// `options` is null or points to `bytes` bytes that no thread changes during the call.
pub(super) unsafe fn udp_options(options: *const CUdpOptions, bytes: usize) -> Result<UdpOptions, Failure> {
    if options.is_null() {
        return Ok(UdpOptions::default());
    }
    // SAFETY: the caller's promise.
    let given = unsafe { read(options, bytes, udp_default()) }?;
    if given.hop_limit == 0 {
        return Err(Failure::Usage("`hop_limit` is 0: datagrams to hosts make at least one hop"));
    }
    Ok(UdpOptions {
        reuse_address: flag(given.reuse_address)?,
        reuse_port: flag(given.reuse_port)?,
        only_v6: flag(given.only_v6)?,
        hop_limit: byte(given.hop_limit)?,
        multicast_hop_limit: byte(given.multicast_hop_limit)?,
        type_of_service: byte(given.type_of_service)?,
        multicast_out: match given.multicast_out {
            OUT_ENGINE => MulticastOut::Engine,
            OUT_ROUTES => MulticastOut::Routes,
            _ => return Err(Failure::Usage("`multicast_out` is not a SIDESTEP_OUT_ choice")),
        },
        multicast_loop: flag(given.multicast_loop)?,
        multicast_all: false,
        may_fragment: flag(given.may_fragment)?,
        keep_errors: flag(given.keep_errors)?,
        receive_buffer: given.receive_buffer,
    })
}

fn engine_default() -> CEngineOptions {
    let defaults = EngineOptions::on("");
    CEngineOptions {
        interface_name: ptr::null(),
        control: ptr::null(),
        name: ptr::null(),
        queue: QUEUE_ANY,
        frames: defaults.frames,
        ring_entries: defaults.ring_entries,
        receive_frames: 0,
        transmit_budget: 0,
        mode: mode_number(defaults.mode),
        kick: KICK_CALLER,
        kick_cpu: -1,
        sqpoll_idle_ms: SQPOLL_IDLE_MS,
        control_agent_cpu: -1,
        busy_poll_us: 0,
        busy_poll_budget: sidestep_sys::xdp::BusyPoll::default().budget,
        checksums: CHECKSUMS_AUTO,
        timestamps: defaults.timestamps.into(),
        accelerate: defaults.accelerate.into(),
        reserved: 0,
        queues: 0,
    }
}

fn udp_default() -> CUdpOptions {
    let defaults = UdpOptions::default();
    CUdpOptions {
        reuse_address: defaults.reuse_address.into(),
        reuse_port: defaults.reuse_port.into(),
        only_v6: defaults.only_v6.into(),
        hop_limit: defaults.hop_limit.into(),
        multicast_hop_limit: defaults.multicast_hop_limit.into(),
        type_of_service: defaults.type_of_service.into(),
        multicast_out: OUT_ENGINE,
        multicast_loop: defaults.multicast_loop.into(),
        may_fragment: defaults.may_fragment.into(),
        receive_buffer: defaults.receive_buffer,
        keep_errors: defaults.keep_errors.into(),
    }
}

/// Reads options of a caller whose header may be older (the rest keeps its default) or newer (fields unknown to this
/// library must be zero).
///
/// # Safety
/// `place` is null or points to `bytes` bytes that no thread changes during the call, and every pattern of bits is a
/// `T`.
pub(crate) unsafe fn read<T: Copy>(place: *const T, bytes: usize, defaults: T) -> Result<T, Failure> {
    if place.is_null() {
        return Err(Failure::Null("options"));
    }
    if bytes > OPTIONS_BYTES_MAX {
        return Err(Failure::Usage("`options_bytes` is not the size of the structure"));
    }
    let mut value = defaults;
    let known = size_of::<T>().min(bytes);
    let given = place.cast::<u8>();
    // SAFETY: `known` bytes are in `value`, and the caller promised `bytes` of them at `place`.
    let unknown = unsafe {
        given.copy_to_nonoverlapping((&raw mut value).cast(), known);
        std::slice::from_raw_parts(given.add(known), bytes - known)
    };
    if unknown.iter().any(|byte| *byte != 0) {
        return Err(Failure::Usage("`options` sets a field unknown to this library: it is older than the header"));
    }
    Ok(value)
}

fn mode(choice: u32) -> Result<Mode, Failure> {
    match choice {
        MODE_ZERO_COPY => Ok(Mode::ZeroCopy),
        MODE_COPY => Ok(Mode::Copy),
        MODE_GENERIC => Ok(Mode::Generic),
        _ => Err(Failure::Usage("`mode` is not a SIDESTEP_MODE_ choice")),
    }
}

fn queues(queue: i32, mask: u64) -> Result<Queues, Failure> {
    match (queue, mask) {
        (QUEUE_ANY, 0) => Ok(Queues::Any),
        (QUEUE_EVERY, 0) => Ok(Queues::Every),
        (QUEUE_ANY, mask) => Ok(Queues::These((0..u64::BITS).filter(|queue| mask >> queue & 1 == 1).collect())),
        (queue, 0) => match u32::try_from(queue) {
            Ok(queue) => Ok(Queues::These(vec![queue])),
            Err(_) => Err(Failure::Usage("`queue` is not a queue, and neither SIDESTEP_QUEUE_ANY nor _EVERY")),
        },
        _ => Err(Failure::Usage("`queue` and `queues` both choose")),
    }
}

fn kick(given: &CEngineOptions) -> Result<Kick, Failure> {
    let cpu = number_or_none(given.kick_cpu)?;
    match given.kick {
        KICK_CALLER => Ok(Kick::Caller),
        KICK_THREAD_SPIN => Ok(Kick::Thread { idle: IdleStrategy::SPIN, cpu }),
        KICK_THREAD_PARK => Ok(Kick::Thread { idle: IdleStrategy::SPIN_THEN_PARK, cpu }),
        KICK_SQPOLL => Ok(Kick::Sqpoll { cpu, idle_ms: given.sqpoll_idle_ms }),
        _ => Err(Failure::Usage("`kick` is not a SIDESTEP_KICK_ choice")),
    }
}

pub(crate) fn checksums(choice: u32) -> Result<Checksums, Failure> {
    match choice {
        CHECKSUMS_AUTO => Ok(Checksums::Auto),
        CHECKSUMS_VERIFY => Ok(Checksums::Verify),
        CHECKSUMS_TRUST => Ok(Checksums::Trust),
        _ => Err(Failure::Usage("`checksums` is not a SIDESTEP_CHECKSUMS_ choice")),
    }
}

pub(crate) fn flag(given: u32) -> Result<bool, Failure> {
    match given {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::Usage("an option that is 0 or 1 has another value")),
    }
}

fn byte(given: u32) -> Result<u8, Failure> {
    u8::try_from(given).map_err(|_| Failure::Usage("an option that is 0 to 255 has another value"))
}

fn number_or_none(given: i32) -> Result<Option<u32>, Failure> {
    match given {
        -1 => Ok(None),
        given => u32::try_from(given).map(Some).map_err(|_| Failure::Usage("a CPU is below -1")),
    }
}
